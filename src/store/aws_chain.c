#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/wipe.h"
#include "store/aws_chain.h"
#include "store/aws_credentials.h"

#define PROFILES_MAX 8 /* that lead to each other by source_profile */

struct chain {
	const struct sf_store_options *opt;
	const struct sf_cloud_env *env;
	struct sf_aws_setup setup;
	const char *seen[PROFILES_MAX]; /* profiles on the way, the first is the setup's */
	unsigned nseen;
	struct sf_error *err;
};

static const char *get(const struct chain *c, const char *profile, const char *key)
{
	const char *v = sf_aws_config_get(&c->setup.config, SF_AWS_PROFILE, profile, key);

	return v && *v ? v : NULL;
}

/* Says where they are from; passes @r on. */
static int from(struct chain *c, int r, struct sf_aws_credentials *ret, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
static int from(struct chain *c, int r, struct sf_aws_credentials *ret, const char *fmt, ...)
{
	va_list ap;
	char *text;

	if (r == -ENOKEY)
		return r;
	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	if (r < 0) {
		sf_fail_ctx(c->err, r, "credentials by %s", text ? text : "?");
		free(text);
		return r;
	}
	ret->from = text;
	if (!text) {
		sf_aws_credentials_release(ret);
		return sf_fail(c->err, -ENOMEM, "no memory for credentials");
	}
	return 0;
}

static int by_variables(struct chain *c, struct sf_aws_credentials *ret)
{
	SF_FREE char *id = sf_cloud_var(c->env, "AWS_ACCESS_KEY_ID");
	char *secret, *token;
	int r;

	if (!id)
		return -ENOKEY;
	secret = sf_cloud_var(c->env, "AWS_SECRET_ACCESS_KEY");
	token = sf_cloud_var(c->env, "AWS_SECURITY_TOKEN");
	if (!token)
		token = sf_cloud_var(c->env, "AWS_SESSION_TOKEN");
	if (!secret)
		r = sf_fail(c->err, -EBADMSG,
		            "AWS_ACCESS_KEY_ID is set, but AWS_SECRET_ACCESS_KEY is not");
	else
		r = sf_aws_keep(id, secret, token, 0, ret, c->err);
	sf_wipe_free(secret);
	sf_wipe_free(token);
	return from(c, r, ret, "environment variables");
}

/* Keys that one of the files has as they are. */
static int by_keys(struct chain *c, const char *profile, bool credentials,
                   struct sf_aws_credentials *ret)
{
	const struct sf_aws_config *f = &c->setup.config;
	const char *id = sf_aws_config_get_of(f, credentials, profile, "aws_access_key_id");
	const char *secret = sf_aws_config_get_of(f, credentials, profile, "aws_secret_access_key");
	const char *token = sf_aws_config_get_of(f, credentials, profile, "aws_session_token");
	int r;

	if (!id)
		return -ENOKEY;
	if (!token)
		token = sf_aws_config_get_of(f, credentials, profile, "aws_security_token");
	r = secret ? sf_aws_keep(id, secret, token, 0, ret, c->err)
	           : sf_fail(c->err, -EBADMSG,
	                     "aws_access_key_id has no aws_secret_access_key beside it");
	return from(c, r, ret, "profile %s in the %s file", profile,
	            credentials ? "credentials" : "config");
}

static int by_process(struct chain *c, const char *profile, struct sf_aws_credentials *ret)
{
	const char *command = get(c, profile, "credential_process");
	const char *const argv[] = { "/bin/sh", "-c", command, NULL };

	return !command ? -ENOKEY
	                : from(c, sf_aws_process(c->env, argv, ret, c->err), ret,
	                       "credential_process of profile %s", profile);
}

static int by_sso(struct chain *c, const char *profile, struct sf_aws_credentials *ret)
{
	const char *const argv[] = { "aws",       "configure", "export-credentials",
		                     "--profile", profile,     "--format",
		                     "process",   NULL };

	if (!get(c, profile, "sso_account_id") && !get(c, profile, "sso_role_name"))
		return -ENOKEY;
	return from(c, sf_aws_process(c->env, argv, ret, c->err), ret,
	            "the aws program (aws sso login --profile %s logs in)", profile);
}

static int assume(struct chain *c, const char *profile, struct sf_aws_role *role,
                  struct sf_aws_credentials *ret)
{
	SF_FREE char *region = sf_aws_region(c->opt, c->env, &c->setup);
	SF_FREE char *endpoint = sf_aws_endpoint(c->env, &c->setup, "sts");

	if (!region || !endpoint)
		return sf_fail(c->err, -ENOMEM, "no memory for credentials");
	if (profile && !*region && get(c, profile, "region")) {
		free(region);
		region = strdup(get(c, profile, "region"));
		if (!region)
			return sf_fail(c->err, -ENOMEM, "no memory for credentials");
	}
	role->region = region;
	role->endpoint = endpoint;
	return sf_aws_assume(c->env, role, ret, c->err);
}

/* Variables count unless a profile was given by option, or is only the source of another. */
static int by_web_identity(struct chain *c, const char *profile, bool variables,
                           struct sf_aws_credentials *ret)
{
	SF_FREE char *file = variables ? sf_cloud_var(c->env, "AWS_WEB_IDENTITY_TOKEN_FILE") : NULL;
	SF_FREE char *arn = variables ? sf_cloud_var(c->env, "AWS_ROLE_ARN") : NULL;
	SF_FREE char *name = variables ? sf_cloud_var(c->env, "AWS_ROLE_SESSION_NAME") : NULL;
	struct sf_aws_role role = {
		.token_file = file ? file : get(c, profile, "web_identity_token_file"),
		.arn = arn ? arn : get(c, profile, "role_arn"),
		.session_name = name ? name : get(c, profile, "role_session_name"),
	};
	int r;

	if (!role.token_file)
		return -ENOKEY;
	r = role.arn ? assume(c, profile, &role, ret)
	             : sf_fail(c->err, -EBADMSG, "no role is named: AWS_ROLE_ARN or role_arn");
	return from(c, r, ret, "web identity %s", role.arn ? role.arn : "");
}

static int by_profile(struct chain *c, const char *profile, bool variables,
                      struct sf_aws_credentials *ret);

static int by_source(struct chain *c, const char *source, struct sf_aws_credentials *ret)
{
	int r;

	if (strcasecmp(source, "Environment") == 0)
		r = by_variables(c, ret);
	else if (strcasecmp(source, "Ec2InstanceMetadata") == 0)
		r = from(c, sf_aws_machine(c->env, ret, c->err), ret, "the machine's role");
	else if (strcasecmp(source, "EcsContainer") == 0)
		r = from(c, sf_aws_container(c->env, ret, c->err), ret, "the container's role");
	else
		return sf_fail(c->err, -EBADMSG,
		               "credential_source '%.100s' is none of Environment, "
		               "Ec2InstanceMetadata, EcsContainer",
		               source);
	return r == -ENOKEY ? sf_fail(c->err, -EBADMSG, "credential_source %s has none", source)
	                    : r;
}

static bool has_keys(const struct chain *c, const char *profile)
{
	return get(c, profile, "aws_access_key_id") || get(c, profile, "aws_secret_access_key");
}

static bool has_role(const struct chain *c, const char *profile)
{
	return get(c, profile, "role_arn") && !get(c, profile, "web_identity_token_file");
}

/* Whom a role is assumed as. A profile may be its own source, if it has keys. */
static int source_of(struct chain *c, const char *profile, struct sf_aws_credentials *ret);

static int by_role(struct chain *c, const char *profile, struct sf_aws_credentials *ret)
{
	struct sf_aws_credentials as = { .expires = 0 };
	struct sf_aws_role role = {
		.arn = get(c, profile, "role_arn"),
		.session_name = get(c, profile, "role_session_name"),
		.external_id = get(c, profile, "external_id"),
		.duration_s = get(c, profile, "duration_seconds"),
		.as = &as,
	};
	int r;

	if (!has_role(c, profile))
		return -ENOKEY;
	if (get(c, profile, "mfa_serial"))
		r = sf_fail(
			c->err, -ENOTSUP,
			"mfa_serial wants a code that somebody types in, and nobody is asked here: "
			"let the aws program ask, and pass on what it was given: "
			"eval \"$(aws configure export-credentials --profile '%.100s' --format "
			"env)\"",
			profile);
	else
		r = source_of(c, profile, &as);
	if (r == 0)
		r = assume(c, profile, &role, ret);
	sf_aws_credentials_release(&as);
	return from(c, r, ret, "role %s of profile %s", role.arn, profile);
}

static int source_of(struct chain *c, const char *profile, struct sf_aws_credentials *ret)
{
	const char *of = get(c, profile, "source_profile");
	const char *source = get(c, profile, "credential_source");
	bool seen = false;
	int r;

	if (!of == !source)
		return sf_fail(c->err, -EBADMSG, "it has %s source_profile %s credential_source",
		               of ? "both" : "neither", of ? "and" : "nor");
	if (source)
		return by_source(c, source, ret);
	if (!sf_aws_config_has(&c->setup.config, SF_AWS_PROFILE, of))
		return sf_fail(c->err, -EBADMSG, "there is no source_profile '%.200s'", of);
	for (unsigned i = 0; i < c->nseen; i++)
		seen = seen || strcmp(c->seen[i], of) == 0;
	if (seen && (strcmp(of, profile) != 0 || !has_keys(c, of)))
		return sf_fail(c->err, -EBADMSG, "source_profile '%.200s' leads back to itself",
		               of);
	if (c->nseen == PROFILES_MAX)
		return sf_fail(c->err, -EBADMSG, "more than %d profiles lead to each other",
		               PROFILES_MAX);
	c->seen[c->nseen++] = of;
	if (has_role(c, of) && !has_keys(c, of))
		r = by_role(c, of, ret);
	else
		r = by_profile(c, of, false, ret);
	return r == -ENOKEY
	               ? sf_fail(c->err, -EBADMSG, "source_profile '%.200s' has no credentials", of)
	               : r;
}

static int by_profile(struct chain *c, const char *profile, bool variables,
                      struct sf_aws_credentials *ret)
{
	int r = by_web_identity(c, profile, variables, ret);

	if (r == -ENOKEY)
		r = by_sso(c, profile, ret);
	if (r == -ENOKEY)
		r = by_keys(c, profile, true, ret);
	if (r == -ENOKEY)
		r = by_process(c, profile, ret);
	return r == -ENOKEY ? by_keys(c, profile, false, ret) : r;
}

int sf_aws_chain_load(const struct sf_store_options *opt, const struct sf_cloud_env *env,
                      struct sf_aws_credentials *ret, struct sf_error *err)
{
	struct sf_error own = SF_ERROR_INIT;
	struct chain c = { .opt = opt, .env = env, .err = err ? err : &own };
	bool variables;
	int r = sf_aws_setup_read(opt, env, &c.setup, c.err);

	if (r < 0)
		return r;
	variables = !c.setup.profile_given;
	c.seen[c.nseen++] = c.setup.profile;
	r = variables ? by_variables(&c, ret) : -ENOKEY;
	if (r == -ENOKEY)
		r = by_role(&c, c.setup.profile, ret);
	if (r == -ENOKEY)
		r = by_profile(&c, c.setup.profile, variables, ret);
	if (r == -ENOKEY)
		r = from(&c, sf_aws_container(env, ret, c.err), ret, "the container's role");
	if (r == -ENOKEY)
		r = from(&c, sf_aws_machine(env, ret, c.err), ret, "the machine's role");
	if (r == -ENOKEY)
		sf_fail(c.err, r,
		        "no AWS credentials: no AWS_ACCESS_KEY_ID, none in profile '%.100s', no "
		        "role "
		        "of a container or machine (aws configure makes a profile; a public bucket "
		        "wants --no-sign-request)",
		        c.setup.profile);
	sf_aws_setup_release(&c.setup);
	return r;
}
