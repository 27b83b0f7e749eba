/* Commits: waited for, in the background, or called off. */
#include "config.h"

#include <stdlib.h>

#include "base/growing.h"
#include "base/mem.h"
#include "base/thread_pool.h"
#include "save/save_priv.h"

#define SLICE_MS 1000 /* of a wait that goes on */

struct shardfuse_save_request {
	struct shardfuse_save *s;
	struct sf_save_run *run;
	bool threaded; /* thread drives it; else test and wait do */
	pthread_t thread;
	_Atomic bool ended;
	int result;
	struct sf_error err;
};

static int only_once(struct shardfuse_save *s, struct sf_error *err)
{
	if (s->ended)
		return sf_fail(err, -EINVAL, "this save was committed or aborted");
	s->ended = true;
	return 0;
}

/* Plans, then begins to write; from then on *ret has to be advanced to its end. */
static int start(struct shardfuse_save *s, bool snapshot, struct sf_save_run **ret,
                 struct sf_error *err)
{
	struct sf_verdict v = s->failed;
	struct sf_save_run *run = NULL;
	int r;

	if (v.code >= 0)
		v.code = sf_save_keep_take(s, snapshot && s->opt.refuse_busy, &v.err);
	if (v.code >= 0) {
		v.code = sf_save_run_new(s, &run, &v.err);
		if (v.code < 0)
			sf_save_keep_give(s);
	}
	r = sf_save_agree(s, &v, true, err);
	if (r < 0) {
		sf_save_keep_give(s);
		sf_save_run_free(run);
		return r;
	}
	sf_save_run_begin(run, snapshot);
	*ret = run;
	return 0;
}

static int drive(struct shardfuse_save *s, struct sf_save_run *run, struct sf_error *err)
{
	int r;

	do
		r = sf_save_run_advance(run, SLICE_MS, err);
	while (r == -EAGAIN);
	sf_save_keep_give(s);
	return r;
}

int shardfuse_save_commit(struct shardfuse_save *s, struct shardfuse_error *err)
{
	struct sf_error e = SF_ERROR_INIT;
	struct sf_save_run *run;
	int r = only_once(s, &e);

	if (r >= 0)
		r = start(s, false, &run, &e);
	if (r >= 0) {
		r = drive(s, run, &e);
		sf_save_run_free(run);
	}
	return sf_public_fail(err, &e, r);
}

static void *run_thread(void *arg)
{
	struct shardfuse_save_request *req = arg;

	req->result = drive(req->s, req->run, &req->err);
	atomic_store(&req->ended, true);
	return NULL;
}

int shardfuse_save_commit_async(struct shardfuse_save *s, struct shardfuse_save_request **ret,
                                struct shardfuse_error *err)
{
	struct sf_error e = SF_ERROR_INIT;
	struct shardfuse_save_request *req = calloc(1, sizeof(*req));
	int r = req ? only_once(s, &e) : sf_fail(&e, -ENOMEM, "no memory for a request");

	if (r >= 0)
		r = start(s, true, &req->run, &e);
	if (r < 0) {
		free(req);
		return sf_public_fail(err, &e, r);
	}
	req->s = s;
	/* without a thread it goes on in test and wait */
	req->threaded = (s->comm.threads || s->comm.size == 1) &&
	                sf_thread_start(&req->thread, run_thread, req) == 0;
	if (!req->threaded) {
		pthread_mutex_lock(&s->keep->locked.m);
		s->keep->locked.by_caller = true;
		pthread_mutex_unlock(&s->keep->locked.m);
	}
	s->request = req;
	*ret = req;
	return 0;
}

static void advance(struct shardfuse_save_request *req, unsigned wait_ms)
{
	int r;

	if (req->threaded || atomic_load(&req->ended))
		return;
	r = sf_save_run_advance(req->run, wait_ms, &req->err);
	if (r == -EAGAIN)
		return;
	sf_save_keep_give(req->s);
	req->result = r;
	atomic_store(&req->ended, true);
}

int shardfuse_save_test(struct shardfuse_save_request *req)
{
	advance(req, 0);
	return atomic_load(&req->ended);
}

uint64_t shardfuse_save_progress(const struct shardfuse_save_request *req, uint64_t *ret_total)
{
	uint64_t total, done = sf_save_run_progress(req->run, &total);

	if (ret_total)
		*ret_total = total;
	return done;
}

void shardfuse_save_cancel(struct shardfuse_save_request *req)
{
	sf_save_run_cancel(req->run);
}

int shardfuse_save_wait(struct shardfuse_save_request *req, struct shardfuse_error *err)
{
	int r;

	if (req->threaded)
		pthread_join(req->thread, NULL);
	while (!atomic_load(&req->ended))
		advance(req, SLICE_MS);
	r = sf_public_fail(err, &req->err, req->result);
	req->s->request = NULL;
	sf_save_run_free(req->run);
	free(req);
	return r;
}

int shardfuse_save_abort(struct shardfuse_save *s, const char *why, struct shardfuse_error *err)
{
	struct sf_error e = SF_ERROR_INIT;
	struct sf_verdict v = { .code = -ECANCELED };
	int r = only_once(s, &e);

	if (r < 0)
		return sf_public_fail(err, &e, r);
	sf_fail(&v.err, v.code, "%s", why ? why : "the save was aborted");
	r = sf_save_agree(s, &v, false, &e);
	/* what it asked for is no failure */
	return r == -ECANCELED ? 0 : sf_public_fail(err, &e, r);
}
