#include "config.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/mem.h"
#include "ckpt/box.h"
#include "read/layout.h"

#define PAGE 4096 /* words */
#define ODD (UINT64_C(1) << 63)

struct page {
	_Atomic uint64_t
		word[PAGE]; /* 0: not known; payload_off + 1; ODD | pointer to an odd layout */
};

struct odd {
	struct odd *next; /* for the end */
	uint64_t payload_off, payload_len;
	bool row_major, conj, neg;
	int64_t stride[];
};

struct sf_layouts {
	uint64_t npages;
	struct odd *_Atomic odds;
	struct page *_Atomic page[];
};

int sf_layouts_new(uint64_t nchunks, struct sf_layouts **ret, struct sf_error *err)
{
	uint64_t n = nchunks / PAGE + 1, bytes;

	*ret = NULL;
	if (sf_mul(n, sizeof(void *), &bytes) && sf_add(bytes, sizeof(struct sf_layouts), &bytes))
		*ret = calloc(1, bytes);
	if (!*ret)
		return sf_fail(err, -ENOMEM, "layouts: no memory for %llu chunks",
		               (unsigned long long)nchunks);
	(*ret)->npages = n;
	return 0;
}

void sf_layouts_free(struct sf_layouts *l)
{
	if (!l)
		return;
	for (uint64_t i = 0; i < l->npages; i++)
		free(l->page[i]);
	for (struct odd *o = l->odds, *next; o; o = next) {
		next = o->next;
		free(o);
	}
	free(l);
}

/* An ordinary item holds exactly what metadata says, so only its place is kept. */
static uint64_t ordinary_len(const struct sf_tensor *t, uint32_t i)
{
	return sf_chunk_part_len(t, i) * sf_dtype_info(t->dtype)->bytes;
}

bool sf_layout_get(const struct sf_layouts *l, const struct sf_tensor *t, uint32_t i,
                   struct sf_item_layout *ret)
{
	uint64_t n = t->chunk0 + i, word;
	struct page *page = atomic_load_explicit(&l->page[n / PAGE], memory_order_acquire);

	if (!page)
		return false;
	word = atomic_load_explicit(&page->word[n % PAGE], memory_order_acquire);
	if (!word)
		return false;
	if (word & ODD) {
		const struct odd *o = (const struct odd *)(uintptr_t)(word & ~ODD);
		*ret = (struct sf_item_layout){ o->payload_off, o->payload_len,
			                        o->row_major,   o->conj,
			                        o->neg,         o->row_major ? NULL : o->stride };
		return true;
	}
	*ret = (struct sf_item_layout){ .payload_off = word - 1,
		                        .payload_len = ordinary_len(t, i),
		                        .row_major = true };
	return true;
}

static struct page *make_page(struct sf_layouts *l, uint64_t n)
{
	struct page *none = NULL, *page = calloc(1, sizeof(*page));

	if (page && !atomic_compare_exchange_strong_explicit(
			    &l->page[n], &none, page, memory_order_acq_rel, memory_order_acquire)) {
		free(page);
		page = none;
	}
	return page;
}

