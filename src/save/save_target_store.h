/* What saves to one bucket share in a process: connections, threads, credentials. */
#ifndef SF_SAVE_SAVE_TARGET_STORE_H
#define SF_SAVE_SAVE_TARGET_STORE_H

#include "shardfuse.h"
#include "store/upload.h"

/*
 * sf_target_store_get - the store of @url, opened with @o (all of its strings are copied).
 *
 * Ranks that are threads of a process have one together: of the same URL and the same options it is the
 * same, there from the first to the last that has it. *ret is given back once. Threads: any.
 * Errors: those of sf_store_open; -ENOMEM.
 */
struct sf_target_store;
int sf_target_store_get(const char *url, const struct shardfuse_context_options *o,
                        struct sf_target_store **ret, struct sf_error *err);
struct sf_uploads *sf_target_store_uploads(struct sf_target_store *s);
/* true: uploads that are under way, and those that are begun, fail with -ECANCELED, until it is false. */
void sf_target_store_stop(struct sf_target_store *s, bool stop);
void sf_target_store_put(struct sf_target_store *s); /* NULL is fine */

/* Strings of options that are kept: copied by take, which leaves out what is of caches. -ENOMEM. */
int sf_target_store_options_take(const struct shardfuse_context_options *from,
                                 struct shardfuse_context_options *ret, struct sf_error *err);
void sf_target_store_options_release(struct shardfuse_context_options *o);

#endif
