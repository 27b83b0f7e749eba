#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/values.h"
#include "parse/dtype_text.h"

#define PIECE_BYTES (1u << 20) /* read at once */
#define PIECE_RUNS 8192
#define LINE 96 /* columns after which a row of numbers goes on below */

/*
 * What is read and in which order: of each dimension the elements shown, which are one range or,
 * where the middle is left out, a range at either end of the same length. The result is dense and
 * row-major; a run of it lies side by side in the tensor.
 */
struct cut {
	struct sf_reader *r;
	uint32_t tensor;
	const struct sf_tensor *t;
	enum sf_dtype dtype;
	unsigned elem; /* bytes as shown */
	const struct sf_value_box *box;
	uint64_t shown[SF_DIMS_MAX]; /* elements of the dimension */
	bool middle[SF_DIMS_MAX];    /* is left out: half of shown at either end */
	uint64_t total;
	/* a run is a part of dimension `lead` and the whole of those behind it */
	unsigned lead;
	uint64_t run; /* elements */
	/* the piece of the result in hand, in elements: its first, its count, the next to take */
	uint8_t *buf;
	uint64_t from, len, at;
	uint32_t lists; /* opened */
	struct sf_error *err;
};

static int too_many(const struct cut *c)
{
	return sf_fail(c->err, -E2BIG, "too many values to print: use a slice, KEY[0:4,:8]");
}

/* Elements of a dimension that are side by side. */
static uint64_t part_of(const struct cut *c, unsigned d)
{
	return c->middle[d] ? c->shown[d] / 2 : c->shown[d];
}

static uint64_t index_of(const struct cut *c, unsigned d, uint64_t i)
{
	uint64_t at = c->box->origin[d] + i;

	return c->middle[d] && i >= part_of(c, d) ? at + c->box->extent[d] - c->shown[d] : at;
}

/* Where run @k of the result begins, in elements of the tensor. */
static uint64_t run_at(const struct cut *c, uint64_t k)
{
	uint64_t at = 0, pitch = 1;

	for (unsigned d = c->t->ndim; d-- > 0; pitch *= c->t->shape[d]) {
		uint64_t step = d == c->lead ? part_of(c, d) : 1, n = c->shown[d] / step, i = 0;
		if (d <= c->lead) {
			i = k % n * step;
			k /= n;
		}
		at += index_of(c, d, i) * pitch;
	}
	return at;
}

/* The parts of the result's bytes [off, off + len), as sf_read asks for them. */
static int emit(void *arg, uint64_t off, uint64_t len, struct sf_parts *parts, struct sf_error *err)
{
	const struct cut *c = arg;
	uint64_t run = c->run * c->elem;
	int r = 0;

	while (len && r >= 0) {
		uint64_t in = off % run, n = SF_MIN(len, run - in);
		r = sf_parts_tensor(parts, c->tensor, run_at(c, off / run) * c->elem + in, n,
		                    c->dtype);
		off += n;
		len -= n;
	}
	return r < 0 ? sf_fail(err, r, "bytes %" PRIu64 " + %" PRIu64 " of a slice", off, len) : r;
}

static int begin(struct cut *c, struct sf_reader *r, uint32_t tensor, enum sf_dtype dtype,
                 const struct sf_value_box *box, uint64_t edge, struct sf_error *err)
{
	*c = (struct cut){ .r = r, .tensor = tensor, .dtype = dtype, .box = box, .err = err };
	c->t = &sf_reader_ckpt(r)->tensor[tensor];
	c->elem = sf_dtype_info(dtype)->bytes;
	c->total = 1;
	for (unsigned d = 0; d < c->t->ndim; d++) {
		c->middle[d] = edge && box->extent[d] > 2 * edge;
		c->shown[d] = c->middle[d] ? 2 * edge : box->extent[d];
		if (!sf_mul(c->total, c->shown[d], &c->total))
			c->total = UINT64_MAX;
	}
	/* (an empty dimension behind those whose product is too large) */
	for (unsigned d = 0; d < c->t->ndim; d++)
		c->total = c->shown[d] ? c->total : 0;
	if (c->total > SF_VALUES_MAX)
		return too_many(c);
	c->run = 1;
	c->lead = c->t->ndim ? c->t->ndim - 1 : 0;
	if (c->t->ndim)
		c->run = part_of(c, c->lead);
	while (c->lead > 0 && c->shown[c->lead] == c->t->shape[c->lead])
		c->run *= part_of(c, --c->lead);
	c->buf = malloc(PIECE_BYTES);
	return c->buf ? 0 : sf_fail(err, -ENOMEM, "%u bytes", PIECE_BYTES);
}

