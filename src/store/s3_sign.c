#include "config.h"

#include <ctype.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "base/mem.h"
#include "base/path.h"
#include "base/wipe.h"
#include "store/http_basic.h"
#include "store/s3_sign.h"
#include "store/url.h"

#define HEADERS_MAX 32 /* signed lines of a request */
#define PARAMS_MAX 16  /* of a query */
#define TEXT_MAX \
	65536  /* bytes of a canonical request: a session token has 2 KB, a key 3 KB coded */
#define KEYS 4 /* signing keys kept: two regions around midnight */

void sf_aws_credentials_release(struct sf_aws_credentials *c)
{
	sf_wipe_free(c->key_id);
	sf_wipe_free(c->secret);
	sf_wipe_free(c->token);
	sf_wipe_free(c->region);
	sf_wipe_free(c->from);
	*c = (struct sf_aws_credentials){ .expires = 0 };
}

struct signing_key {
	uint8_t id[SF_SHA256_BYTES]; /* hash of what it is derived from: the secret is not kept */
	uint8_t key[SF_SHA256_BYTES];
	bool used;
};
struct sf_s3_keys {
	struct {
		pthread_mutex_t m;
		struct signing_key key[KEYS];
		unsigned next; /* to be replaced */
	} locked;
};

struct sf_s3_keys *sf_s3_keys_new(void)
{
	struct sf_s3_keys *k = calloc(1, sizeof(*k));

	if (k)
		pthread_mutex_init(&k->locked.m, NULL);
	return k;
}

void sf_s3_keys_free(struct sf_s3_keys *k)
{
	if (!k)
		return;
	pthread_mutex_destroy(&k->locked.m);
	OPENSSL_cleanse(k, sizeof(*k));
	free(k);
}

static int hmac(const void *key, size_t key_len, const void *text, size_t len,
                uint8_t ret[SF_SHA256_BYTES])
{
	unsigned n = SF_SHA256_BYTES;

	return HMAC(EVP_sha256(), key, (int)key_len, text, len, ret, &n) ? 0 : -ENOMEM;
}

static void hex(const uint8_t digest[SF_SHA256_BYTES], char ret[65])
{
	for (size_t i = 0; i < SF_SHA256_BYTES; i++)
		snprintf(ret + 2 * i, 3, "%02x", digest[i]);
}

int sf_s3_payload(const void *body, size_t len, char ret[65])
{
	uint8_t digest[SF_SHA256_BYTES];

	if (sf_sha256(body, len, digest) < 0)
		return -ENOMEM;
	hex(digest, ret);
	return 0;
}

bool sf_s3_md5(const void *body, size_t len, char ret[32])
{
	struct sf_buf text = { .limit = 32 };
	uint8_t digest[16];
	unsigned n = sizeof(digest);
	bool ok = EVP_Digest(body ? body : "", len, digest, &n, EVP_md5(), NULL) == 1;

	if (ok)
		sf_base64(&text, digest, n, false);
	ok = ok && sf_buf_check(&text) == 0;
	if (ok)
		snprintf(ret, 32, "%s", sf_buf_cstr(&text));
	sf_buf_release(&text);
	return ok;
}

static int derive(const char *secret, const char *day, const char *region, const char *service,
                  uint8_t ret[SF_SHA256_BYTES])
{
	const char *const with[] = { day, region, service, "aws4_request" };
	size_t len = strlen(secret) + 4;
	char *first = malloc(len + 1);
	int r;

	if (!first)
		return -ENOMEM;
	snprintf(first, len + 1, "AWS4%s", secret);
	r = hmac(first, len, with[0], strlen(with[0]), ret);
	for (size_t i = 1; r == 0 && i < SF_ARRAY_LEN(with); i++) {
		uint8_t out[SF_SHA256_BYTES];

		r = hmac(ret, SF_SHA256_BYTES, with[i], strlen(with[i]), out);
		memcpy(ret, out, sizeof(out));
		OPENSSL_cleanse(out, sizeof(out));
	}
	OPENSSL_cleanse(first, len);
	free(first);
	return r;
}

