/* Virtual files written as real ones: in parallel, in bounded memory, each whole or not at all. */
#ifndef SF_TOOL_WRITE_FILE_H
#define SF_TOOL_WRITE_FILE_H

#include "lib/session.h"
#include "tool/progress.h"

/* One file to write. */
struct sf_out_file {
	struct sf_vfile *file; /* a reference; NULL: open makes it. NULL again once written */
	int (*open)(void *arg, const struct sf_out_file *f, struct sf_vfile **ret,
	            struct sf_error *err);
	void *arg;
	uint64_t which; /* for open: what it makes */
	char *path;     /* final name, malloc'ed */
	uint64_t least; /* bytes it has at least, known before it is opened: of its tensors */
	uint64_t size;  /* known after it was written */
	bool crc; /* a .pt: CRCs of its tensors are computed on the way and put into headers and
	             directory */
};

struct sf_write_options {
	unsigned threads; /* 0: one per core */
	bool force;       /* replace what is there */
	bool set;         /* the files are read as one: all get their names together, at the end */
	const char *root; /* directory that is made if its parent is there, and anything below it;
	                     NULL: whatever is missing is made */
	/* Files, not directories, that go when all is written: of a set before the first of it gets
	 * its name, and after the last one did, in this order. Those that are not there are fine.
	 */
	char *const *before, *const *after;
	size_t nbefore, nafter;
	struct sf_progress *progress;
};

/*
 * sf_write_files - write all; @done is called for each in the order of @files, on the calling
 * thread.
 *
 * A file gets its name when it is whole and on disk (atomic_file.h; fsync of it before, of its
 * directory after). Names appear in the order of @files, those of up to 256 at a time, or of the
 * whole set, once all of these are written. On an error nothing more gets a name. Before anything
 * is made it refuses: existing paths unless force (-EEXIST), and even then those that are files of
 * the checkpoint (-EINVAL); a root whose parent is not there (-ENOENT); more bytes than the file
 * system has free (-ENOSPC). Small files are written several at a time, large ones by several
 * threads each. Cost: memory of threads * 512 KiB; a descriptor for each file that waits for its
 * name.
 */
int sf_write_files(struct sf_session *s, struct sf_out_file *files, size_t n,
                   const struct sf_write_options *o,
                   void (*done)(void *arg, const struct sf_out_file *f), void *arg,
                   struct sf_error *err);

#endif
