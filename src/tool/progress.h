/* A line on a terminal that says how far long work is, and what else goes to that terminal. */
#ifndef SF_TOOL_PROGRESS_H
#define SF_TOOL_PROGRESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * "[=====>     ]  45 %  0.65 of 1.44 GB, 0.69 GB/s, ETA 0:01  model.pt", ten times a second by a
 * thread of its own, on stderr, only if that is a terminal and nobody said --quiet.
 */
struct sf_progress {
	_Atomic uint64_t bytes; /* done */
	_Atomic uint64_t total; /* 0 unknown */
	bool on, running;
	int64_t begun_ns;
	pthread_t thread;
	const char *file; /* being worked on, or NULL; under the terminal's lock */
};
/* @quiet: nothing is ever shown. Counts may be added at once. */
void sf_progress_init(struct sf_progress *p, bool quiet);
/* From now on it is shown; one at a time in a process. */
void sf_progress_start(struct sf_progress *p);
/* Threads: any. */
void sf_progress_add(struct sf_progress *p, uint64_t bytes);
/* What is being worked on: borrowed until sf_progress_end. Threads: any. */
void sf_progress_file(struct sf_progress *p, const char *path);
/* The line is gone when this returns. Without start, or again, it does nothing. */
void sf_progress_end(struct sf_progress *p);
/* "wrote 1.44 GB in 2.1 s (0.69 GB/s)", with @verb for "wrote", where progress was shown. */
void sf_progress_summary(const struct sf_progress *p, const char *verb);

/*
 * Around whatever else is printed on stdout or stderr while work goes on: the line is wiped first,
 * and drawn again later. Threads: any; nothing but printing between the two.
 */
void sf_terminal_lock(void);
void sf_terminal_unlock(void);
/* The process ends now: the line is wiped and no other drawn. Waits a moment at most. */
void sf_terminal_leave(void);

#endif
