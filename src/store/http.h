/* HTTP requests: many at once, whose ends are callbacks; and small ones that are waited for. */
#ifndef SF_STORE_HTTP_H
#define SF_STORE_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/error.h"

struct sf_io;

/*
 * The threads that talk to servers and their connections: of a process, started by the first request
 * (so after a daemon has forked) and ended by sf_io_release(). A build without libcurl has none.
 */
struct sf_http;
/* -ENOTSUP: this build has no libcurl, with how to get it in the message. Threads: any. */
int sf_http_get(struct sf_io *io, struct sf_http **ret, struct sf_error *err);
void sf_http_free(struct sf_http *http); /* ends what is under way: -ECANCELED; NULL is fine */

/* The status and the headers of an answer, behind all redirects. */
struct sf_http_head {
	unsigned status;
	struct sf_buf text; /* "Name: value\n" …, 64 KiB at most */
};
/* The value of the first header of this name, without blanks around it; NULL: none. *ret_len is its
 * length, no NUL follows. */
const char *sf_http_header(const struct sf_http_head *head, const char *name, size_t *ret_len);

/* One request. Its strings and the struct are the caller's, until done. */
struct sf_http_req {
	const char *method; /* "GET" "HEAD" "PUT" "POST" "DELETE" */
	const char *url;    /* percent-encoded, without userinfo; sent as it is, "/../" too */
	/* "Name: value", or "Name:" which is not sent then; ends with NULL; may be NULL */
	const char *const *headers;
	const void *body; /* what is sent */
	size_t body_len;
	const char *ca_bundle; /* NULL: that of the environment (http_world.h), or the system's */
	unsigned timeout_ms;   /* of all of it, from when it is sent; 0: none */
	unsigned stall_ms;     /* without a byte, to or fro; 0: none */
	int64_t not_before_ns; /* of sf_now_ns(): it is sent then; 0: at once */
	bool no_proxy;         /* for servers next door: metadata */
	/* redirects, five at most, never from https to http; Authorization goes to the host that it
	 * was meant for alone */
	bool follow;
	bool fresh; /* on a connection of its own */
	/* Of what is fetched ahead: where connections are short it goes behind all others, and some
	 * connections it never takes. It is not left waiting for ever. */
	bool yields;
	/*
	 * Both on the transport's thread, where they may neither wait nor take long. answer comes
	 * once before the first byte of the body, or before done where there is none: 0, or
	 * negative with a message in @req->err, and the connection is closed. bytes: a part of the
	 * body. NULL: bytes are not wanted.
	 */
	int (*answer)(struct sf_http_req *req, const struct sf_http_head *head);
	int (*bytes)(struct sf_http_req *req, const void *at, size_t len);
	/*
	 * Once, on the transport's thread: 0 the whole answer came, whatever its status; what
	 * answer or bytes said; else one of these, with the host in the message: -ECANCELED;
	 * -ETIMEDOUT; -ECONNREFUSED; -EHOSTUNREACH (also: no such name); -ECONNRESET (also: a body
	 * that was cut); -ECONNABORTED TLS did not begin; -EKEYREJECTED it began, and the
	 * certificate is not good; -EPROTO no HTTP; -ELOOP redirects; -EINVAL the URL; -ENOMEM.
	 */
	void (*done)(struct sf_http_req *req, int r);
	struct sf_error err;
	/* the transport's */
	struct sf_http_req *next;
	void *priv;
	_Atomic bool cancelled;
};
/* Never waits: fails by done. */
void sf_http_submit(struct sf_http *http, struct sf_http_req *req);
/* Asks that it ends soon, with -ECANCELED; done is still to come, or was called, but not from here.
 * Only of a request that was submitted and whose memory is there. */
void sf_http_cancel(struct sf_http_req *req);
/* Connections to servers that were made so far. */
uint64_t sf_http_connections(const struct sf_http *http);

/* A small request and its whole answer, waited for. */
struct sf_http_ask {
	const char *method;
	const char *url;
	const char *const *headers;
	const void *body;
	size_t body_len;
	const char *ca_bundle;
	uint64_t limit;      /* bytes of the answer's body: more is -E2BIG */
	unsigned timeout_ms; /* of all of it; 0: the io's */
	unsigned stall_ms;   /* as sf_http_req's */
	bool no_proxy, follow;
	const _Atomic bool *stop;        /* true: it is not waited for any longer, -ECANCELED;
	                              NULL: the io's */
	const char *const *want_headers; /* names to keep of the answer, lower case, ends with NULL;
	                                    may be NULL */
};
struct sf_http_answer {
	unsigned status;
	char *body; /* malloc'ed, NUL behind */
	size_t len;
	char **kept; /* one per want_headers, NULL where the answer has none */
	size_t nkept;
	int64_t after_ms; /* Retry-After: not sooner than that; -1: it has none */
};
/* 0: there was an answer, whatever its status; else as sf_http_req's done. Not on a transport's
 * thread. */
int sf_http_ask(struct sf_io *io, const struct sf_http_ask *ask, struct sf_http_answer *ret,
                struct sf_error *err);
void sf_http_answer_release(struct sf_http_answer *a);
/* What asks for whoever takes it as an argument, so that tests stand in. */
typedef int sf_http_ask_fn(void *arg, const struct sf_http_ask *ask, struct sf_http_answer *ret,
                           struct sf_error *err);

#endif
