#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "store/gs_chain.h"

struct sf_gs_provider {
	struct sf_cloud_env env;     /* asks by way of ask() below */
	struct sf_cloud_env outside; /* as it was given */
	struct sf_renew *renew;
};

/* ---- what sf_renew calls ---- */

static int ask(void *arg, const struct sf_http_ask *what, struct sf_http_answer *ret,
               struct sf_error *err)
{
	const struct sf_gs_provider *p = arg;
	struct sf_http_ask one = *what;

	one.stop = p->env.stop;
	return p->outside.ask(p->outside.ask_arg, &one, ret, err);
}

static int fetch(void *arg, const _Atomic bool *stop, void **ret, int64_t *ret_expires,
                 struct sf_error *err)
{
	struct sf_gs_provider *p = arg;
	struct sf_gs_token *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return sf_fail(err, -ENOMEM, "no memory for credentials");
	p->env.stop = stop;
	r = sf_gs_chain_load(&p->env, t, err);
	if (r < 0) {
		free(t);
		return r;
	}
	*ret = t;
	*ret_expires = t->expires;
	return 0;
}

static int copy(const void *value, void *ret)
{
	const struct sf_gs_token *t = value;
	struct sf_gs_token to = {
		.token = strdup(t->token),
		.from = strdup(t->from),
		.project = t->project ? strdup(t->project) : NULL,
		.expires = t->expires,
	};

	if (!to.token || !to.from || (t->project && !to.project)) {
		sf_gs_token_release(&to);
		return -ENOMEM;
	}
	*(struct sf_gs_token *)ret = to;
	return 0;
}

static void let_go(void *value)
{
	sf_gs_token_release(value);
	free(value);
}

static int64_t now(void *arg)
{
	const struct sf_gs_provider *p = arg;

	return p->env.now(p->env.arg);
}

static const struct sf_renew_ops renew_ops = {
	.fetch = fetch, .copy = copy, .free = let_go, .now = now
};

/* ---- what others call ---- */

int sf_gs_provider_new(const struct sf_cloud_env *env, struct sf_gs_provider **ret,
                       struct sf_error *err)
{
	struct sf_gs_provider *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return sf_fail(err, -ENOMEM, "no memory for credentials");
	p->outside = *env;
	p->env = *env;
	p->env.ask = ask;
	p->env.ask_arg = p;
	r = sf_renew_new(&renew_ops, p, &p->renew, err);
	if (r < 0)
		free(p);
	else
		*ret = p;
	return r;
}

void sf_gs_provider_free(struct sf_gs_provider *p)
{
	if (!p)
		return;
	sf_renew_free(p->renew);
	free(p);
}

int sf_gs_provider_get(struct sf_gs_provider *p, struct sf_gs_token *ret, struct sf_error *err)
{
	return sf_renew_get(p->renew, ret, err);
}

int sf_gs_provider_try(struct sf_gs_provider *p, struct sf_gs_token *ret, struct sf_error *err)
{
	return sf_renew_try(p->renew, ret, err);
}

struct sf_renew *sf_gs_provider_renew(struct sf_gs_provider *p)
{
	return p->renew;
}

static bool is_token(const void *value, const void *token)
{
	return strcmp(((const struct sf_gs_token *)value)->token, token) == 0;
}

void sf_gs_provider_expired(struct sf_gs_provider *p, const char *token)
{
	sf_renew_drop(p->renew, is_token, token);
}
