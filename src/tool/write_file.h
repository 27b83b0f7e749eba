/* Virtual files written as real ones: in parallel, in bounded memory, under a temporary name until
 * whole. */
#ifndef SF_TOOL_WRITE_FILE_H
#define SF_TOOL_WRITE_FILE_H

#include "tool/progress.h"
#include "tool/session.h"

/* One file to write. */
struct sf_out_file {
	struct sf_vfile *file; /* a reference; NULL once written. sf_out_file_open makes it when it
	                          is NULL */
	int (*open)(void *arg, const struct sf_out_file *f, struct sf_vfile **ret,
	            struct sf_error *err);
	void *arg;
	uint64_t which; /* for open: what it makes */
	char *path;     /* final name, malloc'ed */
	uint64_t size;  /* known after it was written */
	bool crc; /* a .pt: CRCs of its tensors are computed on the way and put into headers and
	             directory */
};

struct sf_write_options {
	unsigned threads; /* 0: one per core */
	bool force;       /* replace what is there */
	struct sf_progress *progress;
};

/*
 * sf_write_files - write all; @done is called for each finished file on the calling thread or a
 * worker, one at a time.
 *
 * Each goes to .shardfuse-PID-RANDOM beside PATH first and is renamed when whole; directories are
 * made. On the first error nothing more is begun, temporary files are removed, finished ones stay.
 * Refuses existing paths unless force, all of them before anything is written (-EEXIST), and even
 * then those that are files of the checkpoint (-EINVAL). Small files are written several at a time, large ones by several threads each. Cost: memory of threads
 * * 4 MiB.
 */
int sf_write_files(struct sf_session *s, struct sf_out_file *files, size_t n,
                   const struct sf_write_options *o,
                   void (*done)(void *arg, const struct sf_out_file *f), void *arg,
                   struct sf_error *err);

#endif
