#include "config.h"

#include <stddef.h>

#include "base/mem.h"
#include "base/thread_pool.h"
#include "read/read_op.h"

#define HEAD_BYTES                                                                            \
	2048 /* first guess at an item's header; torch 2.14 writes about 900 bytes before the \
	        payload */
#define HEAD_MAX (UINT64_C(16) << 20) /* of one item */
#define DECODED_SLACK                                                                           \
	65536 /* what a torch.save archive has beside its payload; deep pickles do not occur in \
	         tensors */
#define OBJECT_DECODED_MAX (UINT64_C(1) << 30)

static const struct sf_tensor *tensor_of(const struct sf_op *op, const struct sf_op_item *item)
{
	return &op->r->ckpt->tensor[op->parts.list.at[item->part].index];
}

/* The wave's number of the file, or SF_NONE when the wave has enough of them. -ENOMEM */
static int find_source(struct sf_op *op, uint32_t key, uint32_t *ret)
{
	struct sf_op_sources *v = &op->sources;
	uint32_t n = (uint32_t)v->n, i = op->last_source;

	/* the one used last, or one close behind it: column shards take turns */
	for (uint32_t k = 0; k < n; k++, i = i + 1 < n ? i + 1 : 0)
		if (v->at[i].key == key) {
			*ret = op->last_source = i;
			return 0;
		}
	*ret = SF_NONE;
	if (n >= op->r->wave_files)
		return 0;
	if (sf_op_sources_push(v, (struct sf_op_source){ .key = key }) < 0)
		return -ENOMEM;
	*ret = op->last_source = n;
	return 0;
}

/* Adds one item; 1: the wave is full. */
static int add_item(struct sf_op *op, struct sf_op_item item, uint32_t key)
{
	int r;

	if (op->items.n >= SF_OP_ITEMS)
		return 1;
	r = find_source(op, key, &item.source);
	if (r >= 0 && item.source == SF_NONE)
		return 1;
	if (r < 0 || sf_op_items_push(&op->items, item) < 0)
		return sf_fail(&op->err, -ENOMEM, "no memory for %zu items", op->items.n + 1);
	return 0;
}

/* Written through something that cannot be undone here: the loader's warning says through what. */
static int refuse_transform(struct sf_op *op, const struct sf_op_item *item, uint32_t file)
{
	const struct sf_ckpt *ckpt = op->r->ckpt;
	const char *name = ckpt->file[file].name;
	const size_t n = strlen(name);
	static const char in[] = "items in ";

	sf_fail(&op->err, -ENOTSUP,
	        "its item in %s was written through a transform that cannot be undone", name);
	for (uint32_t i = 0; i < ckpt->nwarnings; i++) {
		const char *text = ckpt->warning[i].text;
		if (strcmp(ckpt->warning[i].code, "transform") == 0 &&
		    strncmp(text, in, sizeof(in) - 1) == 0 &&
		    strncmp(text + sizeof(in) - 1, name, n) == 0 && text[sizeof(in) - 1 + n] == ' ')
			sf_fail(&op->err, -ENOTSUP, "%s", text);
	}
	return sf_op_fail_item(op, item, -ENOTSUP);
}

static int add_chunk(struct sf_op *op, const struct sf_tensor *t, uint32_t chunk)
{
	const struct sf_ckpt *ckpt = op->r->ckpt;
	struct sf_op_item item = { .part = (uint32_t)op->part_at,
		                   .chunk = chunk,
		                   .off = t->off[chunk],
		                   .len = t->len[chunk] };
	const struct sf_place *place;

	if (t->place[chunk] == SF_NONE) {
		sf_fail(&op->err, -EBADMSG, "metadata names no stored item for it");
		return sf_op_fail_item(op, &item, -EBADMSG);
	}
	place = &ckpt->place[t->place[chunk]];
	item.form = place->form;
	item.transform = place->transform;
	if (item.transform == SF_TRANSFORM_OTHER)
		return refuse_transform(op, &item, place->file);
	if (item.form == SF_ITEM_RAW) {
		item.layout = (struct sf_item_layout){ .payload_len = item.len, .row_major = true };
		item.known = !item.transform; /* what a decoded item has is seen then */
	} else {
		item.known = sf_layout_get(op->r->layouts, t, chunk, &item.layout);
	}
	return add_item(op, item, place->file);
}

