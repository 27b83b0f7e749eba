/* Uploads within: upload.c takes bytes into parts, upload_send.c sends them. Private to both. */
#ifndef SF_STORE_UPLOAD_PRIV_H
#define SF_STORE_UPLOAD_PRIV_H

#include <pthread.h>
#include <stdbool.h>

#include "base/budget.h"
#include "base/pages.h"
#include "base/vec.h"
#include "store/upload_plan.h"

/* What parts are charged as. Of this kind nobody waits in the budget's queue, so its order of kinds is not
 * broken by an upload that holds a part while whoever fills it reads. */
#define SF_UPLOAD_KIND SF_BUDGET_FETCH
#define SF_UPLOAD_THROTTLE 16
#define SF_UPLOAD_LOOK_MS 50 /* how often a wait looks whether it was cancelled */

/* What a thread of ours does. */
struct sf_upload_job {
	void (*run)(struct sf_uploads *u,
	            struct sf_upload_job *job); /* frees it, or leaves it to its owner */
	bool body;                              /* a request with a body: counts for the throttle */
	struct sf_upload_job *next;
};

SF_VEC(sf_threads, pthread_t);
struct sf_uploads_state {
	unsigned throttle;
	pthread_mutex_t m;
	pthread_cond_t work;  /* for our threads: a job, or the end */
	pthread_cond_t ended; /* for all others: a job has ended, a slot is free */
	/* under m */
	struct sf_upload_job *first, **last;
	struct sf_threads threads;
	unsigned idle, queued;
	unsigned bodies; /* requests with one under way */
	unsigned onway;  /* parts that are full and have not ended: their room comes back */
	unsigned held;   /* parts with room, where there is no budget */
	uint64_t ends;   /* of jobs, from 1 on */
	bool ending;
};

struct sf_upload_range { /* of a part: bytes that are there */
	uint64_t from, to;
};
SF_VEC(sf_upload_ranges, struct sf_upload_range);

/* What its memory is counted as: taken of the budget, or of state->held; or up->beside. */
enum sf_upload_room { SF_UPLOAD_NO_ROOM, SF_UPLOAD_CHARGED, SF_UPLOAD_BESIDE };

struct sf_upload_part {
	struct sf_upload_job job;
	struct sf_upload *up;
	uint32_t number;
	uint64_t len, filled;           /* bytes */
	struct sf_upload_ranges ranges; /* ascending, none touches the next */
	struct sf_pages pages;
	enum sf_upload_room room;
	bool full;  /* it was given to our threads, and is theirs until it has ended */
	char *etag; /* it has gone up */
};
SF_VEC(sf_upload_parts, struct sf_upload_part *);

struct sf_upload {
	struct sf_uploads *u;
	char *name, *type;
	enum sf_upload_if when;
	struct sf_upload_plan plan;
	struct sf_upload_parts part; /* NULL: not begun. The writer's */
	uint64_t end;                /* behind the last byte that came */
	_Atomic bool stop;           /* for requests under way: nobody wants them any more */
	/* under state->m */
	char *id; /* the server's; NULL: not yet */
	bool begun;
	struct sf_upload_job *held, **held_last; /* parts that wait for the id */
	unsigned pending;                        /* parts that are full and have not ended */
	unsigned beside;                         /* parts that found no room */
	int r;                                   /* the first failure */
	struct sf_error err;
};

/* upload_send.c */
int sf_uploads_threads_init(struct sf_uploads *u, struct sf_error *err);
/* A part's memory, and room for it: waits. -ECANCELED, -ENOMEM, or the upload's failure. */
int sf_upload_part_new(struct sf_upload *up, uint32_t number, uint64_t len,
                       struct sf_upload_part **ret, struct sf_error *err);
void sf_upload_part_free(
	struct sf_upload_part *p); /* of none that our threads have; NULL is fine */
/* All of its bytes are there: it goes up. -EAGAIN: there is no thread. */
int sf_upload_part_send(struct sf_upload_part *p, struct sf_error *err);
/* Nothing of it is on its way any more; 0 or its failure. */
int sf_upload_wait(struct sf_upload *up, struct sf_error *err);
/* It fails with @r, unless it has failed before; what is on its way is called off. */
void sf_upload_fail(struct sf_upload *up, int r, const char *why);
/* Has it failed? 0 or that, with its message. */
int sf_upload_failed(struct sf_upload *up, struct sf_error *err);
bool sf_uploads_stopped(const struct sf_uploads *u);
/* A request with a body on this thread: waits for its turn. */
int sf_uploads_enter(struct sf_uploads *u, struct sf_error *err);
void sf_uploads_leave(struct sf_uploads *u);
/* @one of 0 … @n - 1, side by side, all of them; the first failure. */
int sf_uploads_each(struct sf_uploads *u, size_t n,
                    int (*one)(struct sf_uploads *u, void *arg, size_t i, struct sf_error *err),
                    void *arg, struct sf_error *err);

#endif
