#include "config.h"

#include <assert.h>

#include "base/mem.h"
#include "ckpt/box.h"
#include "ckpt/builder_priv.h"

/* Elements and bytes fit 64 bits; every later multiplication on boxes inside the shape rests on
 * that. */
static int check_shape(struct sf_ckpt_builder *b, const char *name, size_t len, enum sf_dtype dtype,
                       const uint64_t *shape, unsigned ndim, uint64_t *ret_bytes,
                       struct sf_error *err)
{
	const struct sf_dtype_info *info =
		dtype > SF_DTYPE_NONE && dtype < SF_NDTYPES ? sf_dtype_info(dtype) : NULL;
	int show = (int)SF_MIN(len, 200u);
	uint64_t bytes = info ? info->bytes : 0;
	bool empty = false, fits = true;

	if (!bytes)
		return sf_fail(err, -EBADMSG, "%s: tensor '%.*s' has an unknown element type (%d)",
		               b->ckpt->source, show, name, (int)dtype);
	if (ndim > SF_DIMS_MAX)
		return sf_fail(err, -EBADMSG,
		               "%s: tensor '%.*s' has %u dimensions, the limit is %d",
		               b->ckpt->source, show, name, ndim, SF_DIMS_MAX);
	for (unsigned d = 0; d < ndim; d++) {
		empty |= shape[d] == 0;
		fits = fits && sf_mul(bytes, shape[d], &bytes);
	}
	if (!fits && !empty)
		return sf_fail(
			err, -EBADMSG,
			"%s: tensor '%.*s' of %u dimensions (the first %llu) passes 2^64 bytes",
			b->ckpt->source, show, name, ndim, (unsigned long long)shape[0]);
	*ret_bytes = empty ? 0 : bytes;
	return 0;
}

int sf_ckpt_builder_tensor(struct sf_ckpt_builder *b, const char *name, size_t len,
                           enum sf_dtype dtype, const uint64_t *shape, unsigned ndim,
                           uint32_t *ret_tensor, struct sf_error *err)
{
	struct sf_tensor t = { .key = (uint32_t)b->keys.n,
		               .dtype = (uint8_t)dtype,
		               .ndim = (uint8_t)ndim };
	uint64_t *kept;
	int r = sf_builder_close(b, err);

	if (r >= 0)
		r = check_shape(b, name, len, dtype, shape, ndim, &t.bytes, err);
	if (r < 0)
		return r;
	kept = sf_arena_alloc(&b->ckpt->arena, ndim * sizeof(*kept));
	if (!kept || sf_tensors_reserve(&b->tensors, b->tensors.n + 1) < 0)
		return sf_builder_no_memory(err, b);
	for (unsigned d = 0; d < ndim; d++) {
		kept[d] = shape[d];
		t.wide |= shape[d] > UINT32_MAX;
	}
	t.shape = kept;
	t.chunk0 = b->ckpt->nchunks;
	r = sf_builder_add_key(
		b, name, len,
		(struct sf_key){ .tensor = (uint32_t)b->tensors.n, .object = SF_NONE }, err);
	if (r < 0)
		return r;
	b->open = true;
	b->row = ndim * (t.wide ? sizeof(uint64_t) : sizeof(uint32_t));
	b->nparts = b->nlayouts = b->nitems = 0;
	*ret_tensor = (uint32_t)b->tensors.n;
	b->tensors.at[b->tensors.n++] = t;
	return 0;
}

static int column_reserve(struct sf_column *c, size_t bytes)
{
	return bytes <= c->cap
	               ? 0
	               : sf_vec_grow((void **)&c->at, &c->cap, SF_MAX(bytes, (size_t)1024), 1);
}

static int outside(struct sf_ckpt_builder *b, const uint64_t *origin, const uint64_t *extent,
                   struct sf_error *err)
{
	const struct sf_tensor *t = &b->tensors.at[b->tensors.n - 1];
	const struct sf_key *k = &b->keys.at[t->key];