/* 1: the wave is full, the part goes on in the next. */
static int add_tensor(struct sf_op *op, const struct sf_part *part)
{
	const struct sf_tensor *t = &op->r->ckpt->tensor[part->index];
	int r;

	if (!op->part_begun) {
		op->chunks.n = op->chunk_at = 0;
		r = sf_plan_chunks(op->r->ckpt, t, part->off, part->n, &op->chunks, &op->err);
		if (r < 0)
			return r;
		op->part_begun = true;
	}
	for (; op->chunk_at < op->chunks.n; op->chunk_at++) {
		r = add_chunk(op, t, op->chunks.at[op->chunk_at]);
		if (r)
			return r;
	}
	op->part_begun = false;
	return 0;
}

static int add_object(struct sf_op *op, const struct sf_part *part)
{
	const struct sf_ckpt *ckpt = op->r->ckpt;
	const struct sf_object *o = &ckpt->object[part->index];
	struct sf_op_item item = {
		.part = (uint32_t)op->part_at, .chunk = SF_NONE, .off = o->off, .len = o->len
	};

	if (o->place == SF_NONE) {
		sf_fail(&op->err, -EBADMSG, "metadata names no stored item for it");
		return sf_op_fail_item(op, &item, -EBADMSG);
	}
	item.form = SF_ITEM_RAW;
	item.transform = ckpt->place[o->place].transform;
	if (item.transform == SF_TRANSFORM_OTHER)
		return refuse_transform(op, &item, ckpt->place[o->place].file);
	item.known = !item.transform;
	item.layout = (struct sf_item_layout){ .payload_len = o->len, .row_major = true };
	if (!item.transform && (part->off > o->len || part->n > o->len - part->off)) {
		sf_fail(&op->err, -EBADMSG, "%llu bytes at %llu of an item of %llu",
		        (unsigned long long)part->n, (unsigned long long)part->off,
		        (unsigned long long)o->len);
		return sf_op_fail_item(op, &item, -EBADMSG);
	}
	return add_item(op, item, ckpt->place[o->place].file);
}

static int add_listed(struct sf_op *op, const struct sf_part *part)
{
	const struct sf_ckpt *ckpt = op->r->ckpt;
	struct sf_op_item item = {
		.part = (uint32_t)op->part_at, .chunk = SF_NONE, .form = SF_ITEM_RAW, .known = true
	};

	item.len = ckpt->listing[part->index].info.size;
	item.layout = (struct sf_item_layout){ .payload_len = item.len, .row_major = true };
	return add_item(op, item, ckpt->nfiles + part->index);
}

/* The next items, as many as one wave takes. None: the read has all its bytes. */
int sf_op_next_wave(struct sf_op *op)
{
	int r = 0;

	for (; op->part_at < op->parts.list.n && r == 0; op->part_at += r == 0) {
		const struct sf_part *part = &op->parts.list.at[op->part_at];
		r = part->kind == SF_PART_TENSOR   ? add_tensor(op, part)
		    : part->kind == SF_PART_LISTED ? add_listed(op, part)
		                                   : add_object(op, part);
	}
	op->state = SF_OP_OPEN;
	return r < 0 ? r : 0;
}

/* ---- sources ---- */

static const struct sf_file *file_of(const struct sf_ckpt *ckpt, uint32_t key)
{
	return key < ckpt->nfiles ? &ckpt->file[key] : &ckpt->listing[key - ckpt->nfiles];
}

static int open_source(struct sf_op *op, uint32_t i, struct sf_error *err)
{
	struct sf_reader *rd = op->r;
	struct sf_op_source *s = &op->sources.at[i];
	const struct sf_file *f = file_of(rd->ckpt, s->key);
	SF_CLEANUP(sf_source_unrefp) struct sf_source *src = NULL;
	struct sf_objinfo want = f->info;
	bool known = f->info.size != UINT64_MAX;
	int r;

	want.name = f->name;
	r = rd->store->ops->open(rd->store, f->name, known ? &want : NULL, &src, err);
	if (r == -ENOENT && known)
		return sf_fail(err, -ESTALE,
		               "'%s' was there when the checkpoint was loaded, now it is not",
		               f->name);
	if (r < 0)
		return r;
	s->src = sf_open_files_put(rd->files, s->key, src);
	return 0;
}

