/* Several reads of a reader under way at once, from one thread: who reads more than a read may have. */
#ifndef SF_READ_READ_WINDOW_H
#define SF_READ_READ_WINDOW_H

#include <pthread.h>
#include "read/reader.h"

#define SF_READ_WINDOW_MAX 8

/* One of them. */
struct sf_window_read {
	struct sf_read rd; /* between take and start the caller's to fill, but for done and priv */
	int r;             /* its result, once it has ended */
	/* the window's */
	struct sf_read_window *w;
	bool taken;
	bool parked, ended; /* under the window's lock */
};

/*
 * A read is taken, filled and started; when it has ended, whoever is done with it gives it back. One
 * thread at a time takes and starts; reads end in any thread, in any order.
 */
struct sf_read_window {
	struct sf_reader *reader;
	unsigned n;
	/* Told of the end of each read, no lock held; it gives the read back. NULL: who started it
	 * waits for it, and gives it back then. */
	void (*ended)(struct sf_window_read *rd);
	/* Under the lock: one was given back. NULL: nobody need be told. */
	void (*given_locked)(struct sf_read_window *w);
	/* for fields of the caller's, too */
	pthread_mutex_t m;
	pthread_cond_t c;   /* broadcast when a read that is waited for has ended */
	unsigned under_way; /* taken, not given back; under the lock */
	bool canceled;      /* under the lock */
	struct sf_window_read at[SF_READ_WINDOW_MAX];
};

/* In memory that is all 0, which is not moved then. */
void sf_read_window_init(struct sf_read_window *w, struct sf_reader *r, unsigned n);
void sf_read_window_release(struct sf_read_window *w); /* all were given back */
/* One that is not under way; NULL: all are. */
struct sf_window_read *sf_read_window_take(struct sf_read_window *w);
/* Does what need not wait in this thread, and parks what must. */
void sf_read_window_start(struct sf_window_read *rd);
void sf_read_window_wait(struct sf_window_read *rd);
/* Whatever its result holds is gone then. A window without a read under way may be gone, too. */
void sf_read_window_give(struct sf_window_read *rd);
/* All that are parked end soon, with -ECANCELED; those that are started from now on, too. */
void sf_read_window_cancel_locked(struct sf_read_window *w);

/*
 * sf_read_slices - a long read in slices of @slice bytes, a few at once, in bounded memory.
 *
 * @whole: emit, arg, off, len, inner, and buf where its bytes go there. @take gets each slice's result
 * in order, on the calling thread, which waits; NULL: buf is enough. Nothing is read on after the first
 * failure, a slice's or @take's, which is returned.
 */
int sf_read_slices(struct sf_reader *r, const struct sf_read *whole, uint64_t slice,
                   int (*take)(void *arg, const struct sf_read *rd, struct sf_error *err),
                   void *arg, struct sf_error *err);

#endif
