/* What somebody may have meant by a KEY that no key matches. */
#ifndef SF_CATALOG_KEY_NEAR_H
#define SF_CATALOG_KEY_NEAR_H

#include "base/buf.h"
#include "catalog/catalog.h"

/* Name @i of those looked through. */
typedef const char *sf_key_name(const void *arg, uint32_t i, size_t *ret_len);

/*
 * sf_key_hint - appends ": did you mean 'model.norm'?" or ": 3 keys end in 'layers.0': a, b, c", or
 * nothing.
 *
 * Looked at are the names and what they are below ("model.layers.0" of "model.layers.0.wq"), those
 * that end in @typed first, then the nearest by misspelling; of a glob the part before its first *
 * ? [. A path of the tree (state/…, npy/….npy) is its key. Names are cut to 200 bytes.
 * Cost: O(bytes of the names), 50 ms for 10^5 keys.
 */
void sf_key_hint(struct sf_buf *out, const char *typed, size_t len, sf_key_name *name,
                 const void *arg, uint32_t n);
/* "no key matches 'TYPED'" with such a hint among the shown names, or where they are listed.
 * Returns -ENOENT. */
int sf_catalog_no_key(const struct sf_catalog *c, const char *typed, size_t len,
                      struct sf_error *err);

#endif