static void open_task(struct sf_task *task)
{
	struct sf_op_open *o =
		(struct sf_op_open *)((char *)task - offsetof(struct sf_op_open, task));
	struct sf_op *op = o->op;
	struct sf_error err = SF_ERROR_INIT;
	int r = open_source(op, o->source, &err);

	sf_op_completed(op, r, &err);
}

int sf_op_open(struct sf_op *op)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < op->sources.n; i++) {
		struct sf_op_source *s = &op->sources.at[i];
		const struct sf_file *f = file_of(op->r->ckpt, s->key);
		s->src = sf_open_files_get(op->r->files, s->key);
		if (s->src)
			continue;
		if (f->missing) {
			uint32_t k = 0;
			while (op->items.at[k].source != i)
				k++;
			sf_fail(&op->err, -EIO, "item at %llu: file '%s' is missing",
			        (unsigned long long)op->items.at[k].off, f->name);
			return sf_op_fail_item(op, &op->items.at[k], -EIO);
		}
		if (!op->may_wait)
			return -EAGAIN; /* opening may wait, on a network file system for long */
		n++;
	}
	op->state = SF_OP_HEADS;
	if (!n)
		return 0;
	op->opens = sf_alloc_array(n, sizeof(*op->opens));
	if (!op->opens)
		return sf_fail(&op->err, -ENOMEM, "no memory to open %u files", n);
	sf_op_async_begin(op);
	n = 0;
	/* a task writes its own source's place only; which were missing is told before any of them
	 * runs */
	for (uint32_t i = 0; i < op->sources.n; i++)
		if (!op->sources.at[i].src)
			op->opens[n++] = (struct sf_op_open){ .task = { .run = open_task },
				                              .op = op,
				                              .source = i };
	atomic_fetch_add_explicit(&op->pending, n, memory_order_relaxed);
	for (uint32_t i = 0; i < n; i++)
		sf_thread_pool_submit(op->r->io->pool, &op->opens[i].task);
	return sf_op_async_end(op);
}

/* ---- headers ---- */

static bool wants_head(const struct sf_op_item *item)
{
	return !item->known && !item->slow && item->form == SF_ITEM_TORCH && !item->transform;
}

/* Heads of the items whose layout is not known, neighbours in one request. */
int sf_op_ask_heads(struct sf_op *op)
{
	uint64_t bytes = 0;
	size_t n = 0;

	for (uint32_t i = 0; i < op->items.n; i++) {
		struct sf_op_item *item = &op->items.at[i];
		if (!wants_head(item))
			continue;
		if (!item->head_len)
			item->head_len = SF_MIN(item->len, HEAD_BYTES);
		if (!item->head_len) {
			sf_fail(&op->err, -EBADMSG, "item at %llu has no bytes",
			        (unsigned long long)item->off);
			return sf_op_fail_item(op, item, -EBADMSG);
		}
		item->head_at = bytes;
		bytes += item->head_len;
		n++;
	}
	op->state = SF_OP_SLOW;
	if (!n)
		return 0;
	free(op->head);
	op->head = malloc(bytes);
	if (!op->head)
		return sf_fail(&op->err, -ENOMEM, "no memory for %zu item headers", n);
	sf_coalesce_reset(&op->co);
	for (uint32_t i = 0, k; i < op->items.n; i = k) {
		op->pieces.n = 0;
		for (k = i; k < op->items.n && op->items.at[k].source == op->items.at[i].source;
		     k++) {
			const struct sf_op_item *item = &op->items.at[k];
			struct sf_piece p = { .src_off = item->off,
				              .dst_off = item->head_at,
				              .len = item->head_len,
				              .count = 1 };
			if (wants_head(item) && sf_pieces_push(&op->pieces, p) < 0)
				return sf_fail(&op->err, -ENOMEM, "no memory for %zu item headers",
				               n);
		}
		if (sf_coalesce(&op->co, op->items.at[i].source, i, SF_FETCH_HEADER, 0, op->head,
		                op->pieces.at, op->pieces.n) < 0)
			return sf_fail(&op->err, -ENOMEM, "no memory for %zu item headers", n);
	}
	if (sf_coalesce_finish(&op->co) < 0)
		return sf_fail(&op->err, -ENOMEM, "no memory for %zu item headers", n);
	op->io_at = 0;
	op->after_io = SF_OP_PARSE;
	op->state = SF_OP_IO;
	return 0;
}

