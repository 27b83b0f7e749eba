#include "config.h"

#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"
#include "read/read_window.h"

#define SLICES 4 /* of a long read at once */

void sf_read_window_init(struct sf_read_window *w, struct sf_reader *r, unsigned n)
{
	w->reader = r;
	w->n = n;
	pthread_mutex_init(&w->m, NULL);
	pthread_cond_init(&w->c, NULL);
}

void sf_read_window_release(struct sf_read_window *w)
{
	pthread_cond_destroy(&w->c);
	pthread_mutex_destroy(&w->m);
}

struct sf_window_read *sf_read_window_take(struct sf_read_window *w)
{
	struct sf_window_read *x = NULL;

	pthread_mutex_lock(&w->m);
	for (unsigned i = 0; i < w->n && !x; i++)
		if (!w->at[i].taken)
			x = &w->at[i];
	if (x) {
		x->w = w;
		x->taken = true;
		w->under_way++;
	}
	pthread_mutex_unlock(&w->m);
	return x;
}

static void end(struct sf_read *rd, int r)
{
	struct sf_window_read *x = rd->priv;
	struct sf_read_window *w = x->w;
	void (*ended)(struct sf_window_read * rd) = w->ended;

	pthread_mutex_lock(&w->m);
	x->r = r;
	x->parked = false;
	x->ended = true;
	if (!ended)
		pthread_cond_broadcast(&w->c);
	pthread_mutex_unlock(&w->m);
	/* without that, whoever waited may have freed the window by now */
	if (ended)
		ended(x);
}

void sf_read_window_start(struct sf_window_read *x)
{
	struct sf_read_window *w = x->w;
	int r;

	x->ended = false;
	x->rd.done = end;
	x->rd.priv = x;
	r = sf_read_start(w->reader, &x->rd);
	if (r != -EAGAIN) {
		end(&x->rd, r);
		return;
	}
	pthread_mutex_lock(&w->m);
	x->parked = true;
	pthread_mutex_unlock(&w->m);
	sf_read_park(w->reader, &x->rd);
	/* whoever cancelled it before it had a deadline was not heard */
	pthread_mutex_lock(&w->m);
	if (w->canceled && x->parked)
		sf_read_cancel(w->reader, &x->rd);
	pthread_mutex_unlock(&w->m);
}

void sf_read_window_wait(struct sf_window_read *x)
{
	struct sf_read_window *w = x->w;

	pthread_mutex_lock(&w->m);
	while (!x->ended)
		pthread_cond_wait(&w->c, &w->m);
	pthread_mutex_unlock(&w->m);
}

void sf_read_window_give(struct sf_window_read *x)
{
	struct sf_read_window *w = x->w;

	sf_read_release(&x->rd);
	pthread_mutex_lock(&w->m);
	x->taken = false;
	w->under_way--;
	if (w->given_locked)
		w->given_locked(w);
	pthread_mutex_unlock(&w->m);
}

void sf_read_window_cancel_locked(struct sf_read_window *w)
{
	w->canceled = true;
	for (unsigned i = 0; i < w->n; i++)
		if (w->at[i].parked)
			sf_read_cancel(w->reader, &w->at[i].rd);
}

/* ---- slices ---- */

static void start_slice(struct sf_window_read *x, const struct sf_read *whole, uint64_t at,
                        uint64_t len)
{
	x->rd = (struct sf_read){ .emit = whole->emit,
		                  .arg = whole->arg,
		                  .off = whole->off + at,
		                  .len = len,
		                  .buf = whole->buf ? (uint8_t *)whole->buf + at : NULL,
		                  .inner = whole->inner };
	sf_read_window_start(x);
}

int sf_read_slices(struct sf_reader *r, const struct sf_read *whole, uint64_t slice,
                   int (*take)(void *arg, const struct sf_read *rd, struct sf_error *err),
                   void *arg, struct sf_error *err)
{
	struct sf_read_window *w = calloc(1, sizeof(*w));
	struct sf_window_read *x;
	uint64_t next = 0;
	int e = 0;

	if (!w)
		return sf_fail(err, -ENOMEM, "no memory for a read");
	sf_read_window_init(w, r, SLICES);
	for (unsigned oldest = 0;; oldest = (oldest + 1) % SLICES) {
		/* taken in turn: the one that is given back is the oldest */
		while (e >= 0 && next < whole->len && (x = sf_read_window_take(w)) != NULL) {
			uint64_t n = SF_MIN(slice, whole->len - next);
			start_slice(x, whole, next, n);
			next += n;
		}
		x = &w->at[oldest];
		if (!x->taken)
			break;
		sf_read_window_wait(x);
		if (e >= 0 && x->r < 0)
			e = sf_fail(err, x->r, "%s", x->rd.err.msg);
		if (e >= 0 && take)
			e = take(arg, &x->rd, err);
		sf_read_window_give(x);
	}
	sf_read_window_release(w);
	free(w);
	return e;
}
