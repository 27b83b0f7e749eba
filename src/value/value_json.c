#include "config.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "value/value_json.h"

#define EXACT_INT (INT64_C(1) << 53) /* what every JSON reader keeps exactly */
#define LONG_MAX_BYTES 65536         /* of an integer: 157,826 digits. They cost n^2 */
#define LONG_MAX_WORDS (UINT64_C(1) + LONG_MAX_BYTES / 4)
/* Divisions of all integers of a value: as many as one of the largest takes, half a second. */
#define DIVISIONS_MAX (LONG_MAX_WORDS * LONG_MAX_WORDS / 2)

static bool is_surrogate(const uint8_t *p, size_t left)
{
	return left >= 3 && p[0] == 0xed && p[1] >= 0xa0 && p[1] < 0xc0 && (p[2] & 0xc0) == 0x80;
}

/* Strings are UTF-8 with surrogates passed through: those are \uXXXX in JSON, the rest is
 * sf_escape_json's. */
void sf_vj_str(struct sf_vj *j, const char *s, size_t len)
{
	const uint8_t *p = (const uint8_t *)s;
	size_t from = 0, i = 0, at;

	if (sf_utf8_valid(s, len)) {
		sf_escape_json(j->out, s, len);
		return;
	}
	sf_buf_byte(j->out, '"');
	while (from < len) {
		for (i = from; i < len && !is_surrogate(p + i, len - i);)
			i++;
		at = j->out->len;
		if (i > from) { /* without its quotes */
			sf_escape_json(j->out, s + from, i - from);
			if (sf_buf_check(j->out) < 0)
				return;
			memmove(j->out->at + at, j->out->at + at + 1, j->out->len - at - 2);
			j->out->len -= 2;
		}
		for (; i < len && is_surrogate(p + i, len - i); i += 3)
			sf_buf_printf(j->out, "\\u%04x",
			              0xd000u | (p[i + 1] & 0x3fu) << 6 | (p[i + 2] & 0x3fu));
		from = i;
	}
	sf_buf_byte(j->out, '"');
}

void sf_vj_double(struct sf_vj *j, double f, bool single)
{
	char text[40];

	if (!isfinite(f)) {
		sf_buf_printf(j->out, "{\"$float\": \"%s\"}",
		              isnan(f) ? "nan"
		              : f > 0  ? "inf"
		                       : "-inf");
		return;
	}
	for (int digits = single ? 6 : 15;; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, f);
		if (digits >= 17 ||
		    (single ? strtof(text, NULL) == (float)f : strtod(text, NULL) == f))
			break;
	}
	sf_buf_str(j->out, text);
	if (!strpbrk(text, ".e")) /* a float stays one */
		sf_buf_str(j->out, ".0");
}

void sf_vj_int(struct sf_vj *j, int64_t i)
{
	if (i >= -EXACT_INT && i <= EXACT_INT)
		sf_buf_printf(j->out, "%" PRId64, i);
	else
		sf_buf_printf(j->out, "{\"$int\": \"%" PRId64 "\"}", i);
}

void sf_vj_uint(struct sf_vj *j, uint64_t i)
{
	if (i <= (uint64_t)EXACT_INT)
		sf_buf_printf(j->out, "%" PRIu64, i);
	else
		sf_buf_printf(j->out, "{\"$int\": \"%" PRIu64 "\"}", i);
}

/* The decimal digits of @word[0 … n), which is used up; nine at a time from the lowest. */
static int put_decimal(struct sf_vj *j, uint32_t *word, size_t n)
{
	SF_FREE uint32_t *nine = sf_alloc_array(n * 32 / 29 + 1, sizeof(*nine));
	size_t k = 0;

	if (!nine)
		return -ENOMEM;
	while (n > 0 && word[n - 1] == 0)
		n--;
	while (n > 0) {
		uint64_t rest = 0;
		for (size_t i = n; i-- > 0;) {
			rest = rest << 32 | word[i];
			word[i] = (uint32_t)(rest / 1000000000);
			rest %= 1000000000;
		}
		nine[k++] = (uint32_t)rest;
		while (n > 0 && word[n - 1] == 0)
			n--;
	}
	sf_buf_printf(j->out, "%" PRIu32, k ? nine[--k] : 0);
	while (k > 0)
		sf_buf_printf(j->out, "%09" PRIu32, nine[--k]);
	return 0;
}

