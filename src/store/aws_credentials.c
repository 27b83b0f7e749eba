#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "store/aws_chain.h"
#include "store/aws_credentials.h"

struct sf_aws_provider {
	struct sf_store_options opt; /* its strings are the caller's */
	struct sf_renew *renew;
};

/* ---- what sf_renew calls ---- */

static int load(void *arg, const struct sf_cloud_env *env, void *value, int64_t *ret_expires,
                struct sf_error *err)
{
	const struct sf_aws_credentials *c = value;
	int r = sf_aws_chain_load(&((const struct sf_aws_provider *)arg)->opt, env, value, err);

	*ret_expires = c->expires;
	return r;
}

static int copy(const void *value, void *ret)
{
	const struct sf_aws_credentials *c = value;
	struct sf_aws_credentials to = {
		.key_id = strdup(c->key_id),
		.secret = strdup(c->secret),
		.token = c->token ? strdup(c->token) : NULL,
		.region = c->region ? strdup(c->region) : NULL,
		.from = strdup(c->from),
		.expires = c->expires,
	};

	if (!to.key_id || !to.secret || !to.from || (c->token && !to.token) ||
	    (c->region && !to.region)) {
		sf_aws_credentials_release(&to);
		return -ENOMEM;
	}
	*(struct sf_aws_credentials *)ret = to;
	return 0;
}

static void release(void *value)
{
	sf_aws_credentials_release(value);
}

static const char *from(const void *value)
{
	return ((const struct sf_aws_credentials *)value)->from;
}

static const struct sf_renew_ops renew_ops = { .size = sizeof(struct sf_aws_credentials),
	                                       .load = load,
	                                       .copy = copy,
	                                       .release = release,
	                                       .from = from };

/* ---- what others call ---- */

int sf_aws_provider_new(const struct sf_store_options *opt, const struct sf_cloud_env *env,
                        struct sf_aws_provider **ret, struct sf_error *err)
{
	struct sf_aws_provider *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return sf_fail(err, -ENOMEM, "no memory for credentials");
	if (opt)
		p->opt = *opt;
	r = sf_renew_new(&renew_ops, env, p, &p->renew, err);
	if (r < 0)
		free(p);
	else
		*ret = p;
	return r;
}

void sf_aws_provider_free(struct sf_aws_provider *p)
{
	if (!p)
		return;
	sf_renew_free(p->renew);
	free(p);
}

int sf_aws_provider_get(struct sf_aws_provider *p, struct sf_aws_credentials *ret,
                        struct sf_error *err)
{
	return p->opt.no_sign_request ? 1 : sf_renew_get(p->renew, ret, err);
}

int sf_aws_provider_try(struct sf_aws_provider *p, struct sf_aws_credentials *ret,
                        struct sf_error *err)
{
	return p->opt.no_sign_request ? 1 : sf_renew_try(p->renew, ret, err);
}

struct sf_renew *sf_aws_provider_renew(struct sf_aws_provider *p)
{
	return p->renew;
}

static bool has_key_id(const void *value, const void *key_id)
{
	return strcmp(((const struct sf_aws_credentials *)value)->key_id, key_id) == 0;
}

void sf_aws_provider_expired(struct sf_aws_provider *p, const char *key_id)
{
	sf_renew_drop(p->renew, has_key_id, key_id);
}
