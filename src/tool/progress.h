/* A progress line on a terminal. */
#ifndef SF_TOOL_PROGRESS_H
#define SF_TOOL_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/* Threads: add from any; show from one. */
struct sf_progress {
	_Atomic uint64_t bytes;
	uint64_t total; /* 0 unknown */
	bool on;        /* stderr is a terminal and nobody said --quiet */
	int64_t begun_ns, shown_ns;
};
void sf_progress_init(struct sf_progress *p, bool quiet);
void sf_progress_add(struct sf_progress *p, uint64_t bytes);
void sf_progress_show(struct sf_progress *p); /* at most ten times a second */
void sf_progress_end(struct sf_progress *p);  /* wipes the line */

#endif
