#include "config.h"

#include <stddef.h>
#include <string.h>

#include "base/mem.h"
#include "read/op.h"

/* what a torch.save archive has beside its payload; deep pickles do not occur in tensors */
#define DECODED_SLACK 65536
#define OBJECT_DECODED_MAX (UINT64_C(1) << 30)
#define OBJECT_TIMES 4 /* what an object has inside, as a first guess */

static bool wants_cache(const struct sf_op_item *item)
{
	return item->codec || (item->form == SF_ITEM_ST_BLOB && !item->known);
}

/* What a compressed item is expected to have inside, and may have at most: more is refused. */
static void decoded(const struct sf_op *op, const struct sf_op_item *item, uint64_t *expect,
                    uint64_t *most)
{
	const struct sf_tensor *t;
	struct sf_chunk c;
	uint64_t bytes;

	if (item->stream) {
		*expect = *most = SF_MAX(item->stream->size, UINT64_C(1));
		return;
	}
	if (!sf_mul(item->len, OBJECT_TIMES, expect))
		*expect = OBJECT_DECODED_MAX;
	*expect = SF_MAX(*expect, (uint64_t)DECODED_SLACK);
	*most = OBJECT_DECODED_MAX;
	if (!item->codec || item->chunk == SF_NONE)
		return;
	t = sf_op_tensor(op, item);
	/* a padded one has more than its box spans */
	if (item->form == SF_ITEM_RAW && !item->layout.row_major)
		return;
	sf_tensor_chunk(t, item->chunk, &c);
	/* what the chunk's elements need, and room for strides with gaps */
	if (!sf_mul(c.part_len, sf_dtype_info(t->dtype)->bytes, &bytes) ||
	    !sf_add(bytes, bytes / 8 + DECODED_SLACK, &bytes))
		return;
	*expect = bytes - bytes / 9;
	*most = bytes;
}

/*
 * Bytes from a blob's beginning to ask for with its header, of a source that is far. Behind the
 * header stand other tensors, in an order of the writer's: where the wanted one begins is not known,
 * but how far back at most. So where there is little else in the blob what is wanted comes along for
 * sure; of a large one the header does alone, once for all its tensors.
 */
static uint64_t blob_ahead(struct sf_op *op, uint32_t i)
{
	const struct sf_op_item *item = &op->items.at[i];
	const struct sf_source *src = op->sources.at[item->source].src;
	const struct sf_source_hints *hints = sf_source_hints(src);
	uint64_t room = SF_MIN(item->room, src->size - SF_MIN(item->off, src->size));
	uint64_t other = room - SF_MIN(item->len, room), from, end, ahead;

	if (!hints->head_guess || other > SF_BLOB_HEAD + hints->gap_max ||
	    !sf_op_wanted(op, i, &from, &end) || from > SF_BLOB_HEAD + hints->gap_max)
		return 0;
	ahead = SF_MIN(room, other + end);
	return ahead <= hints->range_max && ahead <= sf_budget_limit(op->r->io->budget) / 4 ? ahead
	                                                                                    : 0;
}

static struct sf_cache_want cache_want(struct sf_op *op, uint32_t i)
{
	const struct sf_op_item *item = &op->items.at[i];
	const struct sf_op_source *s = &op->sources.at[item->source];
	struct sf_cache_want w = { .owner = &op->r->owner,
		                   .src = s->src,
		                   .file = s->key,
		                   .off = item->off,
		                   .len = item->len };
	w.kind = item->codec ? SF_CACHED_DECODED : SF_CACHED_BLOB;
	if (w.kind == SF_CACHED_BLOB) {
		w.len = item->room;
		w.ahead = blob_ahead(op, i);
	}
	w.fetch = item->chunk == SF_NONE   ? SF_FETCH_OBJECT
	          : item->codec || w.ahead ? SF_FETCH_TENSOR
	                                   : SF_FETCH_HEADER;
	decoded(op, item, &w.expect, &w.decoded_max);
	w.codec = item->codec;
	w.streams = item->streams;
	return w;
}

static void cache_done(struct sf_cache_wait *wait, int r, const struct sf_cached *item)
{
	struct sf_op_wait *w = sf_container_of(wait, struct sf_op_wait, wait);

	struct sf_op_item *i = &w->op->items.at[w->item];
	char words[SF_OP_WORDS];

	if (r < 0 && !wait->again && sf_op_words(w->op, i, words)[0])
		sf_fail_ctx(&wait->err, r, "%s", words);
	i->mem = item;
	i->again = wait->again;
	sf_op_completed(w->op, wait->again ? 0 : r, &wait->err, w->op->sources.at[i->source].key);
}

