/* Which entries a KEY means, for whoever has many KEYs. */
#ifndef SF_CATALOG_KEY_INDEX_H
#define SF_CATALOG_KEY_INDEX_H

#include "catalog/catalog.h"

/* The entries sorted so that a key and everything below it lie together. */
struct sf_key_index {
	const struct sf_catalog *c;
	uint32_t *at;
};

int sf_key_index_init(struct sf_key_index *ix,
                      const struct sf_catalog *c); /* -ENOMEM. O(n log n) */
void sf_key_index_release(struct sf_key_index *ix);

/*
 * sf_key_index_match - what sf_key_match says of every entry: those it takes, in stored order.
 *
 * @ret: room for c->n. Returns how many. Cost: O(log n + matches log matches); of a glob O(n).
 */
uint32_t sf_key_index_match(const struct sf_key_index *ix, const char *key, uint32_t *ret);

#endif