/* Checks a found header against metadata and makes the layout known to all. */
static int publish(struct sf_op *op, struct sf_op_item *item, const struct sf_torch_item *head)
{
	const struct sf_tensor *t = tensor_of(op, item);
	int64_t stride[SF_DIMS_MAX];
	struct sf_item_layout lay;
	struct sf_chunk c;
	int r;

	sf_tensor_chunk(t, item->chunk, &c);
	r = sf_layout_from_item(op->r->ckpt, t, &c, head, stride, &lay, &op->err);
	if (r < 0)
		return r;
	r = sf_layout_put(op->r->layouts, t, item->chunk, &lay);
	if (r < 0)
		return sf_fail(&op->err, r, "no memory for its layout");
	item->known = sf_layout_get(op->r->layouts, t, item->chunk, &item->layout);
	return 0;
}

/* Words about where an item lies, then which one it is. */
static int fail_at(struct sf_op *op, struct sf_op_item *item, int r)
{
	sf_fail_ctx(&op->err, r, "'%s': item at %llu", op->sources.at[item->source].src->name,
	            (unsigned long long)item->off);
	return sf_op_fail_item(op, item, r);
}

int sf_op_parse_heads(struct sf_op *op)
{
	bool more = false;

	for (uint32_t i = 0; i < op->items.n; i++) {
		struct sf_op_item *item = &op->items.at[i];
		struct sf_torch_item head;
		uint64_t need = 0;
		int r;

		if (!wants_head(item))
			continue;
		r = sf_torch_item_head(op->head + item->head_at, item->head_len, item->len, &head,
		                       &need, &op->err);
		if (r == 0) {
			r = publish(op, item, &head);
		} else if (r == -EAGAIN && need > item->head_len && need <= item->len &&
		           need <= HEAD_MAX) {
			item->head_len = need;
			more = true;
			r = 0;
		} else if (r == -EAGAIN || r == -ENOTSUP) {
			item->slow = true;
			r = 0;
		}
		if (r < 0)
			return fail_at(op, item, r);
	}
	op->err.msg[0] = '\0';
	op->state = more ? SF_OP_HEADS : SF_OP_SLOW;
	return 0;
}

struct slow_read {
	struct sf_source *src;
	uint64_t off;
};

static int read_slow(void *arg, uint64_t off, void *buf, uint64_t len, struct sf_error *err)
{
	struct slow_read *s = arg;

	return sf_source_read(s->src, s->off + off, buf, len, SF_FETCH_HEADER, err);
}

static void slow_task(struct sf_task *task)
{
	struct sf_op *op = (struct sf_op *)((char *)task - offsetof(struct sf_op, slow));
	struct sf_error err;
	int r = 0;

	for (uint32_t i = 0; i < op->items.n && r >= 0 && !atomic_load(&op->claimed); i++) {
		struct sf_op_item *item = &op->items.at[i];
		struct slow_read s = { op->sources.at[item->source].src, item->off };
		struct sf_torch_item head;
		if (!item->slow)
			continue;
		r = sf_layout_from_dir(read_slow, &s, item->len, &head, &op->err);
		if (r >= 0)
			r = publish(op, item, &head);
		if (r < 0)
			r = fail_at(op, item, r);
		item->slow = false;
	}
	err = op->err;
	sf_op_completed(op, r, &err);
}

/* Archives whose order of records hides the payload: rare, so a task that waits does them, among
 * those that may. */
