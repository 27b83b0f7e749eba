#include "config.h"

#include <stdlib.h>

#include <openssl/evp.h>

#include "base/path.h"

int sf_sha256(const void *p, size_t len, uint8_t digest[SF_SHA256_BYTES])
{
	return EVP_Digest(p, len, digest, NULL, EVP_sha256(), NULL) == 1 ? 0 : -ENOMEM;
}

struct sf_sha256_run {
	EVP_MD_CTX *ctx;
	int failed; /* 0 or -ENOMEM: it has no other reason to */
};

struct sf_sha256_run *sf_sha256_begin(void)
{
	struct sf_sha256_run *run = calloc(1, sizeof(*run));

	if (run && (run->ctx = EVP_MD_CTX_new()) &&
	    EVP_DigestInit_ex(run->ctx, EVP_sha256(), NULL) == 1)
		return run;
	sf_sha256_drop(run);
	return NULL;
}

void sf_sha256_feed(struct sf_sha256_run *run, const void *p, size_t len)
{
	if (EVP_DigestUpdate(run->ctx, p, len) != 1)
		run->failed = -ENOMEM;
}

int sf_sha256_end(struct sf_sha256_run *run, uint8_t digest[SF_SHA256_BYTES])
{
	int r = run->failed;

	if (r == 0 && EVP_DigestFinal_ex(run->ctx, digest, NULL) != 1)
		r = -ENOMEM;
	sf_sha256_drop(run);
	return r;
}

void sf_sha256_drop(struct sf_sha256_run *run)
{
	if (run)
		EVP_MD_CTX_free(run->ctx);
	free(run);
}
