/* The parts of a store that is a bucket of Google's: store_gs.c opens it and lists, gs_call.c asks. */
#ifndef SF_STORE_GS_STORE_H
#define SF_STORE_GS_STORE_H

#include <pthread.h>

#include "store/bucket_store.h"
#include "store/gs_credentials.h"
#include "store/gs_place.h"
#include "store/probe.h"
#include "store/upload.h"

struct sf_gs_store {
	struct sf_bucket_store b;
	struct sf_gs_place place;
	char *project; /* that pays for requests; NULL: the credentials', or the bucket's */
	bool emulated; /* the endpoint is STORAGE_EMULATOR_HOST */
	struct sf_gs_provider *provider; /* NULL: nobody in particular asks */
	struct {
		pthread_mutex_t m;
		int64_t renewed; /* when a server last did not know a token */
		char from[400];  /* of the last token; "": there was none */
		/* of the last refusal: its status, 0: none since a small request was answered; and
		 * its reason, "": none */
		unsigned status;
		char said[64];
		int64_t skew_s; /* the server's clock minus ours, as its last answer had it */
	} locked;
};

extern const struct sf_remote_ops sf_gs_remote_ops;
extern const struct sf_put_ops sf_gs_put_ops; /* gs_put_parts.c */

/* What sf_store_probe() says of it. */
bool sf_gs_probe(struct sf_store *store, const struct sf_probe *to);

/* A request. Its strings are the caller's until it is answered. */
struct sf_gs_what {
	const char *method, *key, *query; /* key NULL: the bucket's objects; query coded */
	const char *verb;                 /* "/compose": what is done to it; NULL: nothing more */
	bool upload;                      /* an object that comes with it; key is NULL */
	bool writes;                      /* with a token for that */
	const char *type;                 /* Content-Type of the body; NULL: it has none */
	const void *body;
	size_t body_len;
	uint64_t limit;      /* bytes of the answer's body */
	unsigned timeout_ms; /* it may take as long where the io's deadline is sooner; 0: that */
	const unsigned *
		also; /* statuses beside 2xx that the caller understands, ends with 0; NULL: none */
	const _Atomic bool *stop; /* true: -ECANCELED soon; NULL: the io's */
};
/*
 * sf_gs_do - asked until it is answered for good, each try with a token that is good then.
 *
 * 0: status 200, where something is written 2xx, or one of @what->also; the answer is the caller's. Errors, threads: as sf_gs_ask.
 */
int sf_gs_do(struct sf_gs_store *s, const struct sf_gs_what *what, struct sf_http_answer *ret,
             struct sf_error *err);

/*
 * sf_gs_ask - a small request for @key (NULL: the bucket's listing), asked until it is answered for
 * good.
 *
 * 0: status 200, the answer is the caller's.
 * Errors:  -ENOENT no such object or bucket, -EACCES, -EIO with what the server says; the transport's.
 * Threads: any but the transport's.
 */
int sf_gs_ask(struct sf_gs_store *s, const char *key, const char *query, uint64_t limit,
              struct sf_http_answer *ret, struct sf_error *err);
/* The bucket's listing, asked for once and without credentials: 0 there was an answer, whatever its
 * status. */
int sf_gs_ask_nobody(struct sf_gs_store *s, struct sf_http_answer *ret, struct sf_error *err);

#endif
