#include "config.h"

#include <pthread.h>
#include <string.h>

#include "base/mem.h"
#include "store/aws_chain.h"
#include "store/aws_credentials.h"

#define ADVISORY_S (15 * 60) /* before the end: fetched again, by one */
#define AGAIN_S 60           /* after that failed */

struct sf_aws_provider {
	struct sf_aws_env env;
	struct sf_store_options opt; /* its strings are the caller's */
	struct {
		pthread_mutex_t m;
		pthread_cond_t fetched;
		struct sf_aws_credentials cred;
		bool have, stale, fetching;
		int64_t again; /* not fetched before that, unless it must be */
		uint64_t fetches;
		int r;               /* of the last fetch */
		struct sf_error err; /* if that failed */
	} locked;
};

static int copy(const struct sf_aws_credentials *c, struct sf_aws_credentials *ret)
{
	struct sf_aws_credentials to = {
		.key_id = strdup(c->key_id),
		.secret = strdup(c->secret),
		.token = c->token ? strdup(c->token) : NULL,
		.from = strdup(c->from),
		.expires = c->expires,
	};

	if (!to.key_id || !to.secret || !to.from || (c->token && !to.token)) {
		sf_aws_credentials_release(&to);
		return -ENOMEM;
	}
	*ret = to;
	return 0;
}

int sf_aws_provider_new(const struct sf_store_options *opt, const struct sf_aws_env *env,
                        struct sf_aws_provider **ret, struct sf_error *err)
{
	struct sf_aws_provider *p = calloc(1, sizeof(*p));

	if (!p)
		return sf_fail(err, -ENOMEM, "no memory for credentials");
	p->env = *env;
	if (opt)
		p->opt = *opt;
	pthread_mutex_init(&p->locked.m, NULL);
	pthread_cond_init(&p->locked.fetched, NULL);
	*ret = p;
	return 0;
}

void sf_aws_provider_free(struct sf_aws_provider *p)
{
	if (!p)
		return;
	sf_aws_credentials_release(&p->locked.cred);
	pthread_cond_destroy(&p->locked.fetched);
	pthread_mutex_destroy(&p->locked.m);
	free(p);
}

/* Good for a request at @now? */
static bool usable_locked(const struct sf_aws_provider *p, int64_t now)
{
	const struct sf_aws_credentials *c = &p->locked.cred;

	return p->locked.have && !p->locked.stale && (!c->expires || now < c->expires);
}

/* Should somebody fetch them, though they are good still? */
static bool due_locked(const struct sf_aws_provider *p, int64_t now)
{
	const struct sf_aws_credentials *c = &p->locked.cred;

	return c->expires && now >= c->expires - ADVISORY_S && now >= p->locked.again &&
	       !p->locked.fetching;
}

/* Without the lock: what the chain says. With it again: that is published. */
static void fetch_locked(struct sf_aws_provider *p)
{
	struct sf_aws_credentials fresh = { .expires = 0 };
	struct sf_error err = SF_ERROR_INIT;
	int r;

	p->locked.fetching = true;
	pthread_mutex_unlock(&p->locked.m);
	r = sf_aws_chain_load(&p->opt, &p->env, &fresh, &err);
	int64_t now = p->env.now(p->env.arg);
	if (r == 0 && fresh.expires && now >= fresh.expires) {
		r = sf_fail(&err, -EKEYEXPIRED, "%s: what it gives expired %lld s ago", fresh.from,
		            (long long)(now - fresh.expires));
		sf_aws_credentials_release(&fresh);
	}
	pthread_mutex_lock(&p->locked.m);
	if (r == 0) {
		sf_aws_credentials_release(&p->locked.cred);
		p->locked.cred = fresh;
		p->locked.have = true;
		p->locked.stale = false;
	}
	/* some servers give what ends within the quarter of an hour: not asked at every request */
	p->locked.again = now + AGAIN_S;
	p->locked.r = r;
	p->locked.err = err;
	p->locked.fetches++;
	p->locked.fetching = false;
	pthread_cond_broadcast(&p->locked.fetched);
}

int sf_aws_provider_get(struct sf_aws_provider *p, struct sf_aws_credentials *ret,
                        struct sf_error *err)
{
	int r = 0;

	if (p->opt.no_sign_request)
		return 1;
	pthread_mutex_lock(&p->locked.m);
	int64_t now = p->env.now(p->env.arg);
	if (usable_locked(p, now)) {
		if (due_locked(p, now))
			fetch_locked(p);
	} else if (p->locked.fetching) {
		/* what that fetch says holds for all who wait for it, an error too */
		uint64_t before = p->locked.fetches;

		while (p->locked.fetches == before)
			pthread_cond_wait(&p->locked.fetched, &p->locked.m);
		r = p->locked.r;
	} else {
		fetch_locked(p);
		r = p->locked.r;
	}
	if (r == 0)
		r = copy(&p->locked.cred, ret) < 0
		            ? sf_fail(err, -ENOMEM, "no memory for credentials")
		            : 0;
	else
		sf_fail(err, r, "%s", p->locked.err.msg);
	pthread_mutex_unlock(&p->locked.m);
	return r;
}

int sf_aws_provider_try(struct sf_aws_provider *p, struct sf_aws_credentials *ret, bool *ret_due)
{
	int r = -EAGAIN;

	*ret_due = false;
	if (p->opt.no_sign_request)
		return 1;
	pthread_mutex_lock(&p->locked.m);
	int64_t now = p->env.now(p->env.arg);
	if (usable_locked(p, now)) {
		*ret_due = due_locked(p, now);
		r = copy(&p->locked.cred, ret);
	}
	pthread_mutex_unlock(&p->locked.m);
	return r;
}

void sf_aws_provider_expired(struct sf_aws_provider *p, const char *key_id)
{
	pthread_mutex_lock(&p->locked.m);
	if (p->locked.have && strcmp(p->locked.cred.key_id, key_id) == 0)
		p->locked.stale = true;
	pthread_mutex_unlock(&p->locked.m);
}
