/* Writing objects to S3: the documents that are sent and answered. Pure. */
#ifndef SF_STORE_S3_PUT_H
#define SF_STORE_S3_PUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/error.h"

/* Appends the body of CompleteMultipartUpload: parts 1 to @n. */
void sf_s3_complete_body(struct sf_buf *to, const char *const *etag, uint32_t n);
/* What a document of root @root has as its element @name: malloc'ed. -EBADMSG: it is another document, or has no
 * such element, or one that is empty. */
int sf_s3_element(const char *doc, size_t len, const char *root, const char *name, char **ret,
                  struct sf_error *err);

/* A page of ListMultipartUploads. */
struct sf_s3_uploads {
	char *key_marker, *id_marker; /* of the next page: malloc'ed; NULL: that was the last */
};
/* -EBADMSG: it is none, or says that there is another page and not which. @each's negative result ends it. */
int sf_s3_uploads_take(const char *doc, size_t len, struct sf_s3_uploads *ret,
                       int (*each)(void *arg, const char *key, const char *id), void *arg,
                       struct sf_error *err);

#endif
