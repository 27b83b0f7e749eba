#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "parse/safetensors.h"
#include "parse/st_file_plan.h"

/* ---- order ---- */

struct place {
	const char *name;
	size_t name_len;
	int order;
	uint32_t number;
};

static int compare(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->order != y->order)
		return y->order - x->order;
	int d = memcmp(x->name, y->name, SF_MIN(x->name_len, y->name_len));
	if (d)
		return d;
	return x->name_len < y->name_len ? -1 : x->name_len > y->name_len;
}

static int sort(struct sf_st_file *f)
{
	if (f->n < 2)
		return 0;
	SF_FREE struct place *p = sf_alloc_array(f->n, sizeof(*p));
	if (!p)
		return -ENOMEM;
	for (uint32_t i = 0; i < f->n; i++) {
		const struct sf_st_part t = f->part(f->arg, f->tensor[i]);
		p[i] = (struct place){ t.name, t.name_len, sf_dtype_info(t.dtype)->st_order,
			               f->tensor[i] };
	}
	qsort(p, f->n, sizeof(*p), compare);
	for (uint32_t i = 0; i < f->n; i++)
		f->tensor[i] = p[i].number;
	return 0;
}

/* ---- the plan ---- */

static void put_entry(const struct sf_st_part *p, uint64_t begin, uint64_t end, struct sf_buf *out)
{
	sf_buf_byte(out, ',');
	sf_st_put_entry(out, p->name, p->name_len, p->dtype, p->shape, p->ndim, begin, end);
}

/* Files end at 2^63 - 1. */
static bool ends(uint64_t off, uint64_t len, uint64_t *ret)
{
	return sf_add(off, len, ret) && *ret <= INT64_MAX;
}

/* Entries are spelt out once for their length. */
static int size_records(struct sf_st_file *f)
{
	struct sf_buf text = { 0 };
	uint64_t data = 0, at, first, header;
	int r = 0;

	f->start = sf_alloc_array(SF_ST_FILE_RECORDS(f->n) + 1, sizeof(*f->start));
	if (!f->start)
		return -ENOMEM;
	f->start[0] = 0;
	at = f->head.len;
	for (uint32_t i = 0; i < f->n && r >= 0; i++) {
		const struct sf_st_part p = f->part(f->arg, f->tensor[i]);
		uint64_t end;
		if (!ends(data, p.bytes, &end)) {
			r = -E2BIG;
		} else {
			sf_buf_reset(&text);
			put_entry(&p, data, end, &text);
			r = sf_buf_check(&text);
			f->start[1 + i] = at;
			at += text.len;
			f->start[f->n + 2 + i] = data;
			data = end;
		}
	}
	sf_buf_release(&text);
	if (r < 0)
		return r;
	f->start[1 + f->n] = at;
	first = (at + 1 + 7) / 8 * 8;
	header = first - 8;
	if (header > SF_ST_HEADER_MAX || !ends(first, data, &at))
		return -E2BIG;
	for (uint32_t i = 0; i < f->n; i++)
		f->start[f->n + 2 + i] += first;
	f->start[SF_ST_FILE_RECORDS(f->n)] = at;
	sf_put_le64(f->head.at, header);
	return 0;
}

int sf_st_file_plan(struct sf_st_file *f, const char *metadata, size_t metadata_len,
                    struct sf_error *err)
{
	int r = sort(f);

	sf_buf_add(&f->head, "\0\0\0\0\0\0\0\0", 8);
	sf_buf_str(&f->head, "{\"__metadata__\":");
	sf_buf_add(&f->head, metadata, metadata_len);
	if (r >= 0)
		r = sf_buf_check(&f->head);
	if (r >= 0)
		r = size_records(f);
	if (r == -E2BIG)
		sf_fail(err, r,
		        "a safetensors file of %" PRIu32
		        " tensors: its header would pass %d bytes, or it 2^63",
		        f->n, SF_ST_HEADER_MAX);
	else if (r < 0)
		sf_fail(err, r, "no memory for a safetensors file of %" PRIu32 " tensors", f->n);
	return r;
}

void sf_st_file_release(struct sf_st_file *f)
{
	free(f->start);
	f->start = NULL;
	sf_buf_release(&f->head);
}

/* ---- bytes ---- */

static int header_record(const struct sf_st_file *f, size_t rec, uint64_t off, uint64_t len,
                         const struct sf_st_file_sink *to)
{
	uint64_t first = f->start[(size_t)f->n + 2];
	struct sf_buf text = { 0 };

	if (rec == 0)
		return to->bytes(to->arg, f->head.at + off, (size_t)len);
	if (rec <= f->n) {
		const struct sf_st_part p = f->part(f->arg, f->tensor[rec - 1]);
		put_entry(&p, f->start[f->n + 1 + rec] - first, f->start[f->n + 2 + rec] - first,
		          &text);
	} else {
		sf_buf_byte(&text, '}');
		while (text.len < first - f->start[(size_t)f->n + 1] && sf_buf_check(&text) == 0)
			sf_buf_byte(&text, ' ');
	}
	int r = sf_buf_check(&text);
	if (r >= 0)
		r = to->bytes(to->arg, text.at + off, (size_t)len);
	sf_buf_release(&text);
	return r;
}

int sf_st_file_record(const struct sf_st_file *f, size_t rec, uint64_t off, uint64_t len,
                      const struct sf_st_file_sink *to)
{
	size_t data = (size_t)f->n + 2;

	return rec < data ? header_record(f, rec, off, len, to)
	                  : to->payload(to->arg, f->tensor[rec - data], off, len);
}
