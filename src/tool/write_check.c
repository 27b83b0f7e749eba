#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/atomic_file.h"
#include "base/mem.h"
#include "tool/disk_room.h"
#include "tool/write_check.h"

static int refuse_existing(const struct sf_out_file *files, size_t n, struct sf_error *err)
{
	struct stat st;

	for (size_t i = 0; i < n; i++)
		if (lstat(files[i].path, &st) == 0)
			return sf_fail(err, -EEXIST,
			               "'%s' already exists (use --force to overwrite)",
			               files[i].path);
	return 0;
}

struct inode {
	uint64_t dev, ino;
};
struct stored {
	struct inode *at;
	size_t n;
};

static int by_inode(const void *a, const void *b)
{
	const struct inode *x = a, *y = b;

	return x->dev != y->dev ? (x->dev > y->dev) - (x->dev < y->dev)
	                        : (x->ino > y->ino) - (x->ino < y->ino);
}

static int refuse_one(const struct stored *stored, const char *path, struct sf_error *err)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return 0;
	struct inode there = { st.st_dev, st.st_ino };
	if (bsearch(&there, stored->at, stored->n, sizeof(*stored->at), by_inode))
		return sf_fail(err, -EINVAL,
		               "'%s' is a file of the checkpoint itself: not replaced", path);
	return 0;
}

/* --force replaces what is there, but never a file of the checkpoint that is being read. */
static int refuse_stored(const struct sf_session *s, const struct sf_out_file *files, size_t n,
                         const struct sf_write_options *o, struct sf_error *err)
{
	const struct sf_ckpt *k = s->ckpt;
	SF_FREE struct inode *at = sf_alloc_array(k->nlisting, sizeof(*at));
	const struct stored stored = { at, k->nlisting };
	int r = 0;

	if (!at)
		return sf_fail(err, -ENOMEM, "no memory for %u names", k->nlisting);
	for (uint32_t i = 0; i < k->nlisting; i++)
		at[i] = (struct inode){ k->listing[i].info.version.dev,
			                k->listing[i].info.version.ino };
	qsort(at, k->nlisting, sizeof(*at), by_inode);
	for (size_t i = 0; i < n && r >= 0; i++)
		r = refuse_one(&stored, files[i].path, err);
	for (size_t i = 0; i < o->nbefore && r >= 0; i++)
		r = refuse_one(&stored, o->before[i], err);
	for (size_t i = 0; i < o->nafter && r >= 0; i++)
		r = refuse_one(&stored, o->after[i], err);
	return r;
}

/* One level is made, as mkdir does: a misspelt path is an error, not a new tree of directories. */
static int check_root(const char *root, struct sf_error *err)
{
	SF_FREE char *parent = sf_dir_of(root);
	struct stat st;

	if (!parent)
		return sf_fail(err, -ENOMEM, "'%s'", root);
	if (stat(root, &st) == 0 || errno != ENOENT || stat(parent, &st) == 0)
		return 0;
	return sf_fail(err, -errno, "directory '%s': %s", parent, strerror(errno));
}

static int check_room(const struct sf_out_file *files, size_t n, struct sf_error *err)
{
	SF_CLEANUP(sf_disk_room_release) struct sf_disk_room room = { 0 };
	int r = 0;

	for (size_t i = 0; i < n && r >= 0; i++)
		r = sf_disk_room_add(&room, files[i].path, files[i].least, err);
	return r < 0 ? r : sf_disk_room_check(&room, err);
}

int sf_write_check(const struct sf_session *s, const struct sf_out_file *files, size_t n,
                   const struct sf_write_options *o, struct sf_error *err)
{
	int r = o->root ? check_root(o->root, err) : 0;

	if (r >= 0)
		r = o->force ? refuse_stored(s, files, n, o, err) : refuse_existing(files, n, err);
	return r < 0 ? r : check_room(files, n, err);
}
