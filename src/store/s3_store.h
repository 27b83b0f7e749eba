/* The parts of a store that is a bucket: store_s3.c opens it and lists, s3_call.c asks. */
#ifndef SF_STORE_S3_STORE_H
#define SF_STORE_S3_STORE_H

#include <pthread.h>

#include "store/aws_credentials.h"
#include "store/bucket_store.h"
#include "store/probe.h"
#include "store/s3_place.h"

/* Any thread: what is outside of locked stays as it was when the store was opened. */
struct sf_s3_store {
	struct sf_bucket_store b;
	struct sf_s3_place place;
	bool payer; /* whoever asks pays */
	struct sf_aws_provider *provider;
	struct sf_s3_keys *keys;
	struct {
		pthread_mutex_t m;
		char region[64];
		char said[64];    /* the code of the last refusal; "": it had none */
		bool guessed;     /* the region: nobody has named one yet */
		int64_t skew_s;   /* the server's clock minus ours */
		unsigned mends;   /* times that one of these two was found wrong */
		int64_t renewed;  /* when a server last said that credentials had expired */
		char key_id[130]; /* the last that was signed with, */
		char from[200];   /* and where it is from; "": nothing is signed */
	} locked;
};

extern const struct sf_remote_ops sf_s3_remote_ops;

/* What sf_store_probe() says of it. */
bool sf_s3_probe(struct sf_store *store, const struct sf_probe *to);

/* A request for @key (NULL: the bucket), signed. -EAGAIN (no message): it would have to wait for
 * credentials, and @may_wait is false. Any thread. */
int sf_s3_call(struct sf_s3_store *s, const char *method, const char *key, const char *query,
               bool may_wait, struct sf_remote_call *ret, struct sf_error *err);

/*
 * sf_s3_ask - a small request, asked until it is answered for good: in the bucket's own region, by
 * the server's clock, with credentials that have not expired.
 *
 * 0: status 200, the answer is the caller's. @want: headers to keep (sf_http_ask).
 * Errors:  -ENOENT no such key or bucket, -EACCES, -EIO with what the server says; the transport's.
 * Threads: any but the transport's: it waits.
 */
int sf_s3_ask(struct sf_s3_store *s, const char *method, const char *key, const char *query,
              const char *const *want, uint64_t limit, struct sf_http_answer *ret,
              struct sf_error *err);

#endif
