/* Where a bucket is asked: endpoint and way of addressing. Pure: any thread, once it is made. */
#ifndef SF_STORE_S3_PLACE_H
#define SF_STORE_S3_PLACE_H

#include <stdbool.h>
#include "base/buf.h"
#include "base/error.h"

struct sf_s3_place {
	char *bucket;
	char *host,
		*path; /* of an endpoint that was given: "host:9000", "" or "/x"; NULL: Amazon's */
	bool https;
	bool by_path; /* /bucket/key, else the bucket is the host's first part */
};

/*
 * sf_s3_place_init - for a bucket; @endpoint "" is Amazon's own; @addressing "path", "virtual", NULL
 * or "auto": by path where an endpoint is given, or where the bucket makes no host's name that a
 * certificate is for.
 *
 * -EINVAL: no such bucket, endpoint (http or https, a host, no userinfo, query) or addressing;
 * -ENOTSUP: a directory bucket (S3 Express), an access point's ARN; -ENOMEM.
 */
int sf_s3_place_init(struct sf_s3_place *p, const char *bucket, const char *endpoint,
                     const char *addressing, struct sf_error *err);
void sf_s3_place_release(struct sf_s3_place *p);

/* What a request is sent to and signed for: @host as the transport sends it, @path coded, @url both
 * and @query, if it is not "". @key NULL: the bucket itself. Appended; -ENOMEM or -E2BIG of any of the
 * three sticks in @url. */
void sf_s3_place_request(const struct sf_s3_place *p, const char *region, const char *key,
                         const char *query, struct sf_buf *host, struct sf_buf *path,
                         struct sf_buf *url);

#endif
