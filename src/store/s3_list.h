/* ListObjectsV2 of S3: the query, the pages that answer it, and the documents that tell of errors.
 * Pure. */
#ifndef SF_STORE_S3_LIST_H
#define SF_STORE_S3_LIST_H

#include <stdbool.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/error.h"

#define SF_S3_KEY_MAX 1024                /* bytes: S3's own limit */
#define SF_S3_PAGES_MAX 100000            /* of a listing: 10^8 keys */
#define SF_S3_PAGE_MAX ((size_t)16 << 20) /* bytes of a page: 1000 keys, coded, are 4 MB at most */

/* One thing that is listed. Lives as long as the callback. */
struct sf_s3_entry {
	const char *key; /* decoded; NUL-ended, and no NUL in it */
	size_t key_len;
	bool is_prefix;   /* a common prefix, which ends in the delimiter: nothing below is set */
	uint64_t size;    /* bytes */
	const char *etag; /* with its quotes; NULL: none was sent */
	int64_t mtime_ns; /* since 1970; 0: none was sent */
};

/*
 * A listing page by page: sf_s3_pager_query() for each, ask, sf_s3_pager_take(), until that says
 * that it was the last. What is held is a hash of each page's token and first key (16 bytes for
 * 1000 keys), to tell when a server goes in a circle.
 */
struct sf_s3_pager {
	const char *prefix;    /* borrowed; "": none */
	const char *delimiter; /* borrowed; NULL: none */
	unsigned max_keys;     /* of a page; 0: the server's */

	char *token; /* of the next page; NULL: the first */
	uint64_t *seen;
	size_t nseen, seen_cap;
	unsigned pages;
	uint64_t entries; /* told so far */
};
void sf_s3_pager_release(struct sf_s3_pager *p);

/* Appends the query, coded and sorted as it is signed. */
void sf_s3_pager_query(const struct sf_s3_pager *p, struct sf_buf *to);

/*
 * sf_s3_pager_take - one page: a document with status 200.
 *
 * It is scanned to its end before @each sees anything of it; a negative result of @each ends it.
 *
 * Returns: 1 there is another page, 0 that was the last, or an error.
 * Errors:  -EBADMSG no such document, a number that is none, a key outside the prefix, of other
 *          length or with a NUL, a page without the token of the next, a token or a page that was
 *          there before. -EIO: it is an error document, code and message told. -E2BIG: more than
 *          SF_S3_PAGES_MAX pages.
 */
int sf_s3_pager_take(struct sf_s3_pager *p, const char *doc, size_t len,
                     int (*each)(void *arg, const struct sf_s3_entry *e), void *arg,
                     struct sf_error *err);

/* What an error document says. Strings are cut and have no control characters: they may be shown. */
struct sf_s3_error {
	char code[64]; /* "NoSuchKey" */
	char message[256];
	char region[64]; /* where the bucket is, if that was the error; may be "" like the rest */
	char endpoint[128]; /* host that it wants to be asked at */
	char request_id[64];
	int64_t server_time; /* seconds since 1970, of RequestTimeTooSkewed; 0: not told */
};
/* true: @doc is an error document. Anything else (HTML, nothing, damage) is false, @ret all "". */
bool sf_s3_error_parse(const char *doc, size_t len, struct sf_s3_error *ret);

/* "2009-10-12T17:50:30.000Z", or with "+01:00", in ns since 1970. False: not that. */
bool sf_s3_time(const char *text, int64_t *ret_ns);

#endif