int sf_op_slow_heads(struct sf_op *op)
{
	bool any = false;

	for (uint32_t i = 0; i < op->items.n; i++)
		any |= op->items.at[i].slow;
	op->state = SF_OP_CACHE;
	if (!any)
		return 0;
	if (!op->may_wait)
		return -EAGAIN;
	sf_op_async_begin(op);
	atomic_fetch_add_explicit(&op->pending, 1, memory_order_relaxed);
	op->slow.run = slow_task;
	sf_thread_pool_submit(op->r->io->work, &op->slow);
	return sf_op_async_end(op);
}

/* ---- items that are taken whole ---- */

static bool wants_cache(const struct sf_op_item *item)
{
	return item->transform || (item->form == SF_ITEM_ST_BLOB && !item->known);
}

static struct sf_cache_want cache_want(struct sf_op *op, const struct sf_op_item *item)
{
	const struct sf_op_source *s = &op->sources.at[item->source];
	struct sf_cache_want w = {
		.src = s->src, .file = s->key, .off = item->off, .len = item->len
	};
	struct sf_chunk c;

	w.kind = item->transform ? SF_CACHED_ZSTD : SF_CACHED_BLOB;
	w.fetch = item->chunk == SF_NONE ? SF_FETCH_OBJECT
	          : item->transform      ? SF_FETCH_TENSOR
	                                 : SF_FETCH_HEADER;
	w.decoded_max = OBJECT_DECODED_MAX;
	if (item->transform && item->chunk != SF_NONE) {
		const struct sf_tensor *t = tensor_of(op, item);
		uint64_t bytes;
		sf_tensor_chunk(t, item->chunk, &c);
		/* what the chunk's elements need, and room for strides with gaps */
		if (sf_mul(c.part_len, sf_dtype_info(t->dtype)->bytes, &bytes) &&
		    sf_add(bytes, bytes / 8 + DECODED_SLACK, &bytes))
			w.decoded_max = bytes;
	}
	return w;
}

static void cache_done(struct sf_cache_wait *wait, int r, const struct sf_cached *item)
{
	struct sf_op_wait *w =
		(struct sf_op_wait *)((char *)wait - offsetof(struct sf_op_wait, wait));

	w->op->items.at[w->item].mem = item;
	sf_op_completed(w->op, r, &wait->err);
}

int sf_op_ask_cache(struct sf_op *op)
{
	uint32_t n = 0, k = 0;

	op->state = SF_OP_CACHED;
	for (uint32_t i = 0; i < op->items.n; i++) {
		struct sf_op_item *item = &op->items.at[i];
		struct sf_cache_want want;
		if (!wants_cache(item))
			continue;
		if (item->transform && item->form == SF_ITEM_ST_BLOB) {
			sf_fail(&op->err, -ENOTSUP, "a compressed safetensors blob");
			return fail_at(op, item, -ENOTSUP);
		}
		want = cache_want(op, item);
		item->mem = sf_item_cache_get(op->r->items, &want);
		if (!item->mem && !op->may_wait)
			return -EAGAIN;
		n += !item->mem;
	}
	if (!n)
		return 0;
	op->waits = sf_alloc_array(n, sizeof(*op->waits));
	if (!op->waits)
		return sf_fail(&op->err, -ENOMEM, "no memory to wait for %u items", n);
	for (uint32_t i = 0; i < op->items.n; i++)
		if (wants_cache(&op->items.at[i]) && !op->items.at[i].mem)
			op->waits[k++] = (struct sf_op_wait){ .wait = { .done = cache_done },
				                              .op = op,
				                              .item = i };
	sf_op_async_begin(op);
	atomic_fetch_add_explicit(&op->pending, n, memory_order_relaxed);
	for (uint32_t i = 0; i < n; i++) {
		struct sf_cache_want want = cache_want(op, &op->items.at[op->waits[i].item]);
		sf_item_cache_load(op->r->items, &want, &op->waits[i].wait);
	}
	return sf_op_async_end(op);
}

