#include "config.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/path.h"
#include "tests/lib/sigv4_check.h"

#define BLOCK 64
#define TEXT_MAX 16384
#define PARAMS_MAX 32

struct text {
	char at[TEXT_MAX];
	size_t len;
};

static void add(struct text *t, const char *s, size_t len)
{
	if (len > sizeof(t->at) - 1 - t->len)
		len = sizeof(t->at) - 1 - t->len;
	memcpy(t->at + t->len, s, len);
	t->len += len;
	t->at[t->len] = '\0';
}

static void add_str(struct text *t, const char *s)
{
	add(t, s, strlen(s));
}

/* RFC 2104. */
static void hmac(const void *key, size_t key_len, const char *s, uint8_t out[SF_SHA256_BYTES])
{
	uint8_t inner[BLOCK + TEXT_MAX], outer[BLOCK + SF_SHA256_BYTES], k[BLOCK] = { 0 };
	size_t len = strlen(s);

	if (key_len > BLOCK)
		sf_sha256(key, key_len, k);
	else
		memcpy(k, key, key_len);
	for (int i = 0; i < BLOCK; i++) {
		inner[i] = k[i] ^ 0x36;
		outer[i] = k[i] ^ 0x5c;
	}
	memcpy(inner + BLOCK, s, len);
	sf_sha256(inner, BLOCK + len, outer + BLOCK);
	sf_sha256(outer, sizeof(outer), out);
}

static void hex(const uint8_t digest[SF_SHA256_BYTES], char out[2 * SF_SHA256_BYTES + 1])
{
	for (int i = 0; i < SF_SHA256_BYTES; i++)
		sprintf(out + 2 * i, "%02x", digest[i]);
}

