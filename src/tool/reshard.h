/* A checkpoint written anew: sharded, by as many ranks as are asked for, all of them threads of this
 * process. */
#ifndef SF_TOOL_RESHARD_H
#define SF_TOOL_RESHARD_H

#include "lib/session.h"
#include "shardfuse_save.h"
#include "tool/progress.h"

#define SF_RESHARD_RANKS_MAX 1024

struct sf_reshard_options {
	const char *format; /* struct shardfuse_save_options'; NULL: "dcp" */
	uint32_t ranks;     /* 1 … SF_RESHARD_RANKS_MAX */
	bool force;         /* a checkpoint that is there is replaced */
	bool no_optim;      /* keys of the optimizer's groups are left out */
	uint64_t memory;    /* bytes for what was read and is not yet written, of all ranks here */
	/* This process is one rank of these, of which there are @ranks; borrowed. NULL: all ranks are
	 * threads of this process. */
	const struct shardfuse_comm *comm;
	const struct sf_store_options
		*store; /* of a target that is a URL; NULL: nothing was given */
	const struct sf_log *log;
	struct sf_progress *progress;
};

/*
 * sf_reshard - the keys that the sessions show become the checkpoint @target, a directory or a URL of s3 or gs:
 * each rank's slice of a tensor is read when it is written. With @o->comm it is collective: all ranks call it
 * with the same sources, target and options, and what one fails at fails on all.
 *
 * Ends at a signal (tool/interrupt.h) with nothing left. Fills and shows the progress.
 * Errors:  -EINVAL a key that two sessions have, a target that lies in a source or the other way round, no
 *          key at all; -EEXIST; -ENOENT the target's directory is not there; -ENOSPC; -EBADMSG a damaged
 *          tensor; those of reading and of shardfuse_save_commit. Nothing is left after one.
 * Memory:  o->memory, the objects' values, and about 300 bytes for each piece of a tensor.
 */
int sf_reshard(struct sf_session *const *source, size_t nsources, const char *target,
               const struct sf_reshard_options *o, struct sf_error *err);

/*
 * sf_reshard_give_up - instead of sf_reshard, on a rank of @o->comm that failed before it: the other ranks'
 * sf_reshard fails with its message @why, too.
 */
void sf_reshard_give_up(const char *target, const struct sf_reshard_options *o, const char *why);

/* What is wrong with format, ranks or memory, or with @target as a name: -EINVAL. Looks at no file. */
int sf_reshard_check(const char *target, const struct sf_reshard_options *o, struct sf_error *err);

#endif
