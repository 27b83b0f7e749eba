#include "config.h"

#include <stdlib.h>

#include "base/mem.h"
#include "ckpt/ckpt_pick.h"
#include "ckpt/place.h"
#include "tool/warm.h"

static int by_place(const void *a, const void *b)
{
	const struct sf_warm_range *x = a, *y = b;

	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	return (x->off > y->off) - (x->off < y->off);
}

/* As far as the file goes. */
static int add(struct sf_warm_ranges *v, const struct sf_file *file, uint64_t off, uint64_t len)
{
	uint64_t size = file->info.size;

	if (file->missing)
		return sf_warm_ranges_push(v, (struct sf_warm_range){ file, 0, 0 });
	if (size == UINT64_MAX || off >= size || !len)
		return 0;
	return sf_warm_ranges_push(v, (struct sf_warm_range){ file, off, SF_MIN(len, size - off) });
}

static int add_item(struct sf_warm_ranges *v, const struct sf_ckpt *ckpt, uint32_t place,
                    uint64_t off, uint64_t len)
{
	struct sf_where at;

	if (place == SF_NONE || !len)
		return 0;
	at = sf_place_where(ckpt, place, off);
	if (at.stream) /* nothing of it can be had but from its beginning */
		return add(v, sf_place_file(ckpt, place), 0, UINT64_MAX);
	return add(v, &ckpt->file[at.file], at.off, SF_MIN(len, at.room));
}

static int add_entry(struct sf_warm_ranges *v, const struct sf_ckpt *ckpt, const struct sf_entry *e)
{
	int r = 0;

	if (e->object != SF_NONE) {
		const struct sf_object *o = &ckpt->object[e->object];
		r = add_item(v, ckpt, o->place, o->off, o->len);
	}
	if (e->tensor != SF_NONE) {
		const struct sf_tensor *t = sf_tensor_whole(ckpt, &ckpt->tensor[e->tensor]);
		for (uint32_t i = 0; i < t->nchunks && r >= 0; i++) {
			struct sf_chunk ch;
			sf_tensor_chunk(t, i, &ch);
			r = add_item(v, ckpt, ch.place, ch.off, ch.len);
		}
	}
	return r;
}

/* Sorted; those that touch are one. */
static void join(struct sf_warm_ranges *v)
{
	size_t n = 0;

	if (v->n)
		qsort(v->at, v->n, sizeof(*v->at), by_place);
	for (size_t i = 0; i < v->n; i++) {
		struct sf_warm_range g = v->at[i], *last = n ? &v->at[n - 1] : NULL;
		if (last && last->file == g.file && g.off <= last->off + last->len)
			last->len = SF_MAX(last->off + last->len, g.off + g.len) - last->off;
		else
			v->at[n++] = g;
	}
	v->n = n;
}

int sf_warm_ranges_of(const struct sf_catalog *c, struct sf_warm_ranges *ret, struct sf_error *err)
{
	const struct sf_ckpt *ckpt = c->ckpt;
	struct sf_warm_ranges v = { 0 };
	int r = 0;

	if (c->n == ckpt->nkeys)
		for (uint32_t i = 0; i < ckpt->nfiles && r >= 0; i++)
			r = add(&v, &ckpt->file[i], 0, UINT64_MAX);
	else
		for (uint32_t i = 0; i < c->n && r >= 0; i++)
			r = add_entry(&v, ckpt, &c->entry[i]);
	if (r < 0) {
		sf_warm_ranges_release(&v);
		return sf_fail(err, -ENOMEM, "no memory for the ranges of %u keys", c->n);
	}
	join(&v);
	*ret = v;
	return 0;
}

uint64_t sf_warm_bytes(const struct sf_warm_range *at, size_t n)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += at[i].len;
	return sum;
}