/* What %XX stands for, coded again: the canonical form, however it was sent. */
static void add_coded(struct text *to, const char *s, size_t len, bool slash)
{
	char c[4];

	for (size_t i = 0; i < len; i++) {
		unsigned v = (unsigned char)s[i];
		if (v == '%' && i + 2 < len && sscanf(s + i + 1, "%2x", &v) == 1)
			i += 2;
		if (isalnum((int)v) || strchr("-_.~", (int)v) || (slash && v == '/'))
			snprintf(c, sizeof(c), "%c", (int)v);
		else
			snprintf(c, sizeof(c), "%%%02X", v);
		add_str(to, c);
	}
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void add_query(struct text *to, const char *query)
{
	char *param[PARAMS_MAX];
	size_t n = 0;

	for (const char *p = query; *p && n < PARAMS_MAX; p += strcspn(p, "&"), p += *p == '&') {
		size_t len = strcspn(p, "&"), name = strcspn(p, "=&");
		struct text one = { .len = 0 };
		add_coded(&one, p, name, false);
		add_str(&one, "=");
		if (name < len)
			add_coded(&one, p + name + 1, len - name - 1, false);
		param[n++] = strdup(one.at);
	}
	qsort(param, n, sizeof(*param), by_text);
	for (size_t i = 0; i < n; i++) {
		add_str(to, i ? "&" : "");
		add_str(to, param[i]);
		free(param[i]);
	}
}

/* The value of a header, blanks around it gone and those in it made one. */
static bool value_of(const char *head, const char *name, size_t name_len, struct text *to)
{
	for (const char *line = strstr(head, "\r\n"); line; line = strstr(line + 2, "\r\n")) {
		const char *at = line + 2, *end = at + strcspn(at, "\r");
		if (strncasecmp(at, name, name_len) != 0 || at[name_len] != ':')
			continue;
		for (at += name_len + 1; at < end && *at == ' '; at++)
			;
		while (end > at && end[-1] == ' ')
			end--;
		for (; at < end; at++)
			if (*at != ' ' || at[1] != ' ')
				add(to, at, 1);
		return true;
	}
	return false;
}

static bool signed_has(const char *list, const char *name, size_t len)
{
	for (const char *p = list; *p; p += strcspn(p, ";"), p += *p == ';')
		if (strcspn(p, ";") == len && strncasecmp(p, name, len) == 0)
			return true;
	return false;
}

/* host, and all that are Amazon's own. */
static bool all_signed(const char *head, const char *list)
{
	if (!signed_has(list, "host", 4))
		return false;
	for (const char *line = strstr(head, "\r\n"); line; line = strstr(line + 2, "\r\n"))
		if (strncasecmp(line + 2, "x-amz-", 6) == 0 &&
		    !signed_has(list, line + 2, strcspn(line + 2, ":")))
			return false;
	return true;
}

static bool wrong(struct sf_sigv4_said *ret, const char *why)
{
	ret->why = why;
	return false;
}

bool sf_sigv4_check(const char *method, const char *target, const char *head, const char *secret,
                    struct sf_sigv4_said *ret)
{
	struct text auth = { .len = 0 }, date = { .len = 0 }, creq = { .len = 0 },
		    hash = { .len = 0 }, token = { .len = 0 };
	char day[16], list[512], given[80], key[256], sts[512], right[65];
	uint8_t d[SF_SHA256_BYTES];
	const char *query = strchr(target, '?');
	struct tm tm = { 0 };

	*ret = (struct sf_sigv4_said){ .why = NULL };
	if (!value_of(head, "authorization", 13, &auth))
		return wrong(ret, "it is not signed");
	if (sscanf(auth.at,
	           "AWS4-HMAC-SHA256 Credential=%63[^/]/%15[0-9]/%63[^/]/s3/aws4_request, "
	           "SignedHeaders=%511[^,], Signature=%79s",
	           ret->key_id, day, ret->region, list, given) != 5)
		return wrong(ret, "Authorization has another form");
	if (!value_of(head, "x-amz-date", 10, &date) || !strptime(date.at, "%Y%m%dT%H%M%SZ", &tm))
		return wrong(ret, "x-amz-date has another form");
	ret->time = timegm(&tm);
	if (strncmp(date.at, day, 8) != 0)
		return wrong(ret, "the scope is of another day");
	if (value_of(head, "x-amz-security-token", 20, &token))
		snprintf(ret->token, sizeof(ret->token), "%.127s", token.at);
	if (!all_signed(head, list))
		return wrong(ret, "a header that must be signed is not");
	if (!value_of(head, "x-amz-content-sha256", 20, &hash))
		return wrong(ret, "no x-amz-content-sha256");

	add_str(&creq, method);
	add_str(&creq, "\n");
	add_coded(&creq, target, strcspn(target, "?"), true);
	add_str(&creq, "\n");
	add_query(&creq, query ? query + 1 : "");
	add_str(&creq, "\n");
	for (const char *p = list; *p; p += strcspn(p, ";"), p += *p == ';') {
		add(&creq, p, strcspn(p, ";"));
		add_str(&creq, ":");
		if (!value_of(head, p, strcspn(p, ";"), &creq))
			return wrong(ret, "a header that is signed is not there");
		add_str(&creq, "\n");
	}
	add_str(&creq, "\n");
	add_str(&creq, list);
	add_str(&creq, "\n");
	add_str(&creq, hash.at);
	sf_sha256(creq.at, creq.len, d);
	hex(d, right);
	snprintf(sts, sizeof(sts), "AWS4-HMAC-SHA256\n%.20s\n%s/%s/s3/aws4_request\n%s", date.at,
	         day, ret->region, right);
	snprintf(key, sizeof(key), "AWS4%s%s", secret, ret->key_id);
	hmac(key, strlen(key), day, d);
	hmac(d, sizeof(d), ret->region, d);
	hmac(d, sizeof(d), "s3", d);
	hmac(d, sizeof(d), "aws4_request", d);
	hmac(d, sizeof(d), sts, d);
	hex(d, right);
	return strcmp(right, given) == 0 || wrong(ret, "it does not match");
}
