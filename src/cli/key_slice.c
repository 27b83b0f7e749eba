#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "catalog/key_near.h"
#include "cli/key_slice.h"

/* A whole number at *@s, if there is one: 1, 0, or -ERANGE past 2^63. */
static int number(const char **s, int64_t *ret)
{
	const char *p = *s;
	bool minus = *p == '-';
	uint64_t v = 0;

	p += *p == '-' || *p == '+';
	if (*p < '0' || *p > '9')
		return 0;
	for (; *p >= '0' && *p <= '9'; p++)
		if (!sf_mul(v, 10, &v) || !sf_add(v, (uint64_t)(*p - '0'), &v) || v > INT64_MAX)
			return -ERANGE;
	*s = p;
	*ret = minus ? -(int64_t)v : (int64_t)v;
	return 1;
}

static void blanks(const char **s)
{
	*s += strspn(*s, " ");
}

enum { NO_SLICE = 0, SLICE = 1, A_STEP = -EINVAL, TOO_LARGE = -ERANGE };

/* One item up to ',' or ']'. */
static int item(const char **s, struct sf_slice_item *ret)
{
	int r;

	*ret = (struct sf_slice_item){ .kind = SF_SLICE_INDEX };
	blanks(s);
	if (strncmp(*s, "...", 3) == 0) {
		ret->kind = SF_SLICE_ELLIPSIS;
		*s += 3;
	} else {
		r = number(s, &ret->from);
		if (r < 0)
			return r;
		ret->has_from = r > 0;
		blanks(s);
		if (**s == ':') {
			ret->kind = SF_SLICE_RANGE;
			++*s;
			blanks(s);
			r = number(s, &ret->to);
			if (r < 0)
				return r;
			ret->has_to = r > 0;
			blanks(s);
			if (**s == ':')
				return A_STEP;
		} else if (!ret->has_from) {
			return NO_SLICE;
		}
	}
	blanks(s);
	return **s == ',' || **s == ']' ? SLICE : NO_SLICE;
}

static int items(const char *s, struct sf_key_slice *ret)
{
	for (;;) {
		struct sf_slice_item it;
		int r = item(&s, &it);
		if (r <= 0)
			return r;
		if (ret->n == SF_ARRAY_LEN(ret->at))
			return -E2BIG;
		ret->at[ret->n++] = it;
		if (*s++ == ']')
			return *s ? NO_SLICE : SLICE;
		blanks(&s);
		if (*s == ']') /* [3,] is [3] */
			return s[1] ? NO_SLICE : SLICE;
	}
}

int sf_key_slice_parse(const char *text, struct sf_key_slice *ret, size_t *ret_key_len,
                       struct sf_error *err)
{
	const char *open = strrchr(text, '[');
	struct sf_key_slice s = { 0 };

	if (!open)
		return 0;
	int r = items(open + 1, &s);
	if (r == NO_SLICE)
		return 0;
	if (r == A_STEP)
		return sf_fail(err, -EINVAL, "'%s': a slice has no steps here", open);
	if (r < 0)
		return sf_fail(err, -EINVAL, "'%s': %s", open,
		               r == -E2BIG ? "more dimensions than a tensor has"
		                           : "a number past 2^63");
	*ret = s;
	*ret_key_len = (size_t)(open - text);
	return 1;
}

/* Where @at is in a dimension of @len: counted from the end when negative, cut to [0, @len]. */
static uint64_t clamp(int64_t at, uint64_t len)
{
	if (at < 0)
		return (uint64_t)-at > len ? 0 : len - (uint64_t)-at;
	return SF_MIN((uint64_t)at, len);
}

int sf_key_slice_box(const struct sf_key_slice *s, const uint64_t *shape, unsigned ndim,
                     struct sf_value_box *ret, struct sf_error *err)
{
	unsigned named = 0, ellipses = 0, d = 0;

	for (uint32_t i = 0; i < s->n; i++) {
		named += s->at[i].kind != SF_SLICE_ELLIPSIS;
		ellipses += s->at[i].kind == SF_SLICE_ELLIPSIS;
	}
	if (ellipses > 1)
		return sf_fail(err, -EINVAL, "a slice has at most one '...'");
	if (named > ndim)
		return sf_fail(err, -EINVAL, "a slice of %u dimensions, the tensor has %u", named,
		               ndim);
	ret->dropped = 0;
	for (unsigned k = 0; k < ndim; k++) {
		ret->origin[k] = 0;
		ret->extent[k] = shape[k];
	}
	for (uint32_t i = 0; i < s->n; i++) {
		const struct sf_slice_item *it = &s->at[i];
		if (it->kind == SF_SLICE_ELLIPSIS) {
			d += ndim - named;
			continue;
		}
		uint64_t len = shape[d], from = it->has_from ? clamp(it->from, len) : 0;
		if (it->kind == SF_SLICE_INDEX) {
			if (from == len || (it->from < 0 && (uint64_t)-it->from > len))
				return sf_fail(err, -EINVAL,
				               "index %" PRId64
				               " of dimension %u, which has %" PRIu64,
				               it->from, d, len);
			ret->extent[d] = 1;
			ret->dropped |= UINT64_C(1) << d;
		} else {
			uint64_t to = it->has_to ? clamp(it->to, len) : len;
			ret->extent[d] = to > from ? to - from : 0;
		}
		ret->origin[d++] = from;
	}
	return 0;
}

/* Appends what @key, of @len bytes and with a NUL behind, means. */
static void match(const struct sf_catalog *c, const char *key, size_t len,
                  struct sf_key_choice *ret)
{
	/* the name itself first: names may hold glob characters */
	uint32_t same = sf_catalog_find(c, key, len);

	if (same != SF_NONE)
		ret->entry[ret->n++] = same;
	for (uint32_t i = 0; i < c->n; i++)
		if (i != same && sf_key_match(key, c->entry[i].name, c->entry[i].len))
			ret->entry[ret->n++] = i;
}

int sf_key_choose(const struct sf_catalog *c, const char *text, struct sf_key_choice *ret,
                  struct sf_error *err)
{
	struct sf_key_choice ch = { .entry = sf_alloc_array(c->n, sizeof(*ch.entry)) };
	size_t len = strlen(text), key_len = len;
	struct sf_error why = SF_ERROR_INIT;
	int r = 0;

	if (!ch.entry)
		return sf_fail(err, -ENOMEM, "%" PRIu32 " keys", c->n);
	if (sf_catalog_find(c, text, len) == SF_NONE)
		r = sf_key_slice_parse(text, &ch.slice, &key_len, &why);
	/* "w[1:3]" is a glob too, for w1: where there is a w, it is a part of that */
	if (r <= 0 || sf_catalog_find(c, text, key_len) == SF_NONE)
		match(c, text, len, &ch);
	if (ch.n) {
		ch.slice.n = 0;
		r = 0;
	} else if (r < 0) {
		sf_fail(err, r, "%s", why.msg);
	} else if (r > 0) {
		SF_FREE char *key = strndup(text, key_len);
		if (key)
			match(c, key, key_len, &ch);
		else
			r = sf_fail(err, -ENOMEM, "'%s'", text);
	}
	if (r >= 0 && !ch.n)
		r = sf_catalog_no_key(c, text, key_len, err);
	if (r < 0) {
		free(ch.entry);
		return r;
	}
	*ret = ch;
	return 0;
}

void sf_key_choice_release(struct sf_key_choice *ch)
{
	free(ch->entry);
	*ch = (struct sf_key_choice){ 0 };
}
