/* Where credentials are looked for, in the order that AWS users expect; the parts of
 * aws_credentials.c. */
#ifndef SF_STORE_AWS_CHAIN_H
#define SF_STORE_AWS_CHAIN_H

#include "store/aws_setup.h"
#include "store/s3_sign.h"

/*
 * Variables (not where a profile is given by option), then of the profile: a role to assume, a web
 * identity, SSO, keys in the credentials file, a program, keys in the config file; then the
 * container's server, the machine's. The first that is set up says it, be that an error. -ENOKEY:
 * none is. May take as long as programs and servers do.
 */
int sf_aws_chain_load(const struct sf_store_options *opt, const struct sf_cloud_env *env,
                      struct sf_aws_credentials *ret, struct sf_error *err);

/* All below: 0, or negative with a message that has no secret in it; -ENOKEY is "not set up" and
 * has none. ret->from is the caller's to fill. */

/* Copies; -EBADMSG where a part is missing or empty. @token may be NULL. */
int sf_aws_keep(const char *key_id, const char *secret, const char *token, int64_t expires,
                struct sf_aws_credentials *ret, struct sf_error *err);

/* What a program (@process: with a Version) or a metadata server says: a JSON object. */
int sf_aws_reply_json(const char *text, size_t len, bool process, struct sf_aws_credentials *ret,
                      struct sf_error *err);
/* What STS says: an XML document with <Credentials>. */
int sf_aws_reply_xml(const char *text, size_t len, struct sf_aws_credentials *ret,
                     struct sf_error *err);

/* What a program prints. @argv ends with NULL; found by PATH. It is killed, and all that it started,
 * when env->program_ms are over or env->stop is true. */
int sf_aws_process(const struct sf_cloud_env *env, const char *const *argv,
                   struct sf_aws_credentials *ret, struct sf_error *err);

int sf_aws_container(const struct sf_cloud_env *env, struct sf_aws_credentials *ret,
                     struct sf_error *err);
/* The machine's own server; whatever goes wrong on the way to a role's name is "not set up". */
int sf_aws_machine(const struct sf_cloud_env *env, struct sf_aws_credentials *ret,
                   struct sf_error *err);

/* A role and how to ask STS for it. NULL: not given. */
struct sf_aws_role {
	const char *arn, *session_name, *external_id, *duration_s;
	const char *region;     /* "": Amazon's own server for all */
	const char *endpoint;   /* URL; "": the region's */
	const char *token_file; /* of a web identity: read at each call; NULL: signed by @as */
	const struct sf_aws_credentials *as;
};
int sf_aws_assume(const struct sf_cloud_env *env, const struct sf_aws_role *role,
                  struct sf_aws_credentials *ret, struct sf_error *err);

#endif
