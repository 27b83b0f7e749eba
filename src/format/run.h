/* The steps of a run directory: which are complete, which is the latest; looked at again from time
 * to time. */
#ifndef SF_FORMAT_RUN_H
#define SF_FORMAT_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "store/store.h"

/* What can be told of a step without loading it. */
enum sf_run_state {
	SF_RUN_COMPLETE,
	SF_RUN_INCOMPLETE, /* a save that did not finish, or what a load failed with */
	SF_RUN_GONE,       /* it was there once */
};
enum sf_run_mark { SF_RUN_UNMARKED, SF_RUN_PERMANENT, SF_RUN_EPHEMERAL };

struct sf_run_step {
	const char *name; /* the run's: lasts as long */
	int64_t number;   /* that its name says; -1: none */
	enum sf_run_state state;
	enum sf_run_mark mark; /* what sf_run_read_marks found */
	int64_t mtime_ns;      /* of the newest of its files */
	uint64_t version;      /* a hash of its listing */
};

struct sf_run;
/*
 * sf_run_new - the run that @store holds; looks at it.
 *
 * @store outlives it. @source_format: of --source-format, or NULL. @refresh_ms: how long what was
 * seen holds; 0: for ever.
 * Errors: those of the store; -ENOTSUP one that cannot list.
 * Threads: all functions, any number of calls at once; only sf_run_refresh and sf_run_read_marks wait.
 */
int sf_run_new(struct sf_store *store, const char *source_format, unsigned refresh_ms,
               struct sf_run **ret, struct sf_error *err);
void sf_run_free(struct sf_run *run); /* NULL is fine */

/* Is it to be looked at again? */
bool sf_run_is_due(struct sf_run *run);
/*
 * sf_run_refresh - looks at it again.
 *
 * Cost: one listing of names, and what those steps hold that were not known as complete or are
 * watched; from a server all in one where these are many. Where somebody else is at it: nothing.
 * Errors: those of the store; what was known stays.
 */
int sf_run_refresh(struct sf_run *run, struct sf_error *err);

/* Steps have numbers from 0 on, in order of their names as far as they were seen at once; a step
 * keeps its number, whatever becomes of it. */
uint32_t sf_run_nsteps(struct sf_run *run);
void sf_run_step(struct sf_run *run, uint32_t step, struct sf_run_step *ret);
/* Why it is incomplete: "" where it is not. */
void sf_run_why(struct sf_run *run, uint32_t step, struct sf_error *ret);
/* 0 and its number: there is a complete one of this name; else -ENOENT. */
int sf_run_find(struct sf_run *run, const char *name, size_t len, uint32_t *ret);
/* The first complete one from @from on; its name. NULL: none. */
const char *sf_run_next(struct sf_run *run, uint32_t from, uint32_t *ret);
/* That which the trainer's own file names, if it is complete, else the one with the highest number;
 * -ENOENT: none is complete. */
int sf_run_latest(struct sf_run *run, uint32_t *ret);
/* When the newest of the complete ones was written; 0: there is none. */
int64_t sf_run_mtime(struct sf_run *run);

/* A load of it failed: it is incomplete until its files are others. */
void sf_run_fail(struct sf_run *run, uint32_t step, const struct sf_error *why);
/* Is it to be looked at again although it is complete? Of a store that is far it is not: its objects are
 * asked for by version. */
void sf_run_watch(struct sf_run *run, uint32_t step, bool watch);

/* Reads what OLMo-core's trainer notes of each step, all side by side. */
int sf_run_read_marks(struct sf_run *run, struct sf_error *err);
const struct sf_store *sf_run_store(const struct sf_run *run);

#endif