static void cache_turn(struct sf_cache_wait *wait, bool has_it)
{
	sf_op_clock(sf_container_of(wait, struct sf_op_wait, wait)->op, !has_it);
}

/* Another part of the same item: it has the one before's. */
static bool same_as_before(const struct sf_op *op, uint32_t i)
{
	const struct sf_op_item *item = &op->items.at[i];

	return i && item[-1].off == item->off && item[-1].source == item->source &&
	       wants_cache(&item[-1]);
}

/* The disk is no place for it yet. */
static int too_large(struct sf_op *op, struct sf_op_item *item)
{
	sf_fail(&op->err, -E2BIG,
	        "'%s': the %s stream at %llu has %llu bytes inside, which are decoded into memory; "
	        "--memory is %llu",
	        op->sources.at[item->source].src->name, sf_codec_info(item->codec)->name,
	        (unsigned long long)item->off, (unsigned long long)item->stream->size,
	        (unsigned long long)sf_budget_limit(op->r->io->budget));
	return sf_op_fail_item(op, item, -E2BIG);
}

/* Items up to the first one that is not there: 0 all are, 1 *ret is that one. */
static int take_cached(struct sf_op *op, uint32_t *ret, uint32_t *ret_n)
{
	uint32_t n = 0, first = SF_NONE;

	for (uint32_t i = 0; i < op->items.n; i++) {
		struct sf_op_item *item = &op->items.at[i];
		struct sf_cache_want want;
		if (!wants_cache(item))
			continue;
		if (item->codec && item->form == SF_ITEM_ST_BLOB) {
			sf_fail(&op->err, -ENOTSUP, "a compressed safetensors blob");
			return sf_op_fail_at(op, item, -ENOTSUP);
		}
		if (item->stream && item->stream->size > sf_budget_limit(op->r->io->budget))
			return too_large(op, item);
		if (same_as_before(op, i))
			continue;
		if (first == SF_NONE) {
			want = cache_want(op, i);
			if (!item->mem) /* an earlier try has it */
				item->mem = sf_item_cache_get(op->r->items, &want);
			first = item->mem ? SF_NONE : i;
		}
		n += first != SF_NONE;
	}
	*ret = first;
	*ret_n = n;
	return first != SF_NONE;
}

static enum sf_cache_load load(struct sf_op *op, struct sf_op_wait *w, bool may_queue)
{
	struct sf_cache_want want = cache_want(op, w->item);
	enum sf_cache_load r;

	pthread_mutex_lock(&op->m);
	op->waits_for_item = may_queue ? &w->wait : NULL;
	pthread_mutex_unlock(&op->m);
	atomic_fetch_add_explicit(&op->pending, 1, memory_order_relaxed);
	r = sf_item_cache_load(op->r->items, &want, &w->wait, may_queue);
	if (r == SF_CACHE_FULL)
		atomic_fetch_sub_explicit(&op->pending, 1, memory_order_relaxed);
	return r;
}

/*
 * A read waits its turn for an item only while it holds none, and asks for no other: so the batch
 * ends where there is no room for the next one at once. One item it always gets.
 */
int sf_op_ask_cache(struct sf_op *op)
{
	uint32_t first = 0, n = 0, k = 0, end;
	bool held = false;
	int r;

	r = take_cached(op, &first, &n);
	if (r <= 0)
		return r;
	if (!op->may_wait)
		return -EAGAIN;
	op->waits = sf_alloc_array(n, sizeof(*op->waits));
	if (!op->waits)
		return sf_fail(&op->err, -ENOMEM, "no memory to wait for %u items", n);
	for (uint32_t i = 0; i < first; i++)
		held |= op->items.at[i].mem != NULL;
	sf_op_async_begin(op);
	end = (uint32_t)op->items.n;
	for (uint32_t i = first; i < end; i++) {
		struct sf_op_item *item = &op->items.at[i];
		struct sf_op_wait *w = &op->waits[k];
		enum sf_cache_load l;
		if (!wants_cache(item) || same_as_before(op, i))
			continue;
		*w = (struct sf_op_wait){ .wait = { .done = cache_done, .turn = cache_turn },
			                  .op = op,
			                  .item = i };
		l = op->alone && !held ? SF_CACHE_FULL : load(op, w, false);
		k++;
		if (l == SF_CACHE_FULL && !held)
			load(op, w, true);
		if (l == SF_CACHE_FULL)
			end = i + !held;
		held = true;
		while (end > i && end < op->items.n && same_as_before(op, end))
			end++;
	}
	sf_op_cancel_late(op);
	op->alone = false;
	if (end < op->items.n)
		sf_op_cut_batch(op, end);
	return sf_op_async_end(op);
}

