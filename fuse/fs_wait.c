#include "config.h"
#include <errno.h>
#include <stdatomic.h>
#include "fuse/fs_ops.h"

static void unref(struct sf_waiting *w)
{
	if (atomic_fetch_sub(&w->refs, 1) == 1)
		w->free(w);
}

static bool answer_early_locked(struct sf_waiting *w, int code)
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
static void interrupted(fuse_req_t req, void *data)
{
	struct sf_waiting *w = data;
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
	for (struct sf_waiting *w = fs->locked.waiting; w; w = w->on)
		if (now.tv_sec - w->since.tv_sec > (time_t)fs->size_timeout_s && w->registered)
			late += answer_early_locked(w, EIO);
	pthread_mutex_unlock(&fs->locked.m);
	for (unsigned i = 0; i < late; i++)
		sf_fs_count_failure(fs, -EIO);
	if (late)
		sf_fs_log_failure(fs, "late", -EIO, 0,
		                  "no answer within %u s for %u clients: the objects of a view, or "
		                  "a step, are still being read",
		                  fs->size_timeout_s, late);
	sf_fs_answer_interrupted(fs);
}

void sf_fs_answer_interrupted(struct sf_fs *fs)
{
	struct sf_waiting *now = NULL;

	pthread_mutex_lock(&fs->locked.m);
	for (struct sf_waiting **at = &fs->locked.interrupted, *w; (w = *at);) {
		if (!w->registered) { /* the thread that registers it comes here next */
			at = &w->next;
			continue;
		}
		*at = w->next;
		w->next = now;
		now = w;
	}
	pthread_mutex_unlock(&fs->locked.m);
	for (struct sf_waiting *w = now, *next; w; w = next) {
		next = w->next;
		fuse_req_interrupt_func(w->req, NULL, NULL); /* none comes any more */
		fuse_reply_err(w->req, w->code);
		unref(w);
	}
}

void sf_fs_wait_begin(struct sf_fs *fs, struct sf_waiting *w, fuse_req_t req,
                      void (*free)(struct sf_waiting *w))
{
	w->fs = fs;
	w->req = req;
	w->free = free;
	w->refs = 2;
	clock_gettime(CLOCK_MONOTONIC, &w->since);
	pthread_mutex_lock(&fs->locked.m);
	fs->locked.nwaiting++;
	w->on = fs->locked.waiting;
	if (w->on)
		w->on->back = w;
	fs->locked.waiting = w;
	pthread_mutex_unlock(&fs->locked.m);
	fuse_req_interrupt_func(req, interrupted, w);
	pthread_mutex_lock(&fs->locked.m);
	w->registered = true;
	pthread_mutex_unlock(&fs->locked.m);
}

bool sf_fs_wait_take(struct sf_waiting *w)
{
	bool answer = !atomic_exchange(&w->answered, true);

	if (answer)
		fuse_req_interrupt_func(w->req, NULL,
		                        NULL); /* waits for one that is being delivered */
	return answer;
}

void sf_fs_wait_end(struct sf_waiting *w, bool answered)
{
	struct sf_fs *fs = w->fs;

	if (answered)
		unref(w); /* for the reply */
	pthread_mutex_lock(&fs->locked.m);
	*(w->back ? &w->back->on : &fs->locked.waiting) = w->on;
	if (w->on)
		w->on->back = w->back;
	pthread_mutex_unlock(&fs->locked.m);
	unref(w);
	pthread_mutex_lock(&fs->locked.m);
	if (--fs->locked.nwaiting == 0)
		pthread_cond_broadcast(&fs->locked.c);
	pthread_mutex_unlock(&fs->locked.m);
}

void sf_fs_wait(struct sf_fs *fs)
{
	pthread_mutex_lock(&fs->locked.m);
	while (fs->locked.nwaiting)
		pthread_cond_wait(&fs->locked.c, &fs->locked.m);
	pthread_mutex_unlock(&fs->locked.m);
}
