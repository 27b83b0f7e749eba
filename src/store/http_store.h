/* The parts of a store that is a web server's directory: store_http.c opens it and knows versions,
 * http_file.c asks, http_probe.c tells what is wrong. */
#ifndef SF_STORE_HTTP_STORE_H
#define SF_STORE_HTTP_STORE_H

#include <pthread.h>

#include "base/map.h"
#include "base/vec.h"
#include "store/probe.h"
#include "store/remote.h"

/* An object as it was seen first. */
struct sf_http_pinned {
	char *name, *etag; /* etag: as sf_remote_source wants it, or NULL */
	uint64_t size;
	int64_t mtime_ns;
};
SF_VEC(sf_http_pins, struct sf_http_pinned);

struct sf_http_store {
	struct sf_remote_store r;
	char *_Atomic base;  /* "https://host/dir" */
	char *given;         /* as it was at first, where it is of a commit now; NULL */
	char *query;         /* "?…" or "" */
	char *authorization; /* a header; NULL: none */
	/* Of a hub's URL with a branch: which commit is that? */
	struct {
		pthread_mutex_t m;
		pthread_cond_t c;
		bool settled; /* base stays as it is */
		bool asking;
		unsigned rounds; /* that it was asked, the last with: */
		int r;
		struct sf_error err;
	} hub;
	struct {
		pthread_mutex_t m;
		struct sf_http_pins pins;
		struct sf_map names;
	} locked;
};

/* Of @name; malloc'ed, NULL: no memory. Any thread. */
char *sf_http_file_url(const struct sf_http_store *h, const char *name);

/* Headers that are kept of an answer. */
enum {
	SF_HTTP_TAG,
	SF_HTTP_MODIFIED,
	SF_HTTP_LENGTH,
	SF_HTTP_RANGE,
	SF_HTTP_TYPE,
	SF_HTTP_COMMIT,
};
/* What is asked of a file: its headers, of redirects those of the last answer or the first; or its first
 * byte. */
enum sf_http_how { SF_HTTP_HEAD, SF_HTTP_HEAD_OF_FIRST, SF_HTTP_FIRST_BYTE };
/* 0: there was an answer, whatever its status. As sf_remote_ask(). */
int sf_http_file_ask(struct sf_http_store *h, const char *name, enum sf_http_how how,
                     struct sf_http_answer *ret, struct sf_error *err);
/* What a status that is none of a file means: -ENOENT, -EACCES, -EIO. */
int sf_http_file_refused(const struct sf_http_store *h, const char *name, unsigned status,
                         struct sf_error *err);

/*
 * sf_http_settle - of a hub's URL with a branch: from here on all is asked of the commit that it is now.
 *
 * To be called before anything else is asked; @name is a file that may be there. Of other URLs nothing is
 * done. A server that tells of no commit, or refuses to, is asked as it was given. Errors: of the
 * transport; -EIO trouble of the server. Threads: any but the transport's: it waits.
 */
int sf_http_settle(struct sf_http_store *h, const char *name, struct sf_error *err);

/* What sf_store_probe() says of it. */
bool sf_http_probe(struct sf_store *s, const struct sf_probe *to);

#endif
