/* Reads of tensors: many at once, each cut into pieces that are read side by side. */
#include "config.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/thread_pool.h"
#include "lib/lib_priv.h"

#define PIECE (UINT64_C(8) << 20) /* bytes of one piece of a read */
#define PIECE_ROWS 65536 /* of a box whose elements do not lie side by side where they go */
#define PIECES 8         /* of one request at once */

struct piece {
	struct sf_read rd;
	struct shardfuse_request *req;
	size_t read; /* its number */
	bool used;   /* until it was let go */
	bool live;   /* may be cancelled */
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

	struct piece piece[PIECES];
	struct {
		pthread_mutex_t m;
		pthread_cond_t c;
		unsigned under_way;
		bool queued, again; /* the task */
		bool canceled, ended;
		int result; /* the first failure's */
		struct sf_error err;
	} locked;
};

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

/* The next piece, and the read without it. */
static void next_piece(struct cut *c, struct piece *p)
{
	const struct sf_tensor *t = c->t;
	int64_t to = 0;
	uint64_t n = c->elem;
	unsigned d;

	p->tensor = c->entry->tensor;
	p->cast = c->entry->dtype == t->dtype ? SF_DTYPE_NONE : (enum sf_dtype)c->entry->dtype;
	p->box = c->box;
	p->rd = (struct sf_read){ 0 };
	if (!c->box) {
		p->rd.off = c->off;
		p->rd.len = SF_MIN(PIECE, c->end - c->off);
		p->rd.buf = (char *)c->rd.buf + (c->off - c->rd.off);
		c->off += p->rd.len;
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
	p->rd.len = n;
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

static int emit(void *arg, uint64_t off, uint64_t len, struct sf_parts *parts, struct sf_error *err)
{
	const struct piece *p = arg;
	const struct sf_read_box box = { p->origin, p->extent, p->at, p->stride };

	(void)err;
	return p->box ? sf_parts_box(parts, p->tensor, &box, p->cast)
	              : sf_parts_tensor(parts, p->tensor, off, len, p->cast);
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
		pthread_cond_broadcast(&req->locked.c);
	} else if (req->locked.queued) {
		req->locked.again = true;
	} else {
		req->locked.queued = true;
		sf_thread_pool_submit(req->h->s.io->pool, &req->task);
	}
}

static void piece_done(struct sf_read *rd, int r)
{
	struct piece *p = rd->priv;
	struct shardfuse_request *req = p->req;

	pthread_mutex_lock(&req->locked.m);
	p->live = false;
	if (r < 0)
		failed_locked(req, p->read, r, &rd->err);
	pthread_mutex_unlock(&req->locked.m);
	sf_read_release(rd);
	pthread_mutex_lock(&req->locked.m);
	p->used = false;
	req->locked.under_way--;
	go_on_later_locked(req);
	pthread_mutex_unlock(&req->locked.m);
}

static void start_piece(struct shardfuse_request *req, struct piece *p)
{
	struct sf_reader *reader = req->h->s.reader;
	int r;

	p->rd.emit = emit;
	p->rd.arg = p;
	p->rd.priv = p;
	p->rd.done = piece_done;
	r = sf_read_start(reader, &p->rd);
	if (r == -EAGAIN) {
		pthread_mutex_lock(&req->locked.m);
		p->live = true;
		pthread_mutex_unlock(&req->locked.m);
		sf_read_park(reader, &p->rd);
		/* whoever cancelled it before it had a deadline was not heard */
		pthread_mutex_lock(&req->locked.m);
		if (req->locked.canceled && p->live)
			sf_read_cancel(reader, &p->rd);
		pthread_mutex_unlock(&req->locked.m);
		return;
	}
	piece_done(&p->rd, r);
}

/* A piece that is not used, counted as under way; NULL: all are. */
static struct piece *take_piece(struct shardfuse_request *req, bool *ret_canceled)
{
	struct piece *p = NULL;

	pthread_mutex_lock(&req->locked.m);
	*ret_canceled = req->locked.canceled;
	for (unsigned i = 0; i < PIECES && !p; i++)
		if (!req->piece[i].used)
			p = &req->piece[i];
	if (p) {
		p->used = true;
		req->locked.under_way++;
	}
	pthread_mutex_unlock(&req->locked.m);
	return p;
}

static void give_piece(struct shardfuse_request *req, struct piece *p)
{
	pthread_mutex_lock(&req->locked.m);
	p->used = false;
	req->locked.under_way--;
	pthread_mutex_unlock(&req->locked.m);
}

static void fail_read(struct shardfuse_request *req, size_t read, int r, const struct sf_error *err)
{
	pthread_mutex_lock(&req->locked.m);
	failed_locked(req, read, r, err);
	pthread_mutex_unlock(&req->locked.m);
}

static bool has_failed(struct shardfuse_request *req, size_t read)
{
	bool r;

	pthread_mutex_lock(&req->locked.m);
	r = result_of(req, read) < 0;
	pthread_mutex_unlock(&req->locked.m);
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
	bool canceled, ended;

	while (more(req)) {
		struct piece *p = take_piece(req, &canceled);
		if (!p)
			return false;
		if (canceled) {
			give_piece(req, p);
			sf_fail(&err, -ECANCELED, "canceled");
			fail_read(req, req->next, -ECANCELED, &err);
			continue;
		}
		p->req = req;
		p->read = req->next;
		next_piece(&req->cut, p);
		start_piece(req, p);
	}
	pthread_mutex_lock(&req->locked.m);
	ended = !req->locked.under_way;
	pthread_mutex_unlock(&req->locked.m);
	return ended;
}

static void end(struct shardfuse_request *req)
{
	if (req->done)
		req->done(req->arg, req->locked.result);
	pthread_mutex_lock(&req->locked.m);
	req->locked.ended = true;
	pthread_cond_broadcast(&req->locked.c);
	pthread_mutex_unlock(&req->locked.m);
}

static void task(struct sf_task *t)
{
	struct shardfuse_request *req = sf_container_of(t, struct shardfuse_request, task);
	bool again;

	do {
		pthread_mutex_lock(&req->locked.m);
		req->locked.again = false;
		pthread_mutex_unlock(&req->locked.m);
		if (go_on(req)) {
			end(req); /* queued for good: nothing comes after it */
			return;
		}
		pthread_mutex_lock(&req->locked.m);
		again = req->locked.again;
		req->locked.queued = again;
		pthread_mutex_unlock(&req->locked.m);
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
	pthread_mutex_init(&req->locked.m, NULL);
	pthread_cond_init(&req->locked.c, NULL);
	for (size_t i = 0; i < n; i++)
		set_result(req, i, 0);
	*ret = req;
	return 0;
}

static void request_free(struct shardfuse_request *req)
{
	pthread_cond_destroy(&req->locked.c);
	pthread_mutex_destroy(&req->locked.m);
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
		pthread_mutex_lock(&req->locked.m);
		/* all of them are under way, or the rest of them is */
		unsigned before = req->locked.under_way;
		while (before && req->locked.under_way >= before)
			pthread_cond_wait(&req->locked.c, &req->locked.m);
		pthread_mutex_unlock(&req->locked.m);
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
	pthread_mutex_lock(&req->locked.m);
	go_on_later_locked(req);
	pthread_mutex_unlock(&req->locked.m);
	return 0;
}

void shardfuse_request_cancel(struct shardfuse_request *req)
{
	pthread_mutex_lock(&req->locked.m);
	req->locked.canceled = true;
	for (unsigned i = 0; i < PIECES; i++)
		if (req->piece[i].live)
			sf_read_cancel(req->h->s.reader, &req->piece[i].rd);
	pthread_mutex_unlock(&req->locked.m);
}

int shardfuse_request_finish(struct shardfuse_request *req)
{
	int r;

	if (!req)
		return 0;
	pthread_mutex_lock(&req->locked.m);
	while (!req->locked.ended)
		pthread_cond_wait(&req->locked.c, &req->locked.m);
	r = req->locked.result;
	pthread_mutex_unlock(&req->locked.m);
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
