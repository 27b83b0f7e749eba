#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "store/gs_chain.h"
#include "store/http_basic.h"
#include "store/s3_sign.h"

/*
 * Workload identity: a token of somebody else, by file or URL, is exchanged for one of Google's.
 * Source: RFC 8693; google-auth 2.x google/auth/identity_pool.py, external_account.py.
 */

#define SUBJECT_MAX 65536 /* bytes */
#define URL_MS 10000
#define HEADERS_MAX 16

static const char *text(const struct cJSON *obj, const char *name)
{
	const char *s;

	return sf_json_get_str(obj, name, &s, NULL) == 0 && *s ? s : NULL;
}

static int from_file(const char *path, char **ret, size_t *ret_len, struct sf_error *err)
{
	int r = sf_cloud_read_file(path, SUBJECT_MAX, ret, ret_len);

	return r < 0 ? sf_fail(err, r, "token file '%.300s': %s", path, strerror(-r)) : 0;
}

static void free_headers(char **headers)
{
	for (; *headers; headers++) {
		explicit_bzero(*headers, strlen(*headers));
		free(*headers);
	}
}

/* {"Name": "value"} as "Name: value" ...; at most HEADERS_MAX. */
static int take_headers(const struct cJSON *source, char **to, struct sf_error *err)
{
	const struct cJSON *all;
	size_t n = 0;

	if (sf_json_get_obj(source, "headers", &all, NULL) < 0)
		return 0;
	for (const struct cJSON *h = NULL; (h = sf_json_next(all, h));) {
		const char *value = sf_json_str(h), *name = sf_json_name(h);

		if (n == HEADERS_MAX || !value || !*name || strpbrk(name, ": \t\r\n") ||
		    strpbrk(value, "\r\n"))
			return sf_fail(
				err, -EBADMSG,
				"the headers of its credential_source are none, or more than "
				"%d",
				HEADERS_MAX);
		if (asprintf(&to[n], "%s: %s", name, value) < 0) {
			to[n] = NULL;
			return sf_fail(err, -ENOMEM, "no memory for credentials");
		}
		n++;
	}
	return 0;
}

static int from_url(const struct sf_cloud_env *env, const struct cJSON *source, const char *url,
                    char **ret, size_t *ret_len, struct sf_error *err)
{
	char *headers[HEADERS_MAX + 1] = { NULL };
	struct sf_http_answer a = { 0 };
	const struct sf_http_ask what = {
		.method = "GET",
		.url = url,
		.headers = (const char *const *)headers,
		.limit = SUBJECT_MAX,
		.timeout_ms = URL_MS,
	};
	int r = take_headers(source, headers, err);

	if (r == 0 && strncasecmp(url, "http://", 7) != 0 && strncasecmp(url, "https://", 8) != 0)
		r = sf_fail(err, -EBADMSG, "the url of its credential_source is none");
	if (r == 0)
		r = env->ask(env->ask_arg, &what, &a, err);
	free_headers(headers);
	if (r == 0 && a.status != 200)
		r = sf_fail(err, -EIO, "the url of its credential_source answers %u", a.status);
	if (r == 0) {
		*ret = SF_STEAL(a.body);
		*ret_len = a.len;
	} else if (a.body) {
		explicit_bzero(a.body, a.len);
	}
	sf_http_answer_release(&a);
	return r;
}

/* What was read, as its format says: all of it, or a member of an object. In place of @t. */
static int take_format(const struct cJSON *source, char **t, size_t *len, struct sf_error *err)
{
	const struct cJSON *format;
	const char *field, *type, *value;
	struct sf_json *j;
	char *copy = NULL;

	if (sf_json_get_obj(source, "format", &format, NULL) < 0)
		return 0;
	type = text(format, "type");
	if (!type || strcmp(type, "text") == 0)
		return 0;
	field = text(format, "subject_token_field_name");
	if (strcmp(type, "json") != 0 || !field)
		return sf_fail(err, -EBADMSG,
		               "the format of its credential_source is neither text nor json with "
		               "subject_token_field_name");
	if (sf_json_parse_most(*t, *len, 10000, &j, NULL) < 0)
		return sf_fail(err, -EBADMSG, "the token of its credential_source is no JSON");
	value = text(sf_json_root(j), field);
	if (value)
		copy = strdup(value);
	sf_json_wipe(j);
	if (!copy)
		return sf_fail(err, -EBADMSG, "the token of its credential_source has no '%.60s'",
		               field);
	explicit_bzero(*t, *len);
	free(*t);
	*t = copy;
	*len = strlen(copy);
	return 0;
}

