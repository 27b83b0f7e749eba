#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "ckpt/builder_priv.h"

static const char *name_of(const struct sf_ckpt_builder *b, uint32_t tensor)
{
	return b->keys.at[b->tensors.at[tensor].key].name;
}

int sf_ckpt_builder_tie(struct sf_ckpt_builder *b, uint32_t tensor, uint32_t to,
                        struct sf_error *err)
{
	const struct sf_tensor *t, *u;

	if (tensor >= b->tensors.n || to >= tensor)
		return sf_fail(err, -EBADMSG, "tensor %" PRIu32 " of %zu tied to tensor %" PRIu32,
		               tensor, b->tensors.n, to);
	t = &b->tensors.at[tensor];
	u = &b->tensors.at[to];
	if (t->dtype != u->dtype || t->ndim != u->ndim ||
	    memcmp(t->shape, u->shape, t->ndim * sizeof(*t->shape)) != 0)
		return sf_fail(err, -EBADMSG,
		               "tensor '%.200s' is tied to '%.200s', which has another dtype or "
		               "shape",
		               name_of(b, tensor), name_of(b, to));
	if (sf_place_ids_reserve(&b->tied, b->tensors.n) < 0)
		return sf_builder_no_memory(err, b);
	for (; b->tied.n < b->tensors.n; b->tied.n++)
		b->tied.at[b->tied.n] = (uint32_t)b->tied.n;
	b->tied.at[tensor] = b->tied.at[to];
	return 0;
}

uint32_t sf_ckpt_builder_storage(const struct sf_ckpt_builder *b, uint32_t tensor)
{
	return tensor < b->tied.n ? b->tied.at[tensor] : tensor;
}

/* The same items at the same places of the tensor, in the same order. */
static bool same_chunks(const struct sf_tensor *t, const struct sf_tensor *u)
{
	struct sf_chunk a, b;

	if (t->nchunks != u->nchunks)
		return false;
	for (uint32_t i = 0; i < t->nchunks; i++) {
		sf_tensor_chunk(t, i, &a);
		sf_tensor_chunk(u, i, &b);
		if (a.place != b.place || a.off != b.off || a.len != b.len ||
		    a.part_off != b.part_off || a.part_len != b.part_len ||
		    memcmp(a.origin, b.origin, t->ndim * sizeof(*a.origin)) != 0 ||
		    memcmp(a.extent, b.extent, t->ndim * sizeof(*a.extent)) != 0)
			return false;
	}
	return true;
}

int sf_builder_finish_ties(struct sf_ckpt_builder *b, struct sf_error *err)
{
	uint32_t *tied;

	if (!b->tied.n)
		return 0;
	tied = sf_arena_calloc(&b->ckpt->arena, b->tensors.n, sizeof(*tied));
	if (!tied)
		return sf_builder_no_memory(err, b);
	for (uint32_t i = 0; i < b->tensors.n; i++) {
		tied[i] = i < b->tied.n ? b->tied.at[i] : i;
		if (tied[i] != i && !same_chunks(&b->tensors.at[i], &b->tensors.at[tied[i]]))
			return sf_fail(err, -EBADMSG,
			               "tensor '%.200s' is tied to '%.200s', which lies elsewhere",
			               name_of(b, i), name_of(b, tied[i]));
	}
	b->ckpt->tied = tied;
	return 0;
}
