#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "parse/safetensors.h"
#include "view/st/st_embed.h"
#include "view/view_size.h"

/*
 * Records, with n tensors:
 *   0              length of the header, "{", __metadata__
 *   1 … n          a header entry each, with the comma before it
 *   n + 1          "}" and spaces up to a multiple of 8
 *   n + 2 … 2n + 1 a tensor's bytes each
 * The tensors are the selection's and, in files of many keys, those inside its objects
 * (st_embed.h). Source of the order and the spelling: huggingface/safetensors
 * safetensors/src/tensor.rs, 0.8.
 */
struct st {
	struct sf_vfile f;
	const struct sf_catalog *c;
	struct sf_selection sel;
	bool embeds;
	struct sf_st_embed inner;
	uint32_t *order; /* as they come in the file: positions of the selection; from sel.n on, of
	                    inner */
	uint32_t n;
	struct sf_buf head; /* record 0 */
	uint64_t *start;
};

static void clear(struct st *s)
{
	free(s->order);
	free(s->start);
	sf_buf_release(&s->head);
	sf_st_embed_release(&s->inner);
	s->order = NULL;
	s->start = NULL;
	s->n = 0;
}

static void free_st(struct sf_vfile *f)
{
	clear((struct st *)f);
	free(f);
}

/* A tensor of the file. */
struct part {
	const char *name;
	size_t name_len;
	const uint64_t *shape;
	uint64_t bytes;
	enum sf_dtype dtype;
	unsigned ndim;
};

static enum sf_dtype dtype_of(const struct st *s, uint32_t pos)
{
	if (pos >= s->sel.n)
		return (enum sf_dtype)s->inner.inner.at[pos - s->sel.n].dtype;
	const struct sf_entry *e = &s->c->entry[s->sel.entry[pos]];
	return s->sel.cast ? (enum sf_dtype)e->dtype
	                   : (enum sf_dtype)s->c->ckpt->tensor[e->tensor].dtype;
}

static const char *name_of(const struct st *s, uint32_t pos, size_t *ret_len)
{
	if (pos < s->sel.n)
		return sf_st_name(s->c, &s->sel, pos, ret_len);
	*ret_len = s->inner.inner.at[pos - s->sel.n].name_len;
	return sf_st_inner_name(&s->inner, pos - s->sel.n);
}

static struct part part_of(const struct st *s, uint32_t pos)
{
	struct part p = { .dtype = dtype_of(s, pos) };

	p.name = name_of(s, pos, &p.name_len);
	if (pos < s->sel.n) {
		const struct sf_tensor *t =
			&s->c->ckpt->tensor[s->c->entry[s->sel.entry[pos]].tensor];
		p.shape = t->shape;
		p.ndim = t->ndim;
		p.bytes = sf_tensor_bytes_as(t, p.dtype);
	} else {
		const struct sf_st_inner *in = &s->inner.inner.at[pos - s->sel.n];
		p.shape = in->ndim ? s->inner.shape.at + in->shape : NULL;
		p.ndim = in->ndim;
		p.bytes = in->len;
	}
	return p;
}

/* Large elements first, so that all are aligned; then by name. */
static int compare(const void *a, const void *b, void *arg)
{
	const struct st *s = arg;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	int d = sf_dtype_info(dtype_of(s, y))->st_order - sf_dtype_info(dtype_of(s, x))->st_order;
	size_t x_len, y_len;

	if (d)
		return d;
	const char *x_name = name_of(s, x, &x_len), *y_name = name_of(s, y, &y_len);
	d = memcmp(x_name, y_name, SF_MIN(x_len, y_len));
	if (d)
		return d;
	return x_len < y_len ? -1 : x_len > y_len;
}

static void put_entry(const struct part *p, uint64_t begin, uint64_t end, struct sf_buf *out)
{
	sf_buf_byte(out, ',');
	sf_st_put_entry(out, p->name, p->name_len, p->dtype, p->shape, p->ndim, begin, end);
}

