/* Sources that lie behind HTTP: ranges of one version of an object, asked for again where that helps. */
#ifndef SF_STORE_REMOTE_H
#define SF_STORE_REMOTE_H

#include <stdatomic.h>
#include "base/clock.h"
#include "store/http.h"
#include "store/http_retry.h"
#include "store/outage.h"
#include "store/renew.h"
#include "store/source.h"

/* What a request for an object's bytes is made of. Range and If-Match come to it. */
struct sf_remote_call {
	char *url;      /* malloc'ed */
	char **headers; /* malloc'ed, as each of them; ends with NULL; NULL: none */
	unsigned as;    /* the store's: with what it was made, for refused */
};
/* Overwrites the headers: they say as whom it was asked. */
void sf_remote_call_release(struct sf_remote_call *call);

struct sf_remote_store;
struct sf_remote_ops {
	/* Called for every try, on any thread; never waits. -EAGAIN (no message): what it needs
	 * (credentials) is being fetched; it is called again when waits_for says so. */
	int (*call)(struct sf_remote_store *s, const char *name, struct sf_remote_call *ret,
	            struct sf_error *err);
	/* Where requests wait without a thread for what call lacked. NULL: it never says -EAGAIN. */
	struct sf_renew *(*waits_for)(struct sf_remote_store *s);
	/* An answer to @call that refused, with the first bytes of its body: 0 its status decides; negative:
	 * that, with a message, is how the request ends; SF_REMOTE_AGAIN: ask once more, what was
	 * wrong is mended (a new region, new credentials); a message with it is told when that did
	 * not help. Any thread; never waits. May be NULL. */
	int (*refused)(struct sf_remote_store *s, const struct sf_remote_call *call,
	               unsigned status, const struct sf_http_head *head, const char *body,
	               size_t len, struct sf_error *err);
	/* Puts into @call, which call made, what pins its answer to @version: 0 or -ENOMEM. Any
	 * thread. NULL: If-Match by version->etag, or If-Unmodified-Since, is put in. */
	int (*pin)(const struct sf_version *version, struct sf_remote_call *call);
	/* The header of answers whose value is version->etag; NULL: ETag or Last-Modified. */
	const char *version_header;
};
#define SF_REMOTE_AGAIN 1

/* A store of such sources: the beginning of its own struct. All of its sources are freed before
 * it. Any thread may use it: what is set stays as it was set when the store was opened, the rest is
 * atomic. */
struct sf_remote_store {
	struct sf_store s;
	const struct sf_remote_ops *ops;
	struct sf_http *http;
	struct sf_http_tokens tokens;
	char *ca_bundle; /* of the store's own settings, where the options give none; NULL: none */
	bool follow;     /* redirects */
	_Atomic bool reached;        /* an answer came, whatever its status */
	_Atomic int64_t answered_ns; /* the last that was no trouble of the server's; 0: none */
	struct sf_outage
		*_Atomic outage; /* of its server, since something failed; NULL: nothing did */
};

/* The certificates that its servers' may be signed by; NULL: those that all requests go by. */
static inline const char *sf_remote_ca_bundle(const struct sf_remote_store *s)
{
	return s->s.opt && s->s.opt->ca_bundle ? s->s.opt->ca_bundle : s->ca_bundle;
}

/*
 * sf_remote_source - object @name of @s, of @size bytes, in the version that @version has: an ETag
 * in its quotes, or a date as Last-Modified has it; NULL: the server has neither, and only its size
 * tells it from another.
 *
 * An answer counts when it is exactly what was asked for: status, range, size, version, length. One
 * of another version is -ESTALE, for this request and all that come after it.
 *
 * @name and @version are copied. -ENOMEM. Threads: any; nothing is asked. How requests end: -ESTALE;
 * -EBADMSG what came is not what was asked for; -ENOTSUP the server has no ranges, or encodes;
 * -EACCES; -EIO; of the transport (http.h); what the store's call and refused say.
 */
int sf_remote_source(struct sf_remote_store *s, const char *name, uint64_t size,
                     const struct sf_version *version, struct sf_source **ret,
                     struct sf_error *err);

/* The server answers: whatever the status, it was no trouble of its own. */
static inline void sf_remote_answered(struct sf_remote_store *s)
{
	struct sf_outage *o = atomic_load_explicit(&s->outage, memory_order_acquire);

	atomic_store_explicit(&s->answered_ns, sf_now_ns(), memory_order_relaxed);
	if (o)
		sf_outage_answered(o);
}
/* A try of @url failed. *ret NULL: there is no memory for what is known of its server. True: it is
 * away. */
bool sf_remote_failed(struct sf_remote_store *s, const char *url, int64_t sent_ns, int64_t after_ms,
                      const char *why, struct sf_outage **ret);

/*
 * sf_remote_ask - a small request of such a store, tried again as its ranges are, until the io's
 * deadline; three times where the server never answered at all.
 *
 * 0: there was an answer, whatever its status; it is the caller's (sf_http_answer_release).
 * Errors:  the last try's, as sf_http_ask() has them.
 * Threads: any but the transport's: it waits.
 */
int sf_remote_ask(struct sf_remote_store *s, const struct sf_http_ask *ask,
                  struct sf_http_answer *ret, struct sf_error *err);
/*
 * The same of a request that may have a long body: @make fills in URL and headers before each try (what it
 * made before is its to free), so that no signature or token grows old while it is tried. Its deadline is the
 * io's, or @ask->timeout_ms where that is later, and as long again as the body takes at 64 KB/s.
 */
typedef int sf_remote_make(void *arg, struct sf_http_ask *ask, struct sf_error *err);
int sf_remote_ask_made(struct sf_remote_store *s, const struct sf_http_ask *ask,
                       sf_remote_make *make, void *arg, struct sf_http_answer *ret,
                       struct sf_error *err);
/* Before the @n-th further try (1, 2 ...) of something that several requests make up: waits as they do. False:
 * @stop (NULL: the io's), or it was tried often enough. */
bool sf_remote_pause(struct sf_remote_store *s, unsigned n, const _Atomic bool *stop);

#endif
