/* The parts of a store that is a bucket: store_s3.c opens it and lists, s3_call.c asks. */
#ifndef SF_STORE_S3_STORE_H
#define SF_STORE_S3_STORE_H

#include <pthread.h>

#include "store/aws_credentials.h"
#include "store/bucket_store.h"
#include "store/probe.h"
#include "store/s3_place.h"
#include "store/s3_sign.h"
#include "store/upload.h"

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
extern const struct sf_put_ops sf_s3_put_ops; /* s3_put.c */

/* What sf_store_probe() says of it. */
bool sf_s3_probe(struct sf_store *store, const struct sf_probe *to);

/* A request. Its strings are the caller's until it is answered. */
struct sf_s3_what {
	const char *method, *key,
		*query; /* key NULL: the bucket; query as sf_s3_query() makes it */
	const char *const
		*headers; /* further lines, which are signed; ends with NULL; NULL: none */
	const void *body;
	size_t body_len;
	const char *const *want; /* headers to keep of the answer, behind SF_S3_WANT of ours */
	uint64_t limit;          /* of the answer's body */
	unsigned timeout_ms; /* it may take as long where the io's deadline is sooner; 0: that */
	/* statuses beside 2xx that the caller understands, ends with 0; NULL: none */
	const unsigned *also;
	const _Atomic bool *stop; /* true: -ECANCELED soon; NULL: the io's */
};
#define SF_S3_WANT 2 /* answer.kept[SF_S3_WANT] is the first of want */

/* It, signed. @payload: the body's hash (sf_s3_sign). -EAGAIN (no message): it would have to wait for
 * credentials, and @may_wait is false. Any thread. */
int sf_s3_call(struct sf_s3_store *s, const struct sf_s3_what *what, const char *payload,
               bool may_wait, struct sf_remote_call *ret, struct sf_error *err);

/*
 * sf_s3_do - asked until it is answered for good, each try signed anew: in the bucket's own region, by the
 * server's clock, with credentials that have not expired.
 *
 * 0: status 200, of PUT, POST and DELETE 2xx, or one of @what->also; the answer is the caller's. Errors, threads: as sf_s3_ask.
 */
int sf_s3_do(struct sf_s3_store *s, const struct sf_s3_what *what, struct sf_http_answer *ret,
             struct sf_error *err);

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
