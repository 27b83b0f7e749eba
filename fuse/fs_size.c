#include "config.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
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
	*e = (struct fuse_entry_param){ .ino = sf_slot_ino(slot, node),
		                        .generation = slot->generation,
		                        .entry_timeout = slot->timeout,
		                        .attr_timeout = slot->timeout };
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
	struct sf_task task;
	struct sf_fs *fs;
	fuse_req_t req;
	struct sf_slot *slot; /* a reference */
	sf_node node;
	bool lookup;       /* answer with an entry, else with attributes */
	sf_fs_sized *then; /* an open's, with h and fi; else NULL */
	struct sf_handle *h;
	struct fuse_file_info fi;
	_Atomic unsigned refs;
	_Atomic bool answered; /* whoever sets it replies */
	struct timespec since;
	/* under fs->locked.m */
	bool registered;             /* libfuse is done with the request's lock */
	int code;                    /* errno of whoever is answered before the task is done */
	struct sf_sizing *next;      /* in fs->locked.interrupted */
	struct sf_sizing *back, *on; /* in fs->locked.sizing */
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
		fuse_reply_attr(req, &st, a->live ? 0 : slot->timeout);
	}
}

static void sizing_unref(struct sf_sizing *w)
{
	if (atomic_fetch_sub(&w->refs, 1) != 1)
		return;
	sf_slot_unref(&w->fs->slots, w->slot);
	free(w);
}

static bool answer_early_locked(struct sf_sizing *w, int code)
{
	if (atomic_exchange(&w->answered, true))
		return false;
	w->code = code;
	w->next = w->fs->locked.interrupted;
	w->fs->locked.interrupted = w;
	return true;
}

/* Called with the request locked, maybe from within its registration: a reply here would free the
 * lock. */
static void sizing_interrupted(fuse_req_t req, void *data)
{
	struct sf_sizing *w = data;
	struct sf_fs *fs = w->fs;
	(void)req;

	pthread_mutex_lock(&fs->locked.m);
	answer_early_locked(w, EINTR);
	pthread_mutex_unlock(&fs->locked.m);
}

void sf_fs_answer_late(struct sf_fs *fs)
{
	struct timespec now;
	unsigned late = 0;

	clock_gettime(CLOCK_MONOTONIC, &now);
	pthread_mutex_lock(&fs->locked.m);
	for (struct sf_sizing *w = fs->locked.sizing; w; w = w->on)
		if (now.tv_sec - w->since.tv_sec > (time_t)fs->size_timeout_s && w->registered)
			late += answer_early_locked(w, EIO);
	pthread_mutex_unlock(&fs->locked.m);
	for (unsigned i = 0; i < late; i++)
		sf_fs_count_failure(fs, -EIO);
	if (late)
		sf_fs_log_failure(fs, "late", -EIO, 0,
		                  "no size within %u s for %u clients: the objects of a view are "
		                  "still being read",
		                  fs->size_timeout_s, late);
	sf_fs_answer_interrupted(fs);
}

void sf_fs_answer_interrupted(struct sf_fs *fs)
{
	struct sf_sizing *now = NULL;

	pthread_mutex_lock(&fs->locked.m);
	for (struct sf_sizing **at = &fs->locked.interrupted, *w; (w = *at);) {
		if (!w->registered) { /* the thread that registers it comes here next */
			at = &w->next;
			continue;
		}
		*at = w->next;
		w->next = now;
		now = w;
	}
	pthread_mutex_unlock(&fs->locked.m);
	for (struct sf_sizing *w = now, *next; w; w = next) {
		next = w->next;
		fuse_req_interrupt_func(w->req, NULL, NULL); /* none comes any more */
		fuse_reply_err(w->req, w->code);
		sizing_unref(w);
	}
}

/* Without @answer somebody else has replied. */
static void sizing_finish(struct sf_sizing *w, bool answer, int r, const struct sf_error *err)
{
	struct sf_fs *fs = w->fs;
	struct sf_attr a;

	if (w->then) {
		w->then(fs, answer ? w->req : NULL, w->h, &w->fi, r, err);
		return;
	}
	if (r >= 0)
		r = sf_tree_attr(w->slot->s->tree, w->node, &a);
	if (!answer)
		return;
	if (r >= 0) {
		reply_sized(fs, w->req, w->slot, w->node, &a, w->lookup);
	} else {
		sf_fs_count_failure(fs, r);
		if (r != -ECANCELED)
			sf_fs_log_failure(fs, "size", r, sf_slot_ino(w->slot, w->node),
			                  "cannot size a view: %s", err->msg);
		fuse_reply_err(w->req, sf_fs_errno(r));
	}
}

static void sizing_run(struct sf_task *task)
{
	struct sf_sizing *w = (struct sf_sizing *)task;
	struct sf_fs *fs = w->fs;
	struct sf_error err = SF_ERROR_INIT;
	int r = w->h ? sf_vfile_prepare(w->h->file, &err)
	             : sf_tree_prepare(w->slot->s->tree, w->node, &err);
	bool answer = !atomic_exchange(&w->answered, true);

	if (answer)
		fuse_req_interrupt_func(w->req, NULL,
		                        NULL); /* waits for one that is being delivered */
	sizing_finish(w, answer, r, &err);
	if (answer)
		sizing_unref(w); /* for the reply */
	pthread_mutex_lock(&fs->locked.m);
	*(w->back ? &w->back->on : &fs->locked.sizing) = w->on;
	if (w->on)
		w->on->back = w->back;
	pthread_mutex_unlock(&fs->locked.m);
	sizing_unref(w);
	pthread_mutex_lock(&fs->locked.m);
	if (--fs->locked.preparing == 0)
		pthread_cond_broadcast(&fs->locked.c);
	pthread_mutex_unlock(&fs->locked.m);
}

/* @w has what is to be done; its request and slot are taken here. */
static void size_later(struct sf_sizing *w, struct sf_fs *fs, fuse_req_t req, struct sf_slot *slot,
                       sf_node node)
{
	w->task.run = sizing_run;
	w->fs = fs;
	w->req = req;
	w->slot = sf_slot_ref(&fs->slots, slot);
	w->node = node;
	w->refs = 2;
	clock_gettime(CLOCK_MONOTONIC, &w->since);
	pthread_mutex_lock(&fs->locked.m);
	fs->locked.preparing++;
	w->on = fs->locked.sizing;
	if (w->on)
		w->on->back = w;
	fs->locked.sizing = w;
	pthread_mutex_unlock(&fs->locked.m);
	fuse_req_interrupt_func(req, sizing_interrupted, w);
	pthread_mutex_lock(&fs->locked.m);
	w->registered = true;
	pthread_mutex_unlock(&fs->locked.m);
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
	int r = sf_tree_attr(slot->s->tree, node, &a);

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
