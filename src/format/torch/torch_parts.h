/* Files of torch.save that a checkpoint is made of: opened side by side, no storage read. */
#ifndef SF_FORMAT_TORCH_PARTS_H
#define SF_FORMAT_TORCH_PARTS_H

#include "base/arena.h"
#include "ckpt/ckpt_builder.h"
#include "parse/torch_archive.h"
#include "store/store.h"

struct sf_torch_part {
	const struct sf_objinfo *file; /* the caller's, before: as listed; outlives the part */
	/* the result */
	int r; /* 0, or why it could not be opened, with its message in err, the file's name in it */
	struct sf_error err;
	uint64_t len; /* bytes of the file */
	struct sf_torch_archive archive;
	struct sf_arena arena; /* of the archive and its value */
	uint32_t place;        /* SF_NONE until sf_torch_part_place() */
};

/*
 * sf_torch_parts_open - opens all of them, up to sixteen at once.
 *
 * One part's failure is no other's: each has its own r. After a part that ended with -ETIMEDOUT or
 * -ECANCELED no further one is begun, and ends like it.
 * Errors:  -ENOMEM, or no thread can be started.
 * Memory:  values are their parts' until sf_torch_parts_release(); at most @value_max bytes of a
 *          directory, a pickle, or a value each (0: 1 GiB).
 * Threads: waits; of its own. Cost: as sf_torch_open's, for each.
 */
int sf_torch_parts_open(struct sf_store *store, struct sf_torch_part *at, size_t n,
                        uint64_t value_max, struct sf_error *err);
void sf_torch_parts_release(struct sf_torch_part *at, size_t n);

/* The place of its raw items, part->place from then on. */
int sf_torch_part_place(struct sf_torch_part *part, struct sf_ckpt_builder *b,
                        struct sf_error *err);

#endif
