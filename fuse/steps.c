#include "config.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread_pool.h"
#include "format/run.h"
#include "fuse/kernel_init.h"
#include "fuse/steps.h"

#define LOADERS 4
#define LOOK_MS 1000 /* that a request waits for a look at the run */

/* A request that waits for a load. */
struct sf_call_later {
	struct sf_waiting w;  /* first */
	struct sf_slot *slot; /* a reference */
	struct sf_call call;
	struct fuse_file_info fi;
	uint64_t unique;
	struct sf_call_later *next; /* of the slot's */
	char name[];
};

/* A session on the heap, and what ends it. */
struct step_session {
	struct sf_session s; /* first */
	struct sf_task task;
};

static void end_session(struct sf_task *task)
{
	struct step_session *s = sf_container_of(task, struct step_session, task);

	sf_session_close(&s->s);
	free(s);
}

/* Whoever let it go last may be a read of it that is just ending. */
static void given_back(void *arg, struct sf_session *s)
{
	struct sf_fs *fs = arg;
	struct step_session *own = (struct step_session *)s;

	own->task.run = end_session;
	sf_thread_pool_submit(fs->closers, &own->task);
}

int sf_steps_begin(struct sf_fs *fs, struct sf_session *root, struct sf_error *err)
{
	int r;

	if (!root->run)
		return 0;
	fs->step = *root->opt;
	fs->step.io = root->io;
	r = sf_thread_pool_new(LOADERS, &fs->loaders, err);
	if (r >= 0)
		r = sf_thread_pool_new(1, &fs->lookers, err);
	if (r >= 0)
		r = sf_thread_pool_new(1, &fs->closers, err);
	return r;
}

void sf_steps_end(struct sf_fs *fs)
{
	sf_thread_pool_free(fs->loaders);
	sf_thread_pool_free(fs->lookers);
	fs->loaders = fs->lookers = NULL;
}

/* ---- slots ---- */

/* Takes the name away from the slot that it leads to: the next look-up makes another. */
static void leave(struct sf_fs *fs, struct sf_slot *run, struct sf_slot *slot)
{
	bool led = false;

	pthread_mutex_lock(&fs->slots.locked.m);
	if (slot->step < run->nsteps && run->steps[slot->step] == slot) {
		run->steps[slot->step] = NULL;
		led = true;
	}
	pthread_mutex_unlock(&fs->slots.locked.m);
	if (led)
		sf_slots_leave(&fs->slots, slot);
}

/* The slot there is, with a reference, or NULL. */
static struct sf_slot *known(struct sf_fs *fs, struct sf_slot *run, uint32_t step)
{
	struct sf_slot *slot;

	pthread_mutex_lock(&fs->slots.locked.m);
	slot = step < run->nsteps ? run->steps[step] : NULL;
	if (slot)
		slot->refs++;
	pthread_mutex_unlock(&fs->slots.locked.m);
	return slot;
}

/* @slot is the one that the name leads to, unless another was first: *ret, with a reference. */
static int enter(struct sf_fs *fs, struct sf_slot *run, struct sf_slot *slot, struct sf_slot **ret)
{
	int r = 0;

	pthread_mutex_lock(&fs->slots.locked.m);
	if (slot->step >= run->nsteps) {
		uint32_t n = slot->step + slot->step / 2 + 16;
		struct sf_slot **at = realloc(run->steps, n * sizeof(struct sf_slot *));
		if (at) {
			memset(at + run->nsteps, 0, (n - run->nsteps) * sizeof(struct sf_slot *));
			run->steps = at;
			run->nsteps = n;
		} else {
			r = -ENOMEM;
		}
	}
	*ret = slot;
	if (r >= 0 && run->steps[slot->step]) {
		*ret = run->steps[slot->step];
		(*ret)->refs++;
	} else if (r >= 0) {
		run->steps[slot->step] = slot;
	}
	pthread_mutex_unlock(&fs->slots.locked.m);
	if (r < 0 || *ret != slot) {
		sf_slots_leave(&fs->slots, slot);
		sf_slot_unref(&fs->slots, slot);
	}
	return r;
}

int sf_steps_slot(struct sf_fs *fs, struct sf_slot *run, uint32_t step, struct sf_slot **ret)
{
	struct sf_slot *slot = known(fs, run, step);
	struct sf_run_step now;
	int r;

	if (slot && atomic_load(&slot->stale)) { /* it was written anew: it is loaded anew */
		leave(fs, run, slot);
		sf_slot_unref(&fs->slots, slot);
		slot = NULL;
	}
	if (slot) {
		*ret = slot;
		return 0;
	}
	r = sf_slots_add(&fs->slots, NULL, SF_FS_FOREVER, given_back, fs, &slot);
	if (r < 0)
		return r;
	sf_run_step(run->s->run, step, &now);
	slot->parent = sf_slot_ref(&fs->slots, run);
	slot->step = step;
	slot->listed = now.version;
	return enter(fs, run, slot, ret);
}

