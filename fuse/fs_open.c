#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include "fuse/fs_ops.h"
#include "fuse/kernel_init.h"
#include "fuse/steps.h"

static struct sf_handle *handle_new(struct sf_fs *fs, struct sf_slot *slot)
{
	struct sf_handle *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->slot = sf_slot_ref(&fs->slots, slot);
	pthread_mutex_lock(&fs->locked.m);
	h->next = fs->locked.handles;
	if (h->next)
		h->next->prev = h;
	fs->locked.handles = h;
	pthread_mutex_unlock(&fs->locked.m);
	return h;
}

static void handle_free(struct sf_fs *fs, struct sf_handle *h)
{
	pthread_mutex_lock(&fs->locked.m);
	*(h->prev ? &h->prev->next : &fs->locked.handles) = h->next;
	if (h->next)
		h->next->prev = h->prev;
	pthread_mutex_unlock(&fs->locked.m);
	if (h->ahead)
		sf_vfile_leave_readahead(h->file);
	sf_vfile_unref(h->file);
	sf_slot_unref(&fs->slots, h->slot);
	free(h->text);
	free(h);
}

void sf_fs_free_handles(struct sf_fs *fs)
{
	while (fs->locked.handles)
		handle_free(fs, fs->locked.handles);
}

/* .shardfuse/: text made at open, so that one reader sees one state. */
static int open_live(struct sf_fs *fs, sf_node node, struct sf_handle *h)
{
	struct sf_error err = SF_ERROR_INIT;
	return sf_tree_live_text(h->slot->s->tree, node, &fs->io->counters, &h->text, &h->text_len,
	                         &err);
}

/* shards/ as root: the kernel reads the stored file itself, or that of the cache where all of a far one
 * is there, and the request is answered. false: it is to be answered as for an ordinary file. */
static bool open_passthrough(struct sf_fs *fs, fuse_req_t req, fuse_ino_t ino,
                             const struct sf_attr *a, struct sf_handle *h)
{
	uint64_t unique = sf_kernel_request_unique();
	int32_t backing = 0, fixed = 0;

	if (fs->passthrough && !sf_open_table_find(&fs->open, ino, &backing)) {
		struct sf_error err = SF_ERROR_INIT;
		const struct sf_file *f = &h->slot->s->ckpt->listing[a->listed];
		struct sf_store *store = h->slot->s->store;
		int fd = store->ops->fd ? store->ops->fd(store, f->name, &f->info, &err) : -ENOTSUP;
		if (fd >= 0) {
			backing = sf_passthrough_open(fs, fd);
			close(fd); /* the kernel holds its own reference */
		}
		int r = sf_open_table_enter(&fs->open, ino, backing, &fixed);
		if (r <= 0)
			sf_passthrough_close(
				fs,
				backing); /* lost a race against another first open, or no memory */
		if (r < 0)
			return false;
		backing = fixed;
	} else if (sf_open_table_enter(&fs->open, ino, 0, &backing) < 0) {
		return false;
	}
	if (backing <= 0)
		return false;
	sf_passthrough_reply_open(fs, req, unique, (uint64_t)(uintptr_t)h, backing);
	return true;
}

/* Its size is known. */
static void begin_readahead(struct sf_handle *h)
{
	if (h->file && h->slot->s->store->far)
		h->ahead = sf_vfile_join_readahead(h->file);
}

/* The file is sized, or that failed with @r. Not for shards/. */
static void finish_open(struct sf_fs *fs, fuse_req_t req, struct sf_handle *h,
                        struct fuse_file_info *fi, int r, const struct sf_error *err)
{
	if (!req) { /* the opener has its answer: an error */
		handle_free(fs, h);
		return;
	}
	if (r >= 0 && h->file)
		r = sf_vfile_size(h->file, &h->size);
	if (r < 0) {
		sf_fs_count_failure(fs, r);
		if (err->msg[0])
			sf_fs_log_failure(fs, "open", r, (uintptr_t)h->file, "open: %s", err->msg);
		fuse_reply_err(req, sf_fs_errno(r));
		handle_free(fs, h);
		return;
	}
	begin_readahead(h);
	fi->fh = (uint64_t)(uintptr_t)h;
	if (fuse_reply_open(req, fi) == -ENOENT)
		handle_free(fs, h); /* the opener was interrupted: no release will come */
}

static void open_shard(struct sf_fs *fs, fuse_req_t req, fuse_ino_t ino, const struct sf_attr *a,
                       struct sf_handle *h, struct fuse_file_info *fi)
{
	h->size = a->size;
	if (open_passthrough(fs, req, ino, a, h))
		return;
	begin_readahead(h);
	fi->keep_cache = 1;
	fi->fh = (uint64_t)(uintptr_t)h;
	if (fuse_reply_open(req, fi) == -ENOENT) {
		sf_passthrough_close(fs, sf_open_table_leave(&fs->open, ino));
		handle_free(fs, h);
	}
}

static void open_node(struct sf_fs *fs, fuse_req_t req, fuse_ino_t ino, sf_node node,
                      struct sf_handle *h, struct fuse_file_info *fi)
{
	struct sf_tree *tree = h->slot->s->tree;
	struct sf_error err = SF_ERROR_INIT;
	struct sf_attr a;
	uint64_t size;
	int r = sf_tree_attr(tree, node, &a);

	if (r >= 0 && a.live) {
		r = open_live(fs, node, h);
		fi->direct_io = 1;
	} else if (r >= 0 || r == -EAGAIN) {
		r = sf_tree_open(tree, node, &h->file, &err);
		fi->keep_cache = 1;
	}
	if (r >= 0 && h->file && a.listed != SF_NONE)
		open_shard(fs, req, ino, &a, h, fi);
	/* the kernel looked the file up before, so it was sized; it is not when its vfile has left
	 * the cache meanwhile */
	else if (r >= 0 && h->file && sf_vfile_size(h->file, &size) == -EAGAIN)
		sf_fs_size_open(fs, req, node, h, fi, finish_open);
	else
		finish_open(fs, req, h, fi, r, &err);
}

static void open_it(fuse_req_t req, const struct sf_call *call)
{
	struct sf_fs *fs = fuse_req_userdata(req);
	struct fuse_file_info fi = *call->fi;
	struct sf_handle *h;
	sf_node node;
	struct sf_slot *slot = sf_slot_of(&fs->slots, call->ino, &node);

	if (slot && sf_steps_wait(fs, req, slot, call))
		return;
	h = slot ? handle_new(fs, slot) : NULL;
	if (h)
		open_node(fs, req, call->ino, node, h, &fi);
	else
		fuse_reply_err(req, slot ? ENOMEM : ENOENT);
	sf_slot_unref(&fs->slots, slot);
}

void sf_fs_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	if ((fi->flags & O_ACCMODE) != O_RDONLY)
		fuse_reply_err(req, EROFS);
	else
		open_it(req, &(struct sf_call){ .again = open_it, .ino = ino, .fi = fi });
}

void sf_fs_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct sf_fs *fs = fuse_req_userdata(req);
	struct sf_handle *h = (struct sf_handle *)(uintptr_t)fi->fh;

	if (sf_tree_is_listed(sf_slot_node(ino)))
		sf_passthrough_close(fs, sf_open_table_leave(&fs->open, ino));
	handle_free(fs, h);
	sf_steps_shed(fs);
	fuse_reply_err(req, 0);
}