	for (unsigned d = 0; d < t->ndim; d++)
		if (origin[d] > t->shape[d] || extent[d] > t->shape[d] - origin[d])
			return sf_fail(err, -EBADMSG,
			               "%s: tensor '%.*s': chunk %u from %llu, %llu long, passes "
			               "dimension %u of %llu",
			               b->ckpt->source, (int)SF_MIN(k->len, 200u), k->name,
			               t->nchunks, (unsigned long long)origin[d],
			               (unsigned long long)extent[d], d,
			               (unsigned long long)t->shape[d]);
	return 0;
}

int sf_ckpt_builder_chunk(struct sf_ckpt_builder *b, const uint64_t *origin, const uint64_t *extent,
                          struct sf_error *err)
{
	struct sf_tensor *t;
	size_t at;
	bool bad = false;

	if (!b->open)
		return sf_fail(err, -EBADMSG, "%s: a chunk without an open tensor",
		               b->ckpt->source);
	t = &b->tensors.at[b->tensors.n - 1];
	at = t->nchunks * b->row;
	const size_t need = SF_MAX(at + b->row, (size_t)1); /* 0-dim: still a place to point at */
	if (need > b->origin.cap || need > b->extent.cap) {
		if (column_reserve(&b->origin, need) < 0 || column_reserve(&b->extent, need) < 0)
			return sf_builder_no_memory(err, b);
	}
	if (t->nchunks == SF_NONE - 1)
		return sf_fail(err, -EBADMSG, "%s: a tensor with more than %u chunks",
		               b->ckpt->source, SF_NONE - 1);
	if (t->wide) {
		uint64_t *o = (uint64_t *)(b->origin.at + at), *e = (uint64_t *)(b->extent.at + at);
		for (unsigned d = 0; d < t->ndim; d++) {
			bad |= origin[d] > t->shape[d] || extent[d] > t->shape[d] - origin[d];
			o[d] = origin[d];
			e[d] = extent[d];
		}
	} else {
		uint32_t *o = (uint32_t *)(b->origin.at + at), *e = (uint32_t *)(b->extent.at + at);
		for (unsigned d = 0; d < t->ndim; d++) {
			bad |= origin[d] > t->shape[d] || extent[d] > t->shape[d] - origin[d];
			o[d] = (uint32_t)origin[d];
			e[d] = (uint32_t)extent[d];
		}
	}
	if (bad)
		return outside(b, origin, extent, err);
	t->nchunks++;
	return 0;
}

/* The open tensor as if its columns were in place; for looking at its coordinates. */
static struct sf_tensor open_tensor(const struct sf_ckpt_builder *b)
{
	struct sf_tensor t = b->tensors.at[b->tensors.n - 1];

	t.origin = b->origin.at;
	t.extent = b->extent.at;
	return t;
}

/* Part columns up to @n chunks: whole boxes where nothing else was said. */
static int fill_parts(struct sf_ckpt_builder *b, uint32_t n)
{
	const struct sf_tensor t = open_tensor(b);
	uint64_t *part;

	if (column_reserve(&b->part, (size_t)n * 2 * sizeof(*part)) < 0)
		return -1;
	for (part = (uint64_t *)b->part.at; b->nparts < n; b->nparts++) {
		part[2 * (size_t)b->nparts] = 0;
		part[2 * (size_t)b->nparts + 1] = sf_chunk_volume(&t, b->nparts);
	}
	return 0;
}

int sf_ckpt_builder_part(struct sf_ckpt_builder *b, uint64_t part_off, uint64_t part_len,
                         struct sf_error *err)
{
	struct sf_tensor t;
	uint64_t volume, *part;

