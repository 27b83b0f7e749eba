/* Reads of tensors: many at once, the pieces of each side by side. */
#include "config.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/thread_pool.h"
#include "lib/lib_cut.h"
#include "read/read_window.h"

#define PIECES SF_READ_WINDOW_MAX /* of one request at once */

struct piece {
	size_t read; /* its number */
	struct sf_lib_piece cut;
};

struct shardfuse_request {
	struct shardfuse *h;
	char *reads; /* of @size bytes each */
	size_t n, size;
	void (*done)(void *arg, int result);
	void *arg;
	bool waits; /* the caller's thread goes on with it, else one of the context's */
	struct sf_task task;

	/* of the thread that goes on with it, one at a time */
	size_t next; /* read */
	struct sf_lib_cut cut;
	bool cutting;

	struct sf_read_window window;
	struct piece piece[PIECES]; /* piece i is of the window's read i */
	struct {                    /* under the window's lock */
		bool queued, again; /* the task */
		bool ended;
		int result; /* the first failure's */
		struct sf_error err;
	} locked;
};

static void lock(struct shardfuse_request *req)
{
	pthread_mutex_lock(&req->window.m);
}

static void unlock(struct shardfuse_request *req)
{
	pthread_mutex_unlock(&req->window.m);
}

static struct shardfuse_request *request_of(struct sf_read_window *w)
{
	return sf_container_of(w, struct shardfuse_request, window);
}

static struct piece *piece_of(const struct sf_window_read *rd)
{
	return &request_of(rd->w)->piece[rd - rd->w->at];
}

/* ---- results ---- */

static void set_result(struct shardfuse_request *req, size_t read, int r)
{
	int result = r;

	memcpy(req->reads + read * req->size + offsetof(struct shardfuse_read, result), &result,
	       sizeof(result));
}

static int result_of(const struct shardfuse_request *req, size_t read)
{
	int result;

	memcpy(&result, req->reads + read * req->size + offsetof(struct shardfuse_read, result),
	       sizeof(result));
	return result;
}

/* Of a read the first failure counts. Under the lock. */
static void failed_locked(struct shardfuse_request *req, size_t read, int r,
                          const struct sf_error *err)
{
	struct shardfuse_error *to;

	if (result_of(req, read) < 0)
		return;
	set_result(req, read, r);
	memcpy(&to, req->reads + read * req->size + offsetof(struct shardfuse_read, err),
	       sizeof(to));
	sf_public_fail(to, err, r);
	if (req->locked.result >= 0) {
		req->locked.result = r;
		req->locked.err = *err;
	}
}

/* ---- going on ---- */

static void go_on_later_locked(struct shardfuse_request *req)
{
	if (req->waits) {
		pthread_cond_broadcast(&req->window.c);
	} else if (req->locked.queued) {
		req->locked.again = true;
	} else {
		req->locked.queued = true;
		sf_thread_pool_submit(req->h->s.io->pool, &req->task);
	}
}

/* A piece was given back. */
static void given_locked(struct sf_read_window *w)
{
	go_on_later_locked(request_of(w));
}

static void fail_read(struct shardfuse_request *req, size_t read, int r, const struct sf_error *err)
{
	lock(req);
	failed_locked(req, read, r, err);
	unlock(req);
}

static void piece_ended(struct sf_window_read *rd)
{
	if (rd->r < 0)
		fail_read(request_of(rd->w), piece_of(rd)->read, rd->r, &rd->rd.err);
	sf_read_window_give(rd);
}

static bool has_failed(struct shardfuse_request *req, size_t read)
{
	bool r;

	lock(req);
	r = result_of(req, read) < 0;
	unlock(req);
	return r;
}

static bool is_canceled(struct shardfuse_request *req)
{
	bool r;

	lock(req);
	r = req->window.canceled;
	unlock(req);
	return r;
}

/* Is there something to start? The read that it is of is req->next. */
static bool more(struct shardfuse_request *req)
{
	struct sf_error err = SF_ERROR_INIT;

	for (; req->next < req->n; req->next++) {
		if (!req->cutting) {
			int r = sf_lib_cut_begin(&req->cut, req->h,
			                         req->reads + req->next * req->size, &err);
			if (r < 0) {
				fail_read(req, req->next, r, &err);
				continue;
			}
			req->cutting = true;
		}
		if (req->cut.any && !has_failed(req, req->next))
			return true;
		req->cutting = false;
	}
	return false;
}

/* Starts all that may be; true: all of it has ended. One thread at a time. */
static bool go_on(struct shardfuse_request *req)
{
	struct sf_error err = SF_ERROR_INIT;
	bool ended;

	while (more(req)) {
		if (is_canceled(req)) {
			sf_fail(&err, -ECANCELED, "canceled");
			fail_read(req, req->next, -ECANCELED, &err);
			continue;
		}
		struct sf_window_read *rd = sf_read_window_take(&req->window);
		if (!rd)
			return false;
		piece_of(rd)->read = req->next;
		sf_lib_cut_next(&req->cut, &piece_of(rd)->cut, &rd->rd);
		sf_read_window_start(rd);
	}
	lock(req);
	ended = !req->window.under_way;
	unlock(req);
	return ended;
}

