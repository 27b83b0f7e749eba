#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "store/gs_chain.h"

struct sf_gs_provider {
	struct sf_renew *renew;
	_Atomic bool writes;
};

/* ---- what sf_renew calls ---- */

static int load(void *arg, const struct sf_cloud_env *env, void *value, int64_t *ret_expires,
                struct sf_error *err)
{
	const struct sf_gs_provider *p = arg;
	struct sf_gs_token *t = value;
	const bool writes = p->writes;
	int r = sf_gs_chain_load(env, writes ? SF_GS_SCOPE_WRITE : SF_GS_SCOPE_READ, value, err);

	t->writes = writes;
	*ret_expires = t->expires;
	return r;
}

static int copy(const void *value, void *ret)
{
	const struct sf_gs_token *t = value;
	struct sf_gs_token to = {
		.token = strdup(t->token),
		.from = strdup(t->from),
		.project = t->project ? strdup(t->project) : NULL,
		.expires = t->expires,
		.writes = t->writes,
	};

	if (!to.token || !to.from || (t->project && !to.project)) {
		sf_gs_token_release(&to);
		return -ENOMEM;
	}
	*(struct sf_gs_token *)ret = to;
	return 0;
}

static void release(void *value)
{
	sf_gs_token_release(value);
}

static const char *from(const void *value)
{
	return ((const struct sf_gs_token *)value)->from;
}

static const struct sf_renew_ops renew_ops = { .size = sizeof(struct sf_gs_token),
	                                       .load = load,
	                                       .copy = copy,
	                                       .release = release,
	                                       .from = from };

/* ---- what others call ---- */

int sf_gs_provider_new(const struct sf_cloud_env *env, struct sf_gs_provider **ret,
                       struct sf_error *err)
{
	struct sf_gs_provider *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return sf_fail(err, -ENOMEM, "no memory for credentials");
	r = sf_renew_new(&renew_ops, env, p, &p->renew, err);
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

static bool only_reads(const void *value, const void *arg)
{
	(void)arg;
	return !((const struct sf_gs_token *)value)->writes;
}

void sf_gs_provider_write(struct sf_gs_provider *p)
{
	p->writes = true;
	sf_renew_drop(p->renew, only_reads, NULL);
}

static bool is_token(const void *value, const void *token)
{
	return strcmp(((const struct sf_gs_token *)value)->token, token) == 0;
}

void sf_gs_provider_expired(struct sf_gs_provider *p, const char *token)
{
	sf_renew_drop(p->renew, is_token, token);
}