/* Somebody else's token; read anew each time, since it changes. */
static int subject_token(const struct sf_cloud_env *env, const struct cJSON *key, char **ret,
                         size_t *ret_len, struct sf_error *err)
{
	const struct cJSON *source;
	const char *file, *url;
	char *t = NULL;
	size_t len = 0;
	int r;

	if (sf_json_get_obj(key, "credential_source", &source, NULL) < 0)
		return sf_fail(err, -EBADMSG, "it has no credential_source");
	file = text(source, "file");
	url = text(source, "url");
	if (text(source, "environment_id") || (!file && !url))
		return sf_fail(err, -ENOTSUP,
		               "its credential_source is none of file and url, which are "
		               "supported");
	r = file ? from_file(file, &t, &len, err) : from_url(env, source, url, &t, &len, err);
	if (r == 0)
		r = take_format(source, &t, &len, err);
	while (r == 0 && len && strchr(" \t\r\n", t[len - 1]))
		t[--len] = '\0';
	if (r == 0 && (!len || strlen(t) != len))
		r = sf_fail(err, -EBADMSG,
		            "the token of its credential_source is empty or has a NUL");
	if (r < 0) {
		if (t)
			explicit_bzero(t, len);
		free(t);
		return r;
	}
	*ret = t;
	*ret_len = len;
	return 0;
}

/* Some pools have clients of their own: "Authorization: Basic ...", malloc'ed, NULL where not. */
static int client_header(const struct cJSON *key, char **ret, struct sf_error *err)
{
	const char *id = text(key, "client_id"), *secret = text(key, "client_secret");

	*ret = id ? sf_http_basic(id, secret ? secret : "") : NULL;
	return id && !*ret ? sf_fail(err, -ENOMEM, "no memory for credentials") : 0;
}

static int exchange(const struct sf_cloud_env *env, const struct cJSON *key, const char *subject,
                    const char *scope, struct sf_gs_token *ret, struct sf_error *err)
{
	const char *url = text(key, "token_url"), *audience = text(key, "audience"),
		   *type = text(key, "subject_token_type"),
		   *project = text(key, "workforce_pool_user_project");
	struct sf_buf body = { .limit = 1 << 20 }, options = { .limit = 4096 };
	char *header;
	int r;

	if (!url || !audience || !type)
		return sf_fail(err, -EBADMSG,
		               "it has no token_url, audience or subject_token_type");
	r = client_header(key, &header, err);
	if (r < 0)
		return r;
	if (project) {
		sf_buf_str(&options, "{\"userProject\":");
		sf_escape_json(&options, project, strlen(project));
		sf_buf_byte(&options, '}');
	}
	const struct sf_s3_param param[] = {
		{ "grant_type", "urn:ietf:params:oauth:grant-type:token-exchange" },
		{ "requested_token_type", "urn:ietf:params:oauth:token-type:access_token" },
		{ "audience", audience },
		{ "scope", scope },
		{ "subject_token", subject },
		{ "subject_token_type", type },
		{ "options", project && !header ? sf_buf_cstr(&options) : NULL },
	};
	sf_s3_query(&body, param, SF_ARRAY_LEN(param));
	r = sf_gs_post(env, url, SF_GS_FORM, header, &body, ret, err);
	if (header)
		explicit_bzero(header, strlen(header));
	free(header);
	sf_buf_release(&options);
	sf_buf_release(&body);
	return r;
}

int sf_gs_external_token(const struct sf_cloud_env *env, const struct cJSON *key, const char *scope,
                         struct sf_gs_token *ret, struct sf_error *err)
{
	const char *other = text(key, "service_account_impersonation_url");
	struct sf_gs_token first = { .token = NULL };
	char *subject = NULL;
	size_t len = 0;
	int r = subject_token(env, key, &subject, &len, err);

	if (r < 0)
		return r;
	r = exchange(env, key, subject, other ? SF_GS_SCOPE_ALL : scope, other ? &first : ret, err);
	explicit_bzero(subject, len);
	free(subject);
	if (r < 0 || !other)
		return r;
	r = sf_gs_impersonate(env, other, NULL, first.token, scope, ret, err);
	sf_gs_token_release(&first);
	return r;
}