static void end(struct shardfuse_request *req)
{
	if (req->done)
		req->done(req->arg, req->locked.result);
	lock(req);
	req->locked.ended = true;
	pthread_cond_broadcast(&req->window.c);
	unlock(req);
}

static void task(struct sf_task *t)
{
	struct shardfuse_request *req = sf_container_of(t, struct shardfuse_request, task);
	bool again;

	do {
		lock(req);
		req->locked.again = false;
		unlock(req);
		if (go_on(req)) {
			end(req); /* queued for good: nothing comes after it */
			return;
		}
		lock(req);
		again = req->locked.again;
		req->locked.queued = again;
		unlock(req);
	} while (again);
}

/* ---- the interface ---- */

static int request_new(struct shardfuse *h, struct shardfuse_read *reads, size_t n,
                       struct shardfuse_request **ret, struct sf_error *err)
{
	struct shardfuse_request *req;
	size_t size = sizeof(*reads);

	if (n)
		memcpy(&size, reads, sizeof(size));
	for (size_t i = 0; i < n; i++) {
		size_t one;
		memcpy(&one, (char *)reads + i * size, sizeof(one));
		if (one != size || size < SF_LIB_READ_LEAST)
			return sf_fail(err, -EINVAL,
			               "struct_size of read %zu is %zu: it has to be set to the "
			               "struct's sizeof",
			               i, one);
	}
	req = calloc(1, sizeof(*req));
	if (!req)
		return sf_fail(err, -ENOMEM, "no memory for a request");
	req->h = h;
	req->reads = (char *)reads;
	req->n = n;
	req->size = size;
	req->task.run = task;
	sf_read_window_init(&req->window, h->s.reader, PIECES);
	req->window.ended = piece_ended;
	req->window.given_locked = given_locked;
	for (size_t i = 0; i < n; i++)
		set_result(req, i, 0);
	*ret = req;
	return 0;
}

static void request_free(struct shardfuse_request *req)
{
	sf_read_window_release(&req->window);
	free(req);
}

int shardfuse_read(struct shardfuse *h, struct shardfuse_read *reads, size_t n,
                   struct shardfuse_error *err)
{
	struct sf_error e = SF_ERROR_INIT;
	struct shardfuse_request *req;
	int r = request_new(h, reads, n, &req, &e);

	if (r < 0)
		return sf_public_fail(err, &e, r);
	req->waits = true;
	while (!go_on(req)) {
		lock(req);
		/* all of them are under way, or the rest of them is */
		unsigned before = req->window.under_way;
		while (before && req->window.under_way >= before)
			pthread_cond_wait(&req->window.c, &req->window.m);
		unlock(req);
	}
	r = req->locked.result;
	sf_public_fail(err, &req->locked.err, r);
	request_free(req);
	return r;
}

int shardfuse_read_start(struct shardfuse *h, struct shardfuse_read *reads, size_t n,
                         void (*done)(void *arg, int result), void *arg,
                         struct shardfuse_request **ret, struct shardfuse_error *err)
{
	struct sf_error e = SF_ERROR_INIT;
	struct shardfuse_request *req;
	int r = request_new(h, reads, n, &req, &e);

	if (r < 0)
		return sf_public_fail(err, &e, r);
	req->done = done;
	req->arg = arg;
	*ret = req; /* before done is called */
	lock(req);
	go_on_later_locked(req);
	unlock(req);
	return 0;
}

void shardfuse_request_cancel(struct shardfuse_request *req)
{
	lock(req);
	sf_read_window_cancel_locked(&req->window);
	unlock(req);
}

int shardfuse_request_finish(struct shardfuse_request *req)
{
	int r;

	if (!req)
		return 0;
	lock(req);
	while (!req->locked.ended)
		pthread_cond_wait(&req->window.c, &req->window.m);
	r = req->locked.result;
	unlock(req);
	request_free(req);
	return r;
}

int shardfuse_tensor_read(struct shardfuse *h, uint64_t tensor, uint64_t off, void *buf,
                          uint64_t len, struct shardfuse_error *err)
{
	struct sf_error e = SF_ERROR_INIT;
	struct shardfuse_read rd = {
		.struct_size = sizeof(rd), .tensor = tensor, .off = off, .len = len, .buf = buf
	};
	const struct sf_entry *entry;
	const struct sf_tensor *t;
	int r;

	if (len)
		return shardfuse_read(h, &rd, 1, err);
	r = sf_lib_tensor(h, tensor, &t, &entry, &e); /* nothing, of what is there */
	if (r >= 0 && off > sf_lib_bytes(t, entry))
		r = sf_fail(&e, -EINVAL, "'%.*s': byte %llu, it has %llu",
		            (int)SF_MIN(entry->len, 200u), entry->name, (unsigned long long)off,
		            (unsigned long long)sf_lib_bytes(t, entry));
	return sf_public_fail(err, &e, r);
}