/* The next element of the result. */
static int next(struct cut *c, const uint8_t **ret)
{
	if (c->at == c->from + c->len) {
		uint64_t n = SF_MIN(PIECE_BYTES / c->elem, c->total - c->at);
		struct sf_read rd = { .emit = emit,
			              .arg = c,
			              .off = c->at * c->elem,
			              .len = SF_MIN(n, c->run * PIECE_RUNS) * c->elem,
			              .buf = c->buf };
		int r = sf_read_wait(c->r, &rd);
		if (r < 0)
			sf_fail(c->err, r, "%s", rd.err.msg);
		sf_read_release(&rd);
		if (r < 0)
			return r;
		c->from = c->at;
		c->len = rd.len / c->elem;
	}
	*ret = c->buf + (c->at++ - c->from) * c->elem;
	return 0;
}

/* No dimension behind @d has brackets of its own. */
static bool is_row(const struct cut *c, unsigned d)
{
	for (unsigned k = d + 1; k < c->t->ndim; k++)
		if (!(c->box->dropped >> k & 1))
			return false;
	return true;
}

static int put_json(struct cut *c, unsigned d, unsigned depth, struct sf_buf *out)
{
	char text[SF_DTYPE_TEXT];
	const uint8_t *p;
	int r = 0;

	if (d == c->t->ndim) {
		r = next(c, &p);
		if (r >= 0)
			sf_buf_add(out, text, sf_dtype_json(text, c->dtype, p));
		return r;
	}
	if (c->box->dropped >> d & 1)
		return put_json(c, d + 1, depth, out);
	if (++c->lists > SF_VALUES_MAX) /* an empty tensor may have any number of them */
		return too_many(c);
	bool row = is_row(c, d);
	sf_buf_byte(out, '[');
	for (uint64_t i = 0; i < c->shown[d] && r >= 0; i++) {
		if (i)
			sf_buf_str(out, row ? ", " : ",\n");
		for (unsigned k = 0; i && !row && k <= depth; k++)
			sf_buf_byte(out, ' ');
		r = put_json(c, d + 1, depth + 1, out);
		if (r >= 0)
			r = sf_buf_check(out);
	}
	sf_buf_byte(out, ']');
	return r;
}

int sf_values_json(struct sf_buf *out, struct sf_reader *r, uint32_t tensor, enum sf_dtype dtype,
                   const struct sf_value_box *box, struct sf_error *err)
{
	struct cut c;
	int res = begin(&c, r, tensor, dtype, box, 0, err);

	if (res >= 0)
		res = put_json(&c, 0, 0, out);
	free(c.buf);
	if (res >= 0 && sf_buf_check(out) < 0)
		res = sf_buf_check(out);
	if (res >= 0 || res != sf_buf_check(out))
		return res;
	return sf_fail(err, res, "values of more than %zu bytes as text", out->limit);
}

/* Numbers in columns of one width. */
struct table {
	struct cut c;
	struct sf_buf *out;
	struct sf_buf text; /* all elements, a NUL behind each */
	const char *word;   /* the next of them */
	size_t width, line; /* of a number; where the line begins in out */
	unsigned indent;
};

static void new_line(struct table *t, unsigned depth)
{
	sf_buf_byte(t->out, '\n');
	t->line = t->out->len;
	for (unsigned k = 0; k < t->indent + depth; k++)
		sf_buf_byte(t->out, ' ');
}

static void put_number(struct table *t, unsigned depth, bool first)
{
	size_t n = strlen(t->word);

	if (!first && t->out->len - t->line + t->width > LINE)
		new_line(t, depth);
	else if (!first)
		sf_buf_byte(t->out, ' ');
	for (size_t k = n; k < t->width; k++)
		sf_buf_byte(t->out, ' ');
	sf_buf_add(t->out, t->word, n);
	t->word += n + 1;
}

static void put_text(struct table *t, unsigned d, unsigned depth, bool first)
{
	const struct cut *c = &t->c;

	while (d < c->t->ndim && c->box->dropped >> d & 1)
		d++;
	if (d == c->t->ndim) {
		put_number(t, depth, first);
		return;
	}
	bool row = is_row(c, d);
	sf_buf_byte(t->out, '[');
	for (uint64_t i = 0; i < c->shown[d]; i++) {
		if (i)
			sf_buf_byte(t->out, ',');
		if (i && !row)
			new_line(t, depth + 1);
		if (c->middle[d] && i == c->shown[d] / 2) {
			sf_buf_str(t->out, row ? " ...," : "...,");
			if (!row)
				new_line(t, depth + 1);
		}
		put_text(t, d + 1, depth + 1, !i || !row);
	}
	sf_buf_byte(t->out, ']');
}

