#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "store/aws_setup.h"

/* The file that @var names, or @below the home directory. */
static int read_one(const struct sf_cloud_env *env, const char *var, const char *below,
                    bool credentials, struct sf_aws_config *c, struct sf_error *err)
{
	SF_FREE char *named = sf_cloud_var(env, var);
	SF_FREE char *path = NULL;
	char *text;
	size_t len;
	int r;

	if (!named && !*env->home)
		return 0;
	if (named && strncmp(named, "~/", 2) != 0)
		path = strdup(named);
	else if (asprintf(&path, "%s/%s", env->home, named ? named + 2 : below) < 0)
		path = NULL;
	if (!path)
		return sf_fail(err, -ENOMEM, "no memory to read the files of AWS");
	r = sf_cloud_read_file(path, SF_AWS_CONFIG_BYTES, &text, &len);
	if (r == -ENOENT || r == -ENOTDIR)
		return 0;
	/* another user's, as a daemon may see it: what else there is may do */
	if (r == -EACCES && !named)
		return 0;
	if (r < 0)
		return sf_fail(err, r, "'%.400s': %s", path, strerror(-r));
	r = sf_aws_config_add(c, text, len, credentials, path, err);
	explicit_bzero(text, len);
	free(text);
	return r;
}

void sf_aws_setup_release(struct sf_aws_setup *s)
{
	sf_aws_config_release(&s->config);
	free(s->profile);
	s->profile = NULL;
}

int sf_aws_setup_read(const struct sf_store_options *opt, const struct sf_cloud_env *env,
                      struct sf_aws_setup *ret, struct sf_error *err)
{
	struct sf_aws_setup s = { .profile_given = opt && opt->profile };
	bool named;
	int r = read_one(env, "AWS_CONFIG_FILE", ".aws/config", false, &s.config, err);

	if (r == 0)
		r = read_one(env, "AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials", true,
		             &s.config, err);
	if (r < 0)
		goto fail;
	s.profile = s.profile_given ? strdup(opt->profile) : sf_cloud_var(env, "AWS_PROFILE");
	if (!s.profile && !s.profile_given)
		s.profile = sf_cloud_var(env, "AWS_DEFAULT_PROFILE");
	named = s.profile != NULL;
	if (!s.profile)
		s.profile = strdup("default");
	if (!s.profile) {
		r = sf_fail(err, -ENOMEM, "no memory to read the files of AWS");
		goto fail;
	}
	if (named && strcmp(s.profile, "default") != 0 &&
	    !sf_aws_config_has(&s.config, SF_AWS_PROFILE, s.profile)) {
		r = sf_fail(err, -ENOKEY,
		            "profile '%.200s' is neither in the config file nor in the credentials "
		            "file of AWS",
		            s.profile);
		goto fail;
	}
	*ret = s;
	return 0;
fail:
	sf_aws_setup_release(&s);
	return r;
}

const char *sf_aws_setup_get(const struct sf_aws_setup *s, const char *key)
{
	const char *v = sf_aws_config_get(&s->config, SF_AWS_PROFILE, s->profile, key);

	return v && *v ? v : NULL;
}

static char *copy(const char *s)
{
	return strdup(s ? s : "");
}

char *sf_aws_region(const struct sf_store_options *opt, const struct sf_cloud_env *env,
                    const struct sf_aws_setup *s)
{
	char *v = NULL;

	if (opt && opt->region)
		return strdup(opt->region);
	v = sf_cloud_var(env, "AWS_REGION");
	if (!v)
		v = sf_cloud_var(env, "AWS_DEFAULT_REGION");
	return v ? v : copy(sf_aws_setup_get(s, "region"));
}

char *sf_aws_endpoint(const struct sf_cloud_env *env, const struct sf_aws_setup *s,
                      const char *service)
{
	char name[64], *v = sf_cloud_var(env, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS");
	bool ignored = v && strcasecmp(v, "true") == 0;
	const char *services, *ignore = sf_aws_setup_get(s, "ignore_configured_endpoint_urls");

	free(v);
	if (ignored || (ignore && strcasecmp(ignore, "true") == 0))
		return copy("");
	snprintf(name, sizeof(name), "AWS_ENDPOINT_URL_%s", service);
	for (char *c = name; *c; c++)
		if (*c >= 'a' && *c <= 'z')
			*c = (char)(*c - 'a' + 'A');
	v = sf_cloud_var(env, name);
	if (!v)
		v = sf_cloud_var(env, "AWS_ENDPOINT_URL");
	if (v)
		return v;
	services = sf_aws_setup_get(s, "services");
	snprintf(name, sizeof(name), "%s.endpoint_url", service);
	if (services) {
		const char *of = sf_aws_config_get(&s->config, SF_AWS_SERVICES, services, name);
		if (of && *of)
			return strdup(of);
	}
	return copy(sf_aws_setup_get(s, "endpoint_url"));
}

const char *sf_aws_domain(const char *region)
{
	return strncmp(region, "cn-", 3) == 0 ? "amazonaws.com.cn" : "amazonaws.com";
}
