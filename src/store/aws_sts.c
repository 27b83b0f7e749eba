#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "store/aws_chain.h"
#include "store/s3_list.h"

#define ANSWER_MAX 65536
#define STS_MS 10000
#define STS_TRIES 3
#define TOKEN_FILE_MAX 65536

/* Where STS is: what is asked, and what is signed. */
struct place {
	char url[512], host[256], path[256];
	const char *region;
};

static int place_of(const struct sf_aws_role *role, struct place *ret, struct sf_error *err)
{
	const char *host, *path;
	int n;

	ret->region = *role->region ? role->region : "us-east-1";
	if (!*role->endpoint && !*role->region)
		n = snprintf(ret->url, sizeof(ret->url), "https://sts.amazonaws.com/");
	else if (!*role->endpoint)
		n = snprintf(ret->url, sizeof(ret->url), "https://sts.%s.%s/", role->region,
		             sf_aws_domain(role->region));
	else
		n = snprintf(ret->url, sizeof(ret->url), "%s%s", role->endpoint,
		             role->endpoint[strlen(role->endpoint) - 1] == '/' ? "" : "/");
	host = strncasecmp(ret->url, "https://", 8) == 0  ? ret->url + 8
	       : strncasecmp(ret->url, "http://", 7) == 0 ? ret->url + 7
	                                                  : NULL;
	path = host ? strchr(host, '/') : NULL;
	if (n < 0 || (size_t)n >= sizeof(ret->url) || !path || path == host ||
	    (size_t)(path - host) >= sizeof(ret->host) || strlen(path) >= sizeof(ret->path) ||
	    strpbrk(host, " @?#\r\n"))
		return sf_fail(err, -EINVAL,
		               "neither region '%.40s' nor the endpoint that is given "
		               "makes a URL of STS",
		               role->region);
	snprintf(ret->host, sizeof(ret->host), "%.*s", (int)(path - host), host);
	snprintf(ret->path, sizeof(ret->path), "%s", path);
	/* the transport does not send the scheme's own port */
	size_t len = strlen(ret->host);
	const char *own = ret->url[4] == 's' || ret->url[4] == 'S' ? ":443" : ":80";
	if (len > strlen(own) && strcmp(ret->host + len - strlen(own), own) == 0)
		ret->host[len - strlen(own)] = '\0';
	return 0;
}

/* Headers that prove who asks; *ret is NULL where none do. */
static int sign(const struct sf_cloud_env *env, const struct sf_aws_role *role,
                const struct place *place, const struct sf_buf *body, const char *const *headers,
                char ***ret, struct sf_error *err)
{
	char hash[65];
	const struct sf_s3_request req = {
		.method = "POST",
		.host = place->host,
		.path = place->path,
		.query = "",
		.region = place->region,
		.service = "sts",
		.headers = headers,
		.payload = hash,
		.now = env->now(env->arg),
	};

	*ret = NULL;
	if (!role->as)
		return 0;
	if (sf_s3_payload(body->at, body->len, hash) < 0)
		return sf_fail(err, -ENOMEM, "no memory to sign a request");
	return sf_s3_sign(&req, role->as, ret, err);
}

static int told(const struct sf_http_answer *a, struct sf_aws_credentials *ret,
                struct sf_error *err)
{
	struct sf_s3_error e;

	if (a->status == 200)
		return sf_aws_reply_xml(a->body, a->len, ret, err);
	if (sf_s3_error_parse(a->body, a->len, &e))
		return sf_fail(err, a->status == 403 ? -EACCES : -EIO, "STS answers %u %s: %s",
		               a->status, e.code, e.message);
	return sf_fail(err, -EIO, "STS answers %u", a->status);
}

static int ask(const struct sf_cloud_env *env, const struct sf_aws_role *role,
               const struct place *place, const struct sf_buf *body, struct sf_aws_credentials *ret,
               struct sf_error *err)
{
	static const char *const plain[] = {
		"content-type: application/x-www-form-urlencoded; charset=utf-8", NULL
	};
	struct sf_http_answer a;
	char **signed_headers;
	int r = 0;

	for (int i = 0; i < STS_TRIES; i++) {
		a = (struct sf_http_answer){ 0 };
		r = sign(env, role, place, body, plain, &signed_headers, err);
		if (r < 0)
			return r;
		const struct sf_http_ask what = {
			.method = "POST",
			.url = place->url,
			.headers = signed_headers ? (const char *const *)signed_headers : plain,
			.body = body->at,
			.body_len = body->len,
			.limit = ANSWER_MAX,
			.timeout_ms = STS_MS,
		};
		r = env->ask(env->ask_arg, &what, &a, err);
		sf_s3_headers_free(signed_headers);
		if (r == 0)
			r = told(&a, ret, err);
		bool again = r < 0 && (a.status >= 500 || a.status == 429 || !a.status);
		if (a.body)
			explicit_bzero(a.body, a.len);
		sf_http_answer_release(&a);
		if (!again)
			break;
	}
	return r;
}

int sf_aws_assume(const struct sf_cloud_env *env, const struct sf_aws_role *role,
                  struct sf_aws_credentials *ret, struct sf_error *err)
{
	struct sf_buf body = { .limit = 1 << 20 };
	char name[64], *token = NULL;
	struct place place;
	size_t len = 0;
	int r = place_of(role, &place, err);

	if (r < 0)
		return r;
	if (role->token_file) {
		r = sf_cloud_read_file(role->token_file, TOKEN_FILE_MAX, &token, &len);
		if (r < 0)
			return sf_fail(err, r, "token file '%.300s': %s", role->token_file,
			               strerror(-r));
		while (len && (token[len - 1] == '\n' || token[len - 1] == '\r'))
			token[--len] = '\0';
		if (!len || strlen(token) != len) {
			explicit_bzero(token, len);
			free(token);
			return sf_fail(err, -EBADMSG,
			               "token file '%.300s' is empty or contains a NUL byte",
			               role->token_file);
		}
	}
	snprintf(name, sizeof(name), "shardfuse-%lld", (long long)env->now(env->arg));
	const struct sf_s3_param param[] = {
		{ "Action", token ? "AssumeRoleWithWebIdentity" : "AssumeRole" },
		{ "Version", "2011-06-15" },
		{ "RoleArn", role->arn },
		{ "RoleSessionName", role->session_name ? role->session_name : name },
		{ "WebIdentityToken", token },
		{ "ExternalId", role->external_id },
		{ "DurationSeconds", role->duration_s },
	};
	sf_s3_query(&body, param, SF_ARRAY_LEN(param));
	r = sf_buf_check(&body);
	r = r < 0 ? sf_fail(err, r, "no memory to ask STS")
	          : ask(env, role, &place, &body, ret, err);
	if (token)
		explicit_bzero(token, len);
	free(token);
	if (body.at)
		explicit_bzero(body.at, body.len);
	sf_buf_release(&body);
	return r;
}
