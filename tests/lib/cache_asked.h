/* Requests to a cache that a test keeps an eye on. */
#ifndef SF_TESTS_LIB_CACHE_ASKED_H
#define SF_TESTS_LIB_CACHE_ASKED_H

#include <sched.h>
#include <stdatomic.h>

#include "store/source.h"
#include "tests/lib/cache_world.h"

struct asked {
	struct sf_io_req req;
	struct iovec iov;
	uint8_t *at;
	_Atomic int r; /* 1: not yet */
};

static inline void answered(struct sf_io_req *req, int r)
{
	sf_container_of(req, struct asked, req)->r = r;
}

static inline void ask(struct asked *a, struct sf_source *src, uint64_t off, uint64_t len)
{
	memset(a, 0, sizeof(*a));
	a->r = 1;
	a->at = malloc(len);
	a->iov = (struct iovec){ a->at, len };
	a->req = (struct sf_io_req){ .off = off,
		                     .len = len,
		                     .iov = &a->iov,
		                     .niov = 1,
		                     .kind = SF_FETCH_TENSOR,
		                     .done = answered };
	if (sf_source_submit(src, &a->req)) /* it has ended */
		a->r = a->req.r;
}

static inline int outcome(struct asked *a)
{
	while (a->r == 1)
		sched_yield();
	return a->r;
}

#endif
