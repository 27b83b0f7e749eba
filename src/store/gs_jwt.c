#include "config.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "store/gs_chain.h"
#include "store/http_basic.h"

#define BITS_MAX 16384 /* of a key; Google's have 2048 */

/* A key with a password: nobody is there to be asked, and OpenSSL would ask the terminal. */
static int no_password(char *buf, int size, int rwflag, void *arg)
{
	(void)buf;
	(void)size;
	(void)rwflag;
	(void)arg;
	return -1;
}

static int sign(EVP_PKEY *key, struct sf_buf *to)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	uint8_t sig[BITS_MAX / 8];
	size_t len = sizeof(sig);
	bool ok = ctx && EVP_DigestSignInit(ctx, NULL, EVP_sha256(), NULL, key) == 1 &&
	          EVP_DigestSign(ctx, sig, &len, to->at, to->len) == 1;

	EVP_MD_CTX_free(ctx);
	if (!ok)
		return -ENOMEM;
	sf_buf_byte(to, '.');
	sf_base64(to, sig, len, true);
	return 0;
}

int sf_gs_jwt(struct sf_buf *to, const char *pem, const char *key_id, const char *claims,
              struct sf_error *err)
{
	BIO *bio = BIO_new_mem_buf(pem, -1);
	EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL) : NULL;
	struct sf_buf head = { 0 }, jwt = { 0 };
	int r = 0;

	if (!key || EVP_PKEY_base_id(key) != EVP_PKEY_RSA || EVP_PKEY_bits(key) > BITS_MAX) {
		r = sf_fail(err, -EBADMSG, "its private_key is no RSA key in PEM");
	} else {
		sf_buf_str(&head, "{\"alg\":\"RS256\",\"typ\":\"JWT\"");
		if (key_id) {
			sf_buf_str(&head, ",\"kid\":");
			sf_escape_json(&head, key_id, strlen(key_id));
		}
		sf_buf_byte(&head, '}');
		sf_base64(&jwt, head.at, sf_buf_bytes(&head), true);
		sf_buf_byte(&jwt, '.');
		sf_base64(&jwt, claims, strlen(claims), true);
		sf_buf_fail(&jwt, sf_buf_check(&head));
		r = sf_buf_check(&jwt);
		if (r == 0)
			r = sign(key, &jwt);
		sf_buf_fail(to, sf_buf_check(&jwt));
		sf_buf_add(to, jwt.at, sf_buf_bytes(&jwt));
		if (r < 0 || (r = sf_buf_check(to)) < 0)
			sf_fail(err, r, "no memory to sign a request");
	}
	sf_buf_release(&head);
	sf_buf_release(&jwt);
	EVP_PKEY_free(key);
	BIO_free(bio);
	return r;
}
