/* What is fetched from elsewhere and ends after a while: credentials, a token. */
#ifndef SF_STORE_RENEW_H
#define SF_STORE_RENEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "store/cloud_env.h"

/*
 * One value for all threads of a store, fetched by a thread of its own: when it is first wanted,
 * and again from a quarter of an hour before it ends. Who asks meanwhile gets the old one, as long
 * as that holds. A fetch that failed is not repeated for a second, then two, four, up to a minute:
 * until then its error is the answer, where no value holds.
 *
 * Once there was a value, who gives them may be away for a while, as a server may: then a fetch that
 * failed is repeated by that one thread, with waits that grow to twenty-five times env->retry_ms at
 * most, for as long as somebody waits whose end has not come. What is said for good (no permission,
 * no such role: -EACCES, -EINVAL, -ENOTSUP, -ENOKEY, -EKEYREJECTED) ends them at once. Where env has
 * no timeout_ms there is no end, and no repeating.
 */
struct sf_renew_ops {
	size_t size; /* bytes of a value */
	/* Fetches one into @value, which is all 0. One at a time; it may wait, but no longer than
	 * until *env->stop is true, which @env's servers look at by themselves. *ret_expires: seconds
	 * since 1970, 0: never. Failed: nothing is left in @value. */
	int (*load)(void *arg, const struct sf_cloud_env *env, void *value, int64_t *ret_expires,
	            struct sf_error *err);
	int (*copy)(const void *value, void *ret); /* 0 or -ENOMEM; quick */
	void (*release)(void *value);              /* what it holds */
	const char *(*from)(const void *value);    /* who gave it, for messages */
};

struct sf_renew;
/* @env is copied. @ops and what @env and @arg point to outlive it. Nothing is fetched yet. */
int sf_renew_new(const struct sf_renew_ops *ops, const struct sf_cloud_env *env, void *arg,
                 struct sf_renew **ret, struct sf_error *err);
void sf_renew_free(struct sf_renew *r); /* stops a fetch; nobody waits any more; NULL is fine */

/* All below: any thread. */

/* A copy of the value, to @ret as ops->copy makes it; waits for one if it must, for env->timeout_ms where
 * fetches are repeated. The error is that of the last fetch. */
int sf_renew_get(struct sf_renew *r, void *ret, struct sf_error *err);
/* The same without waiting: -EAGAIN (no message): one is being fetched. */
int sf_renew_try(struct sf_renew *r, void *ret, struct sf_error *err);

/* Somebody who was told -EAGAIN: the memory is his, until ready is called or he has left. */
struct sf_renew_wait {
	/* Once, maybe from within sf_renew_park. 0: try again; else the fetch that was waited for
	 * failed, and @why. It may take no lock that is held when any of these functions is
	 * called. */
	void (*ready)(struct sf_renew_wait *w, int r, const char *why);
	int64_t end_ns; /* of sf_now_ns(): it is of no use then; 0: it waits for one fetch alone */
	struct sf_renew_wait *prev, *next;
	bool listed;
};
void sf_renew_park(struct sf_renew *r, struct sf_renew_wait *w);
/* True: ready is not called any more. */
bool sf_renew_leave(struct sf_renew *r, struct sf_renew_wait *w);

/* Whoever it was shown to says that it has ended, whatever its time: the value for which @is_it says
 * so is used no more. */
void sf_renew_drop(struct sf_renew *r, bool (*is_it)(const void *value, const void *arg),
                   const void *arg);

#endif