int sf_layout_put(struct sf_layouts *l, const struct sf_tensor *t, uint32_t i,
                  const struct sf_item_layout *layout)
{
	uint64_t n = t->chunk0 + i, word = layout->payload_off + 1, none = 0;
	struct page *page = atomic_load_explicit(&l->page[n / PAGE], memory_order_acquire);
	struct odd *o = NULL;

	if (!page)
		page = make_page(l, n / PAGE);
	if (!page)
		return -ENOMEM;
	if (!layout->row_major || layout->conj || layout->neg ||
	    layout->payload_len != ordinary_len(t, i) || word & ODD) {
		o = malloc(sizeof(*o) + (layout->row_major ? 0 : t->ndim * sizeof(*o->stride)));
		if (!o)
			return -ENOMEM;
		o->payload_off = layout->payload_off;
		o->payload_len = layout->payload_len;
		o->row_major = layout->row_major;
		o->conj = layout->conj;
		o->neg = layout->neg;
		if (!layout->row_major)
			memcpy(o->stride, layout->stride, t->ndim * sizeof(*o->stride));
		word = ODD | (uint64_t)(uintptr_t)o;
	}
	if (!atomic_compare_exchange_strong_explicit(&page->word[n % PAGE], &none, word,
	                                             memory_order_acq_rel, memory_order_acquire)) {
		free(o); /* known by now */
		return 0;
	}
	if (o) {
		o->next = atomic_load_explicit(&l->odds, memory_order_relaxed);
		while (!atomic_compare_exchange_weak_explicit(
			&l->odds, &o->next, o, memory_order_release, memory_order_relaxed))
			;
	}
	return 0;
}

static void put_shape(char *text, size_t size, const uint64_t *at, unsigned ndim)
{
	size_t n = 0;

	for (unsigned d = 0; d < ndim && n < size; d++)
		n += (size_t)snprintf(text + n, size - n, "%s%llu", d ? ", " : "",
		                      (unsigned long long)at[d]);
}

int sf_layout_from_item(const struct sf_ckpt *ckpt, const struct sf_tensor *t,
                        const struct sf_chunk *c, const struct sf_torch_item *item, int64_t *stride,
                        struct sf_item_layout *ret, struct sf_error *err)
{
	const struct sf_torch_tensor *x = &item->t;
	uint64_t elem = sf_dtype_info(t->dtype)->bytes, volume = 1, numel = 1, span = 1, off, need;
	bool same = x->ndim == t->ndim, row_major = true, fits = true, run;
	unsigned longer = 0; /* dimensions of more, or less, than one element */

	if (x->dtype != t->dtype)
		return sf_fail(err, -EBADMSG, "the item's header says dtype %s, metadata says %s",
		               sf_dtype_info(x->dtype)->torch, sf_dtype_info(t->dtype)->torch);
	for (unsigned d = 0; d < t->ndim; d++)
		volume *= c->extent[d];
	for (unsigned d = 0; d < x->ndim; d++) {
		same = same && x->shape[d] == c->extent[d];
		fits = fits && sf_mul(numel, x->shape[d], &numel);
		longer += x->shape[d] != 1;
	}
	/* A run of the box: flat, or however it was shaped. One that is all of the box is flat as
	 * well: what a flattened range is when there is a single shard. */
	run = c->part_len != volume || (!same && longer <= 1);
	if (run ? !fits || numel != c->part_len : !same) {
		char a[200] = "", b[200] = "";
		put_shape(a, sizeof(a), x->shape, x->ndim);
		put_shape(b, sizeof(b), c->extent, t->ndim);
		return sf_fail(
			err, -EBADMSG,
			"the item's header says shape [%s], metadata says [%s] (%llu elements)", a,
			b, (unsigned long long)c->part_len);
	}
	/* dense row-major? Dimensions of one element have no say. */
	for (unsigned d = x->ndim; d-- > 0; span *= x->shape[d])
		row_major = row_major && (x->shape[d] == 1 ||
		                          (x->stride[d] >= 0 && (uint64_t)x->stride[d] == span));
	if (run && !row_major)
		return sf_fail(err, -ENOTSUP,
		               "an item that holds a run of its box is not contiguous");
	if (!sf_mul(x->storage_off, elem, &off) || off > item->payload_len)
		return sf_fail(
			err, -EBADMSG,
			"storage offset %llu (of %llu-byte elements) in a storage of %llu bytes",
			(unsigned long long)x->storage_off, (unsigned long long)elem,
			(unsigned long long)item->payload_len);
	*ret = (struct sf_item_layout){ .row_major = row_major, .conj = x->conj, .neg = x->neg };
	ret->payload_len = item->payload_len - off;
	if (!sf_add(item->payload_off, off, &ret->payload_off))
		return sf_fail(err, -EBADMSG, "payload at %llu",
		               (unsigned long long)item->payload_off);
	need = c->part_len * elem;
	if (row_major && ret->payload_len < need)
		return sf_fail(err, -EBADMSG,
		               "the item's payload has %llu bytes, its box needs %llu",
		               (unsigned long long)ret->payload_len, (unsigned long long)need);
	if (row_major)
		ret->payload_len = need;
	else
		memcpy(stride, x->stride, x->ndim * sizeof(*stride));
	ret->stride = row_major ? NULL : stride;
	return 0;
}

