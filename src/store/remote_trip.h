/* A request for an object's bytes, through all of its tries. Private to remote.c and remote_wait.c. */
#ifndef SF_STORE_REMOTE_TRIP_H
#define SF_STORE_REMOTE_TRIP_H

#include <pthread.h>
#include "base/thread_pool.h"
#include "store/remote.h"

#define SF_REFUSAL_MAX 4096 /* bytes of a refusal's body that are looked at */

struct sf_remote {
	struct sf_source s;
	struct sf_remote_store *store;
	_Atomic bool changed; /* another version was seen: why has it, written before */
	struct {
		pthread_mutex_t m;
		struct sf_trip *first;
		struct sf_error why;
	} locked;
	char name[]; /* and the tag behind it */
};

struct sf_trip;
/* What remote.c does with one, for remote_wait.c: a table cuts a circle. Not under the source's lock. */
struct sf_trip_ops {
	void (*fly)(struct sf_trip *t);        /* a try; never waits */
	void (*end)(struct sf_trip *t, int r); /* with @r, and t->http.err if that is negative */
};

/* A request under way, through all of its tries. */
struct sf_trip {
	const struct sf_trip_ops *ops;
	struct sf_http_req http;
	struct sf_remote_call call;
	struct sf_remote *src;
	struct sf_io_req *req;
	struct sf_renew_wait wait; /* for what the call needs */
	int wait_r;                /* how that ended, http.err has why */
	struct sf_task task;       /* to go on then */
	struct sf_trip *prev, *next;
	bool flying, parked, waits, cancelled; /* under the source's lock */
	uint64_t done; /* bytes that are in their places: good, whatever comes */
	int at_iov;
	size_t at_byte; /* of that iovec */
	unsigned tries, mended, wrong;
	int64_t end_ns; /* no try begins behind it; 0: none */
	int64_t quick_ns; /* it came when its server was dead: no try begins behind that; 0: it was not */
	int64_t sent_ns; /* the last try */
	struct sf_turn turn;
	struct sf_outage *outage; /* it counts there as one that waits; NULL: it does not */
	unsigned paid;            /* tries that took of the store's */
	unsigned status;
	int64_t after_ms;            /* Retry-After, -1: none */
	struct sf_http_head refusal; /* headers of an answer with another status */
	size_t refused_len;
	char range[64], *match;
	const char **headers;
	char refused[SF_REFUSAL_MAX];
};

/* remote_wait.c */
/* Once more, not before @after_ms; or, where it would be too late or too often, the end: with @r. */
void sf_trip_again(struct sf_trip *t, int r, int64_t after_ms);
/* It was cancelled under way: for its deadline, while nothing came from the server? */
void sf_trip_given_up(struct sf_trip *t);
/* Its first try. */
void sf_trip_begin(struct sf_trip *t);
/* It goes on when there are credentials, or an error instead; no thread is held. */
void sf_trip_park(struct sf_trip *t);
/* It has ended: others have its turn. */
void sf_trip_leave(struct sf_trip *t);
/* Under the source's lock: it is cancelled, and goes on for that if it waits. */
void sf_trip_wake(struct sf_trip *t);

#endif
