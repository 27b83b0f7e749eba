/* ~/.aws/config and ~/.aws/credentials: what the profiles in them say. Pure on text. */
#ifndef SF_STORE_AWS_CONFIG_H
#define SF_STORE_AWS_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include "base/error.h"

#define SF_AWS_CONFIG_BYTES ((size_t)1 << 20) /* of a file */

/* Values of both files. All 0: there are none. Holds secrets: the release overwrites them. */
struct sf_aws_config {
	struct sf_aws_value *at;
	size_t n, cap;
};
void sf_aws_config_release(struct sf_aws_config *c);

/*
 * sf_aws_config_add - read one of the files.
 *
 * A section is a profile: [name] in the credentials file, [default] and [profile name] in the
 * other, which has [sso-session name] and [services name] too; the rest is passed over. Lines are
 * "key = value" or "key: value" (keys in any case), '#' and ';' begin a line that says nothing. An
 * indented "key = value" below "s3 =" is the key "s3.key". Of two values the later one holds.
 *
 * Errors:  -EBADMSG @file and the line that is none of these, its text not told: it may be a
 *          secret. -E2BIG longer than SF_AWS_CONFIG_BYTES. -ENOMEM.
 */
int sf_aws_config_add(struct sf_aws_config *c, const char *text, size_t len, bool credentials,
                      const char *file, struct sf_error *err);

enum sf_aws_section { SF_AWS_PROFILE, SF_AWS_SSO_SESSION, SF_AWS_SERVICES };
/* A value, or NULL. Of a profile in both files that of the credentials file. The config's. */
const char *sf_aws_config_get(const struct sf_aws_config *c, enum sf_aws_section in,
                              const char *name, const char *key);
/* The same, of one of the files alone. */
const char *sf_aws_config_get_of(const struct sf_aws_config *c, bool credentials,
                                 const char *profile, const char *key);
/* Is there such a section, be it an empty one? */
bool sf_aws_config_has(const struct sf_aws_config *c, enum sf_aws_section in, const char *name);

#endif
