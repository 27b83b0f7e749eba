/* A store that is a prefix of a bucket: what those of S3 and of Google share. */
#ifndef SF_STORE_BUCKET_STORE_H
#define SF_STORE_BUCKET_STORE_H

#include "store/bucket_dirs.h"
#include "store/cloud_env.h"
#include "store/remote.h"
#include "store/url.h"

struct sf_bucket_store;
/* How it is asked. All of them wait: any thread but the transport's. */
struct sf_bucket_kind {
	/* Of a page, its query; the request, which is answered with 200; what that says. */
	void (*query)(const struct sf_bucket_pager *p, struct sf_buf *to);
	int (*ask)(struct sf_bucket_store *b, const char *query, struct sf_http_answer *ret,
	           struct sf_error *err);
	int (*take)(struct sf_bucket_pager *p, const char *doc, size_t len, sf_bucket_each *each,
	            void *arg, struct sf_error *err);
	/* The object as it is now: size and version; *ret_etag, which is that of the version, is
	 * malloc'ed, NULL: it has none. */
	int (*see)(struct sf_bucket_store *b, const char *key, struct sf_objinfo *ret,
	           char **ret_etag, struct sf_error *err);
};

/* The beginning of their own structs. */
struct sf_bucket_store {
	struct sf_remote_store r;
	const struct sf_bucket_kind *kind;
	const struct sf_bucket_ops *pages; /* for those who list */
	char *prefix;                      /* of its keys: "" or with '/' at its end */
	char *home;
	struct sf_cloud_env env;
};

/* Fills what is here, for @u. -ENOTSUP: no libcurl; -ENOMEM. Failed or not, it is to be released. */
int sf_bucket_store_init(struct sf_bucket_store *b, const struct sf_bucket_kind *kind,
                         const struct sf_store_ops *ops, const struct sf_remote_ops *remote,
                         struct sf_io *io, const struct sf_url *u, struct sf_error *err);
void sf_bucket_store_release(struct sf_bucket_store *b);
/* The key of an object, malloc'ed; NULL: no memory. */
char *sf_bucket_key(const struct sf_bucket_store *b, const char *name);

/* What sf_store_ops.open and .list are of it. */
int sf_bucket_open(struct sf_store *s, const char *name, const struct sf_objinfo *want,
                   struct sf_source **ret, struct sf_error *err);
int sf_bucket_store_list(struct sf_store *s, const char *dir, unsigned depth,
                         int (*each)(void *arg, const struct sf_objinfo *info), void *arg,
                         struct sf_error *err);

#endif