	if (!b->open || !b->tensors.at[b->tensors.n - 1].nchunks)
		return sf_fail(err, -EBADMSG, "%s: a part without a chunk", b->ckpt->source);
	t = open_tensor(b);
	volume = sf_chunk_volume(&t, t.nchunks - 1);
	if (part_off > volume || part_len > volume - part_off)
		return sf_fail(err, -EBADMSG,
		               "%s: tensor '%.*s': chunk %u's part from %llu, %llu long, passes "
		               "its %llu elements",
		               b->ckpt->source, (int)SF_MIN(b->keys.at[t.key].len, 200u),
		               b->keys.at[t.key].name, t.nchunks - 1, (unsigned long long)part_off,
		               (unsigned long long)part_len, (unsigned long long)volume);
	if (fill_parts(b, t.nchunks) < 0)
		return sf_builder_no_memory(err, b);
	part = (uint64_t *)b->part.at + 2 * (size_t)(t.nchunks - 1);
	part[0] = part_off;
	part[1] = part_len;
	return 0;
}

/* Layouts up to @n chunks: row-major where nothing else was said. */
static int fill_layouts(struct sf_ckpt_builder *b, uint32_t n)
{
	if (column_reserve(&b->layout, (size_t)n * sizeof(struct sf_chunk_layout)) < 0)
		return -1;
	for (; b->nlayouts < n; b->nlayouts++)
		((struct sf_chunk_layout *)b->layout.at)[b->nlayouts] =
			(struct sf_chunk_layout){ NULL, false, false };
	return 0;
}

/* Bytes from the box's first element to the end of its last one fit 64 bits. */
static bool span_fits(const struct sf_tensor *t, uint32_t chunk, const int64_t *stride,
                      unsigned *ret_dim)
{
	uint64_t elem = sf_dtype_info(t->dtype)->bytes, span = elem, step;

	for (unsigned d = 0; d < t->ndim; d++) {
		const uint64_t extent = sf_chunk_extent(t, chunk, d);
		*ret_dim = d;
		if (stride[d] < 0 || !sf_mul((uint64_t)stride[d], elem, &step) ||
		    !sf_mul(step, extent ? extent - 1 : 0, &step) || !sf_add(span, step, &span))
			return false;
	}
	return true;
}

int sf_ckpt_builder_layout(struct sf_ckpt_builder *b, const int64_t *stride, bool conj, bool neg,
                           struct sf_error *err)
{
	struct sf_chunk_layout *last, l = { NULL, conj, neg };
	struct sf_tensor t;
	unsigned dim = 0;
	size_t bytes;

	if (!b->open || !b->tensors.at[b->tensors.n - 1].nchunks)
		return sf_fail(err, -EBADMSG, "%s: a layout without a chunk", b->ckpt->source);
	t = open_tensor(b);
	if (stride && !span_fits(&t, t.nchunks - 1, stride, &dim))
		return sf_fail(err, -EBADMSG,
		               "%s: tensor '%.*s': chunk %u: stride %lld of dimension %u, which "
		               "has %llu",
		               b->ckpt->source, (int)SF_MIN(b->keys.at[t.key].len, 200u),
		               b->keys.at[t.key].name, t.nchunks - 1, (long long)stride[dim], dim,
		               (unsigned long long)sf_chunk_extent(&t, t.nchunks - 1, dim));
	if (fill_layouts(b, t.nchunks) < 0)
		return sf_builder_no_memory(err, b);
	last = (struct sf_chunk_layout *)b->layout.at + (t.nchunks - 1);
	bytes = t.ndim * sizeof(*stride);
	if (stride && t.ndim) { /* chunks of one tensor mostly lie alike */
		if (t.nchunks > 1 && last[-1].stride &&
		    memcmp(last[-1].stride, stride, bytes) == 0) {
			l.stride = last[-1].stride;
		} else {
			int64_t *own = sf_arena_alloc(&b->ckpt->arena, bytes);
			if (!own)
				return sf_builder_no_memory(err, b);
			memcpy(own, stride, bytes);
			l.stride = own;
		}
	}
	*last = l;
	return 0;
}