int sf_steps_code(struct sf_slot *slot, int code)
{
	if (!slot->parent || (code != -ENOENT && code != -ESTALE))
		return code;
	atomic_store(&slot->stale, true);
	return -ESTALE;
}

/* ---- loading ---- */

static void call_free(struct sf_waiting *w)
{
	struct sf_call_later *c = (struct sf_call_later *)w;

	sf_slot_unref(&w->fs->slots, c->slot);
	free(c);
}

static void finish(struct sf_call_later *c, int r)
{
	bool answer = sf_fs_wait_take(&c->w);

	if (answer && r >= 0) {
		sf_kernel_set_request_unique(c->unique);
		c->call.again(c->w.req, &c->call);
	} else if (answer) {
		sf_fs_count_failure(c->w.fs, r);
		fuse_reply_err(c->w.req, sf_fs_errno(r));
	}
	sf_fs_wait_end(&c->w, answer);
}

/* Did it fail for what it is, not for how it was reached? */
static bool is_its_own(int code)
{
	return code == -EBADMSG || code == -ENOENT || code == -ENOTSUP || code == -E2BIG ||
	       code == -EINVAL;
}

/* The numbers of its nodes are those of the version that it was loaded as before. */
static int check_version(struct sf_slot *slot, const struct sf_session *s, struct sf_error *err)
{
	static const uint8_t none[sizeof(slot->version)];
	const uint8_t *now = s->ckpt->version_hash;

	if (memcmp(slot->version, none, sizeof(none)) != 0 &&
	    memcmp(slot->version, now, sizeof(none)) != 0) {
		atomic_store(&slot->stale, true);
		return sf_fail(err, -ESTALE, "'%s' was written anew", s->store->source);
	}
	memcpy(slot->version, now, sizeof(none));
	return 0;
}

static int load(struct sf_fs *fs, struct sf_slot *slot, struct sf_error *err)
{
	struct step_session *s = calloc(1, sizeof(*s));
	struct sf_run *run = slot->parent->s->run;
	struct sf_run_step step;
	int r = s ? 0 : sf_fail(err, -ENOMEM, "no memory for a step");

	sf_run_step(run, slot->step, &step);
	if (r >= 0)
		r = sf_session_open_below(&s->s, &fs->step, slot->parent->s, step.name, err);
	if (r < 0) {
		free(s);
		return r;
	}
	r = check_version(slot, &s->s, err);
	if (r < 0) {
		sf_session_close(&s->s);
		free(s);
		return r;
	}
	sf_run_watch(run, slot->step, true);
	atomic_store(&slot->used_ms, sf_now_coarse_ms());
	atomic_store(&slot->s, &s->s);
	return 0;
}

struct load_task {
	struct sf_task task;
	struct sf_fs *fs;
	struct sf_slot *slot; /* a reference */
};

static void load_run(struct sf_task *task)
{
	struct load_task *t = sf_container_of(task, struct load_task, task);
	struct sf_fs *fs = t->fs;
	struct sf_slot *slot = t->slot;
	struct sf_error err = SF_ERROR_INIT;
	struct sf_call_later *later;
	int r = load(fs, slot, &err);

	if (r < 0) {
		sf_fs_log_failure(fs, "step", r, sf_slot_ino(slot, 0), "cannot load a step: %s",
		                  err.msg);
		if (is_its_own(r)) {
			sf_run_fail(slot->parent->s->run, slot->step, &err);
			r = -ENOENT; /* from now on it is not there */
		}
	}
	pthread_mutex_lock(&fs->slots.locked.m);
	slot->loading = false;
	later = slot->later;
	slot->later = NULL;
	pthread_mutex_unlock(&fs->slots.locked.m);
	for (struct sf_call_later *next; later; later = next) {
		next = later->next;
		finish(later, r);
	}
	sf_slot_unref(&fs->slots, slot);
	free(t);
	sf_steps_shed(fs);
}

/* Puts it behind the others; true: it is the first, the caller begins the load. */
static bool queue(struct sf_fs *fs, struct sf_slot *slot, struct sf_call_later *c, bool *ret_there)
{
	bool first;

	pthread_mutex_lock(&fs->slots.locked.m);
	*ret_there = slot->s != NULL; /* meanwhile */
	first = !*ret_there && !slot->loading;
	if (!*ret_there) {
		c->next = slot->later;
		slot->later = c;
		slot->loading = true;
	}
	pthread_mutex_unlock(&fs->slots.locked.m);
	return first;
}