/* Every number is read before the first is written: the widest says how wide they are. */
static int take_words(struct table *t)
{
	for (uint64_t i = 0; i < t->c.total; i++) {
		char word[SF_DTYPE_TEXT];
		const uint8_t *p;
		int r = next(&t->c, &p);
		if (r < 0)
			return r;
		size_t n = sf_dtype_text(word, t->c.dtype, p);
		sf_buf_add(&t->text, word, n + 1);
		t->width = SF_MAX(t->width, n);
	}
	t->word = (const char *)t->text.at;
	return sf_buf_check(&t->text);
}

/* How much of either end of each dimension is shown: all, three, or one. */
static uint64_t edge_of(const struct sf_tensor *t, const struct sf_value_box *box)
{
	static const uint64_t edges[] = { UINT64_MAX / 2, 3, 1 };
	size_t i = 0;

	for (; i < SF_ARRAY_LEN(edges) - 1; i++) {
		uint64_t n = 1;
		for (unsigned d = 0; d < t->ndim; d++)
			if (!sf_mul(n, SF_MIN(box->extent[d], 2 * edges[i]), &n))
				n = UINT64_MAX;
		if (n <= (i ? 4 : 1) * SF_VALUES_SHOWN)
			break;
	}
	return edges[i];
}

int sf_values_text(struct sf_buf *out, struct sf_reader *r, uint32_t tensor, enum sf_dtype dtype,
                   const struct sf_value_box *box, unsigned indent, struct sf_error *err)
{
	struct table t = { .out = out, .indent = indent };
	uint64_t edge = edge_of(&sf_reader_ckpt(r)->tensor[tensor], box);
	int res = begin(&t.c, r, tensor, dtype, box, edge, err);

	if (res >= 0 && t.c.total > 8 * SF_VALUES_SHOWN)
		res = too_many(&t.c);
	if (res >= 0)
		res = take_words(&t);
	t.line = out->len;
	for (unsigned k = 0; k < indent && res >= 0; k++)
		sf_buf_byte(out, ' ');
	if (res >= 0 && t.c.total)
		put_text(&t, 0, 0, true);
	else if (res >= 0)
		sf_buf_str(out, "[]");
	free(t.c.buf);
	sf_buf_release(&t.text);
	if (res >= 0 && sf_buf_check(out) < 0)
		res = sf_fail(err, sf_buf_check(out), "values as text");
	return res;
}

/* The tensor as it lies, from its first element. */
static int emit_front(void *arg, uint64_t off, uint64_t len, struct sf_parts *parts,
                      struct sf_error *err)
{
	const struct cut *c = arg;
	int r = sf_parts_tensor(parts, c->tensor, off, len, c->dtype);

	return r < 0 ? sf_fail(err, r, "its first %" PRIu64 " bytes", len) : r;
}

int sf_values_line(struct sf_buf *out, struct sf_reader *r, uint32_t tensor, enum sf_dtype dtype,
                   unsigned n, struct sf_error *err)
{
	struct cut c = { .tensor = tensor, .dtype = dtype };
	const struct sf_tensor *t = &sf_reader_ckpt(r)->tensor[tensor];
	size_t elem = sf_dtype_info(dtype)->bytes;
	uint64_t all = t->bytes / sf_dtype_info(t->dtype)->bytes, some = SF_MIN(n, all);
	SF_FREE uint8_t *buf = sf_alloc_array(some, elem);
	char text[SF_DTYPE_TEXT];

	if (!buf)
		return sf_fail(err, -ENOMEM, "%u values", n);
	struct sf_read rd = { .emit = emit_front, .arg = &c, .len = some * elem, .buf = buf };
	int res = some ? sf_read_wait(r, &rd) : 0;
	if (res < 0)
		sf_fail(err, res, "%s", rd.err.msg);
	for (uint64_t i = 0; i < some && res >= 0; i++) {
		sf_buf_str(out, i ? ", " : "");
		sf_buf_add(out, text, sf_dtype_text(text, dtype, buf + i * elem));
	}
	if (res >= 0 && some < all)
		sf_buf_str(out, ", …");
	sf_read_release(&rd);
	return res < 0 ? res : sf_buf_check(out);
}
