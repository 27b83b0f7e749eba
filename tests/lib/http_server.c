#include "config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/thread_pool.h"
#include "tests/lib/http_server.h"

#define HEAD_MAX 16384
#define BODY_MAX 65536

struct sf_http_conn {
	struct sf_http_server *s;
	struct sf_http_conn *next;
	pthread_t thread;
	int fd;
};

static bool send_all(int fd, const void *at, size_t len)
{
	for (const char *p = at; len;) {
		ssize_t n = send(fd, p, len, MSG_NOSIGNAL);
		if (n <= 0)
			return false;
		p += n;
		len -= (size_t)n;
	}
	return true;
}

/* False: the other side, or the test, has ended it. */
static bool wait_ms(int fd, int ms)
{
	struct pollfd p = { fd, POLLRDHUP, 0 };

	return poll(&p, 1, ms) == 0;
}

/* A request's head up to its empty line; what is behind it stays in @buf. */
static bool read_head(int fd, char *buf, size_t *len, char *head)
{
	for (;;) {
		char *end = *len ? memmem(buf, *len, "\r\n\r\n", 4) : NULL;
		if (end) {
			size_t n = (size_t)(end - buf) + 4;
			memcpy(head, buf, n);
			head[n] = '\0';
			memmove(buf, buf + n, *len - n);
			*len -= n;
			return true;
		}
		ssize_t got = *len < HEAD_MAX ? recv(fd, buf + *len, HEAD_MAX - *len, 0) : 0;
		if (got <= 0)
			return false;
		*len += (size_t)got;
	}
}

static bool header(const char *head, const char *name, char *value, size_t size)
{
	size_t n = strlen(name);

	for (const char *line = strstr(head, "\r\n"); line; line = strstr(line + 2, "\r\n")) {
		if (strncasecmp(line + 2, name, n) != 0 || line[2 + n] != ':')
			continue;
		const char *at = line + 3 + n + strspn(line + 3 + n, " ");
		snprintf(value, size, "%.*s", (int)strcspn(at, "\r"), at);
		return true;
	}
	return false;
}

/* What comes behind a head, NUL-ended: as long as it says. */
static bool read_body(int fd, char *buf, size_t *len, const char *head, char *body)
{
	char value[32];
	size_t want =
		header(head, "Content-Length", value, sizeof(value)) ? strtoul(value, NULL, 10) : 0;
	size_t have = SF_MIN(want, *len);

	if (want > BODY_MAX)
		return false;
	memcpy(body, buf, have);
	memmove(buf, buf + have, *len - have);
	*len -= have;
	while (have < want) {
		ssize_t got = recv(fd, body + have, want - have, 0);
		if (got <= 0)
			return false;
		have += (size_t)got;
	}
	body[want] = '\0';
	return true;
}

struct answer {
	char head[2048];
	uint64_t from, len; /* of the object */
	bool body;
};

static bool refuse(int fd, const char *status, const char *headers, const char *body)
{
	char text[1024];
	int n = snprintf(text, sizeof(text), "HTTP/1.1 %s\r\nContent-Length: %zu\r\n%s\r\n", status,
	                 strlen(body), headers);

	return send_all(fd, text, (size_t)n) && send_all(fd, body, strlen(body));
}

static bool send_body(struct sf_http_server *s, int fd, const struct sf_http_object *o,
                      const struct answer *a, struct sf_http_fault f)
{
	const char *at = (const char *)o->at + a->from;
	uint64_t len = a->len;
	static const char more[4096];

	if (!a->body)
		return true;
	if (f.kind == SF_HTTP_CUT || f.kind == SF_HTTP_STALL)
		len = SF_MIN(len, (uint64_t)f.n);
	if (f.kind == SF_HTTP_DRIP) {
		for (uint64_t i = 0; i < len; i++)
			if (!send_all(fd, at + i, 1) || !wait_ms(fd, (int)f.n))
				return false;
		return true;
	}
	/* counted first: who has the last byte may ask for the count before this thread goes on */
	s->body_bytes += len;
	if (!send_all(fd, at, len))
		return false;
	if (f.kind == SF_HTTP_STALL)
		wait_ms(fd, -1);
	if (f.kind == SF_HTTP_LONG || f.kind == SF_HTTP_LONG_HIDDEN)
		send_all(fd, more, SF_MIN(f.n, sizeof(more)));
	return f.kind != SF_HTTP_CUT && f.kind != SF_HTTP_STALL && f.kind != SF_HTTP_LONG_HIDDEN;
}

/* Status line and headers of a good answer, as far as the fault lets it be one. */
static void make_head(const struct sf_http_object *o, bool part, struct answer *a,
                      struct sf_http_fault f)
{
	uint64_t told = a->from + (f.kind == SF_HTTP_WRONG_RANGE ? f.n : 0);
	uint64_t length = a->len + (f.kind == SF_HTTP_LONG ? f.n : 0);
	size_t n;

