#include "config.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "parse/npy.h"

/* The header's text: a Python dict of three keys. */
struct cursor {
	const char *at, *end;
};

static void skip_blanks(struct cursor *c)
{
	while (c->at < c->end && strchr(" \t\n", *c->at))
		c->at++;
}

static bool take(struct cursor *c, char what)
{
	skip_blanks(c);
	if (c->at == c->end || *c->at != what)
		return false;
	c->at++;
	return true;
}

static bool take_word(struct cursor *c, const char *word)
{
	size_t len = strlen(word);

	skip_blanks(c);
	if ((size_t)(c->end - c->at) < len || memcmp(c->at, word, len) != 0)
		return false;
	c->at += len;
	return true;
}

/* 'text' or "text", without escapes: *ret_len bytes of it. */
static bool take_text(struct cursor *c, const char **ret, size_t *ret_len)
{
	char quote = '\'';

	if (!take(c, quote) && !take(c, quote = '"'))
		return false;
	const char *end = memchr(c->at, quote, (size_t)(c->end - c->at));
	if (!end || memchr(c->at, '\\', (size_t)(end - c->at)))
		return false;
	*ret = c->at;
	*ret_len = (size_t)(end - c->at);
	c->at = end + 1;
	return true;
}

static bool take_number(struct cursor *c, uint64_t *ret)
{
	const char *begin;

	skip_blanks(c);
	begin = c->at;
	*ret = 0;
	for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
		if (!sf_mul(*ret, 10, ret) || !sf_add(*ret, (uint64_t)(*c->at - '0'), ret))
			return false;
	return c->at > begin;
}

/* "(3, 4)", "(3,)", "()" */
static bool take_shape(struct cursor *c, struct sf_npy *npy)
{
	if (!take(c, '('))
		return false;
	while (!take(c, ')')) {
		if (npy->ndim == SF_NPY_DIMS_MAX || !take_number(c, &npy->shape[npy->ndim]))
			return false;
		npy->ndim++;
		if (!take(c, ',') && !(c->at < c->end && *c->at == ')'))
			return false;
	}
	return true;
}

/* What numpy calls it; bfloat16 as our own files have it. '|V1' may be one of several. */
static enum sf_dtype dtype_of(const char *descr, size_t len)
{
	for (unsigned d = SF_DTYPE_NONE + 1; d < SF_NDTYPES; d++) {
		const char *npy = sf_dtype_info((enum sf_dtype)d)->npy;
		if (npy && strlen(npy) == len && strcmp(npy, "|V1") != 0 &&
		    memcmp(npy + 1, descr + 1, len - 1) == 0 &&
		    (descr[0] == npy[0] || descr[0] == '=' || descr[0] == '|'))
			return (enum sf_dtype)d;
	}
	return SF_DTYPE_NONE;
}

static int take_descr(struct cursor *c, struct sf_npy *npy, struct sf_error *err)
{
	const char *descr;
	size_t len;

	if (!take_text(c, &descr, &len) || !len)
		return -EBADMSG;
	npy->dtype = dtype_of(descr, len);
	if (npy->dtype == SF_DTYPE_NONE)
		return sf_fail(err, -ENOTSUP, "dtype '%.*s' is not supported",
		               (int)SF_MIN(len, (size_t)40), descr);
	return 0;
}

static int take_dict(struct cursor *c, struct sf_npy *npy, struct sf_error *err)
{
	unsigned seen = 0;
	bool ok = take(c, '{');

	while (ok && !take(c, '}')) {
		const char *key;
		size_t len;
		int r = 0;
		ok = take_text(c, &key, &len) && take(c, ':');
		if (ok && len == 5 && memcmp(key, "descr", 5) == 0 && !(seen & 1)) {
			r = take_descr(c, npy, err);
			seen |= 1;
		} else if (ok && len == 13 && memcmp(key, "fortran_order", 13) == 0 &&
		           !(seen & 2)) {
			npy->fortran = take_word(c, "True");
			ok = npy->fortran || take_word(c, "False");
			seen |= 2;
		} else {
			ok = ok && len == 5 && memcmp(key, "shape", 5) == 0 && !(seen & 4) &&
			     take_shape(c, npy);
			seen |= 4;
		}
		if (r == -ENOTSUP)
			return r;
		ok = ok && r >= 0 && (take(c, ',') || (c->at < c->end && *c->at == '}'));
	}
	return ok && seen == 7 ? 0 : sf_fail(err, -EBADMSG, "the header of a .npy is malformed");
}

int sf_npy_head(const uint8_t *at, size_t len, size_t *ret_len, struct sf_error *err)
{
	if (len < SF_NPY_HEAD || memcmp(at, "\x93NUMPY", 6) != 0)
		return sf_fail(err, -EBADMSG, "not a .npy file");
	if (at[6] < 1 || at[6] > 3)
		return sf_fail(err, -ENOTSUP, ".npy of version %u", at[6]);
	*ret_len = at[6] == 1 ? 10 + (size_t)sf_le16(at + 8) : 12 + (size_t)sf_le32(at + 8);
	return *ret_len > SF_NPY_HEADER_MAX
	               ? sf_fail(err, -E2BIG, "a .npy header of %zu bytes, the limit is %d",
	                         *ret_len, SF_NPY_HEADER_MAX)
	               : 0;
}

int sf_npy_parse(const uint8_t *at, size_t len, struct sf_npy *ret, struct sf_error *err)
{
	struct sf_npy npy = { .ndim = 0 };
	size_t head = 0;
	int r = sf_npy_head(at, len, &head, err);

	if (r < 0)
		return r;
	if (head > len || head < 10u + 2 * (at[6] > 1))
		return sf_fail(err, -EBADMSG, "a .npy header of %zu bytes, %zu are there", head,
		               len);
	struct cursor c = { (const char *)at + 10 + 2 * (at[6] > 1), (const char *)at + head };
	r = take_dict(&c, &npy, err);
	if (r < 0)
		return r;
	npy.data_off = head;
	npy.bytes = sf_dtype_info(npy.dtype)->bytes;
	for (unsigned d = 0; d < npy.ndim; d++)
		if (!sf_mul(npy.bytes, npy.shape[d], &npy.bytes) || npy.bytes >> 63)
			return sf_fail(err, -EBADMSG, "a .npy of more than 2^63 bytes");
	*ret = npy;
	return 0;
}
