#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "store/aws_chain.h"

#define ANSWER_MAX 65536
#define CONTAINER_MS 2000
#define CONTAINER_TRIES 3
#define MACHINE_MS 1000 /* one try: elsewhere nobody answers, and a laptop must not wait */

static int ask(const struct sf_cloud_env *env, const char *method, const char *url,
               const char *const *headers, unsigned timeout_ms, struct sf_http_answer *ret,
               struct sf_error *err)
{
	const struct sf_http_ask what = {
		.method = method,
		.url = url,
		.headers = headers,
		.limit = ANSWER_MAX,
		.timeout_ms = timeout_ms,
		.no_proxy = true,
	};
	*ret = (struct sf_http_answer){ 0 };
	return env->ask(env->ask_arg, &what, ret, err);
}

static void wipe(struct sf_http_answer *a)
{
	if (a->body)
		explicit_bzero(a->body, a->len);
	sf_http_answer_release(a);
}

/* May a container's credentials be asked for there? Over TLS anywhere, else of this machine and of
 * the addresses that Amazon's agents have. */
static bool is_allowed(const char *url)
{
	static const char *const hosts[] = { "localhost",     "127.0.0.1",      "[::1]",
		                             "169.254.170.2", "169.254.170.23", "[fd00:ec2::23]" };
	const char *host = url + 7;

	if (strncasecmp(url, "https://", 8) == 0)
		return true;
	if (strncasecmp(url, "http://", 7) != 0)
		return false;
	for (size_t i = 0; i < SF_ARRAY_LEN(hosts); i++) {
		size_t n = strlen(hosts[i]);
		if (strncasecmp(host, hosts[i], n) != 0)
			continue;
		if (host[n] == ':') /* digits alone up to the path: no "localhost:x@elsewhere" */
			n += 1 + strspn(host + n + 1, "0123456789");
		if (!host[n] || strchr("/?#", host[n]))
			return true;
	}
	return false;
}

