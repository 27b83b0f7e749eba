/* A web server in the test's own process, on a port of 127.0.0.1: objects in memory, ranges, If-Match,
 * and whatever can go wrong, as the test says for each request. */
#ifndef SF_TESTS_LIB_HTTP_SERVER_H
#define SF_TESTS_LIB_HTTP_SERVER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sf_http_fault_kind {
	SF_HTTP_FINE,
	SF_HTTP_STATUS,      /* n, with text as further headers, if any */
	SF_HTTP_CLOSE,       /* the connection, without an answer */
	SF_HTTP_RESET,       /* the same, by RST */
	SF_HTTP_CUT,         /* the body, after n bytes of it */
	SF_HTTP_LONG,        /* n bytes more than were asked for, and a length that says so */
	SF_HTTP_LONG_HIDDEN, /* the same without a length: until the connection is closed */
	SF_HTTP_WRONG_RANGE, /* the right number of bytes, from n bytes behind */
	SF_HTTP_NO_RANGE,    /* 206 without Content-Range */
	SF_HTTP_WHOLE,       /* 200 and all of it */
	SF_HTTP_STALL,       /* after n bytes of the body nothing more comes */
	SF_HTTP_SILENT,      /* not even an answer */
	SF_HTTP_DRIP,        /* a byte every n ms */
	SF_HTTP_DELAY,       /* the answer comes n ms late */
	SF_HTTP_ENCODED,     /* Content-Encoding: gzip */
	SF_HTTP_OTHER_TAG,   /* another ETag, and If-Match is not looked at */
	SF_HTTP_PAGE,        /* 200, a web page */
	SF_HTTP_HUGE,        /* a Content-Length near 2^64 */
	SF_HTTP_GARBAGE,     /* no HTTP */
	SF_HTTP_HEADERS,     /* more of them than anybody wants */
	SF_HTTP_TELL,        /* status n, with text as its body */
	SF_HTTP_SLOW_HEAD,   /* a byte of the status line every n ms */
};
struct sf_http_fault {
	enum sf_http_fault_kind kind;
	unsigned n;
	const char *text;
	const char *body; /* of a status; NULL: some words */
};

struct sf_http_object {
	const char *path; /* as it is asked for: "/a/b%20c" */
	const void *at;
	uint64_t len;
	const char *etag;     /* NULL: none */
	const char *modified; /* Last-Modified; NULL: none */
	const char *headers;  /* further ones, each with its "\r\n"; NULL: none */
};
struct sf_http_seen { /* a request */
	const char *method, *path;
	const char *head; /* all of it, for strstr */
	const char *body; /* of 64 KiB at most, if it has a Content-Length */
	uint64_t n;       /* of the server, from 0 */
};

struct sf_http_server {
	/* the test's; may change while nothing is asked */
	const struct sf_http_object *object;
	size_t nobjects;
	/* What becomes of a request: one at a time. NULL: all is fine. */
	struct sf_http_fault (*fault)(void *arg, const struct sf_http_seen *seen);
	/* An object made for one request, which is looked for before the others: false, it is none of
	 * them. *ret_own is freed when it has been sent. Many at a time. NULL: no such object. */
	bool (*make)(void *arg, const struct sf_http_seen *seen, struct sf_http_object *ret,
	             void **ret_own);
	void *arg;
	bool ignores_match;
	/* what it saw */
	_Atomic uint64_t requests, heads, connections, body_bytes;
	_Atomic uint64_t now, most; /* requests at once */
	/* its own */
	char url[64]; /* "http://127.0.0.1:PORT" */
	int fd;
	pthread_t thread;
	struct {
		pthread_mutex_t m;
		struct sf_http_conn *first;
		bool ending;
	} locked;
};
/* 0 or -errno. The struct is the test's until stop. */
int sf_http_server_start(struct sf_http_server *s);
void sf_http_server_stop(struct sf_http_server *s); /* whatever is under way */

#endif
