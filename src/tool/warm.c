#include "config.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "ckpt/place.h"
#include "tool/warm.h"

#define PIECE (UINT64_C(8) << 20)
#define SCRATCH ((size_t)64 << 10)

/* One request. Its bytes are wanted nowhere: all of them go to the same place, one after the other,
 * which stays in the processor's cache. */
struct slot {
	struct sf_io_req req;
	struct sf_warm *w;
	struct sf_source *src; /* a reference; NULL: it is free */
	const struct sf_file *file;
	size_t first; /* range of that file */
	bool ended;   /* under w->m */
	struct iovec iov[PIECE / SCRATCH];
	uint8_t scratch[SCRATCH];
};

static int open_of_store(void *arg, const struct sf_file *file, struct sf_source **ret,
                         struct sf_error *err)
{
	return sf_file_open(arg, file, ret, err);
}

void sf_warm_init(struct sf_warm *w, struct sf_store *store, unsigned at_once)
{
	*w = (struct sf_warm){ .open = open_of_store, .arg = store, .at_once = at_once };
	pthread_mutex_init(&w->m, NULL);
	sf_cond_init(&w->c);
}

void sf_warm_release(struct sf_warm *w)
{
	pthread_cond_destroy(&w->c);
	pthread_mutex_destroy(&w->m);
}

void sf_warm_stop(struct sf_warm *w)
{
	pthread_mutex_lock(&w->m);
	w->stop = true;
	pthread_cond_signal(&w->c);
	pthread_mutex_unlock(&w->m);
}

/* ---- a run ---- */

struct run {
	struct sf_warm *w;
	struct slot *slot;          /* at_once of them */
	struct sf_source *src;      /* a reference: of file */
	const struct sf_file *file; /* that is read */
	size_t first;               /* range of it */
	bool *broken;               /* by that: it cannot be read */
	bool stopped;
};

static void failed(struct run *run, const struct sf_file *file, size_t first,
                   const struct sf_error *err)
{
	if (run->broken[first] || run->stopped)
		return;
	run->broken[first] = true;
	run->w->nfailed++;
	if (run->w->failed)
		run->w->failed(run->w->arg, file, err);
}

static void ended(struct sf_io_req *req, int r)
{
	struct slot *s = sf_container_of(req, struct slot, req);

	(void)r;
	pthread_mutex_lock(&s->w->m);
	s->ended = true;
	pthread_cond_signal(&s->w->c);
	pthread_mutex_unlock(&s->w->m);
}

/* What ended is told of, and free. */
static void take_back(struct run *run, struct slot *s)
{
	if (s->req.r < 0) {
		failed(run, s->file, s->first, &s->req.err);
	} else {
		atomic_fetch_add_explicit(&run->w->bytes, s->req.len, memory_order_relaxed);
		if (run->w->count)
			atomic_fetch_add_explicit(run->w->count, s->req.len, memory_order_relaxed);
		if (run->w->progress)
			sf_progress_add(run->w->progress, s->req.len);
	}
	sf_source_unref(s->src);
	s->src = NULL;
}

static void cancel_all(struct run *run)
{
	for (unsigned i = 0; i < run->w->at_once; i++) {
		struct slot *s = &run->slot[i];
		if (s->src && s->src->ops->cancel)
			s->src->ops->cancel(s->src, &s->req);
	}
}

/* A free one, or NULL: it is to stop. With @all, the last of them when none is under way. */
static struct slot *wait_for(struct run *run, bool all)
{
	struct sf_warm *w = run->w;

	for (;;) {
		struct slot *done = NULL, *idle = NULL;
		unsigned busy = 0;
		bool stop;
		pthread_mutex_lock(&w->m);
		for (;;) {
			done = idle = NULL;
			busy = 0;
			for (unsigned i = 0; i < w->at_once; i++) {
				struct slot *s = &run->slot[i];
				if (!s->src)
					idle = s;
				else if (s->ended)
					done = s;
				else
					busy++;
			}
			stop = w->stop && !run->stopped;
			if (done || stop || (all ? !busy : idle != NULL))
				break;
			pthread_cond_wait(&w->c, &w->m);
		}
		pthread_mutex_unlock(&w->m);
		if (stop) {
			run->stopped = true;
			cancel_all(run);
		}
		if (done)
			take_back(run, done);
		else if (run->stopped && !all)
			return NULL;
		else if (!stop && (all ? !busy : idle != NULL))
			return idle;
	}
}

static void begin(struct run *run, struct slot *s, uint64_t off, uint64_t len)
{
	int n = 0;

	for (uint64_t left = len; left; left -= s->iov[n++].iov_len)
		s->iov[n] = (struct iovec){ s->scratch, SF_MIN(left, (uint64_t)SCRATCH) };
	s->w = run->w;
	s->ended = false;
	s->file = run->file;
	s->first = run->first;
	s->src = sf_source_ref(run->src);
	s->req = (struct sf_io_req){ .off = off,
		                     .len = len,
		                     .iov = s->iov,
		                     .niov = n,
		                     .kind = SF_FETCH_TENSOR,
		                     .done = ended,
		                     .keep = true,
		                     .yields = true,
		                     .wakes = true };
	if (sf_source_submit(s->src, &s->req))
		ended(&s->req, s->req.r);
}

/* False: it cannot be read, or it is to stop. */
static bool go_to(struct run *run, const struct sf_file *file, size_t range)
{
	struct sf_error err = SF_ERROR_INIT;

	if (run->file == file)
		return !run->broken[run->first];
	sf_source_unref(run->src);
	run->src = NULL;
	run->file = file;
	run->first = range;
	if (run->w->progress)
		sf_progress_file(run->w->progress, file->name);
	if (run->w->open(run->w->arg, file, &run->src, &err) >= 0)
		return true;
	failed(run, file, range, &err);
	return false;
}

/* Pieces end at multiples of their length, so that neighbours have no block in common. */
static void read_range(struct run *run, const struct sf_warm_range *g, size_t i)
{
	if (!g->len)
		go_to(run, g->file, i);
	for (uint64_t off = g->off, end = g->off + g->len, n; off < end && !run->stopped;
	     off += n) {
		struct slot *s;
		n = SF_MIN(end, (off / PIECE + 1) * PIECE) - off;
		s = go_to(run, g->file, i) ? wait_for(run, false) : NULL;
		if (!s)
			return;
		begin(run, s, off, n);
	}
}

int sf_warm_read(struct sf_warm *w, const struct sf_warm_range *at, size_t n, struct sf_error *err)
{
	SF_FREE struct slot *slots = calloc(w->at_once, sizeof(*slots));
	SF_FREE bool *broken = calloc(n + 1, sizeof(*broken));
	struct run run = { .w = w, .slot = slots, .broken = broken };

	if (!slots || !broken)
		return sf_fail(err, -ENOMEM, "no memory for %u requests", w->at_once);
	for (size_t i = 0; i < n && !run.stopped; i++)
		read_range(&run, &at[i], i);
	wait_for(&run, true);
	sf_source_unref(run.src);
	return run.stopped ? sf_fail(err, -ECANCELED, "stopped") : 0;
}
