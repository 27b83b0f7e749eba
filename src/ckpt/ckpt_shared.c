#include "config.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "ckpt/builder_priv.h"

/* Where a tensor's first item lies. */
struct first {
	uint64_t off;
	uint32_t place, tensor;
};

static int compare(const void *pa, const void *pb)
{
	const struct first *a = pa, *b = pb;

	if (a->place != b->place)
		return a->place < b->place ? -1 : 1;
	if (a->off != b->off)
		return a->off < b->off ? -1 : 1;
	return (a->tensor > b->tensor) - (a->tensor < b->tensor);
}

/* Of one chunk, as a tensor is that several names were given; a blob is many tensors', and what is
 * empty may lie anywhere. */
static bool first_of(const struct sf_ckpt_builder *b, uint32_t tensor, struct first *ret)
{
	const struct sf_tensor *t = &b->tensors.at[tensor];
	struct sf_chunk c;

	if (!t->nchunks || !t->bytes || (tensor < b->tied.n && b->tied.at[tensor] != tensor))
		return false; /* the last: it is meant to be one */
	sf_tensor_chunk(t, 0, &c);
	*ret = (struct first){ c.off, c.place, tensor };
	return c.place != SF_NONE && c.len && b->places.at[c.place].form != SF_ITEM_ST_BLOB;
}

int sf_builder_note_shared(struct sf_ckpt_builder *b)
{
	SF_FREE struct first *at = sf_alloc_array(b->tensors.n, sizeof(*at));
	const struct sf_key *key = NULL;
	uint32_t n = 0, again = 0;
	uint64_t bytes = 0;

	if (!at)
		return -ENOMEM;
	for (uint32_t i = 0; i < b->tensors.n; i++)
		n += first_of(b, i, &at[n]);
	qsort(at, n, sizeof(*at), compare);
	for (uint32_t i = 1; i < n; i++) {
		const struct sf_tensor *t = &b->tensors.at[at[i].tensor];
		if (at[i - 1].place != at[i].place || at[i - 1].off != at[i].off)
			continue;
		again++;
		key = key ? key : &b->keys.at[t->key];
		if (!sf_add(bytes, t->bytes, &bytes))
			bytes = UINT64_MAX;
	}
	return !again ? 0
	              : sf_ckpt_builder_warn(b, NULL, "shared-item",
	                                     "%" PRIu32 " %s stored bytes that another tensor has "
	                                     "too, the first is '%.200s': an export writes them "
	                                     "again, %" PRIu64 " bytes more than are stored",
	                                     again, again == 1 ? "tensor has" : "tensors have",
	                                     key->name, bytes);
}
