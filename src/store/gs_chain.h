/* Where Google's credentials are looked for and what is made of them; the parts of gs_credentials.c. */
#ifndef SF_STORE_GS_CHAIN_H
#define SF_STORE_GS_CHAIN_H

#include "base/buf.h"
#include "store/gs_credentials.h"

struct cJSON;

#define SF_GS_SCOPE_READ "https://www.googleapis.com/auth/devstorage.read_only"
#define SF_GS_SCOPE_WRITE "https://www.googleapis.com/auth/devstorage.read_write"
#define SF_GS_SCOPE_ALL "https://www.googleapis.com/auth/cloud-platform"
#define SF_GS_TOKEN_URL "https://oauth2.googleapis.com/token"

/*
 * The file GOOGLE_APPLICATION_CREDENTIALS, that of gcloud auth application-default login, the
 * machine's own server: the first that is there says it, be that an error. -ENOKEY: none is. May take
 * as long as servers do. @scope: what a token is for, where that can be asked for.
 */
int sf_gs_chain_load(const struct sf_cloud_env *env, const char *scope, struct sf_gs_token *ret,
                     struct sf_error *err);

/* All below: 0, or negative with a message that has no secret in it. ret->from and ret->project are
 * the caller's to fill. */

/* A token of what a credentials file (its JSON) says, of any kind. *ret_who, if not NULL: the account,
 * malloc'ed; NULL where the file does not tell. */
int sf_gs_key_token(const struct sf_cloud_env *env, const struct cJSON *key, const char *scope,
                    struct sf_gs_token *ret, char **ret_who, struct sf_error *err);
/* The same of kind external_account. */
int sf_gs_external_token(const struct sf_cloud_env *env, const struct cJSON *key, const char *scope,
                         struct sf_gs_token *ret, struct sf_error *err);
/* A token of the account that @url stands for, made with token @as of somebody who may. */
int sf_gs_impersonate(const struct sf_cloud_env *env, const char *url,
                      const struct cJSON *delegates, const char *as, const char *scope,
                      struct sf_gs_token *ret, struct sf_error *err);

/* What answers with a token is asked: three times where it is in trouble. @url has to be safe to send
 * secrets to (gs_place.h). @body: what is posted, overwritten here when done; @authorization: a
 * header, or NULL. */
int sf_gs_post(const struct sf_cloud_env *env, const char *url, const char *type,
               const char *authorization, struct sf_buf *body, struct sf_gs_token *ret,
               struct sf_error *err);
/* Such an answer: {access_token, expires_in}, or {accessToken, expireTime}. */
int sf_gs_reply(const char *text, size_t len, int64_t now, struct sf_gs_token *ret,
                struct sf_error *err);
#define SF_GS_FORM "Content-Type: application/x-www-form-urlencoded"

/* Appends a JWT of these claims (JSON), signed by an RSA key in PEM (RS256). -EBADMSG: it is no such
 * key. Source: RFC 7515, RFC 7519. */
int sf_gs_jwt(struct sf_buf *to, const char *pem, const char *key_id, const char *claims,
              struct sf_error *err);

#endif
