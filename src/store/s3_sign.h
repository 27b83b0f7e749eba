/* Signature Version 4 of AWS: the headers that prove who asks. Pure: no clock, no I/O. */
#ifndef SF_STORE_S3_SIGN_H
#define SF_STORE_S3_SIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/error.h"

/* What a request is signed with. Strings are the holder's, NUL-ended; a secret never goes into a
 * message. */
struct sf_aws_credentials {
	char *key_id, *secret;
	char *token;     /* of a session; NULL: none */
	int64_t expires; /* seconds since 1970; 0: never */
	char *region;    /* of the machine that gave them, if that was asked for; NULL: not known */
	char *from;      /* "environment", "profile x", ...: for people */
};

/* Overwrites and frees what it holds. */
void sf_aws_credentials_release(struct sf_aws_credentials *c);

/* Signing keys of the last few (secret, day, region, service): four HMACs a request less. One
 * for all threads of a store. */
struct sf_s3_keys;
struct sf_s3_keys *sf_s3_keys_new(void);       /* NULL: no memory */
void sf_s3_keys_free(struct sf_s3_keys *keys); /* overwrites what it held; NULL is fine */

struct sf_s3_request {
	const char *method;
	const char *host;   /* as sent: host, or host:port where the port is not the scheme's own */
	const char *path;   /* as sent: encoded once, begins with '/' */
	const char *query;  /* as sent, made by sf_s3_query(); "": none */
	const char *region; /* "us-east-1" */
	const char *service; /* "s3" or "sts" */
	/* further "Name: value" lines that are signed, in any order, ends with NULL; NULL: none.
	 * "x-amz-..." has to be here, "content-type" may be. */
	const char *const *headers;
	/* the body's SHA-256 in hex, or "UNSIGNED-PAYLOAD". For "s3" it is sent too */
	const char *payload;
	int64_t now;             /* seconds since 1970, as the server has it */
	struct sf_s3_keys *keys; /* NULL: derived each time */
};

#define SF_S3_EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

/*
 * sf_s3_sign - the headers to send with a request.
 *
 * *ret is a vector of "Name: value" lines that ends with NULL: req->headers as they were, then
 * x-amz-date, x-amz-content-sha256 (of "s3"), x-amz-security-token (of a session), Authorization.
 * Host, the line that the transport sends, is signed and not in it. Range, If-Match and the rest
 * need no signature.
 *
 * Errors:  -EINVAL a line without name, named twice, or with a control character in it; a key id,
 *          region or time that no header can carry. -ENOMEM.
 * Memory:  the caller's, by sf_s3_headers_free().
 * Threads: any; @req->keys may be shared.
 */
int sf_s3_sign(const struct sf_s3_request *req, const struct sf_aws_credentials *cred, char ***ret,
               struct sf_error *err);
void sf_s3_headers_free(char **headers); /* overwrites them; NULL is fine */

/* A query's parameters: the value may be NULL, which is left out altogether. */
struct sf_s3_param {
	const char *name, *value;
};
/* Appends "a=1&b=" to @to in the order that is signed. At most 16 of them. */
void sf_s3_query(struct sf_buf *to, const struct sf_s3_param *param, size_t n);

/* SHA-256 of a body in hex, for sf_s3_request.payload. -ENOMEM. */
int sf_s3_payload(const void *body, size_t len, char ret[65]);
/* Content-MD5's value; false: this machine's OpenSSL has no MD5 (FIPS). */
bool sf_s3_md5(const void *body, size_t len, char ret[32]);

#endif