/* Two's complement, little-endian. */
static int put_long(struct sf_vj *j, const char *at, size_t len)
{
	bool negative = len > 0 && (at[len - 1] & 0x80);
	size_t nwords = len / 4 + 1;
	SF_FREE uint32_t *word = NULL;
	unsigned carry = 1;

	if (len > LONG_MAX_BYTES)
		return sf_fail(j->err, -E2BIG,
		               "an integer of %zu bytes as decimal digits, the limit is %u", len,
		               LONG_MAX_BYTES);
	j->divisions += (uint64_t)nwords * nwords / 2;
	if (j->divisions > DIVISIONS_MAX)
		return sf_fail(j->err, -E2BIG,
		               "integers of more decimal digits than are worked out for one value: "
		               "this one has %zu bytes, the limit for one alone is %u, and shared "
		               "ones count each time",
		               len, LONG_MAX_BYTES);
	word = calloc(nwords, sizeof(*word));
	if (!word)
		return -ENOMEM;
	for (size_t i = 0; i < len; i++) { /* magnitude */
		unsigned byte = (uint8_t)at[i];
		if (negative) {
			byte = (byte ^ 0xff) + carry;
			carry = byte >> 8;
		}
		word[i / 4] |= (byte & 0xff) << 8 * (i % 4);
	}
	sf_buf_printf(j->out, "{\"$int\": \"%s", negative ? "-" : "");
	int r = put_decimal(j, word, nwords);
	sf_buf_str(j->out, "\"}");
	return r;
}