static int fill_items(struct sf_ckpt_builder *b, uint32_t n)
{
	if (column_reserve(&b->place, n * sizeof(uint32_t)) < 0 ||
	    column_reserve(&b->off, n * sizeof(uint64_t)) < 0 ||
	    column_reserve(&b->len, n * sizeof(uint64_t)) < 0)
		return -1;
	for (; b->nitems < n; b->nitems++) {
		((uint32_t *)b->place.at)[b->nitems] = SF_NONE;
		((uint64_t *)b->off.at)[b->nitems] = 0;
		((uint64_t *)b->len.at)[b->nitems] = 0;
	}
	return 0;
}

/* @bytes of the arena: the first @have copied from @from, the rest @fill. */
static void *keep_column(struct sf_ckpt_builder *b, const struct sf_column *from, size_t have,
                         size_t bytes, int fill)
{
	char *p = sf_arena_alloc(&b->ckpt->arena, bytes);

	if (p && have)
		memcpy(p, from->at, have);
	if (p)
		memset(p + have, fill, bytes - have);
	return p;
}

static bool parts_are_whole(const struct sf_tensor *t, const uint64_t *part)
{
	for (uint32_t i = 0; i < t->nchunks; i++)
		if (part[2 * (size_t)i] != 0 || part[2 * (size_t)i + 1] != sf_chunk_volume(t, i))
			return false;
	return true;
}

/* tensors.at[@tensor].more, made when there is none; NULL: no memory. */
static struct sf_tensor_more *more_of(struct sf_ckpt_builder *b, uint32_t tensor)
{
	struct sf_tensor *t = &b->tensors.at[tensor];

	assert(tensor < b->tensors.n);
	if (!t->more)
		t->more = sf_arena_calloc(&b->ckpt->arena, 1, sizeof(*t->more));
	return (struct sf_tensor_more *)t->more;
}

int sf_builder_close(struct sf_ckpt_builder *b, struct sf_error *err)
{
	struct sf_tensor *t;
	uint32_t *order;
	size_t n;

	if (!b->open)
		return 0;
	b->open = false;
	t = &b->tensors.at[b->tensors.n - 1];
	n = t->nchunks;
	t->origin = keep_column(b, &b->origin, n * b->row, n * b->row, 0);
	t->extent = keep_column(b, &b->extent, n * b->row, n * b->row, 0);
	t->place =
		keep_column(b, &b->place, b->nitems * sizeof(uint32_t), n * sizeof(uint32_t), 0xff);
	t->off = keep_column(b, &b->off, b->nitems * sizeof(uint64_t), n * sizeof(uint64_t), 0);
	t->len = keep_column(b, &b->len, b->nitems * sizeof(uint64_t), n * sizeof(uint64_t), 0);
	order = sf_arena_alloc(&b->ckpt->arena, n * sizeof(*order));
	if (!t->origin || !t->extent || !t->place || !t->off || !t->len || !order)
		goto no_memory;
	if (b->nparts) {
		b->open = true; /* for fill_parts */
		int r = fill_parts(b, t->nchunks);
		b->open = false;
		if (r < 0)
			goto no_memory;
		if (!parts_are_whole(t, (uint64_t *)b->part.at)) {
			t->part = keep_column(b, &b->part, n * 2 * sizeof(uint64_t),
			                      n * 2 * sizeof(uint64_t), 0);
			if (!t->part)
				goto no_memory;
		}
	}
	if (b->nlayouts) {
		struct sf_tensor_more *more = more_of(b, (uint32_t)(b->tensors.n - 1));
		if (!more || fill_layouts(b, t->nchunks) < 0)
			goto no_memory;
		more->layout = keep_column(b, &b->layout, n * sizeof(struct sf_chunk_layout),
		                           n * sizeof(struct sf_chunk_layout), 0);
		if (!more->layout)
			goto no_memory;
	}
	if (sf_order_build(t, &b->scratch, order, &t->norder) < 0)
		goto no_memory;
	t->order = order;
	b->ckpt->nchunks += n;
	return 0;
no_memory:
	t->nchunks = t->norder = 0; /* columns may be missing; the load has failed */
	return b->failed = sf_builder_no_memory(err, b);
}

int sf_ckpt_builder_fill(struct sf_ckpt_builder *b, uint32_t tensor, const void *element,
                         struct sf_error *err)
{
	struct sf_tensor_more *more = more_of(b, tensor);

