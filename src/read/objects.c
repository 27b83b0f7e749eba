#include "config.h"

#include <stdlib.h>

#include "base/mem.h"
#include "ckpt/place.h"
#include "read/op.h"
#include "read/read_window.h"

#define SLICE (UINT64_C(4) << 20)    /* of a long read */
#define TOGETHER (UINT64_C(8) << 20) /* bytes of small items in one read */
#define TOGETHER_MOST 256

static int read_one(struct sf_reader *r, struct sf_read *rd, struct sf_error *err)
{
	int e = sf_read_wait(r, rd);

	if (e < 0)
		sf_fail(err, e, "%s", rd->err.msg);
	sf_read_release(rd);
	return e;
}

static int read_long(struct sf_reader *r, struct sf_read *rd, struct sf_error *err)
{
	if (!rd->len)
		return 0;
	return rd->len <= SLICE ? read_one(r, rd, err)
	                        : sf_read_slices(r, rd, SLICE, NULL, NULL, err);
}

static int emit_tensor(void *arg, uint64_t off, uint64_t len, struct sf_parts *p,
                       struct sf_error *err)
{
	return sf_parts_tensor(p, *(uint32_t *)arg, off, len, SF_DTYPE_NONE);
}

static int emit_object(void *arg, uint64_t off, uint64_t len, struct sf_parts *p,
                       struct sf_error *err)
{
	return sf_parts_object(p, *(uint32_t *)arg, off, len);
}

int sf_read_tensor(struct sf_reader *r, uint32_t tensor, uint64_t off, void *buf, uint64_t len,
                   struct sf_error *err)
{
	struct sf_read rd = {
		.emit = emit_tensor, .arg = &tensor, .off = off, .len = len, .buf = buf
	};

	return read_long(r, &rd, err);
}

int sf_read_object_range(struct sf_reader *r, uint32_t object, uint64_t off, void *buf,
                         uint64_t len, struct sf_error *err)
{
	struct sf_read rd = { .emit = emit_object,
		              .arg = &object,
		              .off = off,
		              .len = len,
		              .buf = buf,
		              .inner = true };

	return read_long(r, &rd, err);
}

/* ---- whole items ---- */

struct item {
	uint32_t object, file;
	uint64_t stored, off, len; /* stored: of the stream that it lies in, or off */
};

struct items {
	const struct item *at;
	size_t n;
};

static int emit_lens(void *arg, uint64_t off, uint64_t len, struct sf_parts *p,
                     struct sf_error *err)
{
	const struct items *w = arg;
	int r = 0;

	for (size_t i = 0; i < w->n && r >= 0; i++)
		r = sf_parts_object_len(p, w->at[i].object);
	return r;
}

static int emit_items(void *arg, uint64_t off, uint64_t len, struct sf_parts *p,
                      struct sf_error *err)
{
	const struct items *w = arg;
	int r = 0;

	for (size_t i = 0; i < w->n && r >= 0; i++)
		r = sf_parts_object(p, w->at[i].object, 0, w->at[i].len);
	return r;
}

static int compare_items(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	if (x->stored != y->stored)
		return x->stored < y->stored ? -1 : 1;
	return (x->off > y->off) - (x->off < y->off);
}

/* Items whose lengths are known, each handed over; as many in one read as TOGETHER has room for. */
static int hand_over(struct sf_reader *r, const struct item *at, size_t n, uint64_t limit,
                     int (*each)(void *arg, uint32_t object, const uint8_t *item, uint64_t len,
                                 struct sf_error *err),
                     void *arg, struct sf_error *err)
{
	SF_FREE uint8_t *buf = NULL;
	uint64_t cap = 0;
	int e = 0;

	for (size_t i = 0, k; i < n && e >= 0; i = k) {
		uint64_t bytes = at[i].len, pos = 0;
		k = i + 1;
		if (bytes > limit) {
			e = each(arg, at[i].object, NULL, bytes, err);
			continue;
		}
		for (; k < n && at[k].len <= limit && bytes + at[k].len <= TOGETHER; k++)
			bytes += at[k].len;
		if (bytes > cap || !buf) {
			free(buf);
			cap = bytes;
			buf = malloc(bytes ? bytes : 1);
			if (!buf)
				return sf_fail(err, -ENOMEM, "no memory for %llu bytes of objects",
				               (unsigned long long)bytes);
		}
		struct items w = { &at[i], k - i };
		if (bytes && k - i == 1)
			e = sf_read_object_range(r, at[i].object, 0, buf, bytes, err);
		else if (bytes)
			e = read_one(r,
			             &(struct sf_read){ .emit = emit_items,
			                                .arg = &w,
			                                .len = bytes,
			                                .buf = buf,
			                                .inner = true },
			             err);
		for (size_t j = i; j < k && e >= 0; pos += at[j++].len)
			e = each(arg, at[j].object, buf + pos, at[j].len, err);
	}
	return e;
}

int sf_read_objects(struct sf_reader *r, const uint32_t *objects, size_t n, uint64_t limit,
                    int (*each)(void *arg, uint32_t object, const uint8_t *item, uint64_t len,
                                struct sf_error *err),
                    void *arg, struct sf_error *err)
{
	const struct sf_ckpt *ckpt = r->ckpt;
	SF_FREE struct item *items = sf_alloc_array(n, sizeof(*items));
	uint64_t lens[TOGETHER_MOST];
	int e = 0;

	if (!items)
		return sf_fail(err, -ENOMEM, "no memory for %zu objects", n);
	for (size_t i = 0; i < n; i++) {
		const struct sf_object *o;
		if (objects[i] >= ckpt->nobjects)
			return sf_fail(err, -EINVAL, "object %u of %u", objects[i], ckpt->nobjects);
		o = &ckpt->object[objects[i]];
		struct sf_where at = { .file = SF_NONE };
		if (o->place != SF_NONE)
			at = sf_place_where(ckpt, o->place, o->off);
		items[i] = (struct item){ objects[i], at.file, at.stream ? at.stream->off : at.off,
			                  at.off, o->len };
	}
	/* in the order of the files: neighbours become one request */
	qsort(items, n, sizeof(*items), compare_items);
	for (size_t i = 0; i < n && e >= 0; i += TOGETHER_MOST) {
		struct items w = { &items[i], SF_MIN(n - i, (size_t)TOGETHER_MOST) };
		e = read_one(r,
		             &(struct sf_read){ .emit = emit_lens,
		                                .arg = &w,
		                                .len = w.n * sizeof(*lens),
		                                .buf = lens,
		                                .inner = true },
		             err);
		for (size_t k = 0; k < w.n && e >= 0; k++)
			items[i + k].len = lens[k];
		if (e >= 0)
			e = hand_over(r, w.at, w.n, limit, each, arg, err);
	}
	return e;
}
