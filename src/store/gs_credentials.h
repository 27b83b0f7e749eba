/* Whom requests to Google's storage are made as: found as Google's own programs find it (application
 * default credentials), fetched again before it expires. */
#ifndef SF_STORE_GS_CREDENTIALS_H
#define SF_STORE_GS_CREDENTIALS_H

#include "store/cloud_env.h"
#include "store/renew.h"

struct sf_gs_token {
	char *token;     /* to be shown as "Authorization: Bearer TOKEN": may stand in a header */
	char *from;      /* where it is from, for messages: no secret */
	char *project;   /* that pays for requests, as the user has set up; NULL: none */
	int64_t expires; /* seconds since 1970; 0: it is not told */
	bool writes;     /* it was asked for so that objects can be written */
};
void sf_gs_token_release(struct sf_gs_token *t); /* overwrites it */

/* One provider for a store; its threads share it. Tokens are fetched as renew.h says. */
struct sf_gs_provider;
/* @env, which is the world outside for all clouds, is copied; what it points to stays the caller's.
 * Nothing is asked yet. */
int sf_gs_provider_new(const struct sf_cloud_env *env, struct sf_gs_provider **ret,
                       struct sf_error *err);
void sf_gs_provider_free(struct sf_gs_provider *p); /* nobody uses it any more; NULL is fine */

/*
 * sf_gs_provider_get - whom to ask as now; @ret is the caller's to release.
 *
 * Errors:  -ENOKEY nothing says whom, with where was looked; -EBADMSG what says so is damaged;
 *          -ENOTSUP its kind is not supported; -EIO, -EACCES a server that should know did not say; of
 *          the transport. Never with a secret in the message.
 * Threads: any but the transport's: it may wait for a server.
 */
int sf_gs_provider_get(struct sf_gs_provider *p, struct sf_gs_token *ret, struct sf_error *err);
/* The same without waiting: -EAGAIN (no message) when it would have to. Any thread. */
int sf_gs_provider_try(struct sf_gs_provider *p, struct sf_gs_token *ret, struct sf_error *err);
/* Where to wait for it then. */
struct sf_renew *sf_gs_provider_renew(struct sf_gs_provider *p);
/* Objects are written: tokens that are fetched from now on are for that, and those that were are not. Any
 * thread. */
void sf_gs_provider_write(struct sf_gs_provider *p);
/* A server does not know @token any more: it is fetched again. */
void sf_gs_provider_expired(struct sf_gs_provider *p, const char *token);

#endif
