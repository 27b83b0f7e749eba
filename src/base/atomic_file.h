/* A file that gets its name when it is whole: nobody sees half of one, nothing is left of one that
 * never was. */
#ifndef SF_BASE_ATOMIC_FILE_H
#define SF_BASE_ATOMIC_FILE_H

#include <stdbool.h>
#include "base/error.h"

/*
 * Where the file system can (O_TMPFILE) the file has no name until then, so that even SIGKILL
 * leaves nothing. Elsewhere it is called .shardfuse-BOOT-RANDOM: sf_atomic_file_drop_names()
 * removes such names on a signal, sf_atomic_file_sweep() what a killed process left. Its lock
 * (flock) says that its writer lives.
 */
struct sf_atomic_file {
	int fd;                             /* to write to; -1: none is open */
	char *name;                         /* its temporary name, NULL while it has none */
	struct sf_atomic_file *prev, *next; /* those with a name, under names.m in atomic_file.c */
};
#define SF_ATOMIC_FILE_INIT \
	{                   \
		.fd = -1    \
	}

/*
 * sf_atomic_file_open - begin the file that will be @path.
 *
 * It is made in the nearest directory above @path that is there, so directories too appear only
 * when the file is whole. @f stays where it is until it is published or dropped.
 */
int sf_atomic_file_open(struct sf_atomic_file *f, const char *path, struct sf_error *err);

/* What was written goes to disk. File systems that cannot say EINVAL or EROFS: that is fine. */
int sf_atomic_file_sync(struct sf_atomic_file *f, const char *path, struct sf_error *err);

/*
 * sf_atomic_file_publish - give it its name, @path: it appears whole, or not at all.
 *
 * Missing directories are made. @force replaces what is there; else that is -EEXIST. Durable once
 * the file was synced before (sf_atomic_file_sync) and its directory is after (sf_sync_dir_of). The
 * descriptor is closed, also on failure, when nothing is left of it.
 */
int sf_atomic_file_publish(struct sf_atomic_file *f, const char *path, bool force,
                           struct sf_error *err);

/* Never mind: nothing is left. One that is not open is fine. */
void sf_atomic_file_drop(struct sf_atomic_file *f);

/* The process ends now: removes every temporary name and lets nobody make or publish another. */
void sf_atomic_file_drop_names(void);

/* Removes what killed processes of this machine and this user left in the nearest directory above
 * @path. Never fails: it is a courtesy. */
void sf_atomic_file_sweep(const char *path);

/* The entry of @path in its directory to the disk. */
int sf_sync_dir_of(const char *path, struct sf_error *err);

/* "DIR" of "DIR/NAME", "." and "/" where there is none: malloc'ed, NULL no memory. */
char *sf_dir_of(const char *path);
/* The nearest directory above @path that is there: malloc'ed. */
char *sf_dir_there(const char *path);

#endif