/* A decoded torch.save archive: its header is in memory. */
static int decoded_layout(struct sf_op *op, struct sf_op_item *item)
{
	const struct sf_torch_input in = { item->nbytes, item->bytes, NULL, NULL };
	struct sf_torch_item head;
	uint64_t need;
	int r = sf_torch_item_head(item->bytes, item->nbytes, item->nbytes, &head, &need, &op->err);

	if (r == -ENOTSUP || r == -EAGAIN)
		r = sf_layout_from_dir(&in, &head, &op->err);
	return r < 0 ? r : sf_op_publish(op, item, &head);
}

/* Its bytes in what was decoded: all of it, or a part of what the stream has inside. */
static int take_bytes(struct sf_op *op, struct sf_op_item *item)
{
	const struct sf_cached *mem = item->mem;

	item->bytes = mem->at;
	item->nbytes = mem->len;
	if (!item->stream)
		return 0;
	if (mem->len != item->stream->size)
		return sf_fail(&op->err, -EBADMSG, "the %s stream has %llu bytes inside, not %llu",
		               sf_codec_info(item->codec)->name, (unsigned long long)mem->len,
		               (unsigned long long)item->stream->size);
	item->bytes += item->in_off; /* inside: sf_place_find() saw to that */
	item->nbytes = item->in_len;
	return 0;
}

static int blob_layout(struct sf_op *op, struct sf_op_item *item)
{
	const struct sf_tensor *t = sf_op_tensor(op, item);
	const struct sf_key *k = &op->r->ckpt->key[t->key];
	const bool named = t->more && t->more->name;
	const struct sf_st_tensor *found = sf_cached_find(
		item->mem, named ? t->more->name : k->name, named ? t->more->name_len : k->len);
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
	return sf_op_publish(op, item, &head);
}

static int decoded_raw(struct sf_op *op, struct sf_op_item *item)
{
	const struct sf_part *part = &op->parts.list.at[item->part];

	item->layout.payload_len = item->nbytes;
	if (part->kind == SF_PART_OBJECT &&
	    (part->off > item->nbytes || part->n > item->nbytes - part->off))
		return sf_fail(&op->err, -EBADMSG, "%llu bytes at %llu of an item of %llu",
		               (unsigned long long)part->n, (unsigned long long)part->off,
		               (unsigned long long)item->nbytes);
	return 0;
}

/* The batch ends before an item that needs more memory than there was. true: nothing is left of it. */
static bool cut_again(struct sf_op *op)
{
	uint32_t i = 0;

	while (i < op->items.n && !op->items.at[i].again)
		i++;
	if (i == op->items.n)
		return false;
	sf_op_cut_batch(op, i);
	op->alone = true;
	return !i;
}

int sf_op_use_cached(struct sf_op *op)
{
	if (cut_again(op))
		return SF_STEP_OTHER;
	for (uint32_t i = 0; i < op->items.n; i++)
		if (wants_cache(&op->items.at[i]) && same_as_before(op, i))
			op->items.at[i].mem = sf_cached_ref(op->items.at[i - 1].mem);
	for (uint32_t i = 0; i < op->items.n; i++) {
		struct sf_op_item *item = &op->items.at[i];
		int r = 0;

		if (item->form == SF_ITEM_ST_BLOB) {
			/* len in metadata is the tensor's, from the blob's start */
			const uint64_t size = op->sources.at[item->source].src->size;
			if (!item->known)
				r = blob_layout(op, item);
			item->len = SF_MIN(item->room, size - SF_MIN(item->off, size));
		} else if (item->codec) {
			r = take_bytes(op, item);
			if (r >= 0 && item->form == SF_ITEM_TORCH && !item->known)
				r = decoded_layout(op, item);
			else if (r >= 0 && item->form == SF_ITEM_RAW)
				r = decoded_raw(op, item);
		}
		if (r < 0)
			return sf_op_fail_at(op, item, r);
	}
	return 0;
}
