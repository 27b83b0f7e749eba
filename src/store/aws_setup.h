/* What a user of AWS has set up: variables, files, and what they say of where to ask. */
#ifndef SF_STORE_AWS_SETUP_H
#define SF_STORE_AWS_SETUP_H

#include "store/aws_config.h"
#include "store/cloud_env.h"
#include "store/store_options.h"

/* Both files and the profile that is to be read in them. */
struct sf_aws_setup {
	struct sf_aws_config config;
	char *profile;      /* --profile, AWS_PROFILE, AWS_DEFAULT_PROFILE, "default" */
	bool profile_given; /* by the option: variables do not count then */
};
/* Reads them; a file that is not there is empty. -ENOKEY: no profile of the name that was given;
 * else as reading and sf_aws_config_add() say. */
int sf_aws_setup_read(const struct sf_store_options *opt, const struct sf_cloud_env *env,
                      struct sf_aws_setup *ret, struct sf_error *err);
void sf_aws_setup_release(struct sf_aws_setup *s);
/* Of the profile; NULL: not set. The setup's. */
const char *sf_aws_setup_get(const struct sf_aws_setup *s, const char *key);

/* --region, AWS_REGION, AWS_DEFAULT_REGION, the profile's. Malloc'ed; "": none of them. NULL: no
 * memory. */
char *sf_aws_region(const struct sf_store_options *opt, const struct sf_cloud_env *env,
                    const struct sf_aws_setup *s);
/* The URL that a service ("s3", "sts") is asked at instead of Amazon's: AWS_ENDPOINT_URL_SERVICE,
 * AWS_ENDPOINT_URL, the profile's services section, its endpoint_url; none of them with
 * AWS_IGNORE_CONFIGURED_ENDPOINT_URLS. As above. */
char *sf_aws_endpoint(const struct sf_cloud_env *env, const struct sf_aws_setup *s,
                      const char *service);
/* "amazonaws.com", or China's. */
const char *sf_aws_domain(const char *region);

#endif
