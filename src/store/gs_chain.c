#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "store/gs_chain.h"

#define FILE_MAX 262144 /* bytes of a credentials file */
#define ANSWER_MAX 65536
#define MACHINE_MS 1500 /* one try: elsewhere nobody answers, and a laptop must not wait */

#define HINT "gcloud auth application-default login"

/* The project that is to pay, whatever the file says. */
static int take_project(const struct sf_cloud_env *env, const struct cJSON *key,
                        struct sf_gs_token *ret, struct sf_error *err)
{
	const char *s;

	ret->project = sf_cloud_var(env, "GOOGLE_CLOUD_QUOTA_PROJECT");
	if (ret->project || !key || sf_json_get_str(key, "quota_project_id", &s, NULL) < 0 || !*s)
		return 0;
	ret->project = strdup(s);
	return ret->project ? 0 : sf_fail(err, -ENOMEM, "no memory for credentials");
}

static int by_text(const struct sf_cloud_env *env, const char *scope, const char *path,
                   const char *text, size_t len, struct sf_gs_token *ret, struct sf_error *err)
{
	struct sf_gs_token t = { .token = NULL };
	SF_FREE char *who = NULL;
	struct sf_json *j;
	int r;

	/* its own message may quote the text */
	if (sf_json_parse_most(text, len, 10000, &j, NULL) < 0)
		return sf_fail(err, -EBADMSG, "it is no JSON (%zu bytes)", len);
	r = sf_gs_key_token(env, sf_json_root(j), scope, &t, &who, err);
	if (r == 0)
		r = take_project(env, sf_json_root(j), &t, err);
	sf_json_wipe(j);
	if (r == 0 && asprintf(&t.from, "%s%s%s", who ? who : "", who ? " of " : "", path) < 0) {
		t.from = NULL;
		r = sf_fail(err, -ENOMEM, "no memory for credentials");
	}
	if (r < 0)
		sf_gs_token_release(&t);
	else
		*ret = t;
	return r;
}

/* -ENOKEY: there is none, and it need not be there. */
static int by_file(const struct sf_cloud_env *env, const char *scope, const char *path, bool named,
                   struct sf_gs_token *ret, struct sf_error *err)
{
	char *text;
	size_t len;
	int r = sf_cloud_read_file(path, FILE_MAX, &text, &len);

	/* another user's, as a daemon may see it: what else there is may do */
	if (!named && (r == -ENOENT || r == -ENOTDIR || r == -EACCES))
		return -ENOKEY;
	if (r < 0)
		return sf_fail(err, r, "%s'%.300s': %s",
		               named ? "GOOGLE_APPLICATION_CREDENTIALS " : "", path, strerror(-r));
	r = by_text(env, scope, path, text, len, ret, err);
	explicit_bzero(text, len);
	free(text);
	return r < 0 ? sf_fail_ctx(err, r, "credentials file '%.300s'", path) : 0;
}

static int by_gcloud(const struct sf_cloud_env *env, const char *scope, struct sf_gs_token *ret,
                     struct sf_error *err)
{
	static const char name[] = "application_default_credentials.json";
	SF_FREE char *dir = sf_cloud_var(env, "CLOUDSDK_CONFIG");
	SF_FREE char *path = NULL;
	int n;

	if (!dir && !*env->home)
		return -ENOKEY;
	n = dir ? asprintf(&path, "%s/%s", dir, name)
	        : asprintf(&path, "%s/.config/gcloud/%s", env->home, name);
	if (n < 0) {
		path = NULL;
		return sf_fail(err, -ENOMEM, "no memory for credentials");
	}
	return by_file(env, scope, path, false, ret, err);
}

/* The machine's own server; a wrong one is told by what it does not say of itself. */
static int by_machine(const struct sf_cloud_env *env, struct sf_gs_token *ret, struct sf_error *err)
{
	static const char *const headers[] = { "Metadata-Flavor: Google", NULL };
	static const char *const want[] = { "metadata-flavor", NULL };
	SF_FREE char *given = sf_cloud_var(env, "GCE_METADATA_HOST");
	SF_FREE char *off = sf_cloud_var(env, "NO_GCE_CHECK");
	struct sf_http_answer a = { 0 };
	struct sf_gs_token t = { .token = NULL };
	char url[600];
	int r;

	if (off && strcasecmp(off, "true") == 0)
		return -ENOKEY;
	if (given && (strlen(given) > 255 || strpbrk(given, "/@?# \t\r\n")))
		return sf_fail(err, -EINVAL, "GCE_METADATA_HOST '%.100s' is no host", given);
	snprintf(url, sizeof(url),
	         "http://%s/computeMetadata/v1/instance/service-accounts/default/token",
	         given ? given : "metadata.google.internal");
	const struct sf_http_ask what = {
		.method = "GET",
		.url = url,
		.headers = headers,
		.limit = ANSWER_MAX,
		.timeout_ms = MACHINE_MS,
		.no_proxy = true,
		.want_headers = want,
	};
	r = env->ask(env->ask_arg, &what, &a, NULL);
	if (r == 0 && (!a.nkept || !a.kept[0] || strcasecmp(a.kept[0], "Google") != 0))
		r = -ENOKEY;
	if (r < 0)
		r = -ENOKEY;
	else if (a.status != 200)
		r = sf_fail(err, -EIO,
		            "the machine's server answers %u: it has no service account?",
		            a.status);
	else
		r = sf_gs_reply(a.body, a.len, env->now(env->arg), &t, err);
	if (a.body)
		explicit_bzero(a.body, a.len);
	sf_http_answer_release(&a);
	if (r == 0)
		r = take_project(env, NULL, &t, err);
	if (r == 0 && !(t.from = strdup("the machine's service account")))
		r = sf_fail(err, -ENOMEM, "no memory for credentials");
	if (r < 0)
		sf_gs_token_release(&t);
	else
		*ret = t;
	return r < 0 && r != -ENOKEY ? sf_fail_ctx(err, r, "the machine's service account") : r;
}

int sf_gs_chain_load(const struct sf_cloud_env *env, const char *scope, struct sf_gs_token *ret,
                     struct sf_error *err)
{
	SF_FREE char *path = sf_cloud_var(env, "GOOGLE_APPLICATION_CREDENTIALS");
	int r;

	if (path)
		return by_file(env, scope, path, true, ret, err);
	r = by_gcloud(env, scope, ret, err);
	if (r == -ENOKEY)
		r = by_machine(env, ret, err);
	if (r == -ENOKEY)
		sf_fail(err, r,
		        "no Google credentials: no GOOGLE_APPLICATION_CREDENTIALS, none of '" HINT
		        "', no service account of this machine (a public bucket wants "
		        "--no-sign-request)");
	return r;
}
