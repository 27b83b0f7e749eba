/* Inside of a save: the handle, what saves share, and how a commit goes. Only save*.c include it. */
#ifndef SF_SAVE_SAVE_PRIV_H
#define SF_SAVE_SAVE_PRIV_H

#include <pthread.h>
#include <stdatomic.h>
#include "save/save_format.h"
#include "save/save_item.h"
#include "save/save_plan.h"
#include "save/save_stage.h"
#include "save/save_target.h"
#include "save/save_tree.h"
#include "save/save_write.h"

#define SF_SAVE_TIMEOUT_MS 120000
#define SF_SAVE_WRITE_TIMEOUT_MS 1800000
#define SF_SAVE_STAGING (UINT64_C(256) << 20)

/* The plan of the save before: a later one of the same items need not tell it again. Of the save that goes
 * through the keep, and between saves of the one before. */
struct sf_save_before {
	bool valid;
	uint64_t id;           /* of the save that made it: the same on all ranks */
	uint64_t hash, nitems; /* of this rank's plan */
	uint32_t options;
	uint8_t *bits;                /* which items this rank writes */
	struct sf_global_plan global; /* rank 0's; empty while a save has it */
};

#define SF_SAVE_PHASES 4
/* save_counters.c: of a keep's saves, by phase. */
struct sf_save_counters {
	_Atomic uint64_t ended[SF_SAVE_PHASES], failed[SF_SAVE_PHASES]; /* ended: well */
	_Atomic uint64_t ms[SF_SAVE_PHASES], bytes[SF_SAVE_PHASES];
};
/* A phase ended. */
void sf_save_count(struct sf_save_counters *c, const char *phase, int64_t ms, uint64_t bytes,
                   bool ok);

struct shardfuse_save_keep {
	struct sf_save_counters counters;
	struct sf_stage_pool *pool;
	struct sf_save_before before;
	struct {
		pthread_mutex_t m;
		pthread_cond_t c;
		bool busy; /* a save goes through it */
		/* and its test and wait alone move it on: who waited for it would for ever */
		bool by_caller;
	} locked;
};
/* This rank's part of the plan, after all agreed. */
struct sf_save_mine {
	struct sf_verdict verdict; /* a failure that the others do not know of yet */
	uint64_t hash;             /* of its plan */
	uint64_t exchanged;        /* bytes to rank 0 and back */
	char token[33];
	bool lowest_of_host;
	struct sf_write_place *place; /* items that this rank writes, and where */
	uint64_t nplaces, bytes;
};

struct shardfuse_save {
	char *target;                      /* its variables put in */
	struct shardfuse_save_options opt; /* its strings are ours, but for variable */
	char *format_metadata;
	const struct sf_save_format *format;
	struct shardfuse_comm comm;
	struct sf_save_tree tree;
	struct sf_save_items items;
	struct shardfuse_save_keep *keep;
	uint64_t alike; /* hash of what the format has all ranks give alike; 0: nothing */
	bool own_keep, holds_keep;
	bool ended;                             /* committed or aborted */
	struct shardfuse_save_request *request; /* that was not waited for; NULL */
	struct sf_verdict failed; /* an add that did: commit fails with it, on all ranks */
	struct sf_save_target *at;
	struct sf_global_plan global; /* rank 0's */
	struct sf_save_mine mine;
};

/* save.c: the keep is this save's until it is given. -EBUSY where @refuse and another has it. */
int sf_save_keep_take(struct shardfuse_save *s, bool refuse, struct sf_error *err);
void sf_save_keep_give(struct shardfuse_save *s); /* that it has none is fine */

#define SF_SAVE_MANIFEST ".shardfuse-manifest.json"
#define SF_MANIFEST_BYTES 40 /* that are told of a shard */
/* save_manifest.c: a rank's shards into what it tells; rank 0: all of them, from byte @at of each record,
 * into the manifest. */
void sf_save_manifest_tell(const struct sf_shard_file *file, unsigned n, struct sf_buf *record);
int sf_save_manifest_write(const struct shardfuse_save *s, const void *const *record,
                           const size_t *len, uint32_t n, size_t at, struct sf_error *err);

/* save_log.c: a phase ended, which is counted and told. @r: how; @err its message, when it failed. */
void sf_save_log(const struct shardfuse_save *s, const char *phase, int64_t began_ms,
                 uint64_t bytes, int r, const struct sf_error *err);

/* save_template.c: variables in braces. -EINVAL an unknown one, which is named with those known. */
int sf_save_template(const char *target, const struct shardfuse_save_options *o, uint32_t rank,
                     uint32_t size, char **ret, struct sf_error *err);

/*
 * save_agree.c: all ranks plan together. What this rank writes is in s->mine then, rank 0 has
 * s->global; the target is claimed. @claim: false: the plan alone is wanted, nothing is made. A failure is
 * everybody's; one that only this rank knows of is s->mine.verdict.
 */
int sf_save_agree(struct shardfuse_save *s, const struct sf_verdict *mine, bool claim,
                  struct sf_error *err);
/* As before it: the save may still be committed. */
void sf_save_forget_plan(struct shardfuse_save *s);

/*
 * save_run.c: from the plan to the end. begin: stages (@snapshot) and starts the writers; advance goes on
 * as far as it can: -EAGAIN when it would have to wait longer than @wait_ms; else the save's end, whose
 * result it is. Whatever failed, advance has to be called until the end: all ranks share it.
 */
struct sf_save_run;
int sf_save_run_new(struct shardfuse_save *s, struct sf_save_run **ret, struct sf_error *err);
void sf_save_run_begin(struct sf_save_run *run, bool snapshot);
int sf_save_run_advance(struct sf_save_run *run, unsigned wait_ms, struct sf_error *err);
void sf_save_run_cancel(struct sf_save_run *run);
uint64_t sf_save_run_progress(const struct sf_save_run *run, uint64_t *ret_total);
void sf_save_run_free(struct sf_save_run *run);

#endif
