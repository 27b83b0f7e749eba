/* A plan that is made again: of objects their lengths and hashes, of tensors nothing. */
#include "config.h"

#include <stdlib.h>

#include "base/mem.h"
#include "save/save_plan.h"

#define OBJECT_BYTES 16 /* u64 stored length, u64 hash; little-endian */

int sf_save_plan_encode_again(const struct sf_save_items *items, struct sf_buf *ret,
                              struct sf_error *err)
{
	int r;

	for (size_t i = 0; i < items->item.n; i++) {
		const struct sf_save_item *item = &items->item.at[i];
		uint8_t b[OBJECT_BYTES];
		if (item->kind != SF_SAVE_OBJECT)
			continue;
		sf_put_le64(b, item->stored);
		sf_put_le64(b + 8, item->hash);
		sf_buf_add(ret, b, sizeof(b));
	}
	r = sf_buf_check(ret);
	return r < 0 ? sf_fail(err, r, "no memory for the plan of %zu items", items->item.n) : 0;
}

struct first {         /* that had the object of a key */
	uint32_t rank; /* + 1; 0: none */
	uint64_t hash;
};

static int object_again(struct sf_global_plan *g, struct first *first, uint32_t rank, uint32_t key,
                        const uint8_t *at, bool *moved, struct sf_error *err)
{
	const struct sf_global_key *k = &g->key[key];
	uint64_t stored = sf_le64(at), hash = sf_le64(at + 8);
	struct first *f = &first[key];

	if (f->rank && f->hash != hash)
		return sf_fail(err, -EINVAL,
		               "object '%.200s': rank %u has another value than rank %u", k->key,
		               rank, f->rank - 1);
	if (!f->rank)
		*f = (struct first){ rank + 1, hash };
	if (stored >> 62)
		return sf_fail(err, -EBADMSG, "rank %u: object '%.200s' of %llu bytes", rank,
		               k->key, (unsigned long long)stored);
	if (g->rank[k->first] == rank && g->len[k->first] != stored) {
		g->len[k->first] = stored;
		*moved = true;
	}
	return 0;
}

int sf_save_plan_again(struct sf_global_plan *g, const struct sf_save_record *record,
                       uint32_t nranks, bool *ret_moved, struct sf_error *err)
{
	SF_FREE struct first *first = calloc(g->nkeys ? g->nkeys : 1, sizeof(*first));
	int r = 0;

	if (!first)
		return sf_fail(err, -ENOMEM, "no memory for the plan of %u ranks", nranks);
	if (nranks != g->nranks)
		return sf_fail(err, -EINVAL, "a plan of %u ranks for %u", g->nranks, nranks);
	*ret_moved = false;
	for (uint32_t rank = 0; rank < nranks; rank++) {
		const struct sf_global_objects *o = &g->objects[g->objects_of[rank]];
		if (record[rank].len != (size_t)o->n * OBJECT_BYTES)
			return sf_fail(err, -EBADMSG,
			               "rank %u: its plan is malformed: %zu bytes for %u objects",
			               rank, record[rank].len, o->n);
		for (uint32_t i = 0; i < o->n && r >= 0; i++)
			r = object_again(g, first, rank, o->key[i],
			                 (const uint8_t *)record[rank].at +
			                         (size_t)i * OBJECT_BYTES,
			                 ret_moved, err);
		if (r < 0)
			return r;
	}
	return 0;
}
