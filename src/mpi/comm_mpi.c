/* Ranks of MPI. Nothing here waits inside MPI, so that a rank that never comes can be told from one that is late. */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <mpi.h>

#include "base/clock.h"
#include "base/mem.h"
#include "mpi/comm_mpi.h"

/* Between two looks: an eighth of what was waited so far, so that it costs a short wait little time and
 * a long one little of the processor. */
#define PAUSE_MIN_NS 20000
#define PAUSE_MAX_NS 2000000

struct outgoing { /* a part on its way */
	struct outgoing *next;
	MPI_Request req;
	size_t len;
	uint8_t at[];
};

struct incoming { /* a message of which a part has come */
	struct incoming *next;
	uint32_t from, tag;
	uint8_t *at;
	size_t len, cap; /* bytes that are there */
	size_t part;     /* of which this many are on their way by @req */
	MPI_Request req; /* MPI_REQUEST_NULL: none */
};

struct comm_mpi {
	MPI_Comm comm;
	size_t part;
	uint32_t ntag; /* of MPI's */
	uint32_t tag;  /* of the next save (struct shardfuse_comm) */
	struct {
		pthread_mutex_t m; /* held while MPI is called, which never waits */
		struct outgoing *out;
		struct incoming *in, *spare;
	} locked;
};