const struct sf_torch_options sf_layout_options = { .part_max = SF_LAYOUT_PART_MAX,
	                                            .containers = 1 << SF_TORCH_ZIP };

int sf_layout_from_archive(const struct sf_torch_archive *a, struct sf_torch_item *ret,
                           struct sf_error *err)
{
	const struct sf_torch_record *s;
	int r = sf_torch_item_value(a->root, &ret->t, err);

	if (r < 0)
		return r;
	if (a->big_endian)
		return sf_fail(err, -ENOTSUP, "torch item: written on a big-endian machine");
	s = sf_torch_record_find(a->storage, a->nstorages, ret->t.storage_key->str.at,
	                         ret->t.storage_key->str.len);
	if (!s)
		return sf_fail(err, -EBADMSG, "no record data/%.100s", ret->t.storage_key->str.at);
	ret->t.storage_key = NULL;
	ret->payload_off = s->off;
	ret->payload_len = s->len;
	return 0;
}

int sf_layout_from_dir(const struct sf_torch_input *in, struct sf_torch_item *ret,
                       struct sf_error *err)
{
	SF_CLEANUP(sf_arena_release) struct sf_arena arena = { .limit = SF_LAYOUT_PART_MAX };
	struct sf_torch_archive a;
	int r = sf_torch_open(in, &sf_layout_options, &arena, &a, err);

	return r < 0 ? r : sf_layout_from_archive(&a, ret, err);
}

/* Two's complement, as torch negates unsigned numbers too. */
static void negate(uint8_t *p, unsigned elem)
{
	unsigned carry = 1;

	for (unsigned k = 0; k < elem; k++) {
		carry += (uint8_t)~p[k];
		p[k] = (uint8_t)carry;
		carry >>= 8;
	}
}

int sf_layout_convert(enum sf_dtype dtype, bool conj, bool neg, uint8_t *p, uint64_t at,
                      uint64_t len, struct sf_error *err)
{
	const struct sf_dtype_info *info = sf_dtype_info(dtype);
	uint8_t mask[16] = { 0 }; /* of one element: the sign bits to flip */
	unsigned elem = info->bytes, half = elem / 2;

	if (!info->is_complex && !info->is_float) {
		if (!neg)
			return 0; /* conj of what is not complex is itself */
		if (!sf_dtype_is_int(dtype))
			return sf_fail(err, -ENOTSUP, "negated %s elements", info->torch);
		if (at % elem || len % elem) /* the carry comes from the bytes before */
			return sf_fail(err, -EINVAL, "a part of a negated %s element", info->torch);
		for (uint64_t i = 0; i < len; i += elem)
			negate(p + i, elem);
		return 0;
	}
	/* both halves of a complex number are floats: their sign is the top bit of the last byte */
	if (info->is_complex) {
		mask[half - 1] = neg ? 0x80 : 0;
		mask[elem - 1] = neg != conj ? 0x80 : 0;
	} else {
		mask[elem - 1] = neg ? 0x80 : 0;
	}
	for (unsigned k = 0; k < elem; k++)
		if (mask[k])
			for (uint64_t i = (k + elem - at % elem) % elem; i < len; i += elem)
				p[i] ^= mask[k];
	return 0;
}
