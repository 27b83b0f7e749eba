/* A store in S3, or in what speaks its language: s3://bucket/prefix. */
#ifndef SF_STORE_STORE_S3_H
#define SF_STORE_STORE_S3_H

#include "store/store.h"

/*
 * sf_store_s3 - what lies below a prefix of a bucket. Endpoint, region, credentials: the options,
 * else what an AWS user has set up (aws_setup.h, aws_credentials.h). Nothing is asked yet.
 *
 * An object is read in the version (ETag) that the listing, or a HEAD, gave: another one is -ESTALE.
 * -EINVAL: the URL, the endpoint or the bucket's name; -ENOTSUP: what s3_place.h says, or no libcurl.
 */
int sf_store_s3(struct sf_io *io, const char *source, const struct sf_store_options *opt,
                struct sf_store **ret, struct sf_error *err);

/* The same with variables (AWS_ACCESS_KEY_ID ...) that @get tells (malloc'ed, NULL: not set), not the
 * environment, and no user's files. For others that speak S3's language. NULL: sf_store_s3(). */
typedef char *sf_s3_get_variable(void *arg, const char *name);
int sf_store_s3_by(struct sf_io *io, const char *source, const struct sf_store_options *opt,
                   sf_s3_get_variable *get, struct sf_store **ret, struct sf_error *err);

#endif