static int say(struct shardfuse_error *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static int say(struct shardfuse_error *err, int code, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return code;
	va_start(ap, fmt);
	vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	return code;
}

/* What MPI gave for a code; 0 where that was success. */
static int mpi_said(struct shardfuse_error *err, int code, const char *function)
{
	char text[MPI_MAX_ERROR_STRING + 1] = "";
	int len = 0;

	if (code == MPI_SUCCESS)
		return 0;
	if (MPI_Error_string(code, text, &len) != MPI_SUCCESS)
		snprintf(text, sizeof(text), "error %d", code);
	return say(err, -EIO, "%s: %s", function, text);
}

static void pause_after(int64_t began_ns)
{
	int64_t ns = (sf_now_ns() - began_ns) / 8;
	struct timespec t = sf_timespec((uint64_t)SF_MIN(SF_MAX(ns, PAUSE_MIN_NS), PAUSE_MAX_NS));

	nanosleep(&t, NULL);
}

static int mpi_tag(const struct comm_mpi *c, uint32_t tag)
{
	return (int)(tag % c->ntag);
}

/* ---- sending ---- */

static void free_out(struct outgoing *o)
{
	while (o) {
		struct outgoing *next = o->next;

		free(o);
		o = next;
	}
}

/* Forgets what has left. */
static int reap_locked(struct comm_mpi *c, struct shardfuse_error *err)
{
	for (struct outgoing **p = &c->locked.out, *o; (o = *p) != NULL;) {
		int left = 0;
		int r = mpi_said(err, MPI_Test(&o->req, &left, MPI_STATUS_IGNORE), "MPI_Test");

		if (r < 0)
			return r;
		if (left) {
			*p = o->next;
			free(o);
		} else {
			p = &o->next;
		}
	}
	return 0;
}

/* A copy in parts; NULL: no memory. */
static struct outgoing *cut(const uint8_t *at, size_t len, size_t part)
{
	struct outgoing *first = NULL, **end = &first;
	size_t n;

	do {
		struct outgoing *o;

		n = SF_MIN(len, part);
		o = malloc(sizeof(*o) + n);
		if (!o) {
			free_out(first);
			return NULL;
		}
		o->next = NULL;
		o->req = MPI_REQUEST_NULL;
		o->len = n;
		if (n)
			memcpy(o->at, at, n);
		at += n;
		len -= n;
		*end = o;
		end = &o->next;
	} while (n == part);
	return first;
}

static int send_to(void *arg, uint32_t to, uint32_t tag, const void *at, size_t len,
                   struct shardfuse_error *err)
{
	struct comm_mpi *c = arg;
	struct outgoing *o = cut(at, len, c->part), **end;
	int r;

	if (!o)
		return say(err, -ENOMEM, "no memory for a message of %zu bytes to rank %u", len,
		           to);
	pthread_mutex_lock(&c->locked.m);
	r = reap_locked(c, err);
	for (end = &c->locked.out; *end;)
		end = &(*end)->next;
	while (o && r >= 0) {
		struct outgoing *next = o->next;

		r = mpi_said(err,
		             MPI_Isend(o->at, (int)o->len, MPI_BYTE, (int)to, mpi_tag(c, tag),
		                       c->comm, &o->req),
		             "MPI_Isend");
		if (r < 0)
			break;
		o->next = NULL;
		*end = o;
		end = &o->next;
		o = next;
	}
	pthread_mutex_unlock(&c->locked.m);
	free_out(o);
	return r;
}

static int flush(void *arg, unsigned timeout_ms)
{
	struct comm_mpi *c = arg;
	int64_t began = sf_now_ns();

	for (;;) {
		bool left;

		pthread_mutex_lock(&c->locked.m);
		left = reap_locked(c, NULL) < 0 || !c->locked.out;
		pthread_mutex_unlock(&c->locked.m);
		if (left)
			return 0;
		if (sf_now_ns() - began >= (int64_t)timeout_ms * 1000000)
			return -EAGAIN;
		pause_after(began);
	}
}

/* ---- receiving ---- */

static struct incoming **find_locked(struct comm_mpi *c, uint32_t from, uint32_t tag)
{
	struct incoming **p = &c->locked.in;

	while (*p && ((*p)->from != from || (*p)->tag != tag))
		p = &(*p)->next;
	return p;
}

/* Room for @n bytes more, and half as much again where more parts will follow. */
static int make_room(struct incoming *in, size_t n, size_t part)
{
	size_t want;
	uint8_t *at;

	if (in->at && n <= in->cap - in->len)
		return 0;
	if (!sf_add(in->len, SF_MAX(n, 1u), &want))
		return -ENOMEM;
	if (n == part && in->len && !sf_add(want, want / 2, &want))
		return -ENOMEM;
	at = realloc(in->at, want);
	if (!at)
		return -ENOMEM;
	in->at = at;
	in->cap = want;
	return 0;
}

/* The next part, if there is one: 1 it is on its way, 0 there is none. No other thread takes it meanwhile. */
static int begin_part_locked(struct comm_mpi *c, struct incoming *in, struct shardfuse_error *err)
{
	MPI_Status status;
	int there = 0, n = 0;
	int r = mpi_said(err,
	                 MPI_Iprobe((int)in->from, mpi_tag(c, in->tag), c->comm, &there, &status),
	                 "MPI_Iprobe");

	if (r < 0 || !there)
		return r;
	r = mpi_said(err, MPI_Get_count(&status, MPI_BYTE, &n), "MPI_Get_count");
	if (r < 0)
		return r;
	if (n < 0 || (size_t)n > c->part)
		return say(err, -EBADMSG, "a part of %d bytes from rank %u, %zu at most", n,
		           in->from, c->part);
	if (make_room(in, (size_t)n, c->part) < 0)
		return say(err, -ENOMEM, "no memory for a message of more than %zu bytes",
		           in->len + (size_t)n);
	r = mpi_said(err,
	             MPI_Irecv(in->at + in->len, n, MPI_BYTE, (int)in->from, mpi_tag(c, in->tag),
	                       c->comm, &in->req),
	             "MPI_Irecv");
	if (r < 0)
		return r;
	in->part = (size_t)n;
	return 1;
}

/* 1: the message is whole; 0: not yet. */
static int advance_locked(struct comm_mpi *c, struct incoming *in, struct shardfuse_error *err)
{
	for (;;) {
		int came = 0, r;

		if (in->req == MPI_REQUEST_NULL) {
			r = begin_part_locked(c, in, err);
			if (r <= 0)
				return r;
		}
		r = mpi_said(err, MPI_Test(&in->req, &came, MPI_STATUS_IGNORE), "MPI_Test");
		if (r < 0 || !came)
			return r;
		in->len += in->part;
		if (in->part < c->part)
			return 1;
	}
}

static int look_locked(struct comm_mpi *c, uint32_t from, uint32_t tag, void **ret, size_t *ret_len,
                       struct shardfuse_error *err)
{
	struct incoming **p = find_locked(c, from, tag), *in = *p;
	int r = reap_locked(c, err);

	if (r < 0)
		return r;
	if (!in) { /* most looks are in vain: one is kept for them */
		if (!c->locked.spare)
			c->locked.spare = malloc(sizeof(*in));
		in = c->locked.spare;
		if (!in)
			return say(err, -ENOMEM, "no memory for a message from rank %u", from);
		*in = (struct incoming){ .from = from, .tag = tag, .req = MPI_REQUEST_NULL };
		r = begin_part_locked(c, in, err);
		if (r <= 0) {
			free(in->at);
			return r < 0 ? r : -EAGAIN;
		}
		c->locked.spare = NULL;
		*p = in;
	}
	r = advance_locked(c, in, err);
	if (r <= 0)
		return r < 0 ? r : -EAGAIN;
	*p = in->next;
	*ret = in->at;
	*ret_len = in->len;
	free(in);
	return 0;
}

static int recv_from(void *arg, uint32_t from, uint32_t tag, void **ret, size_t *ret_len,
                     unsigned timeout_ms, struct shardfuse_error *err)
{
	struct comm_mpi *c = arg;
	int64_t began = sf_now_ns();

	for (;;) {
		int r;

		pthread_mutex_lock(&c->locked.m);
		r = look_locked(c, from, tag, ret, ret_len, err);
		pthread_mutex_unlock(&c->locked.m);
		if (r != -EAGAIN)
			return r;
		if (sf_now_ns() - began >= (int64_t)timeout_ms * 1000000)
			return say(err, -EAGAIN, "nothing from rank %u", from);
		pause_after(began);
	}
}

/* ---- the end ---- */

/* Takes what nobody wants any more, so that whoever sent it can go. */
static int drain_locked(struct comm_mpi *c)
{
	for (struct incoming *in = c->locked.in; in; in = in->next) {
		int came;
		if (in->req != MPI_REQUEST_NULL &&
		    MPI_Test(&in->req, &came, MPI_STATUS_IGNORE) != MPI_SUCCESS)
			return -EIO;
	}
	for (;;) {
		MPI_Status status;
		int there = 0, n = 0;
		void *at;

		if (MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, c->comm, &there, &status) !=
		    MPI_SUCCESS)
			return -EIO;
		if (!there)
			return 0;
		if (MPI_Get_count(&status, MPI_BYTE, &n) != MPI_SUCCESS)
			return -EIO;
		at = malloc(n > 0 ? (size_t)n : 1);
		if (!at)
			return -ENOMEM;
		/* it is there or on its way: its sender is in this function too */
		MPI_Recv(at, n, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, c->comm,
		         MPI_STATUS_IGNORE);
		free(at);
	}
}