/* Adds the tensors in objects to the order. */
static int embed(struct st *s, struct sf_st_skipped *skipped, struct sf_error *err)
{
	int r = sf_st_embed(&s->inner, s->c, s->f.reader, &s->sel, s->order, s->n, skipped, err);
	size_t more = s->inner.inner.n;

	if (r < 0 || more == 0)
		return r;
	uint32_t *order = realloc(s->order, (s->n + more) * sizeof(*order));
	if (!order)
		return sf_fail(err, -ENOMEM, "no memory for %zu tensors in objects", more);
	s->order = order;
	for (uint32_t i = 0; i < more; i++)
		s->order[s->n++] = s->sel.n + i;
	return 0;
}

/* Chooses and sorts; writes record 0 but for its length. */
static int choose(struct st *s, struct sf_error *err)
{
	struct sf_st_skipped skipped = { { 0 }, 0, 0 };
	int r = 0;

	s->order = sf_alloc_array(s->sel.n, sizeof(*s->order));
	if (!s->order)
		return sf_fail(err, -ENOMEM, "no memory for a safetensors file of %" PRIu32 " keys",
		               s->sel.n);
	for (uint32_t pos = 0; pos < s->sel.n; pos++) {
		const struct sf_entry *e = &s->c->entry[s->sel.entry[pos]];
		const char *why = sf_st_refuses(s->c, &s->sel, pos);
		if (!why)
			s->order[s->n++] = pos;
		else if (!s->embeds || e->tensor != SF_NONE)
			sf_st_skip_at(&skipped, s->c, &s->sel, pos, why);
	}
	if (s->embeds)
		r = embed(s, &skipped, err);
	if (r < 0) {
		sf_buf_release(&skipped.text);
		return r;
	}
	qsort_r(s->order, s->n, sizeof(*s->order), compare, s);
	sf_st_skipped_end(&skipped);
	sf_buf_add(&s->head, "\0\0\0\0\0\0\0\0", 8);
	sf_buf_str(&s->head, "{\"__metadata__\":{\"format\":\"pt\"");
	if (skipped.text.len) {
		sf_buf_str(&s->head, ",\"shardfuse.skipped\":");
		sf_escape_json(&s->head, (const char *)skipped.text.at, skipped.text.len);
	}
	sf_buf_byte(&s->head, '}');
	r = sf_buf_check(&skipped.text);
	sf_buf_release(&skipped.text);
	if (r >= 0)
		r = sf_buf_check(&s->head);
	return r < 0 ? sf_fail(err, r, "no memory for the header of a safetensors file") : 0;
}

/* Where each record starts: entries are spelt out once for their length. */
static int size_records(struct st *s)
{
	struct sf_buf text = { 0 };
	uint64_t data = 0, at, first, header;
	int r = 0;

	s->start = sf_alloc_array(2 * (size_t)s->n + 3, sizeof(*s->start));
	if (!s->start)
		return -ENOMEM;
	s->start[0] = 0;
	at = s->head.len;
	for (uint32_t i = 0; i < s->n && r >= 0; i++) {
		const struct part p = part_of(s, s->order[i]);
		uint64_t end;
		if (!sf_file_end(data, p.bytes, &end))
			r = -E2BIG;
		else {
			sf_buf_reset(&text);
			put_entry(&p, data, end, &text);
			r = sf_buf_check(&text);
			s->start[1 + i] = at;
			at += text.len;
			s->start[s->n + 2 + i] = data;
			data = end;
		}
	}
	sf_buf_release(&text);
	if (r < 0)
		return r;
	s->start[1 + s->n] = at;
	first = (at + 1 + 7) / 8 * 8;
	header = first - 8;
	if (header > SF_ST_HEADER_MAX || !sf_file_end(first, data, &at))
		return -E2BIG;
	for (uint32_t i = 0; i < s->n; i++)
		s->start[s->n + 2 + i] += first;
	s->start[2 * (size_t)s->n + 2] = at;
	sf_put_le64(s->head.at, header);
	return 0;
}

static int prepare(struct sf_vfile *f, struct sf_error *err)
{
	struct st *s = (struct st *)f;
	int r = choose(s, err);

	if (r >= 0) {
		r = size_records(s);
		if (r == -E2BIG)
			sf_fail(err, r,
			        "a safetensors file of %" PRIu32
			        " tensors: its header would pass %d bytes, or it 2^63",
			        s->n, SF_ST_HEADER_MAX);
		else if (r < 0)
			sf_fail(err, r, "no memory for a safetensors file of %" PRIu32 " tensors",
			        s->n);
	}
	if (r < 0) {
		clear(s); /* the next try begins anew */
		return r;
	}
	s->f.start = s->start;
	s->f.nrec = 2 * s->n + 2;
	s->f.size = s->start[s->f.nrec];
	return 0;
}