	n = (size_t)snprintf(a->head, sizeof(a->head), "HTTP/1.1 %s\r\n",
	                     part ? "206 Partial Content" : "200 OK");
	if (part && f.kind != SF_HTTP_NO_RANGE)
		n += (size_t)snprintf(a->head + n, sizeof(a->head) - n,
		                      "Content-Range: bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64
		                      "\r\n",
		                      told, told + a->len - 1, o->len);
	if (f.kind == SF_HTTP_HUGE)
		n += (size_t)snprintf(a->head + n, sizeof(a->head) - n,
		                      "Content-Length: 18446744073709551615\r\n");
	else if (f.kind == SF_HTTP_LONG_HIDDEN)
		n += (size_t)snprintf(a->head + n, sizeof(a->head) - n, "Connection: close\r\n");
	else
		n += (size_t)snprintf(a->head + n, sizeof(a->head) - n,
		                      "Content-Length: %" PRIu64 "\r\n", length);
	if (o->etag)
		n += (size_t)snprintf(a->head + n, sizeof(a->head) - n, "ETag: %s\r\n",
		                      f.kind == SF_HTTP_OTHER_TAG ? "\"other\"" : o->etag);
	if (o->modified)
		n += (size_t)snprintf(a->head + n, sizeof(a->head) - n, "Last-Modified: %s\r\n",
		                      o->modified);
	if (o->headers)
		n += (size_t)snprintf(a->head + n, sizeof(a->head) - n, "%s", o->headers);
	snprintf(a->head + n, sizeof(a->head) - n, "%s\r\n",
	         f.kind == SF_HTTP_ENCODED ? "Content-Encoding: gzip\r\n" : "");
}

static bool answer_object(struct sf_http_server *s, int fd, const struct sf_http_seen *seen,
                          const struct sf_http_object *o, struct sf_http_fault f)
{
	struct answer a = { .from = 0, .len = o->len, .body = strcmp(seen->method, "GET") == 0 };
	char value[256];
	uint64_t first, last;
	bool part;

	if (f.kind != SF_HTTP_OTHER_TAG && !s->ignores_match &&
	    ((header(seen->head, "If-Match", value, sizeof(value)) &&
	      (!o->etag || strcmp(value, o->etag) != 0)) ||
	     (header(seen->head, "If-Unmodified-Since", value, sizeof(value)) && o->modified &&
	      strcmp(value, o->modified) != 0)))
		return refuse(fd, "412 Precondition Failed", "", "");
	part = a.body && f.kind != SF_HTTP_WHOLE &&
	       header(seen->head, "Range", value, sizeof(value)) &&
	       sscanf(value, "bytes=%" SCNu64 "-%" SCNu64, &first, &last) == 2;
	if (part && first >= o->len) {
		snprintf(value, sizeof(value), "Content-Range: bytes */%" PRIu64 "\r\n", o->len);
		return refuse(fd, "416 Range Not Satisfiable", value, "");
	}
	if (part) {
		a.from = first;
		a.len = SF_MIN(last, o->len - 1) - first + 1;
	}
	make_head(o, part, &a, f);
	return send_all(fd, a.head, strlen(a.head)) && send_body(s, fd, o, &a, f);
}

/* False: the connection is closed. */
static bool answer(struct sf_http_server *s, int fd, const struct sf_http_seen *seen)
{
	struct sf_http_fault f = { 0 };
	struct linger rst = { 1, 0 };
	char status[64];
	struct sf_http_object made;
	void *own = NULL;

	pthread_mutex_lock(&s->locked.m);
	if (s->fault)
		f = s->fault(s->arg, seen);
	pthread_mutex_unlock(&s->locked.m);
	switch (f.kind) {
	case SF_HTTP_STATUS:
		snprintf(status, sizeof(status), "%u Because", f.n);
		return refuse(fd, status, f.text ? f.text : "",
		              strcmp(seen->method, "HEAD") == 0 || f.n == 204 ? ""
		              : f.body                                        ? f.body
		                                                              : "why not");
	case SF_HTTP_TELL:
		snprintf(status, sizeof(status), "%u Because", f.n);
		return refuse(fd, status, "", f.text);
	case SF_HTTP_RESET:
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &rst, sizeof(rst));
		return false;
	case SF_HTTP_CLOSE:
		return false;
	case SF_HTTP_SILENT:
		wait_ms(fd, -1);
		return false;
	case SF_HTTP_DELAY:
		if (!wait_ms(fd, (int)f.n))
			return false;
		break;
	case SF_HTTP_PAGE:
		return refuse(fd, "200 OK", "Content-Type: text/html; charset=utf-8\r\n",
		              strcmp(seen->method, "HEAD") == 0 ? "" : "<html>hello</html>");
	case SF_HTTP_GARBAGE:
		send_all(fd, "\x16\x03 hello\r\n\r\n", 12);
		return false;
	case SF_HTTP_HEADERS:
		send_all(fd, "HTTP/1.1 200 OK\r\n", 17);
		for (int i = 0; i < 4000; i++)
			if (!send_all(fd, "X-Much: 0123456789012345678901234567890123456789\r\n",
			              50))
				break;
		return false;
	case SF_HTTP_SLOW_HEAD:
		for (const char *c = "HTTP/1.1 200 OK"; *c; c++)
			if (!send_all(fd, c, 1) || !wait_ms(fd, (int)f.n))
				break;
		return false;
	default:
		break;
	}
	if (s->make && s->make(s->arg, seen, &made, &own)) {
		bool on = answer_object(s, fd, seen, &made, f);
		free(own);
		return on;
	}
	for (size_t i = 0; i < s->nobjects; i++)
		if (strcmp(s->object[i].path, seen->path) == 0)
			return answer_object(s, fd, seen, &s->object[i], f);
	return refuse(fd, "404 Not Found", "", strcmp(seen->method, "HEAD") == 0 ? "" : "no");
}

