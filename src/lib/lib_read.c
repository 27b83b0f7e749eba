/* Reads of tensors: many at once, each cut into pieces that are read side by side. */
#include "config.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/thread_pool.h"
#include "lib/lib_priv.h"
#include "read/read_window.h"

#define PIECE (UINT64_C(8) << 20) /* bytes of one piece of a read */
#define PIECE_ROWS 65536 /* of a box whose elements do not lie side by side where they go */
#define PIECES SF_READ_WINDOW_MAX /* of one request at once */

struct piece {
	size_t read; /* its number */
	uint32_t tensor;
	enum sf_dtype cast;
	bool box;
	uint64_t origin[SF_DIMS_MAX], extent[SF_DIMS_MAX];
	const int64_t *stride;
	void *at;
};

/* A read as it was given, checked, and how far it has been cut into pieces. */
struct cut {
	struct shardfuse_read rd;
	const struct sf_tensor *t;
	const struct sf_entry *entry;
	uint64_t elem; /* bytes, as shown */
	bool box;
	uint64_t off, end; /* of a range: what is left */
	uint64_t origin[SF_DIMS_MAX], extent[SF_DIMS_MAX], at[SF_DIMS_MAX];
	int64_t stride[SF_DIMS_MAX]; /* as given, or dense */
	unsigned along;              /* the dimension that is cut */
	uint64_t step;               /* elements of it */
	bool any;                    /* something is left */
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
	struct cut cut;
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

/* ---- cutting ---- */

static int check_box(struct cut *c, struct sf_error *err)
{
	const struct sf_tensor *t = c->t;
	uint64_t elements = PIECE / c->elem, inner = 1, dense = c->elem;
	unsigned d;

	c->any = true;
	for (d = 0; d < t->ndim; d++) {
		c->origin[d] = c->rd.origin ? c->rd.origin[d] : 0;
		if (c->origin[d] <= t->shape[d])
			c->extent[d] = c->rd.extent ? c->rd.extent[d] : t->shape[d] - c->origin[d];
		if (c->origin[d] > t->shape[d] || c->extent[d] > t->shape[d] - c->origin[d])
			return sf_fail(err, -EINVAL,
			               "'%.*s': dimension %u: %llu elements at %llu, it has %llu",
			               (int)SF_MIN(c->entry->len, 200u), c->entry->name, d,
			               (unsigned long long)(c->rd.extent ? c->rd.extent[d] : 0),
			               (unsigned long long)c->origin[d],
			               (unsigned long long)t->shape[d]);
		c->any = c->any && c->extent[d];
		c->at[d] = 0;
	}
	for (d = t->ndim; d-- > 0;) {
		c->stride[d] = c->rd.stride ? c->rd.stride[d] : (int64_t)dense;
		dense *= c->extent[d];
	}
	if (!c->any || !t->ndim)
		return 0;
	/* a copy for each run that is contiguous in both: few enough of them, too */
	if (c->stride[t->ndim - 1] != (int64_t)c->elem &&
	    c->extent[t->ndim - 1] < elements / PIECE_ROWS)
		elements = c->extent[t->ndim - 1] * PIECE_ROWS;
	for (d = t->ndim; d > 0 && inner * c->extent[d - 1] <= elements; d--)
		inner *= c->extent[d - 1];
	c->along = d ? d - 1 : 0;
	c->step = d ? SF_MAX(elements / inner, (uint64_t)1) : c->extent[0];
	return 0;
}

static int check_range(struct cut *c, uint64_t all, struct sf_error *err)
{
	c->off = c->rd.off;
	if (!sf_add(c->rd.off, c->rd.len, &c->end) || c->end > all)
		return sf_fail(err, -EINVAL, "'%.*s': %llu bytes at %llu, it has %llu",
		               (int)SF_MIN(c->entry->len, 200u), c->entry->name,
		               (unsigned long long)c->rd.len, (unsigned long long)c->rd.off,
		               (unsigned long long)all);
	c->any = c->rd.len > 0;
	return 0;
}

static int begin_read(struct shardfuse_request *req, size_t i, struct sf_error *err)
{
	struct cut *c = &req->cut;
	int r = sf_lib_take(req->reads + i * req->size, &c->rd, sizeof(c->rd), err);

	if (r >= 0)
		r = sf_lib_tensor(req->h, c->rd.tensor, &c->t, &c->entry, err);
	if (r < 0)
		return r;
	c->elem = sf_dtype_info(c->entry->dtype)->bytes;
	c->box = !c->rd.len && !c->rd.off;
	if (c->box)
		return check_box(c, err);
	if (c->rd.origin || c->rd.extent || c->rd.stride)
		return sf_fail(err, -EINVAL, "'%.*s': a read is a box or a range, this one is both",
		               (int)SF_MIN(c->entry->len, 200u), c->entry->name);
	return check_range(c, sf_lib_bytes(c->t, c->entry), err);
}

static int emit(void *arg, uint64_t off, uint64_t len, struct sf_parts *parts, struct sf_error *err)
{
	const struct piece *p = arg;
	const struct sf_read_box box = { p->origin, p->extent, p->at, p->stride };

	(void)err;
	return p->box ? sf_parts_box(parts, p->tensor, &box, p->cast)
	              : sf_parts_tensor(parts, p->tensor, off, len, p->cast);
}

/* The next piece, and the read without it. */
static void next_piece(struct cut *c, struct piece *p, struct sf_read *rd)
{
	const struct sf_tensor *t = c->t;
	int64_t to = 0;
	uint64_t n = c->elem;
	unsigned d;

	p->tensor = c->entry->tensor;
	p->cast = c->entry->dtype == t->dtype ? SF_DTYPE_NONE : (enum sf_dtype)c->entry->dtype;
	p->box = c->box;
	*rd = (struct sf_read){ .emit = emit, .arg = p };
	if (!c->box) {
		rd->off = c->off;
		rd->len = SF_MIN(PIECE, c->end - c->off);
		rd->buf = (char *)c->rd.buf + (c->off - c->rd.off);
		c->off += rd->len;
		c->any = c->off < c->end;
		return;
	}
	for (d = 0; d < t->ndim; d++) {
		p->origin[d] = c->origin[d] + c->at[d];
		p->extent[d] = d < c->along    ? 1
		               : d == c->along ? SF_MIN(c->step, c->extent[d] - c->at[d])
		                               : c->extent[d];
		to += (int64_t)c->at[d] * c->stride[d];
		n *= p->extent[d];
	}
	p->stride = c->stride; /* copied while the piece is started: read/reader.h */
	p->at = (char *)c->rd.buf + to;
	rd->len = n;
	c->any = false;
	if (!t->ndim)
		return;
	c->at[c->along] += c->step;
	for (d = c->along; c->at[d] >= c->extent[d]; d--) {
		c->at[d] = 0;
		if (!d)
			return;
		c->at[d - 1]++;
	}
	c->any = true;
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
	sf_lib_fail(to, err, r);
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
			int r = begin_read(req, req->next, &err);
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
		next_piece(&req->cut, piece_of(rd), &rd->rd);
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
		return sf_lib_fail(err, &e, r);
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
	sf_lib_fail(err, &req->locked.err, r);
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
		return sf_lib_fail(err, &e, r);
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
	return sf_lib_fail(err, &e, r);
}
