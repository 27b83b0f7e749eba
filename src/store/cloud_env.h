/* The world that credentials and settings of a cloud are found in: variables, files, servers, the clock. */
#ifndef SF_STORE_CLOUD_ENV_H
#define SF_STORE_CLOUD_ENV_H

#include <stdint.h>
#include "store/http.h"

/* The world outside, so that tests stand in for it. Functions may be called from any thread. */
struct sf_cloud_env {
	char *(*get)(void *arg, const char *name); /* a variable, malloc'ed; NULL: not set */
	void *arg;
	const char *home; /* "": none */
	sf_http_ask_fn *ask;
	void *ask_arg;
	int64_t (*now)(void *arg); /* seconds since 1970 */
	unsigned program_ms;       /* what a program may take; 0: a minute */
	unsigned timeout_ms;       /* what a fetch of credentials may take in all; 0: any time */
	unsigned retry_ms;         /* what the first wait before a further fetch is at most */
	int64_t end_ns;    /* of sf_now_ns(): the fetch under way has taken that then; 0: never */
	bool wants_region; /* nobody named one: the machine is asked where it is */
	const _Atomic bool *stop; /* true: nobody wants an answer any more; NULL: somebody does */
};
/* The world as it is for a store: this process's variables, servers by the certificates that it goes
 * by. */
struct sf_remote_store;
void sf_cloud_env_of(struct sf_remote_store *s, const char *home, struct sf_cloud_env *ret);
/* A variable that is set and not empty; NULL otherwise. The caller frees it. */
char *sf_cloud_var(const struct sf_cloud_env *env, const char *name);

/* A whole file of at most @limit bytes, malloc'ed, NUL behind. -errno without a message. */
int sf_cloud_read_file(const char *path, size_t limit, char **ret, size_t *ret_len);

#endif