static void call_later(struct sf_fs *fs, fuse_req_t req, struct sf_slot *slot,
                       const struct sf_call *call)
{
	size_t len = call->name ? strlen(call->name) + 1 : 0;
	struct sf_call_later *c = calloc(1, sizeof(*c) + len);
	struct load_task *t = calloc(1, sizeof(*t));
	bool there;

	if (!c || !t) {
		free(c);
		free(t);
		sf_slot_unref(&fs->slots, slot);
		fuse_reply_err(req, ENOMEM);
		return;
	}
	*t = (struct load_task){ { .run = load_run }, fs, sf_slot_ref(&fs->slots, slot) };
	c->slot = slot;
	c->call = *call;
	c->unique = sf_kernel_request_unique();
	if (call->name)
		c->call.name = memcpy(c->name, call->name, len);
	if (call->fi) {
		c->fi = *call->fi;
		c->call.fi = &c->fi;
	}
	sf_fs_wait_begin(fs, &c->w, req, call_free);
	if (queue(fs, slot, c, &there)) {
		sf_thread_pool_submit(fs->loaders, &t->task);
		return;
	}
	sf_slot_unref(&fs->slots, t->slot);
	free(t);
	if (there)
		finish(c, 0);
}

bool sf_steps_wait(struct sf_fs *fs, fuse_req_t req, struct sf_slot *slot,
                   const struct sf_call *call)
{
	if (!slot->parent)
		return false;
	if (atomic_load(&slot->gone)) {
		sf_slot_unref(&fs->slots, slot);
		fuse_reply_err(req, ENOENT);
		return true;
	}
	if (atomic_load(&slot->s)) {
		atomic_store(&slot->used_ms, sf_now_coarse_ms());
		return false;
	}
	call_later(fs, req, slot, call);
	return true;
}

void sf_steps_shed(struct sf_fs *fs)
{
	struct sf_session *s;
	struct sf_slot *slot;

	if (!fs->loaders)
		return;
	while ((s = sf_slots_shed(&fs->slots, SF_STEPS_LOADED, &slot))) {
		sf_run_watch(slot->parent->s->run, slot->step, false);
		sf_slot_unref(&fs->slots, slot);
		given_back(fs, s);
	}
}

/* ---- looking at the run again ---- */

struct look_task {
	struct sf_task task;
	struct sf_fs *fs;
	struct sf_slot *run;   /* a reference */
	_Atomic unsigned refs; /* the looker's and the waiter's */
	pthread_mutex_t m;
	pthread_cond_t c;
	bool done;
};

static void look_unref(struct look_task *t)
{
	if (atomic_fetch_sub(&t->refs, 1) != 1)
		return;
	pthread_cond_destroy(&t->c);
	pthread_mutex_destroy(&t->m);
	free(t);
}

/* Steps that are gone, or others than they were, lose their slots. */
static void part(struct sf_fs *fs, struct sf_slot *run)
{
	uint32_t n = sf_run_nsteps(run->s->run);

	for (uint32_t i = 0; i < n; i++) {
		struct sf_slot *slot = known(fs, run, i);
		struct sf_run_step now;
		if (!slot)
			continue;
		sf_run_step(run->s->run, i, &now);
		if (now.state == SF_RUN_GONE)
			atomic_store(&slot->gone, true);
		if (now.state != SF_RUN_COMPLETE || now.version != slot->listed)
			leave(fs, run, slot);
		sf_slot_unref(&fs->slots, slot);
	}
}

static void look_run(struct sf_task *task)
{
	struct look_task *t = sf_container_of(task, struct look_task, task);
	struct sf_error err = SF_ERROR_INIT;
	int r = sf_run_refresh(t->run->s->run, &err);

	if (r < 0)
		sf_fs_log_failure(t->fs, "run", r, sf_slot_ino(t->run, 0),
		                  "cannot look at the run again: %s", err.msg);
	else
		part(t->fs, t->run);
	atomic_store(&t->run->looking, false);
	sf_slot_unref(&t->fs->slots, t->run);
	pthread_mutex_lock(&t->m);
	t->done = true;
	pthread_cond_broadcast(&t->c);
	pthread_mutex_unlock(&t->m);
	look_unref(t);
}

void sf_steps_look(struct sf_fs *fs, struct sf_slot *run)
{
	const struct timespec until = sf_until_ms(CLOCK_MONOTONIC, LOOK_MS);
	struct look_task *t;

	if (!fs->lookers || !run->s->run || !sf_run_is_due(run->s->run) ||
	    atomic_exchange(&run->looking, true))
		return;
	t = calloc(1, sizeof(*t));
	if (!t) {
		atomic_store(&run->looking, false);
		return;
	}
	t->task.run = look_run;
	t->fs = fs;
	t->run = sf_slot_ref(&fs->slots, run);
	t->refs = 2;
	pthread_mutex_init(&t->m, NULL);
	sf_cond_init(&t->c);
	sf_thread_pool_submit(fs->lookers, &t->task);
	pthread_mutex_lock(&t->m);
	while (!t->done && pthread_cond_timedwait(&t->c, &t->m, &until) == 0)
		;
	pthread_mutex_unlock(&t->m);
	look_unref(t);
}
