/* ListObjectsV2 of S3: the query, the pages that answer it, and the documents that tell of errors.
 * Pure. */
#ifndef SF_STORE_S3_LIST_H
#define SF_STORE_S3_LIST_H

#include <stdbool.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/error.h"
#include "store/bucket_list.h"

/* Appends the query, coded and sorted as it is signed. */
void sf_s3_pager_query(const struct sf_bucket_pager *p, struct sf_buf *to);

/*
 * sf_s3_pager_take - one page: a document with status 200.
 *
 * It is scanned to its end before @each sees anything of it; a negative result of @each ends it.
 *
 * Returns: 1 there is another page, 0 that was the last, or an error.
 * Errors:  -EBADMSG no such document, a number that is none, a key outside the prefix, of other
 *          length or with a NUL, a page without the token of the next, a token or a page that was
 *          there before, one that has not as many keys as it says, or that answers another request. -EIO: it is an error document, code and message told. -E2BIG: more than
 *          SF_BUCKET_PAGES_MAX pages.
 */
int sf_s3_pager_take(struct sf_bucket_pager *p, const char *doc, size_t len, sf_bucket_each *each,
                     void *arg, struct sf_error *err);

/* What an error document says. Strings are cut and have no control characters: they may be shown. */
struct sf_s3_error {
	char code[64]; /* "NoSuchKey" */
	char message[256];
	char region[64]; /* where the bucket is, if that was the error; may be "" like the rest */
	char request_id[64];
	int64_t server_time; /* seconds since 1970, of RequestTimeTooSkewed; 0: not told */
};
/* true: @doc is an error document. Anything else (HTML, nothing, damage) is false, @ret all "". */
bool sf_s3_error_parse(const char *doc, size_t len, struct sf_s3_error *ret);

/* "2009-10-12T17:50:30.000Z", or with "+01:00", in ns since 1970. False: not that. */
bool sf_s3_time(const char *text, int64_t *ret_ns);

#endif