static void *serve_one(void *arg)
{
	struct sf_http_conn *c = arg;
	struct sf_http_server *s = c->s;
	char buf[HEAD_MAX], head[HEAD_MAX + 1], method[16], path[4096], body[BODY_MAX + 1];
	size_t len = 0;
	bool on = true;

	while (on && read_head(c->fd, buf, &len, head) && read_body(c->fd, buf, &len, head, body)) {
		struct sf_http_seen seen = { method, path, head, body, s->requests++ };
		uint64_t now = ++s->now;
		for (uint64_t most = s->most;
		     now > most && !atomic_compare_exchange_weak(&s->most, &most, now);)
			;
		on = sscanf(head, "%15s %4095s", method, path) == 2;
		s->heads += on && strcmp(method, "HEAD") == 0;
		on = on && answer(s, c->fd, &seen);
		s->now--;
	}
	/* what is unread would become an RST, and the answer be lost */
	shutdown(c->fd, SHUT_WR);
	pthread_mutex_lock(&s->locked.m);
	close(c->fd);
	c->fd = -1;
	pthread_mutex_unlock(&s->locked.m);
	return NULL;
}

/* Threads of connections that have ended: a campaign makes ten thousand of them. */
static void reap(struct sf_http_server *s)
{
	struct sf_http_conn *ended = NULL;

	pthread_mutex_lock(&s->locked.m);
	for (struct sf_http_conn **p = &s->locked.first, *c; (c = *p);) {
		if (c->fd >= 0) {
			p = &c->next;
			continue;
		}
		*p = c->next;
		c->next = ended;
		ended = c;
	}
	pthread_mutex_unlock(&s->locked.m);
	for (struct sf_http_conn *c; (c = ended);) {
		ended = c->next;
		pthread_join(c->thread, NULL);
		free(c);
	}
}

static void *accept_all(void *arg)
{
	struct sf_http_server *s = arg;
	int one = 1, fd;

	while ((fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		struct sf_http_conn *c = calloc(1, sizeof(*c));
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		s->connections++;
		reap(s);
		pthread_mutex_lock(&s->locked.m);
		bool start = c && !s->locked.ending;
		if (start) {
			*c = (struct sf_http_conn){ s, s->locked.first, 0, fd };
			start = sf_thread_start(&c->thread, serve_one, c) >= 0;
			if (start)
				s->locked.first = c;
		}
		pthread_mutex_unlock(&s->locked.m);
		if (!start) {
			free(c);
			close(fd);
		}
	}
	return NULL;
}

int sf_http_server_start(struct sf_http_server *s)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof(at);
	int r;

	setenv("no_proxy", "127.0.0.1,localhost", 1);
	s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (s->fd < 0 || bind(s->fd, (struct sockaddr *)&at, sizeof(at)) < 0 ||
	    listen(s->fd, 512) < 0 || getsockname(s->fd, (struct sockaddr *)&at, &len) < 0)
		return -errno;
	snprintf(s->url, sizeof(s->url), "http://127.0.0.1:%u", ntohs(at.sin_port));
	pthread_mutex_init(&s->locked.m, NULL);
	r = sf_thread_start(&s->thread, accept_all, s);
	if (r < 0)
		close(s->fd);
	return r;
}

void sf_http_server_stop(struct sf_http_server *s)
{
	pthread_mutex_lock(&s->locked.m);
	s->locked.ending = true;
	for (struct sf_http_conn *c = s->locked.first; c; c = c->next)
		if (c->fd >= 0)
			shutdown(c->fd, SHUT_RDWR);
	pthread_mutex_unlock(&s->locked.m);
	shutdown(s->fd, SHUT_RDWR);
	pthread_join(s->thread, NULL);
	close(s->fd);
	for (struct sf_http_conn *c; (c = s->locked.first);) {
		s->locked.first = c->next;
		pthread_join(c->thread, NULL);
		free(c);
	}
	pthread_mutex_destroy(&s->locked.m);
}
