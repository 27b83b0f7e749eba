/* Whom requests are signed as: found as AWS users expect it, fetched again before it expires. */
#ifndef SF_STORE_AWS_CREDENTIALS_H
#define SF_STORE_AWS_CREDENTIALS_H

#include "store/aws_setup.h"
#include "store/renew.h"
#include "store/s3_sign.h"

/* One provider for a store; its threads share it. They are fetched as renew.h says: nobody who has
 * some that hold waits for others. */
struct sf_aws_provider;
/* @env is copied, what it points to stays the caller's; @opt may be NULL. Nothing is asked yet. */
int sf_aws_provider_new(const struct sf_store_options *opt, const struct sf_cloud_env *env,
                        struct sf_aws_provider **ret, struct sf_error *err);
/* Nobody uses it any more: a server or program that is asked just now is not waited for. NULL is
 * fine. */
void sf_aws_provider_free(struct sf_aws_provider *p);

/*
 * sf_aws_provider_get - whom to sign as now.
 *
 * 0: @ret, the caller's to release. 1: nobody, requests are not signed (no_sign_request).
 * Errors:  -ENOKEY nothing says whom, with where was looked; -EBADMSG what says so is damaged or
 *          contradicts itself; -EIO a server or program that should know did not say; of the
 *          transport. Never with a secret in the message.
 * Threads: any but the transport's: it may wait for a server or a program. A failure is told for a
 *          second or more (renew.h) before they are asked again.
 */
int sf_aws_provider_get(struct sf_aws_provider *p, struct sf_aws_credentials *ret,
                        struct sf_error *err);
/* The same without waiting: -EAGAIN (no message) when it would have to. Any thread. */
int sf_aws_provider_try(struct sf_aws_provider *p, struct sf_aws_credentials *ret,
                        struct sf_error *err);
/* Where to wait for them then. */
struct sf_renew *sf_aws_provider_renew(struct sf_aws_provider *p);
/* A server says that those with this key id have expired: they are fetched again. */
void sf_aws_provider_expired(struct sf_aws_provider *p, const char *key_id);

#endif