static bool receiving(const struct comm_mpi *c)
{
	for (const struct incoming *in = c->locked.in; in; in = in->next)
		if (in->req != MPI_REQUEST_NULL)
			return true;
	return false;
}

/* All ranks: until nothing that any of them sent is on its way. */
static int settle_locked(struct comm_mpi *c)
{
	MPI_Request all = MPI_REQUEST_NULL;
	bool asked = false;
	int64_t began = sf_now_ns();

	for (;;) {
		int over = 0;

		if (reap_locked(c, NULL) < 0 || drain_locked(c) < 0)
			return -EIO;
		if (!asked && !c->locked.out && !receiving(c)) {
			if (MPI_Ibarrier(c->comm, &all) != MPI_SUCCESS)
				return -EIO;
			asked = true;
		}
		if (asked && MPI_Test(&all, &over, MPI_STATUS_IGNORE) != MPI_SUCCESS)
			return -EIO;
		if (over)
			return 0;
		pause_after(began);
	}
}

static void comm_free(void *arg)
{
	struct comm_mpi *c = arg;
	int over = 1;
	bool settled;

	MPI_Finalized(&over);
	settled = !over && settle_locked(c) >= 0;
	if (settled) {
		MPI_Comm_free(&c->comm);
		free_out(c->locked.out);
		while (c->locked.in) {
			struct incoming *in = c->locked.in;

			c->locked.in = in->next;
			free(in->at);
			free(in);
		}
	} /* else MPI may look at those bytes yet */
	free(c->locked.spare);
	pthread_mutex_destroy(&c->locked.m);
	free(c);
}

/* ---- the beginning ---- */

static int take_options(const struct shardfuse_mpi_options *opt, int *ret_threads,
                        struct shardfuse_error *err)
{
	*ret_threads = SHARDFUSE_MPI_THREADS_AUTO;
	if (!opt)
		return 0;
	if (opt->struct_size < sizeof(opt->struct_size))
		return say(err, -EINVAL,
		           "struct_size is %zu: it has to be set to the struct's sizeof",
		           opt->struct_size);
	if (opt->struct_size >= offsetof(struct shardfuse_mpi_options, threads) + sizeof(int))
		*ret_threads = opt->threads;
	if (*ret_threads < SHARDFUSE_MPI_THREADS_AUTO || *ret_threads > SHARDFUSE_MPI_THREADS_NEED)
		return say(err, -EINVAL, "threads is %d: none of enum shardfuse_mpi_threads",
		           *ret_threads);
	return 0;
}

static const char *level_name(int level)
{
	return level == MPI_THREAD_SINGLE     ? "MPI_THREAD_SINGLE"
	       : level == MPI_THREAD_FUNNELED ? "MPI_THREAD_FUNNELED"
	                                      : "MPI_THREAD_SERIALIZED";
}

