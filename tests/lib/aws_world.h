/* What struct sf_cloud_env is in a test: variables in a list, answers by URL, a clock that is set. */
#ifndef SF_TESTS_LIB_AWS_WORLD_H
#define SF_TESTS_LIB_AWS_WORLD_H

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "store/aws_credentials.h"
#include "tests/lib/sf_test.h"

struct aws_answer {
	const char *method, *url; /* the URL's beginning */
	int r;                    /* instead of an answer */
	unsigned status;
	const char *body;
	const char *kept; /* the first header that is wanted; NULL: the answer has none */
};
struct aws_world {
	char dir[64];        /* the home directory, made by aws_world_init() */
	const char *var[32]; /* name, value, ... */
	const struct aws_answer *answers;
	size_t nanswers;
	_Atomic int64_t now;
	_Atomic unsigned asked;
	_Atomic unsigned slow_us; /* each answer takes that long */
	struct {
		pthread_mutex_t m;
		char url[512], headers[8192], body[8192]; /* of the last that was asked */
	} last;
	struct sf_cloud_env env;
};

static inline char *aws_world_get(void *arg, const char *name)
{
	struct aws_world *w = arg;

	for (size_t i = 0; i + 1 < 32 && w->var[i]; i += 2)
		if (strcmp(w->var[i], name) == 0)
			return strdup(w->var[i + 1]);
	return NULL;
}

static inline int64_t aws_world_now(void *arg)
{
	return ((struct aws_world *)arg)->now;
}

static inline int aws_world_ask(void *arg, const struct sf_http_ask *ask,
                                struct sf_http_answer *ret, struct sf_error *err)
{
	struct aws_world *w = arg;

	w->asked++;
	if (w->slow_us)
		usleep(w->slow_us);
	pthread_mutex_lock(&w->last.m);
	snprintf(w->last.url, sizeof(w->last.url), "%s", ask->url);
	w->last.headers[0] = '\0';
	for (const char *const *h = ask->headers; h && *h; h++) {
		size_t n = strlen(w->last.headers);
		snprintf(w->last.headers + n, sizeof(w->last.headers) - n, "%s\n", *h);
	}
	snprintf(w->last.body, sizeof(w->last.body), "%.*s", (int)ask->body_len,
	         ask->body ? (const char *)ask->body : "");
	pthread_mutex_unlock(&w->last.m);
	for (size_t i = 0; i < w->nanswers; i++) {
		const struct aws_answer *a = &w->answers[i];

		if (strcmp(a->method, ask->method) != 0 ||
		    strncmp(a->url, ask->url, strlen(a->url)) != 0)
			continue;
		if (a->r)
			return sf_fail(err, a->r, "the test says so");
		*ret = (struct sf_http_answer){ .status = a->status,
			                        .body = strdup(a->body),
			                        .len = strlen(a->body) };
		if (a->kept) {
			ret->kept = calloc(1, sizeof(*ret->kept));
			ret->kept[0] = strdup(a->kept);
			ret->nkept = 1;
		}
		return 0;
	}
	return sf_fail(err, -ECONNREFUSED, "nobody answers in this test");
}

static inline void aws_world_init(struct aws_world *w)
{
	memset(w, 0, sizeof(*w));
	snprintf(w->dir, sizeof(w->dir), "/tmp/sf_aws.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(w->dir));
	pthread_mutex_init(&w->last.m, NULL);
	w->now = 1600000000;
	w->env = (struct sf_cloud_env){ .get = aws_world_get,
		                        .arg = w,
		                        .home = w->dir,
		                        .ask = aws_world_ask,
		                        .ask_arg = w,
		                        .now = aws_world_now };
}

/* A file of the home directory; its folder is made. */
static inline const char *aws_world_file(struct aws_world *w, const char *name, const char *text)
{
	static char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "mkdir -p %s/.aws", w->dir);
	ck_assert_int_eq(system(path), 0);
	snprintf(path, sizeof(path), "%s/%s", w->dir, name);
	f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	fclose(f);
	return path;
}

static inline void aws_world_release(struct aws_world *w)
{
	char rm[128];

	snprintf(rm, sizeof(rm), "rm -rf %s", w->dir);
	ck_assert_int_eq(system(rm), 0);
	pthread_mutex_destroy(&w->last.m);
}

#endif
