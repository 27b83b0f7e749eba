/*
 * Prints whom requests to S3 would be signed as, for tests/interop/test_aws_chain.py: key id, secret
 * and token, a line each, and where they are from; or the error, with exit status 1. The environment
 * is the process's; no server is asked, each is as if it were down. An argument is a profile.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "store/aws_credentials.h"

static char *get(void *arg, const char *name)
{
	const char *v = getenv(name);

	(void)arg;
	return v ? strdup(v) : NULL;
}

static int64_t now(void *arg)
{
	(void)arg;
	return (int64_t)time(NULL);
}

static int ask(void *arg, const struct sf_http_ask *what, struct sf_http_answer *ret,
               struct sf_error *err)
{
	(void)arg;
	(void)ret;
	return sf_fail(err, -ECONNREFUSED, "%s is not asked", what->url);
}

int main(int argc, char **argv)
{
	const struct sf_store_options opt = { .profile = argc > 1 ? argv[1] : NULL };
	const char *home = getenv("HOME");
	const struct sf_cloud_env env = {
		.get = get, .home = home ? home : "", .ask = ask, .now = now
	};
	struct sf_aws_provider *p;
	struct sf_aws_credentials c;
	struct sf_error err = SF_ERROR_INIT;
	int r = sf_aws_provider_new(&opt, &env, &p, &err);

	if (r == 0)
		r = sf_aws_provider_get(p, &c, &err);
	if (r < 0) {
		printf("%s\n", err.msg);
		return 1;
	}
	printf("%s\n%s\n%s\n%s\n", c.key_id, c.secret, c.token ? c.token : "", c.from);
	sf_aws_credentials_release(&c);
	sf_aws_provider_free(p);
	return 0;
}
