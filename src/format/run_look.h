/* One look at a run directory: what the store lists, and what formats say of it. Only run.c and run_look.c
 * include it. */
#ifndef SF_FORMAT_RUN_LOOK_H
#define SF_FORMAT_RUN_LOOK_H

#include "format/run.h"

/*
 * sf_run_look - lists @store, and tells @run of all that is there.
 *
 * *ret_tracked becomes what a trainer's own file says is the latest, malloc'ed; NULL: there is none.
 */
int sf_run_look(struct sf_run *run, struct sf_store *store, const char *format, char **ret_tracked,
                struct sf_error *err);

/* ---- what it tells (run.c) ---- */

struct sf_run_judged {
	int code; /* 0: a checkpoint can be loaded from it, as far as its names tell */
	struct sf_error why;
	uint64_t version;
	int64_t mtime_ns;
	const char *marks; /* the name of its .metadata.json, or NULL */
};
bool sf_run_look_wanted(struct sf_run *run, const char *name); /* is it to be judged? */
int sf_run_look_seen(struct sf_run *run, const char *name);    /* it is there */
void sf_run_look_judged(struct sf_run *run, const char *name, const struct sf_run_judged *j);

#endif
