#include "config.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/http.h"
#include "store/http_retry.h"
#include "store/store.h"

struct asking {
	struct sf_http_req req;
	const struct sf_http_ask *ask;
	struct sf_http_answer *ret;
	struct sf_buf body;
	pthread_mutex_t m;
	pthread_cond_t c;
	bool done;
	int r;
};

const char *sf_http_header(const struct sf_http_head *head, const char *name, size_t *ret_len)
{
	const char *at = (const char *)head->text.at, *end = at + sf_buf_bytes(&head->text);
	size_t n = strlen(name);

	while (at < end) {
		const char *line = at, *stop = memchr(at, '\n', (size_t)(end - at));
		stop = stop ? stop : end;
		at = stop < end ? stop + 1 : end;
		if ((size_t)(stop - line) <= n || line[n] != ':' || strncasecmp(line, name, n) != 0)
			continue;
		for (line += n + 1; line < stop && (*line == ' ' || *line == '\t'); line++)
			;
		while (stop > line && strchr(" \t\r", stop[-1]))
			stop--;
		*ret_len = (size_t)(stop - line);
		return line;
	}
	return NULL;
}

static int on_answer(struct sf_http_req *req, const struct sf_http_head *head)
{
	struct asking *a = sf_container_of(req, struct asking, req);

	size_t n = 0;
	const char *after = sf_http_header(head, "Retry-After", &n);

	a->ret->status = head->status;
	a->ret->after_ms = after ? sf_http_retry_after_ms(after, n, time(NULL)) : -1;
	for (size_t i = 0; a->ret->kept && a->ask->want_headers[i]; i++) {
		size_t len;
		const char *v = sf_http_header(head, a->ask->want_headers[i], &len);
		if (v && !(a->ret->kept[i] = strndup(v, len)))
			return sf_fail(&req->err, -ENOMEM, "no memory for an answer");
	}
	return 0;
}

static int on_bytes(struct sf_http_req *req, const void *at, size_t len)
{
	struct asking *a = sf_container_of(req, struct asking, req);

	if (len > a->ask->limit - a->body.len)
		return sf_fail(&req->err, -E2BIG,
		               "the answer is longer than the %llu bytes that are read of it",
		               (unsigned long long)a->ask->limit);
	sf_buf_add(&a->body, at, len);
	return sf_buf_check(&a->body) < 0 ? sf_fail(&req->err, -ENOMEM, "no memory for an answer")
	                                  : 0;
}

static void on_done(struct sf_http_req *req, int r)
{
	struct asking *a = sf_container_of(req, struct asking, req);

	pthread_mutex_lock(&a->m);
	a->done = true;
	a->r = r;
	pthread_cond_signal(&a->c);
	pthread_mutex_unlock(&a->m);
}

void sf_http_answer_release(struct sf_http_answer *a)
{
	for (size_t i = 0; i < a->nkept; i++)
		free(a->kept[i]);
	free(a->kept);
	free(a->body);
	*a = (struct sf_http_answer){ 0 };
}

static int prepare(struct asking *a, const struct sf_io *io, struct sf_error *err)
{
	const struct sf_http_ask *ask = a->ask;
	size_t n = 0;

	while (ask->want_headers && ask->want_headers[n])
		n++;
	if (n && !(a->ret->kept = calloc(n, sizeof(*a->ret->kept))))
		return sf_fail(err, -ENOMEM, "no memory for an answer");
	a->ret->nkept = n;
	a->req = (struct sf_http_req){ .method = ask->method,
		                       .url = ask->url,
		                       .headers = ask->headers,
		                       .body = ask->body,
		                       .body_len = ask->body_len,
		                       .ca_bundle = ask->ca_bundle,
		                       .timeout_ms =
		                               ask->timeout_ms ? ask->timeout_ms : io->timeout_ms,
		                       .stall_ms = ask->stall_ms,
		                       .no_proxy = ask->no_proxy,
		                       .follow = ask->follow,
		                       .answer = on_answer,
		                       .bytes = on_bytes,
		                       .done = on_done };
	return 0;
}

#define LOOK_MS 50 /* how often it is looked whether anybody still wants the answer */

static void wait_for(struct asking *a, const _Atomic bool *stop)
{
	bool cancelled = false;

	pthread_mutex_lock(&a->m);
	while (!a->done) {
		if (cancelled) {
			pthread_cond_wait(&a->c, &a->m);
			continue;
		}
		const struct timespec until = sf_until_ms(CLOCK_MONOTONIC, LOOK_MS);
		pthread_cond_timedwait(&a->c, &a->m, &until);
		if (a->done || !*stop)
			continue;
		cancelled = true;
		/* its memory is there until it is done, which is not looked at by others */
		pthread_mutex_unlock(&a->m);
		sf_http_cancel(&a->req);
		pthread_mutex_lock(&a->m);
	}
	pthread_mutex_unlock(&a->m);
}

int sf_http_ask(struct sf_io *io, const struct sf_http_ask *ask, struct sf_http_answer *ret,
                struct sf_error *err)
{
	struct sf_http_answer answer = { 0 };
	struct asking a = { .ask = ask, .ret = &answer };
	struct sf_http *http;
	int r = sf_http_get(io, &http, err);

	if (r >= 0)
		r = prepare(&a, io, err);
	if (r < 0)
		return r;
	pthread_mutex_init(&a.m, NULL);
	sf_cond_init(&a.c);
	sf_http_submit(http, &a.req);
	wait_for(&a, ask->stop ? ask->stop : &io->stop);
	pthread_cond_destroy(&a.c);
	pthread_mutex_destroy(&a.m);
	r = a.r < 0 ? sf_fail(err, a.r, "%s", a.req.err.msg) : 0;
	sf_buf_extend(&a.body, 0); /* there, if empty */
	sf_buf_cstr(&a.body);
	if (r >= 0 && sf_buf_check(&a.body) < 0)
		r = sf_fail(err, -ENOMEM, "no memory for an answer");
	if (r < 0) {
		sf_buf_release(&a.body);
		sf_http_answer_release(&answer);
		return r;
	}
	answer.body = (char *)a.body.at; /* malloc'ed: it is charged to no budget */
	answer.len = a.body.len;
	*ret = answer;
	return 0;
}
