/* A store in Google Cloud Storage: gs://bucket/prefix. */
#ifndef SF_STORE_STORE_GS_H
#define SF_STORE_STORE_GS_H

#include "store/store.h"

/*
 * sf_store_gs - what lies below a prefix of a bucket. Endpoint: the option, else
 * STORAGE_EMULATOR_HOST, else Google's. Credentials: gs_credentials.h; with GS_ACCESS_KEY_ID, a key of
 * HMAC, it is a store of S3 (store_s3.h) at Google's. Nothing is asked yet.
 *
 * An object is read in the generation that the listing, or its description, gave: when that is gone,
 * it is -ESTALE.
 * -EINVAL: the URL, the endpoint or the bucket's name; -ENOTSUP: no libcurl.
 */
int sf_store_gs(struct sf_io *io, const char *source, const struct sf_store_options *opt,
                struct sf_store **ret, struct sf_error *err);

#endif
