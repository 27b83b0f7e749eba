/* A run directory in a mount: a slot for each step that was looked up, whose checkpoint is loaded when
 * it is looked into, and given back when others are. */
#ifndef SF_FUSE_STEPS_H
#define SF_FUSE_STEPS_H

#include "fuse/fs_ops.h"

#define SF_STEPS_LOADED 8 /* checkpoints that stay loaded, beside those that have files open */

/* A run's mount gets what loads and ends steps; another gets nothing. */
int sf_steps_begin(struct sf_fs *fs, struct sf_session *root, struct sf_error *err);
/* Behind sf_fs_wait: no load is under way. Sessions that are given back later end in @fs->closers. */
void sf_steps_end(struct sf_fs *fs);

/*
 * sf_steps_look - looks at the run again when that is due, on another thread.
 *
 * Waits for it, but not long: a store that does not answer holds up one request, a second, and then
 * the others as little as ever. Of a slot that is no run: nothing.
 */
void sf_steps_look(struct sf_fs *fs, struct sf_slot *run);
/* The slot of a step of @run, with a reference; -ENOMEM, -EMFILE. Loads nothing. */
int sf_steps_slot(struct sf_fs *fs, struct sf_slot *run, uint32_t step, struct sf_slot **ret);

/* A request as libfuse gave it: what is needed to do it once more. */
struct sf_call {
	void (*again)(fuse_req_t req, const struct sf_call *call);
	fuse_ino_t ino;
	const char *name; /* or NULL; copied */
	size_t size;
	off_t off;
	const struct fuse_file_info *fi; /* or NULL; copied */
};
/*
 * sf_steps_wait - is the checkpoint of @slot there?
 *
 * False: it is, go on. True: the request is answered, or will be: it is done once more when the
 * step is loaded, on another thread; the reference to @slot is taken. -ENOENT: it was deleted.
 */
bool sf_steps_wait(struct sf_fs *fs, fuse_req_t req, struct sf_slot *slot,
                   const struct sf_call *call);
/* What a reader of an open file is told in place of @code: -ESTALE where its step is gone, or its
 * files are others. */
int sf_steps_code(struct sf_slot *slot, int code);
/* Lets go of what is loaded beyond SF_STEPS_LOADED, as far as nobody has it. */
void sf_steps_shed(struct sf_fs *fs);

#endif
