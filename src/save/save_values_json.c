#include "config.h"

#include <inttypes.h>
#include <locale.h>
#include <string.h>

#include "base/buf.h"
#include "base/path.h"
#include "save/save_values.h"

/* A reader of its own: cJSON's numbers are doubles, and a step or a seed has 64 bits. */

enum { DEPTH_MAX = 500 };

struct json {
	struct shardfuse_values *vs;
	const char *begin, *at, *end;
	struct sf_buf text; /* of the string or number that is read */
	locale_t c; /* a program's own may want a comma in numbers; made for the first float */
	struct sf_error *err;
};

static int bad(struct json *j, const char *why)
{
	return sf_fail(j->err, -EBADMSG, "JSON: byte %zu: %s", (size_t)(j->at - j->begin), why);
}

static int no_memory(struct json *j)
{
	return sf_fail(j->err, -ENOMEM, "JSON: byte %zu: no memory", (size_t)(j->at - j->begin));
}

static void blanks(struct json *j)
{
	while (j->at < j->end &&
	       (*j->at == ' ' || *j->at == '\t' || *j->at == '\n' || *j->at == '\r'))
		j->at++;
}

/* Goes past @c if it is next. */
static bool next_is(struct json *j, char c)
{
	if (j->at == j->end || *j->at != c)
		return false;
	j->at++;
	return true;
}

/* ---- strings ---- */

static int hex4(struct json *j, uint32_t *ret)
{
	uint32_t u = 0;

	for (int i = 0; i < 4; i++) {
		char c = j->at < j->end ? *j->at : 0;
		if (c >= '0' && c <= '9')
			u = u << 4 | (uint32_t)(c - '0');
		else if ((c | 32) >= 'a' && (c | 32) <= 'f')
			u = u << 4 | (uint32_t)((c | 32) - 'a' + 10);
		else
			return bad(j, "\\u wants four hex digits");
		j->at++;
	}
	*ret = u;
	return 0;
}

/* As UTF-8; a surrogate alone as three bytes, which is how Python pickles it. */
static void put_char(struct sf_buf *b, uint32_t c)
{
	if (c >= 0x10000)
		sf_buf_byte(b, (uint8_t)(0xf0 | c >> 18));
	if (c >= 0x800)
		sf_buf_byte(b, (uint8_t)(c >= 0x10000 ? 0x80 | (c >> 12 & 0x3f) : 0xe0 | c >> 12));
	if (c >= 0x80)
		sf_buf_byte(b, (uint8_t)(c >= 0x800 ? 0x80 | (c >> 6 & 0x3f) : 0xc0 | c >> 6));
	sf_buf_byte(b, (uint8_t)(c >= 0x80 ? 0x80 | (c & 0x3f) : c));
}

/* Behind \u. A pair is one character, if its second half is one. */
static int unicode(struct json *j)
{
	uint32_t c, low;
	int r = hex4(j, &c);

	if (r < 0)
		return r;
	if (c >= 0xd800 && c < 0xdc00 && j->end - j->at >= 2 && memcmp(j->at, "\\u", 2) == 0) {
		const char *back = j->at;
		j->at += 2;
		r = hex4(j, &low);
		if (r < 0)
			return r;
		if (low >= 0xdc00 && low < 0xe000)
			c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
		else
			j->at = back;
	}
	put_char(&j->text, c);
	return 0;
}

/* Behind a backslash. */
static int escape(struct json *j)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char c = j->at < j->end ? *j->at : 0, *at = c ? strchr(from, c) : NULL;

	if (next_is(j, 'u'))
		return unicode(j);
	if (!at)
		return bad(j, "no escape of JSON's");
	j->at++;
	sf_buf_byte(&j->text, (uint8_t)to[at - from]);
	return 0;
}

/* Behind the first quote; what it says is in j->text. */
static int read_string(struct json *j)
{
	int r = 0;

	sf_buf_reset(&j->text);
	while (r == 0) {
		const char *run = j->at;
		while (j->at < j->end && *j->at != '"' && *j->at != '\\' && (uint8_t)*j->at >= 0x20)
			j->at++;
		if (!sf_utf8_valid(run, (size_t)(j->at - run)))
			return bad(j, "the string that ends here is not UTF-8");
		sf_buf_add(&j->text, run, (size_t)(j->at - run));
		if (next_is(j, '"'))
			return sf_buf_check(&j->text) < 0 ? no_memory(j) : 0;
		if (j->at == j->end)
			return bad(j, "a string has no end");
		if (!next_is(j, '\\'))
			return bad(j, "a control character in a string");
		r = escape(j);
	}
	return r;
}

static int string(struct json *j, struct shardfuse_value **ret)
{
	int r = read_string(j);

	if (r < 0)
		return r;
	*ret = sf_save_value_text(j->vs, SF_PV_STR, (const char *)j->text.at, j->text.len);
	return *ret ? 0 : no_memory(j);
}

/* ---- numbers ---- */

static size_t digits(struct json *j)
{
	const char *from = j->at;

	while (j->at < j->end && *j->at >= '0' && *j->at <= '9')
		j->at++;
	return (size_t)(j->at - from);
}

static bool to_u64(const char *p, const char *end, uint64_t *ret)
{
	*ret = 0;
	for (; p < end; p++)
		if (__builtin_mul_overflow(*ret, 10, ret) ||
		    __builtin_add_overflow(*ret, (uint64_t)(*p - '0'), ret))
			return false;
	return true;
}