static int emit_header(const struct st *s, uint32_t rec, uint64_t off, uint64_t len,
                       struct sf_parts *parts)
{
	uint64_t first = s->start[s->n + 2];
	struct sf_buf text = { 0 };
	int r;

	if (rec == 0)
		return sf_parts_bytes(parts, s->head.at + off, len);
	if (rec <= s->n) {
		const struct part p = part_of(s, s->order[rec - 1]);
		put_entry(&p, s->start[s->n + 1 + rec] - first, s->start[s->n + 2 + rec] - first,
		          &text);
	} else {
		sf_buf_byte(&text, '}');
		while (text.len < first - s->start[s->n + 1] && sf_buf_check(&text) == 0)
			sf_buf_byte(&text, ' ');
	}
	r = sf_buf_check(&text);
	if (r >= 0)
		r = sf_parts_bytes(parts, text.at + off, len);
	sf_buf_release(&text);
	return r;
}

static int emit_tensor(const struct st *s, uint32_t pos, uint64_t off, uint64_t len,
                       struct sf_parts *parts)
{
	if (pos >= s->sel.n) {
		const struct sf_st_inner *in = &s->inner.inner.at[pos - s->sel.n];
		return sf_parts_object(parts, in->object, in->off + off, len);
	}
	uint32_t tensor = s->c->entry[s->sel.entry[pos]].tensor;
	enum sf_dtype dtype = dtype_of(s, pos),
		      own = (enum sf_dtype)s->c->ckpt->tensor[tensor].dtype;
	return sf_parts_tensor(parts, tensor, off, len, dtype == own ? SF_DTYPE_NONE : dtype);
}

static int emit(struct sf_vfile *f, uint32_t rec, uint64_t off, uint64_t len,
                struct sf_parts *parts, struct sf_error *err)
{
	const struct st *s = (struct st *)f;
	int r;

	if (rec < s->n + 2) {
		r = emit_header(s, rec, off, len, parts);
	} else {
		r = emit_tensor(s, s->order[rec - s->n - 2], off, len, parts);
	}
	return r < 0 ? sf_fail(err, r,
	                       "bytes %" PRIu64 " + %" PRIu64 " of record %" PRIu32
	                       " of a safetensors view",
	                       off, len, rec)
	             : 0;
}

/* One tensor is sized at once; many are, but not by whoever lists a directory; objects have to be
 * read. */
static const struct sf_vfile_ops many_ops = { .prepare = prepare, .emit = emit, .free = free_st };
static const struct sf_vfile_ops one_ops = { .emit = emit, .free = free_st };

int sf_view_safetensors(const struct sf_catalog *c, struct sf_reader *r,
                        const struct sf_selection *sel, struct sf_vfile **ret, struct sf_error *err)
{
	struct st *s;
	bool waits;
	int res = 0;

	if (sel->n > INT32_MAX)
		return sf_fail(err, -E2BIG, "a safetensors file of %" PRIu32 " keys", sel->n);
	s = calloc(1, sizeof(*s));
	if (!s)
		return sf_fail(err, -ENOMEM, "a safetensors view");
	s->c = c;
	s->sel = *sel;
	s->embeds = sf_st_embeds(c, sel);
	waits = sel->n > 1 || s->embeds;
	sf_vfile_init(&s->f, waits ? &many_ops : &one_ops, r);
	if (!waits)
		res = prepare(&s->f, err);
	if (res < 0)
		sf_vfile_unref(&s->f);
	else
		*ret = &s->f;
	return res;
}

uint32_t sf_view_safetensors_tensors(const struct sf_vfile *f)
{
	return ((const struct st *)f)->n;
}

int sf_view_safetensors_size(const struct sf_catalog *c, uint32_t entry, uint64_t *ret)
{
	const struct sf_selection sel = { .entry = &entry, .n = 1, .cast = true };
	struct st s = { .c = c, .sel = sel };
	int r = prepare(&s.f, NULL);

	if (r >= 0)
		*ret = s.f.size;
	clear(&s);
	return r;
}
