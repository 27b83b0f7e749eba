/* Formats that a save can have: what stands beside the shards, and what makes them a checkpoint. */
#ifndef SF_SAVE_SAVE_FORMAT_H
#define SF_SAVE_SAVE_FORMAT_H

#include "save/save_plan.h"
#include "save/save_target.h"

struct shardfuse_save;

struct sf_save_format {
	const char *name;
	/* where the shards and .metadata lie below the target, with a '/' behind it, or "" */
	const char *shards;
	/* the last file that finish() writes: with it all of the format's readers see a checkpoint */
	const char *last;
	/* Rank 0, before anything is made: is this a save that the format can have? NULL: any is. */
	int (*check)(const struct shardfuse_save *s, const struct sf_global_plan *g,
	             struct sf_error *err);
	/* Instead of sf_save_items_object; NULL: that. */
	int (*object)(struct shardfuse_save *s, const struct shardfuse_save_object *o,
	              struct sf_error *err);
	/* Rank 0, when all shards are written and synced: the files that make them a checkpoint, the
	 * one that says "complete" last. */
	int (*finish)(struct shardfuse_save *s, struct sf_save_target *t,
	              const struct sf_global_plan *g, struct sf_error *err);
};
/* NULL name: the first. -EINVAL: the message lists those that there are. */
int sf_save_format_find(const char *name, const struct sf_save_format **ret, struct sf_error *err);

#endif