/* Whether threads are to be had. */
static int look_at_threads(const struct shardfuse_mpi_options *opt, int *ret_threads,
                           struct shardfuse_error *err)
{
	int level = MPI_THREAD_SINGLE, want;
	int r = take_options(opt, &want, err);

	if (r < 0)
		return r;
	r = mpi_said(err, MPI_Query_thread(&level), "MPI_Query_thread");
	if (r < 0)
		return r;
	*ret_threads = want != SHARDFUSE_MPI_THREADS_NONE && level == MPI_THREAD_MULTIPLE;
	if (want == SHARDFUSE_MPI_THREADS_NEED && !*ret_threads)
		return say(err, -ENOTSUP,
		           "threads are needed, and MPI was initialised with %s: MPI_Init_thread "
		           "has to ask for MPI_THREAD_MULTIPLE, and get it",
		           level_name(level));
	return 0;
}

/* The lowest of all ranks' two numbers. */
static int lowest_of_all(MPI_Comm comm, int v[2], struct shardfuse_error *err)
{
	int lowest[2] = { 0, 0 };
	int r = mpi_said(err, MPI_Allreduce(v, lowest, 2, MPI_INT, MPI_MIN, comm), "MPI_Allreduce");

	v[0] = lowest[0];
	v[1] = lowest[1];
	return r;
}

/* MPI is there and @comm is one of its. A mistake here all ranks make. */
static int look_at_comm(MPI_Comm comm, struct shardfuse_error *err)
{
	int begun = 0, over = 0, inter = 0, r;

	MPI_Initialized(&begun);
	MPI_Finalized(&over);
	if (!begun || over)
		return say(err, -EINVAL, "MPI is %s",
		           over ? "finalized" : "not initialized: call MPI_Init_thread before");
	if (comm == MPI_COMM_NULL)
		return say(err, -EINVAL, "the communicator is MPI_COMM_NULL");
	r = mpi_said(err, MPI_Comm_test_inter(comm, &inter), "MPI_Comm_test_inter");
	if (r < 0)
		return r;
	return inter ? say(err, -EINVAL, "the communicator is an intercommunicator") : 0;
}

/* The duplicate, and what it is like. */
static int duplicate(MPI_Comm comm, struct comm_mpi *c, struct shardfuse_comm *ret,
                     struct shardfuse_error *err)
{
	int rank = 0, size = 0, found = 0, *ub = NULL;
	int r = mpi_said(err, MPI_Comm_dup(comm, &c->comm), "MPI_Comm_dup");

	if (r < 0)
		return r;
	MPI_Comm_set_errhandler(c->comm, MPI_ERRORS_RETURN);
	MPI_Comm_rank(c->comm, &rank);
	MPI_Comm_size(c->comm, &size);
	MPI_Comm_get_attr(c->comm, MPI_TAG_UB, &ub, &found);
	c->ntag = (uint32_t)(found && *ub > 32767 ? *ub : 32767); /* that much all have */
	ret->rank = (uint32_t)rank;
	ret->size = (uint32_t)size;
	return 0;
}

int sf_comm_mpi_new(MPI_Comm comm, const struct shardfuse_mpi_options *opt, size_t part,
                    struct shardfuse_comm *ret, struct shardfuse_error *err)
{
	struct comm_mpi *c;
	int threads = 0, state[2], mine;
	int r = look_at_comm(comm, err);

	if (r < 0)
		return r;
	mine = look_at_threads(opt, &threads, err);
	c = calloc(1, sizeof(*c));
	if (!c && mine >= 0)
		mine = say(err, -ENOMEM, "no memory");
	/* a rank that fails alone would leave the others waiting in MPI_Comm_dup */
	state[0] = mine;
	state[1] = threads;
	r = lowest_of_all(comm, state, err);
	if (r >= 0 && state[0] < 0)
		r = mine < 0 ? mine
		             : say(err, state[0], "another rank failed: %s", strerror(-state[0]));
	if (r >= 0)
		r = duplicate(comm, c, ret, err);
	if (r < 0) {
		free(c);
		return r;
	}
	c->part = part;
	pthread_mutex_init(&c->locked.m, NULL);
	*ret = (struct shardfuse_comm){
		.struct_size = sizeof(*ret),
		.arg = c,
		.rank = ret->rank,
		.size = ret->size,
		.send = send_to,
		.recv = recv_from,
		.threads = state[1],
		.free = comm_free,
		.tag = &c->tag,
		.flush = flush,
	};
	return 0;
}

int shardfuse_comm_mpi(MPI_Comm comm, const struct shardfuse_mpi_options *opt,
                       struct shardfuse_comm *ret, struct shardfuse_error *err)
{
	return sf_comm_mpi_new(comm, opt, SF_COMM_MPI_PART, ret, err);
}