static int read_memory(void *arg, uint64_t off, void *buf, uint64_t len, struct sf_error *err)
{
	const struct sf_cached *mem = arg;

	if (off > mem->len || len > mem->len - off)
		return sf_fail(err, -EBADMSG, "%llu bytes at %llu of %llu", (unsigned long long)len,
		               (unsigned long long)off, (unsigned long long)mem->len);
	memcpy(buf, mem->at + off, len);
	return 0;
}

/* A decoded torch.save archive: its header is in memory. */
static int decoded_layout(struct sf_op *op, struct sf_op_item *item)
{
	const struct sf_cached *mem = item->mem;
	struct sf_torch_item head;
	uint64_t need;
	int r = sf_torch_item_head(mem->at, mem->len, mem->len, &head, &need, &op->err);

	if (r == -ENOTSUP || r == -EAGAIN)
		r = sf_layout_from_dir(read_memory, (void *)mem, mem->len, &head, &op->err);
	return r < 0 ? r : publish(op, item, &head);
}

/* A child of a composite checkpoint knows its tensors by their own names: the key's without the
 * container that was put in front (its first path element). */
static const struct sf_st_tensor *
find_in_blob(const struct sf_ckpt *ckpt, const struct sf_tensor *t, const struct sf_op_item *item)
{
	const struct sf_key *k = &ckpt->key[t->key];
	const struct sf_st_tensor *found = sf_cached_find(item->mem, k->name, k->len);
	const struct sf_path_elem *first = k->path;

	if (found || k->npath < 2 || first->is_int || k->len <= first->len + 1 ||
	    memcmp(k->name, first->s, first->len) != 0 || k->name[first->len] != '.' ||
	    !strchr(ckpt->file[ckpt->place[t->place[item->chunk]].file].name, '/'))
		return found;
	return sf_cached_find(item->mem, k->name + first->len + 1, k->len - first->len - 1);
}

static int blob_layout(struct sf_op *op, struct sf_op_item *item)
{
	const struct sf_tensor *t = tensor_of(op, item);
	const struct sf_st_tensor *found = find_in_blob(op->r->ckpt, t, item);
	struct sf_torch_item head = { 0 };

	if (!found)
		return sf_fail(&op->err, -EBADMSG,
		               "the safetensors blob has no tensor of that name");
	if (found->ndim > SF_DIMS_MAX)
		return sf_fail(&op->err, -EBADMSG, "%u dimensions", found->ndim);
	/* the same facts as in a torch.save header: row-major behind the blob's header */
	head.payload_off = item->mem->st.data_off + found->begin;
	head.payload_len = found->end - found->begin;
	head.t.dtype = found->dtype;
	head.t.ndim = found->ndim;
	memcpy(head.t.shape, found->shape, found->ndim * sizeof(*found->shape));
	uint64_t step = 1;
	for (unsigned d = found->ndim; d-- > 0; step *= found->shape[d])
		head.t.stride[d] = (int64_t)step;
	return publish(op, item, &head);
}

int sf_op_use_cached(struct sf_op *op)
{
	for (uint32_t i = 0; i < op->items.n; i++) {
		struct sf_op_item *item = &op->items.at[i];
		const struct sf_part *part = &op->parts.list.at[item->part];
		int r = 0;

		if (item->form == SF_ITEM_ST_BLOB) {
			/* len in metadata is the tensor's, from the blob's start: room is to the
			 * end of the file */
			if (!item->known)
				r = blob_layout(op, item);
			item->len = op->sources.at[item->source].src->size -
			            SF_MIN(item->off, op->sources.at[item->source].src->size);
		} else if (item->transform && item->form == SF_ITEM_TORCH && !item->known) {
			r = decoded_layout(op, item);
		} else if (item->transform && item->form == SF_ITEM_RAW) {
			item->layout.payload_len = item->mem->len;
			if (part->kind == SF_PART_OBJECT &&
			    (part->off > item->mem->len || part->n > item->mem->len - part->off))
				r = sf_fail(
					&op->err, -EBADMSG, "%llu bytes at %llu of an item of %llu",
					(unsigned long long)part->n, (unsigned long long)part->off,
					(unsigned long long)item->mem->len);
		}
		if (r < 0)
			return fail_at(op, item, r);
	}
	op->state = SF_OP_PIECES;
	return 0;
}
