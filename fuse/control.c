#include "config.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/mem.h"
#include "fuse/control.h"
#include "store/cache.h"
#include "store/cache_drop.h"

/* A question that waits for its answer, or for a thread. */
struct asked {
	struct sf_task task;
	struct sf_fs *fs;
	struct sf_slot *slot; /* a reference: the root's */
	fuse_req_t req;
	struct sf_control c;
};

static void fail(struct sf_control *c, int r, const char *why)
{
	c->r = r;
	snprintf(c->why, sizeof(c->why), "%s", why);
}

static void fill_state(const struct sf_session *s, struct sf_cache *cache, struct sf_control *c)
{
	const struct sf_counters *n = &s->io->counters;
	struct sf_cache_state state;

	c->flags = s->store->far ? SF_CONTROL_FAR : 0;
	if (!cache)
		return;
	sf_cache_state(cache, &state);
	c->flags |= SF_CONTROL_CACHED;
	c->limit = state.limit;
	c->kept = state.kept;
	c->free = state.space.free;
	c->fetched_bytes = atomic_load(&n->cache_fetched_bytes);
	c->fetched_kept = atomic_load(&n->cache_kept_bytes) + state.behind;
	snprintf(c->dir, sizeof(c->dir), "%s", state.dir);
	snprintf(c->why, sizeof(c->why), "%s", state.why);
}

static void drop(const struct sf_session *s, struct sf_cache *cache, struct sf_control *c)
{
	struct sf_cache_dropped d = { 0 };
	struct sf_error err = SF_ERROR_INIT;
	int r = sf_cache_drop_store(cache, s->store, &d, &err);

	if (r < 0) {
		fail(c, r, err.msg);
		return;
	}
	c->objects = d.objects;
	c->bytes = d.bytes;
}

void sf_control_answer(const struct sf_session *s, struct sf_control *c)
{
	const uint32_t version = c->version, op = c->op;
	struct sf_cache *cache = s->store->far ? atomic_load(&s->io->cache) : NULL;

	memset(c, 0, sizeof(*c));
	c->version = SF_CONTROL_VERSION;
	c->op = op;
	if (version != SF_CONTROL_VERSION) {
		c->r = -EPROTO;
		snprintf(c->why, sizeof(c->why), "version %u of the control was asked, it has %u",
		         version, SF_CONTROL_VERSION);
		return;
	}
	if (op != SF_CONTROL_STATE && op != SF_CONTROL_DROP) {
		fail(c, -EINVAL, "nothing that a mount can be asked for");
		return;
	}
	if (op == SF_CONTROL_DROP && cache)
		drop(s, cache, c);
	if (c->r >= 0)
		fill_state(s, cache, c);
}

static void answer_task(struct sf_task *task)
{
	struct asked *a = sf_container_of(task, struct asked, task);

	sf_control_answer(a->slot->s, &a->c);
	fuse_reply_ioctl(a->req, 0, &a->c, sizeof(a->c));
	sf_slot_unref(&a->fs->slots, a->slot);
	free(a);
}

void sf_fs_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned cmd, void *arg, struct fuse_file_info *fi,
                 unsigned flags, const void *in, size_t in_size, size_t out_size)
{
	struct sf_fs *fs = fuse_req_userdata(req);
	const struct fuse_ctx *who = fuse_req_ctx(req);
	struct asked *a;
	sf_node node;

	(void)arg, (void)fi, (void)flags;
	if (ino != FUSE_ROOT_ID || cmd != (unsigned)SF_CONTROL) {
		fuse_reply_err(req, ENOTTY);
		return;
	}
	/* who mounted it: -o uid= only names the files' owner */
	if (who->uid != 0 && who->uid != getuid()) {
		fuse_reply_err(req, EPERM);
		return;
	}
	if (in_size != sizeof(a->c) || out_size != sizeof(a->c)) {
		fuse_reply_err(req, EINVAL);
		return;
	}
	a = calloc(1, sizeof(*a));
	if (!a) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	memcpy(&a->c, in, sizeof(a->c));
	a->fs = fs;
	a->req = req;
	a->slot = sf_slot_of(&fs->slots, ino, &node);
	a->task.run = answer_task;
	sf_thread_pool_submit(fs->sizers, &a->task);
}