	if (!more)
		return sf_builder_no_memory(err, b);
	more->has_fill = true;
	memcpy(more->fill, element, sf_dtype_info(b->tensors.at[tensor].dtype)->bytes);
	return 0;
}

int sf_ckpt_builder_grid(struct sf_ckpt_builder *b, uint32_t tensor, const uint64_t *grid,
                         struct sf_error *err)
{
	struct sf_tensor_more *more = more_of(b, tensor);
	const unsigned ndim = b->tensors.at[tensor].ndim;
	uint64_t *copy = sf_arena_calloc(&b->ckpt->arena, ndim + 1, sizeof(*copy));

	if (!more || !copy)
		return sf_builder_no_memory(err, b);
	memcpy(copy, grid, ndim * sizeof(*copy));
	more->grid = copy;
	return 0;
}

int sf_ckpt_builder_cast(struct sf_ckpt_builder *b, uint32_t tensor, uint32_t of,
                         struct sf_error *err)
{
	const struct sf_tensor *t, *u;
	struct sf_tensor_more *more;
	int r = sf_builder_close(b, err);

	if (r < 0)
		return r;
	if (tensor >= b->tensors.n || of >= b->tensors.n)
		return sf_fail(err, -EBADMSG, "tensor %u cast from tensor %u of %zu", tensor, of,
		               b->tensors.n);
	t = &b->tensors.at[tensor];
	u = &b->tensors.at[of];
	if (t->nchunks || t->ndim != u->ndim || (u->more && u->more->is_cast) ||
	    memcmp(t->shape, u->shape, t->ndim * sizeof(*t->shape)) != 0 ||
	    !sf_dtype_info((enum sf_dtype)t->dtype)->is_float ||
	    !sf_dtype_info((enum sf_dtype)u->dtype)->is_float)
		return sf_fail(err, -EBADMSG, "tensor '%.200s' cannot be '%.200s' in another dtype",
		               b->keys.at[t->key].name, b->keys.at[u->key].name);
	more = more_of(b, tensor);
	if (!more)
		return sf_builder_no_memory(err, b);
	more->is_cast = true;
	more->stored_dtype = u->dtype;
	more->source = of;
	return 0;
}

int sf_ckpt_builder_stored_name(struct sf_ckpt_builder *b, uint32_t tensor, const char *name,
                                size_t len, struct sf_error *err)
{
	struct sf_tensor_more *more = more_of(b, tensor);
	const struct sf_key *k = &b->keys.at[b->tensors.at[tensor].key];

	if (!more)
		return sf_builder_no_memory(err, b);
	/* mostly the key without what was put in front of it */
	if (len <= k->len && memcmp(k->name + k->len - len, name, len) == 0)
		more->name = k->name + k->len - len;
	else
		more->name = sf_arena_strdup(&b->ckpt->arena, name, len);
	more->name_len = (uint32_t)len;
	return more->name ? 0 : sf_builder_no_memory(err, b);
}

void sf_ckpt_builder_set_item(struct sf_ckpt_builder *b, uint32_t tensor, uint32_t chunk,
                              uint32_t place, uint64_t off, uint64_t len)
{
	const struct sf_tensor *t = &b->tensors.at[tensor];
	uint32_t *places = (uint32_t *)t->place;
	uint64_t *offs = (uint64_t *)t->off, *lens = (uint64_t *)t->len;

	assert(tensor < b->tensors.n && chunk < t->nchunks && place < b->places.n);
	if (b->open && tensor == b->tensors.n - 1) {
		if (fill_items(b, chunk + 1) < 0) {
			b->failed = -ENOMEM;
			return;
		}
		places = (uint32_t *)b->place.at;
		offs = (uint64_t *)b->off.at;
		lens = (uint64_t *)b->len.at;
	}
	if (places[chunk] != SF_NONE)
		return; /* a replica */
	places[chunk] = place;
	offs[chunk] = off;
	lens[chunk] = len;
}
