/* Stores and sources for tests: bytes in memory, and requests that fail or are late on request. */
#ifndef SF_TESTS_LIB_TEST_STORES_H
#define SF_TESTS_LIB_TEST_STORES_H

#include <errno.h>

#include "store/source.h"
#include "store/store.h"

/* Sources around a source, which is referenced. */
struct sf_fault { /* the n-th request (from 0) of kind try or submit fails with code; n < 0 never */
	int64_t fail_at;
	int code;
	bool short_read;
	bool busy;           /* try says -EAGAIN, submit is not delayed for it */
	unsigned busy_every; /* not 0: every so many-th try says -EAGAIN */
	unsigned delay_ms;   /* submit completes that much later; try says -EAGAIN */
	_Atomic int64_t seen;
};
int sf_source_fault(struct sf_source *src, struct sf_fault *plan, struct sf_source **ret,
                    struct sf_error *err);
/* A store whose sources all go through @plan; takes over @s. For tests. */
int sf_store_fault(struct sf_store *s, struct sf_fault *plan, struct sf_store **ret,
                   struct sf_error *err);
/* What goes through a source, or through all of a store's: a filter as small as they come. */
struct sf_stats {
	_Atomic uint64_t requests, bytes, failed; /* that were answered: tried or submitted */
};
int sf_source_stats(struct sf_source *src, struct sf_stats *stats, struct sf_source **ret,
                    struct sf_error *err);
int sf_store_stats(struct sf_store *s, struct sf_stats *stats, struct sf_store **ret,
                   struct sf_error *err);
/* A store of byte strings in memory, for tests: names and bytes borrowed. */
struct sf_mem_object {
	const char *name;
	const void *at;
	uint64_t len;
};
int sf_store_mem(struct sf_io *io, const struct sf_mem_object *objects, size_t n,
                 struct sf_store **ret, struct sf_error *err);

/* 1 it is there as a plain file, 0 not, negative an error */
static inline int store_exists(struct sf_store *s, const char *name)
{
	struct sf_source *src;
	int r = s->ops->open(s, name, NULL, &src, NULL);

	if (r >= 0)
		sf_source_unref(src);
	return r >= 0 ? 1 : r == -ENOENT || r == -ENOTDIR || r == -EBADMSG ? 0 : r;
}

#endif