static int integer(struct json *j, const char *text, bool minus, struct shardfuse_value **ret)
{
	uint64_t u;

	if (!to_u64(text + minus, j->at, &u) || (minus && u > (uint64_t)INT64_MAX + 1))
		return sf_fail(j->err, -ERANGE,
		               "JSON: byte %zu: an integer of more than 64 bits ends here",
		               (size_t)(j->at - j->begin));
	*ret = minus ? shardfuse_value_int(j->vs, (int64_t)(0 - u)) : sf_save_value_uint(j->vs, u);
	return *ret ? 0 : no_memory(j);
}

static int real(struct json *j, const char *text, struct shardfuse_value **ret)
{
	if (!j->c)
		j->c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	sf_buf_reset(&j->text);
	sf_buf_add(&j->text, text, (size_t)(j->at - text));
	sf_buf_byte(&j->text, 0);
	if (!j->c || sf_buf_check(&j->text) < 0)
		return no_memory(j);
	*ret = shardfuse_value_float(j->vs, strtod_l((const char *)j->text.at, NULL, j->c));
	return *ret ? 0 : no_memory(j);
}

static int number(struct json *j, struct shardfuse_value **ret)
{
	const char *text = j->at;
	const bool minus = next_is(j, '-');
	bool whole = true;

	if (!next_is(j, '0') && !digits(j))
		return bad(j, "no value of JSON's");
	if (next_is(j, '.')) {
		whole = false;
		if (!digits(j))
			return bad(j, "a number wants digits behind its point");
	}
	if (next_is(j, 'e') || next_is(j, 'E')) {
		whole = false;
		if (!next_is(j, '+'))
			next_is(j, '-');
		if (!digits(j))
			return bad(j, "a number wants digits in its exponent");
	}
	return whole ? integer(j, text, minus, ret) : real(j, text, ret);
}

/* ---- the rest ---- */

static int any(struct json *j, unsigned depth, struct shardfuse_value **ret);

static int array(struct json *j, unsigned depth, struct shardfuse_value **ret)
{
	struct shardfuse_value *list = shardfuse_value_list(j->vs), *v;
	int r = 0;

	*ret = list;
	blanks(j);
	if (next_is(j, ']'))
		return list ? 0 : no_memory(j);
	do {
		r = any(j, depth + 1, &v);
		if (r < 0)
			return r;
		if (shardfuse_value_append(list, v) < 0)
			return no_memory(j);
		blanks(j);
	} while (next_is(j, ','));
	return next_is(j, ']') ? 0 : bad(j, "an array wants ',' or ']'");
}

static int object(struct json *j, unsigned depth, struct shardfuse_value **ret)
{
	struct shardfuse_value *dict = shardfuse_value_dict(j->vs), *key, *v;
	int r;

	*ret = dict;
	blanks(j);
	if (next_is(j, '}'))
		return dict ? 0 : no_memory(j);
	do {
		blanks(j);
		if (!next_is(j, '"'))
			return bad(j, "an object wants a string for a key");
		r = string(j, &key);
		if (r < 0)
			return r;
		blanks(j);
		if (!next_is(j, ':'))
			return bad(j, "an object wants ':' behind its key");
		r = any(j, depth + 1, &v);
		if (r < 0)
			return r;
		if (sf_save_value_set(dict, key, v, true) < 0)
			return no_memory(j);
		blanks(j);
	} while (next_is(j, ','));
	return next_is(j, '}') ? 0 : bad(j, "an object wants ',' or '}'");
}

static bool word_is(struct json *j, const char *word)
{
	const size_t n = strlen(word);

	if ((size_t)(j->end - j->at) < n || memcmp(j->at, word, n) != 0)
		return false;
	j->at += n;
	return true;
}

static int any(struct json *j, unsigned depth, struct shardfuse_value **ret)
{
	if (depth > DEPTH_MAX)
		return sf_fail(j->err, -E2BIG, "JSON: byte %zu: nested deeper than %d",
		               (size_t)(j->at - j->begin), DEPTH_MAX);
	blanks(j);
	if (next_is(j, '{'))
		return object(j, depth, ret);
	if (next_is(j, '['))
		return array(j, depth, ret);
	if (next_is(j, '"'))
		return string(j, ret);
	if (word_is(j, "null"))
		*ret = shardfuse_value_none(j->vs);
	else if (word_is(j, "true"))
		*ret = shardfuse_value_bool(j->vs, 1);
	else if (word_is(j, "false"))
		*ret = shardfuse_value_bool(j->vs, 0);
	else
		return number(j, ret);
	return *ret ? 0 : no_memory(j);
}

int sf_save_value_json(struct shardfuse_values *vs, const char *json, size_t len,
                       struct shardfuse_value **ret, struct sf_error *err)
{
	struct json j = { .vs = vs, .begin = json, .at = json, .end = json + len, .err = err };
	struct shardfuse_value *v = NULL;
	int r = any(&j, 0, &v);

	if (r == 0) {
		blanks(&j);
		if (j.at < j.end)
			r = bad(&j, "something behind the value");
	}
	if (j.c)
		freelocale(j.c);
	sf_buf_release(&j.text);
	if (r == 0)
		*ret = v;
	return r;
}
