#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "store/gs_chain.h"
#include "store/gs_list.h"
#include "store/gs_place.h"
#include "store/s3_list.h"

#define ANSWER_MAX 65536
#define TOKEN_MAX 16384                    /* bytes */
#define LASTS_MAX (INT64_C(7) * 24 * 3600) /* seconds that a token may be good for */
#define POST_MS 10000
#define LASTS_S 3600 /* what a token is asked for */
#define POST_TRIES 3

void sf_gs_token_release(struct sf_gs_token *t)
{
	if (t->token)
		explicit_bzero(t->token, strlen(t->token));
	free(t->token);
	free(t->from);
	free(t->project);
	*t = (struct sf_gs_token){ .token = NULL };
}

/* May it stand in a header? */
static bool is_word(const char *s)
{
	size_t n = 0;

	for (; s[n]; n++)
		if (s[n] <= ' ' || s[n] == 0x7f)
			return false;
	return n && n <= TOKEN_MAX;
}

static int take(const struct cJSON *root, int64_t now, struct sf_gs_token *ret,
                struct sf_error *err)
{
	const char *token, *until;
	uint64_t lasts;
	int64_t ns, expires = 0;
	int r;

	if (sf_json_get_str(root, "access_token", &token, NULL) == 0) {
		r = sf_json_get_u64(root, "expires_in", &lasts, NULL);
		if (r < 0 && r != -ENOENT)
			return sf_fail(err, -EBADMSG, "expires_in of the answer is no number");
		if (r == 0)
			expires = now + (int64_t)SF_MIN(lasts, (uint64_t)LASTS_MAX);
	} else if (sf_json_get_str(root, "accessToken", &token, NULL) == 0) {
		if (sf_json_get_str(root, "expireTime", &until, NULL) < 0 ||
		    !sf_s3_time(until, &ns))
			return sf_fail(err, -EBADMSG, "expireTime of the answer is no time");
		expires = ns / 1000000000;
	} else {
		return sf_fail(err, -EBADMSG, "the answer has no access token");
	}
	if (!is_word(token))
		return sf_fail(err, -EBADMSG,
		               "the access token is empty, longer than %d bytes or has blanks",
		               TOKEN_MAX);
	ret->token = strdup(token);
	ret->expires = expires;
	return ret->token ? 0 : sf_fail(err, -ENOMEM, "no memory for credentials");
}

int sf_gs_reply(const char *text, size_t len, int64_t now, struct sf_gs_token *ret,
                struct sf_error *err)
{
	struct sf_json *j;
	int r;

	/* its own message may quote the text */
	if (sf_json_parse_most(text, len, 1000, &j, NULL) < 0)
		return sf_fail(err, -EBADMSG, "the answer is no JSON (%zu bytes)", len);
	r = take(sf_json_root(j), now, ret, err);
	sf_json_wipe(j);
	return r;
}

static int told(const struct sf_http_answer *a, const char *url, int64_t now,
                struct sf_gs_token *ret, struct sf_error *err)
{
	const char *host = strstr(url, "://") + 3;
	const int n = (int)SF_MIN(strcspn(host, "/?"), (size_t)200);
	struct sf_gs_error e;
	int r;

	if (a->status == 200) {
		r = sf_gs_reply(a->body, a->len, now, ret, err);
		return r < 0 ? sf_fail_ctx(err, r, "%.*s", n, host) : 0;
	}
	sf_gs_error_parse(a->body, a->len, &e);
	return sf_fail(err, a->status >= 500 || a->status == 429 ? -EIO : -EACCES,
	               "%.*s answers %u %s: %s", n, host, a->status, e.reason, e.message);
}

int sf_gs_post(const struct sf_cloud_env *env, const char *url, const char *type,
               const char *authorization, struct sf_buf *body, struct sf_gs_token *ret,
               struct sf_error *err)
{
	const char *const headers[] = { type, authorization, NULL };
	const struct sf_http_ask what = {
		.method = "POST",
		.url = url,
		.headers = headers,
		.body = body->at,
		.body_len = body->len,
		.limit = ANSWER_MAX,
		.timeout_ms = POST_MS,
	};
	int r = sf_buf_check(body);

	if (r < 0)
		r = sf_fail(err, r, "no memory to ask for a token");
	else if (!sf_gs_url_is_safe(url))
		r = sf_fail(err, -EINVAL, "'%.200s' is no https:// URL: no secret is sent there",
		            url);
	for (int i = 0; r == 0 && i < POST_TRIES; i++) {
		struct sf_http_answer a = { 0 };
		bool again;

		r = env->ask(env->ask_arg, &what, &a, err);
		if (r == 0)
			r = told(&a, url, env->now(env->arg), ret, err);
		again = r < 0 && r != -ECANCELED && i + 1 < POST_TRIES &&
		        (a.status >= 500 || a.status == 429 || !a.status);
		if (a.body)
			explicit_bzero(a.body, a.len);
		sf_http_answer_release(&a);
		if (!again)
			break;
		r = 0;
	}
	if (body->at)
		explicit_bzero(body->at, body->len);
	return r;
}

int sf_gs_impersonate(const struct sf_cloud_env *env, const char *url,
                      const struct cJSON *delegates, const char *as, const char *scope,
                      struct sf_gs_token *ret, struct sf_error *err)
{
	struct sf_buf body = { .limit = 65536 };
	const char *comma = "";
	char *header;
	int r;

	sf_buf_printf(&body, "{\"scope\":[\"%s\"],\"lifetime\":\"%ds\",\"delegates\":[", scope,
	              LASTS_S);
	for (const struct cJSON *d = NULL; delegates && (d = sf_json_next(delegates, d));) {
		const char *s = sf_json_str(d);

		sf_buf_str(&body, comma);
		sf_escape_json(&body, s ? s : "", s ? strlen(s) : 0);
		comma = ",";
	}
	sf_buf_str(&body, "]}");
	if (asprintf(&header, "Authorization: Bearer %s", as) < 0)
		return sf_fail(err, -ENOMEM, "no memory for credentials");
	r = sf_gs_post(env, url, "Content-Type: application/json", header, &body, ret, err);
	explicit_bzero(header, strlen(header));
	free(header);
	sf_buf_release(&body);
	return r < 0 ? sf_fail_ctx(err, r, "to act as a service account") : 0;
}
