/* Directories in a bucket, which has none: what lies below a prefix, level by level. */
#ifndef SF_STORE_BUCKET_DIRS_H
#define SF_STORE_BUCKET_DIRS_H

#include "store/bucket_list.h"
#include "store/store.h"

/* A store that is a bucket, as far as it is listed. */
struct sf_bucket_ops {
	/* Asks for one page and takes it: as sf_s3_pager_take() says. */
	int (*page)(struct sf_store *s, struct sf_bucket_pager *p, sf_bucket_each *each, void *arg,
	            struct sf_error *err);
	/* Is there an object of this name? False also where that cannot be told. */
	bool (*has)(struct sf_store *s, const char *key);
};

/*
 * sf_bucket_list - what sf_store_ops.list is for a bucket; @prefix is that of the store's keys, "" or
 * with '/' at its end.
 *
 * A listing by delimiter for each directory that is looked into, or, from eight of them on, one of all
 * keys. Keys that are no path, as folder marks are, are left out.
 */
int sf_bucket_list(struct sf_store *s, const struct sf_bucket_ops *ops, const char *prefix,
                   const char *dir, unsigned depth,
                   int (*each)(void *arg, const struct sf_objinfo *info), void *arg,
                   struct sf_error *err);

#endif
