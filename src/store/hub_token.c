#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/wipe.h"
#include "store/hub_token.h"

#define HUB "https://huggingface.co"
#define TOKEN_MAX 4096 /* bytes */

static const char *env(const char *name)
{
	const char *v = getenv(name);

	return v && *v ? v : NULL;
}

static bool env_yes(const char *name)
{
	const char *v = env(name);

	return v && (strcmp(v, "1") == 0 || strcasecmp(v, "true") == 0 ||
	             strcasecmp(v, "yes") == 0 || strcasecmp(v, "on") == 0);
}

/* An HF_ENDPOINT that is no URL is no server that we could be at. */
static bool same_host(const struct sf_url *u)
{
	SF_CLEANUP(sf_url_release) struct sf_url hub = { 0 };

	if (sf_url_parse(env("HF_ENDPOINT") ? env("HF_ENDPOINT") : HUB, &hub, NULL) < 0)
		return false;
	return hub.host && strcmp(hub.scheme, u->scheme) == 0 && strcmp(hub.host, u->host) == 0 &&
	       strcmp(hub.port ? hub.port : "", u->port ? u->port : "") == 0;
}

/* Blanks at its ends are the editor's. */
static int take(const char *from, char *text, char **ret, struct sf_error *err)
{
	size_t len = strlen(text);

	while (len && strchr(" \t\r\n", text[len - 1]))
		text[--len] = '\0';
	text += strspn(text, " \t\r\n");
	for (const char *c = text; *c; c++)
		if (*c <= ' ' || *c >= 0x7f)
			return sf_fail(err, -EINVAL,
			               "%s is no token: it has a blank, a control character or a "
			               "letter that is not ASCII in it",
			               from);
	if (!*text)
		return 0;
	*ret = strdup(text);
	return *ret ? 0 : sf_fail(err, -ENOMEM, "no memory for a token");
}

static int read_file(const char *path, char **ret, struct sf_error *err)
{
	char text[TOKEN_MAX + 1];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), r;
	ssize_t n;

	if (fd < 0 && errno == ENOENT) /* nobody is logged in */
		return 0;
	n = fd < 0 ? -1 : read(fd, text, TOKEN_MAX);
	if (n < 0) {
		r = sf_fail_errno(err, "the hub's token, '%.200s'", path);
		if (fd >= 0)
			close(fd);
		return sf_fail_ctx(err, r, "HF_HUB_DISABLE_IMPLICIT_TOKEN=1 does without one");
	}
	close(fd);
	text[n] = '\0';
	r = (ssize_t)strlen(text) < n || n == TOKEN_MAX
	            ? sf_fail(err, -EINVAL, "'%.200s' is no file of a token", path)
	            : take(path, text, ret, err);
	explicit_bzero(text, sizeof(text));
	return r;
}

static int from_file(char **ret, struct sf_error *err)
{
	SF_FREE char *path = NULL;
	const char *at;
	int r;

	if ((at = env("HF_TOKEN_PATH")))
		r = (path = strdup(at)) ? 0 : -1;
	else if ((at = env("HF_HOME")))
		r = asprintf(&path, "%s/token", at);
	else if ((at = env("XDG_CACHE_HOME")))
		r = asprintf(&path, "%s/huggingface/token", at);
	else if ((at = env("HOME")))
		r = asprintf(&path, "%s/.cache/huggingface/token", at);
	else
		return 0;
	if (r < 0) {
		path = NULL;
		return sf_fail(err, -ENOMEM, "no memory for a path");
	}
	return read_file(path, ret, err);
}

int sf_hub_token(const struct sf_url *u, char **ret, struct sf_error *err)
{
	char *copy;
	int r;
	const char *given = env("HF_TOKEN");

	*ret = NULL;
	if (!given)
		given = env("HUGGING_FACE_HUB_TOKEN");
	if (env_yes("HF_HUB_DISABLE_IMPLICIT_TOKEN") || !same_host(u))
		return 0;
	if (!given)
		return from_file(ret, err);
	copy = strdup(given);
	r = copy ? take("HF_TOKEN", copy, ret, err) : sf_fail(err, -ENOMEM, "no memory");
	sf_wipe_free(copy);
	return r;
}