/* What a key is known by. Each part with its NUL, so that no two lists of parts are the same text. */
static int key_id(const char *secret, const char *day, const char *region, const char *service,
                  uint8_t ret[SF_SHA256_BYTES])
{
	const char *const parts[] = { secret, day, region, service };
	struct sf_buf text = { 0 };
	int r;

	for (size_t i = 0; i < SF_ARRAY_LEN(parts); i++)
		sf_buf_add(&text, parts[i], strlen(parts[i]) + 1);
	r = sf_buf_check(&text);
	if (r == 0)
		r = sf_sha256(text.at, text.len, ret);
	if (text.at)
		OPENSSL_cleanse(text.at, text.len);
	sf_buf_release(&text);
	return r;
}

static int signing_key(struct sf_s3_keys *k, const char *secret, const char *day,
                       const char *region, const char *service, uint8_t ret[SF_SHA256_BYTES])
{
	uint8_t id[SF_SHA256_BYTES];
	bool found = false;
	int r;

	if (!k)
		return derive(secret, day, region, service, ret);
	r = key_id(secret, day, region, service, id);
	if (r < 0)
		return r;
	pthread_mutex_lock(&k->locked.m);
	for (size_t i = 0; i < KEYS && !found; i++) {
		const struct signing_key *at = &k->locked.key[i];

		found = at->used && memcmp(at->id, id, sizeof(id)) == 0;
		if (found)
			memcpy(ret, at->key, sizeof(at->key));
	}
	pthread_mutex_unlock(&k->locked.m);
	if (found)
		return 0;
	r = derive(secret, day, region, service, ret);
	if (r < 0)
		return r;
	pthread_mutex_lock(&k->locked.m);
	struct signing_key *to = &k->locked.key[k->locked.next++ % KEYS];
	memcpy(to->id, id, sizeof(id));
	memcpy(to->key, ret, sizeof(to->key));
	to->used = true;
	pthread_mutex_unlock(&k->locked.m);
	return 0;
}

