/* Listings of buckets, whoever keeps them: what is told of a key, and pages that follow each other.
 * Pure. */
#ifndef SF_STORE_BUCKET_LIST_H
#define SF_STORE_BUCKET_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

#define SF_BUCKET_KEY_MAX 1024     /* bytes: the limit of S3, and of GCS */
#define SF_BUCKET_PAGES_MAX 100000 /* of a listing: 10^8 keys */
#define SF_BUCKET_PAGE_MAX \
	((size_t)16 << 20) /* bytes of a page: 1000 keys, coded, are 4 MB at most */

/* One thing that is listed. Lives as long as the callback. */
struct sf_bucket_entry {
	const char *key; /* decoded; NUL-ended, and no NUL in it */
	size_t key_len;
	bool is_prefix;   /* a common prefix, which ends in the delimiter: nothing below is set */
	uint64_t size;    /* bytes */
	const char *etag; /* of S3 with its quotes, of GCS the generation; NULL: none was sent */
	int64_t mtime_ns; /* since 1970; 0: none was sent */
};
typedef int sf_bucket_each(void *arg, const struct sf_bucket_entry *e);

/*
 * A listing page by page: the query for each (s3_list.h, gs_list.h), ask, take the answer, until that
 * says that it was the last. What is held is a hash of each page's token and first key (16 bytes for
 * 1000 keys), to tell when a server goes in a circle.
 */
struct sf_bucket_pager {
	const char *prefix;    /* borrowed; "": none */
	const char *delimiter; /* borrowed; NULL: none */
	unsigned max_keys;     /* of a page; 0: the provider's */

	char *token; /* of the next page; NULL: the first */
	uint64_t *seen;
	size_t nseen, seen_cap;
	unsigned pages;
	uint64_t entries; /* told so far */
	uint64_t entries_before;
	unsigned empty; /* pages in a row that had none */
	bool echoes;    /* a page has told by which token it was asked for */
};
void sf_bucket_pager_release(struct sf_bucket_pager *p);

/* ---- for those who read pages ---- */

/* Was there a page like this, by its token or the key of its first object (@what says which)?
 * -EBADMSG then. Not to be asked of a prefix, which some servers tell on each page that has a key
 * below it. */
int sf_bucket_pager_not_again(struct sf_bucket_pager *p, const char *what, const char *s,
                              struct sf_error *err);
/* A page tells by which token it was asked for: -EBADMSG where that was an earlier page's, or, of a
 * server that has told it right before, another than p->token. */
int sf_bucket_pager_asked(struct sf_bucket_pager *p, const char *token, struct sf_error *err);
/* A page is there, whose next has @token (NULL: it is the last): -E2BIG one too many, -EBADMSG as
 * above. p->token is the reader's to set. */
int sf_bucket_pager_turn(struct sf_bucket_pager *p, const char *token, struct sf_error *err);
/* Is that a key that was asked for? -EBADMSG: its length, a NUL, another prefix. */
int sf_bucket_pager_key(const struct sf_bucket_pager *p, const char *key, size_t len,
                        struct sf_error *err);

#endif
