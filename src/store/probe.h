/* What is wrong with a SOURCE, fact by fact, each with what to do about it: for doctor. */
#ifndef SF_STORE_PROBE_H
#define SF_STORE_PROBE_H

#include <stdbool.h>
#include "store/store.h"

enum sf_probe_state {
	SF_PROBE_OK,
	SF_PROBE_HINT, /* it works, and could be better */
	SF_PROBE_BAD,
};
/* Who is told. */
struct sf_probe {
	/* @what: a word or two; @remedy: NULL where it is OK. Nothing secret is in either, but bytes
	 * of a server may be: shown as such. */
	void (*say)(void *arg, enum sf_probe_state state, const char *what, const char *found,
	            const char *remedy);
	void *arg;
	/* files of which one at least is expected, for a store that cannot list; ends with NULL */
	const char *const *names;
};

/*
 * sf_store_probe - asks a SOURCE for what a checkpoint there needs, one thing after the other, and
 * tells what it finds; stops where nothing further can be found.
 *
 * True: nothing was SF_PROBE_BAD. Of a directory nothing is asked: what opens it says what is wrong.
 * Threads: any but the transport's; it waits for io->timeout_ms at most for each thing.
 */
bool sf_store_probe(struct sf_io *io, const char *source, const struct sf_store_options *opt,
                    const struct sf_probe *p);

/* ---- for stores ---- */

void sf_probe_say(const struct sf_probe *p, enum sf_probe_state state, const char *what,
                  const char *remedy, const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* Proxy and certificates for @url, as far as options, variables and the store's own settings say them. */
struct sf_remote_store;
void sf_probe_world(const struct sf_probe *p, const char *url, const struct sf_remote_store *s);
/* This machine's clock is @skew_s seconds behind the server's (negative: ahead). @until: what comes of
 * it until it is right. */
void sf_probe_clock(const struct sf_probe *p, enum sf_probe_state state, int64_t skew_s,
                    const char *until);
/* How the transport failed (sf_http_req's done): is it one of its errors? Then it was told, with the
 * remedy. */
bool sf_probe_transport(const struct sf_probe *p, const char *url, int r,
                        const struct sf_error *err);
/* The same where a server is asked for a file: also what it says by its status. Always told. */
void sf_probe_failed(const struct sf_probe *p, const char *url, int r, const struct sf_error *err);

#endif