/* "Authorization: ..." of the agent, malloc'ed; NULL and 0: none is wanted. */
static int container_token(const struct sf_cloud_env *env, char **ret, struct sf_error *err)
{
	SF_FREE char *file = sf_cloud_var(env, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
	SF_FREE char *text = NULL;
	size_t len;
	int r = 0;

	*ret = NULL;
	if (file) {
		r = sf_cloud_read_file(file, 16384, &text, &len);
		if (r < 0)
			return sf_fail(err, r,
			               "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE '%.200s': %s", file,
			               strerror(-r));
	} else {
		text = sf_cloud_var(env, "AWS_CONTAINER_AUTHORIZATION_TOKEN");
		if (!text)
			return 0;
		len = strlen(text);
	}
	if (strlen(text) != len || strpbrk(text, "\r\n"))
		r = sf_fail(err, -EBADMSG, "the authorization token has a line break or NUL in it");
	else if (asprintf(ret, "Authorization: %s", text) < 0)
		r = sf_fail(err, -ENOMEM, "no memory for credentials");
	explicit_bzero(text, len);
	return r;
}

int sf_aws_container(const struct sf_cloud_env *env, struct sf_aws_credentials *ret,
                     struct sf_error *err)
{
	SF_FREE char *relative = sf_cloud_var(env, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
	SF_FREE char *url = NULL;
	const char *headers[2] = { NULL, NULL };
	struct sf_http_answer a;
	char *token;
	int r;

	if (relative) {
		if (*relative != '/')
			return sf_fail(
				err, -EBADMSG,
				"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI does not begin with '/'");
		if (asprintf(&url, "http://169.254.170.2%s", relative) < 0)
			url = NULL;
		if (!url)
			return sf_fail(err, -ENOMEM, "no memory for credentials");
	} else {
		url = sf_cloud_var(env, "AWS_CONTAINER_CREDENTIALS_FULL_URI");
		if (!url)
			return -ENOKEY;
	}
	if (!is_allowed(url))
		return sf_fail(err, -EBADMSG,
		               "AWS_CONTAINER_CREDENTIALS_FULL_URI is neither https:// nor an "
		               "address of this machine or of Amazon's agents");
	r = container_token(env, &token, err);
	if (r < 0)
		return r;
	headers[0] = token;
	for (int i = 0; i < CONTAINER_TRIES; i++) {
		if (i)
			wipe(&a);
		r = ask(env, "GET", url, headers, CONTAINER_MS, &a, err);
		if (r == 0 && a.status < 500)
			break;
	}
	if (r == 0 && a.status != 200)
		r = sf_fail(err, -EIO, "the container's server answers %u", a.status);
	else if (r == 0)
		r = sf_aws_reply_json(a.body, a.len, false, ret, err);
	wipe(&a);
	if (token)
		explicit_bzero(token, strlen(token));
	free(token);
	return r;
}

static bool is_true(const struct sf_cloud_env *env, const char *name)
{
	SF_FREE char *v = sf_cloud_var(env, name);

	return v && strcasecmp(v, "true") == 0;
}

/* An answer of one line that may go into a URL or a header. */
static bool is_word(const struct sf_http_answer *a)
{
	if (a->status != 200 || !a->len || a->len > 1024)
		return false;
	for (size_t i = 0; i < a->len; i++)
		if (a->body[i] <= ' ' || a->body[i] == 0x7f)
			return false;
	return true;
}

/* Where the machine is; NULL: it does not say. */
static char *machine_region(const struct sf_cloud_env *env, const char *root, int root_len,
                            const char *const *headers)
{
	struct sf_http_answer a;
	char url[640], *region = NULL;

	snprintf(url, sizeof(url), "%.*s/latest/meta-data/placement/region", root_len, root);
	if (ask(env, "GET", url, headers, MACHINE_MS, &a, NULL) == 0 && is_word(&a) && a.len < 64)
		region = strdup(a.body);
	sf_http_answer_release(&a);
	return region;
}

int sf_aws_machine(const struct sf_cloud_env *env, struct sf_aws_credentials *ret,
                   struct sf_error *err)
{
	static const char *const wanted[] = { "x-aws-ec2-metadata-token-ttl-seconds: 21600", NULL };
	SF_FREE char *base = sf_cloud_var(env, "AWS_EC2_METADATA_SERVICE_ENDPOINT");
	SF_FREE char *mode = sf_cloud_var(env, "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE");
	const char *root = base                                    ? base
	                   : mode && strcasecmp(mode, "ipv6") == 0 ? "http://[fd00:ec2::254]"
	                                                           : "http://169.254.169.254";
	const int root_len = (int)(strlen(root) - (root[strlen(root) - 1] == '/'));
	static const char dir[] = "/latest/meta-data/iam/security-credentials/";
	const char *headers[2] = { NULL, NULL };
	struct sf_http_answer a;
	char url[2048], token[1100];
	int r;

	if (is_true(env, "AWS_EC2_METADATA_DISABLED") || root_len > 512)
		return -ENOKEY;
	snprintf(url, sizeof(url), "%.*s/latest/api/token", root_len, root);
	r = ask(env, "PUT", url, wanted, MACHINE_MS, &a, NULL);
	bool known = r == 0 && is_word(&a);
	if (known)
		snprintf(token, sizeof(token), "x-aws-ec2-metadata-token: %.*s", (int)a.len,
		         a.body);
	wipe(&a);
	if (!known)
		return -ENOKEY;
	headers[0] = token; /* overwritten at the end, whatever comes */
	snprintf(url, sizeof(url), "%.*s%s", root_len, root, dir);
	r = ask(env, "GET", url, headers, MACHINE_MS, &a, NULL);
	while (r == 0 && a.len && a.body[a.len - 1] == '\n')
		a.body[--a.len] = '\0';
	known = r == 0 && is_word(&a) && !strpbrk(a.body, "/?#%");
	if (known)
		snprintf(url, sizeof(url), "%.*s%s%s", root_len, root, dir, a.body);
	wipe(&a);
	if (!known) {
		explicit_bzero(token, sizeof(token));
		return -ENOKEY;
	}
	r = ask(env, "GET", url, headers, MACHINE_MS, &a, err);
	if (r == 0 && a.status != 200)
		r = sf_fail(err, -EIO, "the machine's server answers %u", a.status);
	else if (r == 0)
		r = sf_aws_reply_json(a.body, a.len, false, ret, err);
	wipe(&a);
	if (r == 0 && env->wants_region)
		ret->region = machine_region(env, root, root_len, headers);
	explicit_bzero(token, sizeof(token));
	return r;
}
