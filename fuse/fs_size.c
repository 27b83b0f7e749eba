#include "config.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include "base/mem.h"
#include "base/thread_pool.h"
#include "fuse/fs_ops.h"

mode_t sf_fs_type_bits(enum sf_node_type type)
{
	return type == SF_NODE_DIR ? S_IFDIR : type == SF_NODE_LINK ? S_IFLNK : S_IFREG;
}

static void fill_stat(const struct sf_fs *fs, const struct sf_attr *a, struct stat *st)
{
	*st = (struct stat){
		.st_ino = a->ino,
		.st_mode = sf_fs_type_bits(a->type) |
		           (a->type == SF_NODE_LINK ? 0777 : a->mode & ~fs->umask),
		.st_nlink = a->nlink,
		.st_uid = fs->uid,
		.st_gid = fs->gid,
		.st_size = (off_t)a->size,
		.st_blksize = 1 << 20,
		.st_blocks = (blkcnt_t)((a->size + 511) / 512),
	};
	st->st_mtim.tv_sec = a->mtime_ns / 1000000000;
	st->st_mtim.tv_nsec = a->mtime_ns % 1000000000;
	st->st_atim = st->st_ctim = st->st_mtim;
}

void sf_fs_fill_entry(const struct sf_fs *fs, const struct sf_slot *slot, sf_node node,
                      const struct sf_attr *a, struct fuse_entry_param *e)
{
	/* a step's own directory is a name of the run's */
	double timeout =
		slot->parent && node == SF_NODE_ROOT ? slot->parent->timeout : slot->timeout;

	*e = (struct fuse_entry_param){ .ino = sf_slot_ino(slot, node),
		                        .generation = slot->generation,
		                        .entry_timeout = timeout,
		                        .attr_timeout = timeout };
	if (a->live)
		e->attr_timeout = 0;
	fill_stat(fs, a, &e->attr);
}

/*
 * A lookup, getattr or open of a file that is not sized yet: it needs objects read, which waits.
 * Done by threads of its own, so no thread that receives requests ever does, and `ls` of everything
 * else goes on. An interrupt must be answered all the same: the kernel does not let even a killed
 * client go before. Held by its task and by whoever replies.
 */
struct sf_sizing {
	struct sf_waiting w; /* first */
	struct sf_task task;
	struct sf_slot *slot; /* a reference */
	sf_node node;
	bool lookup;       /* answer with an entry, else with attributes */
	sf_fs_sized *then; /* an open's, with h and fi; else NULL */
	struct sf_handle *h;
	struct fuse_file_info fi;
};

static void reply_sized(struct sf_fs *fs, fuse_req_t req, struct sf_slot *slot, sf_node node,
                        const struct sf_attr *a, bool lookup)
{
	if (lookup) {
		struct fuse_entry_param e;
		sf_fs_fill_entry(fs, slot, node, a, &e);
		/* before the reply, behind which the kernel may forget it again */
		sf_slot_looked_up(&fs->slots, slot, 1);
		if (fuse_reply_entry(req, &e) < 0)
			sf_slot_forget(&fs->slots, e.ino, 1);
	} else {
		struct stat st;
		fill_stat(fs, a, &st);
		fuse_reply_attr(req, &st,
		                a->live                                ? 0
		                : slot->parent && node == SF_NODE_ROOT ? slot->parent->timeout
		                                                       : slot->timeout);
	}
}

static void sizing_free(struct sf_waiting *w)
{
	sf_slot_unref(&w->fs->slots, ((struct sf_sizing *)w)->slot);
	free(w);
}

/* Without @answer somebody else has replied. */
static void sizing_finish(struct sf_sizing *w, bool answer, int r, const struct sf_error *err)
{
	struct sf_fs *fs = w->w.fs;
	struct sf_attr a;

	if (w->then) {
		w->then(fs, answer ? w->w.req : NULL, w->h, &w->fi, r, err);
		return;
	}
	if (r >= 0)
		r = sf_tree_attr(w->slot->s->tree, w->node, &a);
	if (!answer)
		return;
	if (r >= 0) {
		reply_sized(fs, w->w.req, w->slot, w->node, &a, w->lookup);
	} else {
		sf_fs_count_failure(fs, r);
		if (r != -ECANCELED)
			sf_fs_log_failure(fs, "size", r, sf_slot_ino(w->slot, w->node),
			                  "cannot size a view: %s", err->msg);
		fuse_reply_err(w->w.req, sf_fs_errno(r));
	}
}

static void sizing_run(struct sf_task *task)
{
	struct sf_sizing *w = sf_container_of(task, struct sf_sizing, task);
	struct sf_error err = SF_ERROR_INIT;
	int r = w->h ? sf_vfile_prepare(w->h->file, &err)
	             : sf_tree_prepare(w->slot->s->tree, w->node, &err);
	bool answer = sf_fs_wait_take(&w->w);

	sizing_finish(w, answer, r, &err);
	sf_fs_wait_end(&w->w, answer);
}

/* @w has what is to be done; its request and slot are taken here. */
static void size_later(struct sf_sizing *w, struct sf_fs *fs, fuse_req_t req, struct sf_slot *slot,
                       sf_node node)
{
	w->task.run = sizing_run;
	w->slot = sf_slot_ref(&fs->slots, slot);
	w->node = node;
	sf_fs_wait_begin(fs, &w->w, req, sizing_free);
	sf_thread_pool_submit(fs->sizers, &w->task);
}

void sf_fs_size_open(struct sf_fs *fs, fuse_req_t req, sf_node node, struct sf_handle *h,
                     const struct fuse_file_info *fi, sf_fs_sized *then)
{
	struct sf_sizing *w = calloc(1, sizeof(*w));
	struct fuse_file_info copy = *fi;
	struct sf_error err = SF_ERROR_INIT;

	if (!w) {
		then(fs, req, h, &copy, -ENOMEM, &err);
		return;
	}
	w->then = then;
	w->h = h;
	w->fi = *fi;
	size_later(w, fs, req, h->slot, node);
}

void sf_fs_answer_attr(struct sf_fs *fs, fuse_req_t req, struct sf_slot *slot, sf_node node,
                       bool lookup)
{
	struct sf_sizing *w;
	struct sf_attr a;
	/* what a run shows of a step does not change when that is loaded */
	int r = slot->parent && node == SF_NODE_ROOT
	                ? sf_tree_attr(slot->parent->s->tree, sf_tree_step_node(slot->step), &a)
	                : sf_tree_attr(slot->s->tree, node, &a);

	if (r >= 0) {
		reply_sized(fs, req, slot, node, &a, lookup);
		return;
	}
	w = r == -EAGAIN ? calloc(1, sizeof(*w)) : NULL;
	if (!w) {
		r = r == -EAGAIN ? -ENOMEM : r;
		sf_fs_count_failure(fs, r);
		fuse_reply_err(req, sf_fs_errno(r));
		return;
	}
	w->lookup = lookup;
	size_later(w, fs, req, slot, node);
}
