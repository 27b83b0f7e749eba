#include "config.h"

#include <openssl/evp.h>

#include "base/path.h"

int sf_sha256(const void *p, size_t len, uint8_t digest[SF_SHA256_BYTES])
{
	return EVP_Digest(p, len, digest, NULL, EVP_sha256(), NULL) == 1 ? 0 : -ENOMEM;
}
