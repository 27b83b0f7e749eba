/* What the files of save_target_dir share. */
#ifndef SF_SAVE_SAVE_TARGET_PRIV_H
#define SF_SAVE_SAVE_TARGET_PRIV_H

#include <sys/stat.h>
#include "save/save_target_dir.h"

#define SF_TARGET_MARKER ".shardfuse-save"
#define SF_TARGET_MARKER_MAX 4096

struct sf_target_dir {
	struct sf_save_target base;
	char *path;             /* as given, without slashes at its end */
	char *name, *tmp, *old; /* names in the parent: NAME, NAME-tmp, NAME-old */
	char token[33];
	int parent, dir; /* descriptors; -1: not open. dir: what is NAME-tmp, and NAME later */
	int marker;      /* locked, of who owns; -1 */
	bool replace, published, replaced;
	dev_t old_dev;     /* what NAME was when it was claimed, if it is to be replaced */
	ino_t old_ino;     /* 0: nothing */
	uint64_t old_born; /* ns; inode numbers are used again. 0: the file system does not say */
};

/* ---- save_target_file.c ---- */

int sf_target_dir_open(struct sf_save_target *t, const char *name, uint64_t size,
                       enum sf_target_name when, struct sf_target_file **ret, struct sf_error *err);
/* By a temporary name, fdatasync, rename. */
int sf_target_dir_put(struct sf_save_target *t, const char *name, const void *at, size_t len,
                      bool sync, struct sf_error *err);

/* ---- save_target_check.c ---- */

/*
 * sf_target_check - may NAME become what this save makes?
 *
 * 0: it is not there, or an empty directory; 1: a checkpoint that is to be replaced, *st what it is.
 */
int sf_target_check(const struct sf_target_dir *t, bool replace, struct stat *st,
                    struct sf_error *err);

/* When @name in @parent was made, ns since 1970; 0: not known. */
uint64_t sf_target_born(int parent, const char *name);

/* ---- save_target_marker.c ---- */

/* Makes and locks the marker in t->dir. */
int sf_target_mark(struct sf_target_dir *t, struct sf_error *err);
/* Whose is NAME-tmp, or NAME? */
struct sf_target_marker {
	bool there, ours; /* ours: whole, and of a save of NAME */
	bool live;        /* its save is under way (of a marker opened to lock it) */
	char token[33];
	unsigned long long dev, ino, born; /* that it replaces; ino 0: nothing */
	int fd;                            /* -1, or locked */
};
/* In directory @dir. @lock: and take its lock, unless it lives. */
int sf_target_marker_read(const struct sf_target_dir *t, int dir, bool lock,
                          struct sf_target_marker *ret, struct sf_error *err);
void sf_target_unlock(int *fd); /* unlocks, also what a forked child has inherited; closes */

/* ---- save_target_remove.c ---- */

/* Removes directory @name in @parent and what is in it, what tells that it is a checkpoint first, the marker
 * last; symbolic links are removed, not followed; stops at a mount point. -ENOENT is fine: 0. */
int sf_target_remove(int parent, const char *name, struct sf_error *err);
/* fsync of @dir and of all directories in it. */
int sf_target_sync(int dir, struct sf_error *err);
/* Is nothing but the marker in it? */
int sf_target_is_empty(int dir, bool *ret, struct sf_error *err);

#endif
