/* The JSON of Google Cloud Storage: listings and their pages, what an object is, what errors say. Pure. */
#ifndef SF_STORE_GS_LIST_H
#define SF_STORE_GS_LIST_H

#include <stdbool.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/error.h"
#include "store/bucket_list.h"

#define SF_GS_VALUES_MAX 200000 /* of a document: a page of 1000 objects has some 6000 */

/* Appends the query of the next page, coded. */
void sf_gs_pager_query(const struct sf_bucket_pager *p, struct sf_buf *to);

/*
 * sf_gs_pager_take - one page: a document with status 200.
 *
 * Returns: 1 there is another page, 0 that was the last, or an error; a negative result of @each ends
 *          it.
 * Errors:  -EBADMSG no such document, a number that is none, a key as sf_bucket_pager_key() says, a
 *          token or a page that was there before. -E2BIG: more than SF_GS_VALUES_MAX values, or
 *          SF_BUCKET_PAGES_MAX pages.
 */
int sf_gs_pager_take(struct sf_bucket_pager *p, const char *doc, size_t len, sf_bucket_each *each,
                     void *arg, struct sf_error *err);

struct sf_gs_object {
	uint64_t size;       /* bytes, as stored */
	char generation[24]; /* digits */
	int64_t mtime_ns;    /* since 1970; 0: not told */
};
#define SF_GS_OBJECT_QUERY "fields=size%2Cgeneration%2Cupdated"
/* The description of one object, with status 200. -EBADMSG. */
int sf_gs_object_parse(const char *doc, size_t len, struct sf_gs_object *ret, struct sf_error *err);

/* What a refusal says: GCS's JSON, that of OAuth, XML, or the first line of a text. Cut, and without
 * control characters: it may be shown. */
struct sf_gs_error {
	char reason[64]; /* "notFound", "invalid_grant"; "": not told */
	char message[256];
};
/* true: it is one of those documents; else reason is "", and message the text, if it is one. */
bool sf_gs_error_parse(const char *doc, size_t len, struct sf_gs_error *ret);

#endif
