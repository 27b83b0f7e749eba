#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "store/cloud_env.h"
#include "store/outage.h"
#include "store/remote.h"

static char *get_variable(void *arg, const char *name)
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
	const struct sf_remote_store *s = arg;
	struct sf_http_ask one = *what;

	if (!one.ca_bundle)
		one.ca_bundle = sf_remote_ca_bundle(s);
	return sf_http_ask(s->s.io, &one, ret, err);
}

void sf_cloud_env_of(struct sf_remote_store *s, const char *home, struct sf_cloud_env *ret)
{
	*ret = (struct sf_cloud_env){
		.get = get_variable,
		.home = home,
		.ask = ask,
		.ask_arg = s,
		.now = now,
		.timeout_ms = s->s.io->timeout_ms,
		.retry_ms = sf_outage_first_ms(s->s.io),
	};
}

char *sf_cloud_var(const struct sf_cloud_env *env, const char *name)
{
	char *v = env->get(env->arg, name);

	if (v && !*v) {
		free(v);
		v = NULL;
	}
	return v;
}

int sf_cloud_read_file(const char *path, size_t limit, char **ret, size_t *ret_len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char *text = fd < 0 ? NULL : malloc(limit + 2);
	size_t n = 0;
	int r = 0;

	if (fd < 0)
		return -errno;
	while (text && n <= limit) {
		ssize_t got = read(fd, text + n, limit + 1 - n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			r = -errno;
		if (got <= 0)
			break;
		n += (size_t)got;
	}
	close(fd);
	if (!text)
		return -ENOMEM;
	if (n > limit)
		r = -E2BIG;
	if (r < 0) {
		explicit_bzero(text, n);
		free(text);
		return r;
	}
	text[n] = '\0';
	*ret = text;
	*ret_len = n;
	return 0;
}