void sf_vj_base64(struct sf_vj *j, const char *s, size_t len)
{
	static const char set[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const uint8_t *p = (const uint8_t *)s;
	char *q;

	sf_buf_str(j->out, "{\"$bytes\": \"");
	q = len < SIZE_MAX / 2 ? sf_buf_extend(j->out, (len + 2) / 3 * 4) : NULL;
	for (size_t i = 0; i < len && q; i += 3, q += 4) {
		uint32_t v = (uint32_t)p[i] << 16 | (i + 1 < len ? (uint32_t)p[i + 1] << 8 : 0) |
		             (i + 2 < len ? p[i + 2] : 0);
		q[0] = set[v >> 18];
		q[1] = set[v >> 12 & 63];
		q[2] = i + 1 < len ? set[v >> 6 & 63] : '=';
		q[3] = i + 2 < len ? set[v & 63] : '=';
	}
	sf_buf_str(j->out, "\"}");
}

int sf_vj_seq(struct sf_vj *j, const struct sf_pv *v)
{
	int r = 0;

	sf_buf_byte(j->out, '[');
	for (size_t i = 0; i < v->seq.n && r >= 0; i++) {
		if (i > 0)
			sf_buf_str(j->out, ", ");
		r = sf_vj_value(j, v->seq.at[i]);
	}
	sf_buf_byte(j->out, ']');
	return r;
}

/* A JSON object needs string keys, and none that our own marks could be mistaken for. */
static bool plain_keys(const struct sf_pv *v)
{
	for (size_t i = 0; i + 1 < v->seq.n; i += 2) {
		const struct sf_pv *k = v->seq.at[i];
		if (k->kind != SF_PV_STR || (k->str.len > 0 && k->str.at[0] == '$'))
			return false;
	}
	return true;
}

int sf_vj_dict(struct sf_vj *j, const struct sf_pv *v)
{
	bool plain = plain_keys(v);
	int r = 0;

	sf_buf_str(j->out, plain ? "{" : "{\"$dict\": [");
	for (size_t i = 0; i + 1 < v->seq.n && r >= 0; i += 2) {
		if (i > 0)
			sf_buf_str(j->out, ", ");
		if (!plain)
			sf_buf_byte(j->out, '[');
		r = sf_vj_value(j, v->seq.at[i]);
		sf_buf_str(j->out, plain ? ": " : ", ");
		if (r >= 0)
			r = sf_vj_value(j, v->seq.at[i + 1]);
		if (!plain)
			sf_buf_byte(j->out, ']');
	}
	sf_buf_str(j->out, plain ? "}" : "]}");
	return r;
}

static int typed_seq(struct sf_vj *j, const char *type, const struct sf_pv *v)
{
	sf_buf_printf(j->out, "{\"$type\": \"%s\", \"value\": ", type);
	int r = sf_vj_seq(j, v);
	sf_buf_byte(j->out, '}');
	return r;
}

static int put_value(struct sf_vj *j, const struct sf_pv *v)
{
	switch ((enum sf_pv_kind)v->kind) {
	case SF_PV_NONE:
		sf_buf_str(j->out, "null");
		return 0;
	case SF_PV_BOOL:
		sf_buf_str(j->out, v->b ? "true" : "false");
		return 0;
	case SF_PV_INT:
		sf_vj_int(j, v->i);
		return 0;
	case SF_PV_LONG:
		return put_long(j, v->str.at, v->str.len);
	case SF_PV_FLOAT:
		sf_vj_double(j, v->f, false);
		return 0;
	case SF_PV_STR:
		sf_vj_str(j, v->str.at, v->str.len);
		return 0;
	case SF_PV_BYTES:
		sf_vj_base64(j, v->str.at, v->str.len);
		return 0;
	case SF_PV_BYTEARRAY:
		sf_buf_str(j->out, "{\"$type\": \"bytearray\", \"value\": ");
		sf_vj_base64(j, v->str.at, v->str.len);
		sf_buf_byte(j->out, '}');
		return 0;
	case SF_PV_TUPLE:
	case SF_PV_LIST:
		return sf_vj_seq(j, v);
	case SF_PV_DICT:
		return sf_vj_dict(j, v);
	case SF_PV_SET:
		return typed_seq(j, "set", v);
	case SF_PV_FROZENSET:
		return typed_seq(j, "frozenset", v);
	case SF_PV_GLOBAL:
	case SF_PV_CALL:
	case SF_PV_OBJECT:
	case SF_PV_PERSID:
		return sf_vj_class(j, v);
	}
	return sf_fail(j->err, -EBADMSG, "a value of unknown kind %u", v->kind);
}

int sf_vj_value(struct sf_vj *j, const struct sf_pv *v)
{
	bool opened = false;

	if (!v) {
		sf_buf_str(j->out, "null");
		return 0;
	}
	if (++j->nodes > SF_VJ_NODES)
		return sf_fail(j->err, -E2BIG, "more than %u values (shared ones count each time)",
		               SF_VJ_NODES);
	if (j->depth >= SF_VJ_DEPTH)
		return sf_fail(j->err, -E2BIG, "nested deeper than %u", SF_VJ_DEPTH);
	if (sf_buf_check(j->out) < 0) /* past the limit on bytes: stop walking */
		return sf_fail(j->err, sf_buf_check(j->out),
		               "a value of more than %u bytes as JSON", SF_VJ_BYTES);
	if (v->shared && v->kind >= SF_PV_TUPLE) {
		for (unsigned i = 0; i < j->nopen; i++)
			if (j->open[i] == v) {
				sf_buf_str(j->out, "{\"$cycle\": true}");
				return 0;
			}
		j->open[j->nopen++] = v;
		opened = true;
	}
	j->depth++;
	int r = put_value(j, v);
	j->depth--;
	if (opened)
		j->nopen--;
	return r;
}

int sf_value_json(struct sf_buf *out, const struct sf_pv *v, struct sf_error *err)
{
	struct sf_vj j = { .out = out, .err = err };

	int r = sf_vj_value(&j, v);
	if (r < 0)
		return r;
	r = sf_buf_check(out);
	return r < 0 ? sf_fail(err, r, "a value of %zu bytes as JSON", out->len) : 0;
}