static int param_order(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sorted as "name=value" with '=' read as the least byte that can stand there: names are sorted
 * first, and no coded byte is below '%'. */
void sf_s3_query(struct sf_buf *to, const struct sf_s3_param *param, size_t n)
{
	char *one[PARAMS_MAX];
	size_t count = 0;
	int bad = n <= PARAMS_MAX ? 0 : -E2BIG;

	for (size_t i = 0; i < n && !bad; i++) {
		struct sf_buf b = { .limit = TEXT_MAX };

		if (!param[i].value)
			continue;
		sf_url_encode(&b, param[i].name, strlen(param[i].name), false);
		sf_buf_byte(&b, 1); /* for '=', see above */
		sf_url_encode(&b, param[i].value, strlen(param[i].value), false);
		sf_buf_byte(&b, '\0');
		bad = sf_buf_check(&b);
		if (bad)
			sf_buf_release(&b);
		else
			one[count++] = (char *)b.at;
	}
	qsort(one, count, sizeof(one[0]), param_order);
	sf_buf_fail(to, bad);
	for (size_t i = 0; i < count; i++) {
		*strchr(one[i], 1) = '=';
		if (i)
			sf_buf_byte(to, '&');
		sf_buf_str(to, one[i]);
		free(one[i]);
	}
}

/* A line's parts, borrowed. */
struct line {
	const char *name, *value;
	size_t name_len;
};

static bool has_control(const char *s)
{
	for (; *s; s++)
		if (((uint8_t)*s < ' ' && *s != '\t') || *s == 0x7f)
			return true;
	return false;
}

static int split(const char *text, struct line *ret, struct sf_error *err)
{
	const char *colon = strchr(text, ':');

	if (!colon || colon == text)
		return sf_fail(err, -EINVAL, "a header to be signed has no name");
	ret->name = text;
	ret->name_len = (size_t)(colon - text);
	ret->value = colon + 1;
	/* its value may be a secret: only the name is told */
	if (has_control(text))
		return sf_fail(err, -EINVAL, "header %.*s has a control character in it",
		               (int)SF_MIN(ret->name_len, (size_t)64), text);
	return 0;
}

static int line_order(const void *a, const void *b)
{
	const struct line *x = a, *y = b;
	int c = strncasecmp(x->name, y->name, SF_MIN(x->name_len, y->name_len));

	return c ? c : (x->name_len > y->name_len) - (x->name_len < y->name_len);
}

static void lower(struct sf_buf *to, const struct line *l)
{
	for (size_t i = 0; i < l->name_len; i++)
		sf_buf_byte(to, (uint8_t)tolower((unsigned char)l->name[i]));
}

/* Without blanks at its ends, runs of them as one. */
static void trimmed(struct sf_buf *to, const char *value)
{
	size_t start = to->len;

	for (; *value; value++) {
		if (*value != ' ' && *value != '\t')
			sf_buf_byte(to, (uint8_t)*value);
		else if (to->len > start && to->at[to->len - 1] != ' ')
			sf_buf_byte(to, ' ');
	}
	if (to->len > start && to->at[to->len - 1] == ' ')
		to->len--;
}

/* The lines to be sent, made one by one. */
struct headers {
	char *at[HEADERS_MAX + 1];
	size_t n;
};

static int add(struct headers *h, struct sf_error *err, const char *name, const char *value)
{
	if (h->n == HEADERS_MAX)
		return sf_fail(err, -EINVAL, "more than %d headers to be signed", HEADERS_MAX);
	if (asprintf(&h->at[h->n], value ? "%s: %s" : "%s", name, value) < 0) {
		h->at[h->n] = NULL;
		return sf_fail(err, -ENOMEM, "no memory to sign a request");
	}
	h->n++;
	return 0;
}

static void release(struct headers *h)
{
	for (size_t i = 0; i < h->n; i++)
		sf_wipe_free(h->at[i]);
}

void sf_s3_headers_free(char **headers)
{
	for (char **at = headers; at && *at; at++)
		sf_wipe_free(*at);
	free(headers);
}

/* The canonical request; @names gets what SignedHeaders says. */
static int canonical(const struct sf_s3_request *req, const struct headers *h, struct sf_buf *text,
                     struct sf_buf *names, struct sf_error *err)
{
	struct line line[HEADERS_MAX + 1];
	size_t n = h->n + 1;

	line[0] = (struct line){ "host", req->host, 4 };
	for (size_t i = 0; i < h->n; i++) {
		int r = split(h->at[i], &line[i + 1], err);
		if (r < 0)
			return r;
	}
	qsort(line, n, sizeof(line[0]), line_order);
	sf_buf_printf(text, "%s\n%s\n%s\n", req->method, req->path, req->query);
	for (size_t i = 0; i < n; i++) {
		if (i && line_order(&line[i - 1], &line[i]) == 0)
			return sf_fail(err, -EINVAL, "header %.*s is given twice",
			               (int)SF_MIN(line[i].name_len, (size_t)64), line[i].name);
		lower(text, &line[i]);
		sf_buf_byte(text, ':');
		trimmed(text, line[i].value);
		sf_buf_byte(text, '\n');
		if (i)
			sf_buf_byte(names, ';');
		lower(names, &line[i]);
	}
	sf_buf_printf(text, "\n%s\n%s", sf_buf_cstr(names), req->payload);
	return 0;
}

/* Bytes that it has at most. */
static size_t canonical_max(const struct sf_s3_request *req, const struct headers *h)
{
	size_t n = strlen(req->method) + strlen(req->path) + strlen(req->query) +
	           strlen(req->host) + strlen(req->payload) + 64;

	for (size_t i = 0; i < h->n; i++)
		n += 2 * strlen(h->at[i]) + 2; /* its name twice */
	return SF_MIN(n, (size_t)TEXT_MAX);
}

static int check(const struct sf_s3_request *req, const struct sf_aws_credentials *cred,
                 struct sf_error *err)
{
	if (!*cred->key_id || has_control(cred->key_id) || strpbrk(cred->key_id, " ,/\t"))
		return sf_fail(err, -EINVAL,
		               "the access key id is empty or has a character that none has");
	if (!*req->region || has_control(req->region) || strpbrk(req->region, " ,/\t"))
		return sf_fail(err, -EINVAL, "'%.64s' is not the name of a region",
		               has_control(req->region) ? "?" : req->region);
	if (req->path[0] != '/' || has_control(req->path) || has_control(req->query) ||
	    has_control(req->host))
		return sf_fail(err, -EINVAL, "a path, query or host that no request can have");
	return 0;
}

int sf_s3_sign(const struct sf_s3_request *req, const struct sf_aws_credentials *cred, char ***ret,
               struct sf_error *err)
{
	struct sf_buf text = { .limit = TEXT_MAX }, names = { .limit = TEXT_MAX };
	uint8_t key[SF_SHA256_BYTES] = { 0 }, mac[SF_SHA256_BYTES];
	char date[32], day[9], scope[256], hash[65], *auth = NULL;
	struct headers h = { .n = 0 };
	time_t now = (time_t)req->now;
	struct tm tm;
	int r = check(req, cred, err);

	if (r < 0)
		return r;
	if (!gmtime_r(&now, &tm) || tm.tm_year < 0 || tm.tm_year > 8099)
		return sf_fail(err, -EINVAL,
		               "%lld s since 1970 is not a time that a request can be signed for",
		               (long long)req->now);
	strftime(date, sizeof(date), "%Y%m%dT%H%M%SZ", &tm);
	snprintf(day, sizeof(day), "%.8s", date);
	if ((size_t)snprintf(scope, sizeof(scope), "%s/%s/%s/aws4_request", day, req->region,
	                     req->service) >= sizeof(scope))
		return sf_fail(err, -EINVAL, "'%.64s' is not the name of a region", req->region);

	for (const char *const *at = req->headers; r == 0 && at && *at; at++)
		r = add(&h, err, *at, NULL);
	r = r < 0 ? r : add(&h, err, "x-amz-date", date);
	if (r == 0 && strcmp(req->service, "s3") == 0)
		r = add(&h, err, "x-amz-content-sha256", req->payload);
	if (r == 0 && cred->token && *cred->token)
		r = add(&h, err, "x-amz-security-token", cred->token);
	/* in one piece: none of a token stays behind in a buffer that was too small */
	sf_buf_extend(&text, r < 0 ? 0 : canonical_max(req, &h));
	text.len = 0;
	r = r < 0 ? r : canonical(req, &h, &text, &names, err);
	if (r < 0)
		goto out;
	r = -ENOMEM;
	sf_buf_fail(&text, sf_buf_check(&names));
	if (sf_buf_check(&text) < 0 || sf_s3_payload(text.at, text.len, hash) < 0) {
		r = sf_fail(err, sf_buf_check(&text) < 0 ? sf_buf_check(&text) : r,
		            "a request to be signed is longer than %d bytes or memory is out",
		            TEXT_MAX);
		goto out;
	}
	sf_buf_reset(&text);
	sf_buf_printf(&text, "AWS4-HMAC-SHA256\n%s\n%s\n%s", date, scope, hash);
	if (sf_buf_check(&text) < 0 ||
	    signing_key(req->keys, cred->secret, day, req->region, req->service, key) < 0 ||
	    hmac(key, sizeof(key), text.at, text.len, mac) < 0) {
		sf_fail(err, r, "no memory to sign a request");
		goto out;
	}
	hex(mac, hash);
	if (asprintf(&auth, "AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%s",
	             cred->key_id, scope, sf_buf_cstr(&names), hash) < 0)
		auth = NULL;
	r = auth ? add(&h, err, "Authorization", auth)
	         : sf_fail(err, -ENOMEM, "no memory to sign a request");
	if (r == 0 && !(*ret = calloc(h.n + 1, sizeof(**ret))))
		r = sf_fail(err, -ENOMEM, "no memory to sign a request");
	if (r == 0)
		memcpy(*ret, h.at, h.n * sizeof(h.at[0]));
out:
	OPENSSL_cleanse(key, sizeof(key));
	if (r < 0)
		release(&h);
	free(auth);
	if (text.at) /* a session's token is in it */
		OPENSSL_cleanse(text.at, text.cap);
	sf_buf_release(&text);
	sf_buf_release(&names);
	return r;
}
