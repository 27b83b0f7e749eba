/* What a user of AWS has set up: variables, files, and what they say of where to ask. */
#ifndef SF_STORE_AWS_ENV_H
#define SF_STORE_AWS_ENV_H

#include <stdint.h>
#include "store/aws_config.h"
#include "store/http.h"
#include "store/store_options.h"

/* The world outside, so that tests stand in for it. Functions may be called from any thread. */
struct sf_aws_env {
	char *(*get)(void *arg, const char *name); /* a variable, malloc'ed; NULL: not set */
	void *arg;
	const char *home; /* "": none */
	sf_http_ask_fn *ask;
	void *ask_arg;
	int64_t (*now)(void *arg); /* seconds since 1970 */
	unsigned program_ms;       /* what a program may take; 0: a minute */
	bool wants_region;         /* nobody named one: the machine is asked where it is */
	const _Atomic bool *stop;  /* true: nobody wants an answer any more; NULL: somebody does */
};
/* The world as it is for a store: this process's variables, servers by the certificates that it goes
 * by. */
struct sf_remote_store;
void sf_aws_env_of(struct sf_remote_store *s, const char *home, struct sf_aws_env *ret);
/* A variable that is set and not empty; NULL otherwise. The caller frees it. */
char *sf_aws_var(const struct sf_aws_env *env, const char *name);

/* Both files and the profile that is to be read in them. */
struct sf_aws_setup {
	struct sf_aws_config config;
	char *profile;      /* --profile, AWS_PROFILE, AWS_DEFAULT_PROFILE, "default" */
	bool profile_given; /* by the option: variables do not count then */
};
/* Reads them; a file that is not there is empty. -ENOKEY: no profile of the name that was given;
 * else as reading and sf_aws_config_add() say. */
int sf_aws_setup_read(const struct sf_store_options *opt, const struct sf_aws_env *env,
                      struct sf_aws_setup *ret, struct sf_error *err);
void sf_aws_setup_release(struct sf_aws_setup *s);
/* Of the profile; NULL: not set. The setup's. */
const char *sf_aws_setup_get(const struct sf_aws_setup *s, const char *key);

/* --region, AWS_REGION, AWS_DEFAULT_REGION, the profile's. Malloc'ed; "": none of them. NULL: no
 * memory. */
char *sf_aws_region(const struct sf_store_options *opt, const struct sf_aws_env *env,
                    const struct sf_aws_setup *s);
/* The URL that a service ("s3", "sts") is asked at instead of Amazon's: AWS_ENDPOINT_URL_SERVICE,
 * AWS_ENDPOINT_URL, the profile's services section, its endpoint_url; none of them with
 * AWS_IGNORE_CONFIGURED_ENDPOINT_URLS. As above. */
char *sf_aws_endpoint(const struct sf_aws_env *env, const struct sf_aws_setup *s,
                      const char *service);
/* "amazonaws.com", or China's. */
const char *sf_aws_domain(const char *region);

/* A whole file of at most @limit bytes, malloc'ed, NUL behind. -errno without a message. */
int sf_aws_read_file(const char *path, size_t limit, char **ret, size_t *ret_len);

#endif
