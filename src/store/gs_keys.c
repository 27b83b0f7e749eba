#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "store/gs_chain.h"
#include "store/s3_sign.h"

#define LASTS_S 3600 /* what a token is asked for */

/* A text that has to be there. */
static int need(const struct cJSON *key, const char *name, const char **ret, struct sf_error *err)
{
	int r = sf_json_get_str(key, name, ret, NULL);

	if (r == 0 && **ret)
		return 0;
	return sf_fail(err, -EBADMSG, "it has no %s", name);
}

static const char *text_or(const struct cJSON *key, const char *name, const char *otherwise)
{
	const char *s;

	return sf_json_get_str(key, name, &s, NULL) == 0 && *s ? s : otherwise;
}

static int name_of(const char *who, char **ret_who, struct sf_error *err)
{
	if (!ret_who || !who)
		return 0;
	*ret_who = strdup(who);
	return *ret_who ? 0 : sf_fail(err, -ENOMEM, "no memory for credentials");
}

/* Source: RFC 7523. */
static int by_service_account(const struct sf_cloud_env *env, const struct cJSON *key,
                              const char *scope, struct sf_gs_token *ret, char **ret_who,
                              struct sf_error *err)
{
	const char *email, *pem, *url = text_or(key, "token_uri", SF_GS_TOKEN_URL);
	struct sf_buf claims = { .limit = 16384 }, body = { .limit = 65536 };
	const long long now = (long long)env->now(env->arg);
	int r = need(key, "client_email", &email, err);

	if (r == 0)
		r = need(key, "private_key", &pem, err);
	if (r == 0)
		r = name_of(email, ret_who, err);
	if (r < 0)
		return r;
	sf_buf_str(&claims, "{\"iss\":");
	sf_escape_json(&claims, email, strlen(email));
	sf_buf_str(&claims, ",\"aud\":");
	sf_escape_json(&claims, url, strlen(url));
	sf_buf_printf(&claims, ",\"scope\":\"%s\",\"iat\":%lld,\"exp\":%lld}", scope, now,
	              now + LASTS_S);
	sf_buf_str(&body, "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer"
	                  "&assertion=");
	sf_buf_cstr(&claims);
	r = sf_buf_check(&claims);
	r = r < 0 ? sf_fail(err, r, "its client_email or token_uri is too long")
	          : sf_gs_jwt(&body, pem, text_or(key, "private_key_id", NULL),
	                      sf_buf_cstr(&claims), err);
	if (r == 0)
		r = sf_gs_post(env, url, SF_GS_FORM, NULL, &body, ret, err);
	sf_buf_release(&claims);
	sf_buf_release(&body);
	return r;
}

static int by_user(const struct sf_cloud_env *env, const struct cJSON *key, struct sf_gs_token *ret,
                   struct sf_error *err)
{
	const char *id, *secret, *refresh;
	struct sf_buf body = { .limit = 65536 };
	int r = need(key, "client_id", &id, err);

	if (r == 0)
		r = need(key, "client_secret", &secret, err);
	if (r == 0)
		r = need(key, "refresh_token", &refresh, err);
	if (r < 0)
		return r;
	const struct sf_s3_param param[] = {
		{ "grant_type", "refresh_token" },
		{ "client_id", id },
		{ "client_secret", secret },
		{ "refresh_token", refresh },
	};
	sf_s3_query(&body, param, SF_ARRAY_LEN(param));
	r = sf_gs_post(env, text_or(key, "token_uri", SF_GS_TOKEN_URL), SF_GS_FORM, NULL, &body,
	               ret, err);
	sf_buf_release(&body);
	return r;
}

/* Another account, in whose name somebody who may acts. */
static int by_other(const struct sf_cloud_env *env, const struct cJSON *key, const char *scope,
                    struct sf_gs_token *ret, struct sf_error *err)
{
	const struct cJSON *source, *delegates = NULL;
	struct sf_gs_token as = { .token = NULL };
	const char *url, *type;
	int r = need(key, "service_account_impersonation_url", &url, err);

	if (r < 0)
		return r;
	if (sf_json_get_obj(key, "source_credentials", &source, NULL) < 0 ||
	    need(source, "type", &type, err) < 0 ||
	    strcmp(type, "impersonated_service_account") == 0)
		return sf_fail(err, -EBADMSG, "it has no source_credentials of another kind");
	sf_json_get_arr(key, "delegates", &delegates, NULL);
	r = sf_gs_key_token(env, source, SF_GS_SCOPE_ALL, &as, NULL, err);
	if (r < 0)
		return r;
	r = sf_gs_impersonate(env, url, delegates, as.token, scope, ret, err);
	sf_gs_token_release(&as);
	return r;
}

int sf_gs_key_token(const struct sf_cloud_env *env, const struct cJSON *key, const char *scope,
                    struct sf_gs_token *ret, char **ret_who, struct sf_error *err)
{
	const char *type;
	int r = need(key, "type", &type, err);

	if (r < 0)
		return r;
	if (strcmp(type, "service_account") == 0)
		return by_service_account(env, key, scope, ret, ret_who, err);
	if (strcmp(type, "authorized_user") == 0)
		return by_user(env, key, ret, err);
	if (strcmp(type, "external_account") == 0)
		return sf_gs_external_token(env, key, scope, ret, err);
	if (strcmp(type, "impersonated_service_account") == 0)
		return by_other(env, key, scope, ret, err);
	return sf_fail(err, -ENOTSUP,
	               "its type '%.60s' is none of service_account, authorized_user, "
	               "external_account, impersonated_service_account",
	               type);
}
