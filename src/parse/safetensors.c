#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/vec.h"
#include "parse/safetensors.h"
#include "parse/torch_item.h"

#define DEPTH_MAX 64 /* of values that are skipped */

/*
 * A header of 10^6 tensors is 100 MB of JSON with one shape, so it is read as it comes, without a
 * tree. What the real reader (safetensors' tensor.rs over serde_json) refuses is refused here.
 */
SF_VEC(sf_st_tensors, struct sf_st_tensor);
struct scan {
	const char *p, *end, *begin;
	struct sf_arena *arena;
	struct sf_error *err;
};

static int bad(const struct scan *s, const char *what)
{
	return sf_fail(s->err, -EBADMSG, "safetensors: header byte %zu: %s",
	               (size_t)(s->p - s->begin), what);
}

static int no_memory(const struct scan *s)
{
	return sf_fail(s->err, -ENOMEM, "safetensors: header byte %zu: out of memory",
	               (size_t)(s->p - s->begin));
}

static char peek(struct scan *s)
{
	while (s->p < s->end && (*s->p == ' ' || *s->p == '\n' || *s->p == '\r' || *s->p == '\t'))
		s->p++;
	return s->p < s->end ? *s->p : '\0';
}

static bool accept(struct scan *s, char c)
{
	if (peek(s) != c)
		return false;
	s->p++;
	return true;
}

static int expect(struct scan *s, char c)
{
	char what[] = "expected ' '";

	if (accept(s, c))
		return 0;
	what[10] = c;
	return bad(s, what);
}

static int hex4(struct scan *s, uint32_t *ret)
{
	uint32_t u = 0;

	if (s->end - s->p < 4)
		return bad(s, "a \\u is cut");
	for (int i = 0; i < 4; i++) {
		char c = *s->p++, low = (char)(c | 0x20);
		if (c >= '0' && c <= '9')
			u = u << 4 | (uint32_t)(c - '0');
		else if (low >= 'a' && low <= 'f')
			u = u << 4 | (uint32_t)(low - 'a' + 10);
		else
			return bad(s, "a bad \\u");
	}
	*ret = u;
	return 0;
}

static size_t put_utf8(char *out, uint32_t c)
{
	size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	static const uint8_t first[] = { 0, 0, 0xc0, 0xe0, 0xf0 };

	for (size_t i = n; i-- > 1; c >>= 6)
		out[i] = (char)(0x80 | (c & 0x3f));
	out[0] = (char)(first[n] | c);
	return n;
}

static int escape(struct scan *s, char *out, size_t *n)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char *at = *s->p ? strchr(from, *s->p) : NULL;
	uint32_t c, low;
	int r;

	if (at) {
		s->p++;
		out[(*n)++] = to[at - from];
		return 0;
	}
	if (*s->p != 'u')
		return bad(s, "an unknown escape");
	s->p++;
	r = hex4(s, &c);
	if (r < 0)
		return r;
	if (c >= 0xd800 && c < 0xe000) {
		if (c >= 0xdc00 || s->end - s->p < 2 || s->p[0] != '\\' || s->p[1] != 'u')
			return bad(s, "a surrogate alone");
		s->p += 2;
		r = hex4(s, &low);
		if (r < 0)
			return r;
		if (low < 0xdc00 || low > 0xdfff)
			return bad(s, "a surrogate alone");
		c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
	}
	*n += put_utf8(out + *n, c);
	return 0;
}

/* A string, in the arena with a NUL behind when it has escapes or @copy; else it borrows from the
 * text, until copied. */
static int string(struct scan *s, bool copy, const char **ret, size_t *ret_len)
{
	const char *from, *q;
	size_t n = 0;
	char *out;
	int r = expect(s, '"');

	if (r < 0)
		return r;
	from = q = s->p;
	while (q < s->end && *q != '"' && *q != '\\' && (uint8_t)*q >= 0x20)
		q++;
	if (q < s->end && *q == '"' && !copy) {
		s->p = q + 1;
		*ret = from;
		*ret_len = (size_t)(q - from);
		return 0;
	}
	for (q = from; q < s->end && *q != '"';
	     q++) /* an upper bound: escapes are longer than what they mean */
		q += *q == '\\' && q + 1 < s->end;
	out = sf_arena_alloc(s->arena, (size_t)(q - from) + 1);
	if (!out)
		return no_memory(s);
	while (s->p < s->end && *s->p != '"') {
		if ((uint8_t)*s->p < 0x20)
			return bad(s, "a control character in a string");
		if (*s->p != '\\') {
			out[n++] = *s->p++;
			continue;
		}
		if (++s->p == s->end)
			break;
		r = escape(s, out, &n);
		if (r < 0)
			return r;
	}
	if (s->p >= s->end)
		return bad(s, "a string without an end");
	s->p++;
	out[n] = '\0';
	*ret = out;
	*ret_len = n;
	return 0;
}

static int natural(struct scan *s, uint64_t *ret)
{
	uint64_t u = 0;
	const char *from;

	peek(s);
	from = s->p;
	for (; s->p < s->end && *s->p >= '0' && *s->p <= '9'; s->p++)
		if (!sf_mul(u, 10, &u) || !sf_add(u, (uint64_t)(*s->p - '0'), &u))
			return bad(s, "a number over 2^64");
	if (s->p == from || (*from == '0' && s->p - from > 1) ||
	    (s->p < s->end && strchr(".eE", *s->p) && *s->p))
		return bad(s, "expected a whole number");
	*ret = u;
	return 0;
}

/* Any value: of a field nobody reads. */
static int skip_value(struct scan *s)
{
	char open[DEPTH_MAX];
	unsigned depth = 0;
	const char *text;
	size_t len;
	int r;

	do {
		char c = peek(s);
		if (c == '"') {
			r = string(s, false, &text, &len);
			if (r < 0)
				return r;
		} else if (c == '{' || c == '[') {
			if (depth == DEPTH_MAX)
				return sf_fail(s->err, -E2BIG,
				               "safetensors: header nested deeper than %d",
				               DEPTH_MAX);
			open[depth++] = c;
			s->p++;
			c = peek(s);
			if (c != (open[depth - 1] == '{' ? '}' : ']')) {
				if (open[depth - 1] == '[')
					continue;
				r = string(s, false, &text, &len);
				if (r == 0)
					r = expect(s, ':');
				if (r < 0)
					return r;
				continue;
			}
		} else {
			const char *from = s->p;
			while (s->p < s->end && *s->p && strchr("+-.0123456789aeflnrstuE", *s->p))
				s->p++;
			if (s->p == from)
				return bad(s, "expected a value");
		}
		while (depth) { /* a value has ended: the next one, or the ends of those around it */
			if (accept(s, ',')) {
				if (open[depth - 1] == '{') {
					r = string(s, false, &text, &len);
					if (r == 0)
						r = expect(s, ':');
					if (r < 0)
						return r;
				}
				break;
			}
			r = expect(s, open[depth - 1] == '{' ? '}' : ']');
			if (r < 0)
				return r;
			depth--;
		}
	} while (depth);
	return 0;
}

/* "__metadata__": strings only. */
static int metadata(struct scan *s, const char **ret_sharding)
{
	const char *key, *value;
	size_t len, value_len;
	int r = expect(s, '{');

	if (r < 0 || accept(s, '}'))
		return r;
	do {
		r = string(s, false, &key, &len);
		if (r == 0)
			r = expect(s, ':');
		if (r < 0)
			return r;
		bool sharding = len == 17 && memcmp(key, "DCP_SHARDING_INFO", 17) == 0;
		r = string(s, sharding, &value, &value_len);
		if (r < 0)
			return r;
		if (sharding) {
			if (memchr(value, '\0', value_len))
				return bad(s, "a NUL in DCP_SHARDING_INFO");
			*ret_sharding = value;
		}
	} while (accept(s, ','));
	return expect(s, '}');
}

struct entry {
	uint64_t shape[SF_DIMS_MAX], offsets[2];
	unsigned ndim, noffsets;
	const char *dtype;
	size_t dtype_len;
	bool has_shape;
};

static int naturals(struct scan *s, uint64_t *at, unsigned max, unsigned *ret_n)
{
	int r = expect(s, '[');

	*ret_n = 0;
	if (r < 0 || accept(s, ']'))
		return r;
	do {
		if (*ret_n == max)
			return sf_fail(s->err, max == 2 ? -EBADMSG : -E2BIG,
			               "safetensors: header byte %zu: more than %u numbers",
			               (size_t)(s->p - s->begin), max);
		r = natural(s, &at[(*ret_n)++]);
		if (r < 0)
			return r;
	} while (accept(s, ','));
	return expect(s, ']');
}

static int entry(struct scan *s, struct entry *e)
{
	const char *key;
	size_t len;
	int r = expect(s, '{');

	if (r < 0)
		return r;
	if (!accept(s, '}')) {
		do {
			r = string(s, false, &key, &len);
			if (r == 0)
				r = expect(s, ':');
			if (r < 0)
				return r;
			if (len == 5 && memcmp(key, "dtype", 5) == 0) {
				r = string(s, false, &e->dtype, &e->dtype_len);
			} else if (len == 5 && memcmp(key, "shape", 5) == 0) {
				r = naturals(s, e->shape, SF_DIMS_MAX, &e->ndim);
				e->has_shape = true;
			} else if (len == 12 && memcmp(key, "data_offsets", 12) == 0) {
				r = naturals(s, e->offsets, 2, &e->noffsets);
			} else {
				r = skip_value(s);
			}
			if (r < 0)
				return r;
		} while (accept(s, ','));
		r = expect(s, '}');
		if (r < 0)
			return r;
	}
	return e->dtype && e->has_shape && e->noffsets == 2
	               ? 0
	               : bad(s, "a tensor without dtype, shape or data_offsets");
}

/* The entry of a name, checked for itself. */
static int tensor(const struct scan *s, struct entry *e, struct sf_st_tensor *t)
{
	const struct sf_dtype_info *info;
	uint64_t numel = 1, bytes = 0;
	uint64_t *shape;

	t->dtype = (uint8_t)sf_dtype_by_safetensors(e->dtype, e->dtype_len);
	if (!t->dtype)
		return sf_fail(s->err, -ENOTSUP, "safetensors: '%.*s': dtype '%.*s'",
		               (int)SF_MIN(t->name_len, (size_t)256), t->name,
		               (int)SF_MIN(e->dtype_len, (size_t)32), e->dtype);
	info = sf_dtype_info((enum sf_dtype)t->dtype);
	if (t->dtype == SF_F4_E2M1FN_X2) { /* the header counts halves of bytes */
		if (!e->ndim || e->shape[e->ndim - 1] % 2)
			return sf_fail(s->err, -EBADMSG, "safetensors: '%.*s': an odd number of F4",
			               (int)SF_MIN(t->name_len, (size_t)256), t->name);
		e->shape[e->ndim - 1] /= 2;
	}
	for (unsigned d = 0; d < e->ndim; d++)
		if (!sf_mul(numel, e->shape[d], &numel))
			return sf_fail(s->err, -EBADMSG, "safetensors: '%.*s': its shape overflows",
			               (int)SF_MIN(t->name_len, (size_t)256), t->name);
	if (e->offsets[0] > e->offsets[1] || !sf_mul(numel, info->bytes, &bytes) ||
	    e->offsets[1] - e->offsets[0] != bytes)
		return sf_fail(s->err, -EBADMSG,
		               "safetensors: '%.*s': data_offsets [%" PRIu64 ", %" PRIu64
		               "], its shape takes %" PRIu64 " bytes",
		               (int)SF_MIN(t->name_len, (size_t)256), t->name, e->offsets[0],
		               e->offsets[1], bytes);
	shape = sf_arena_alloc(s->arena, (e->ndim + 1) * sizeof(*shape));
	if (!shape)
		return no_memory(s);
	memcpy(shape, e->shape, e->ndim * sizeof(*shape));
	t->shape = shape;
	t->ndim = (uint8_t)e->ndim;
	t->begin = e->offsets[0];
	t->end = e->offsets[1];
	return 0;
}

static int same_name(void *arg, uint32_t value, const char *key, size_t len)
{
	const struct sf_st_tensor *t = &((const struct sf_st_tensors *)arg)->at[value];

	return t->name_len == len && memcmp(t->name, key, len) == 0;
}

static int header(struct scan *s, struct sf_st_tensors *all, struct sf_map *names,
                  const char **ret_sharding)
{
	int failed = 0, r = expect(s, '{');

	if (r < 0)
		return r;
	if (!accept(s, '}')) {
		do {
			struct sf_st_tensor t = { 0 };
			struct entry e = { .ndim = 0 };
			uint32_t there;
			r = string(s, false, &t.name, &t.name_len);
			if (r == 0)
				r = expect(s, ':');
			if (r == 0 && t.name_len == 12 && memcmp(t.name, "__metadata__", 12) == 0) {
				r = metadata(s, ret_sharding);
				if (r < 0)
					return r;
				continue;
			}
			if (r == 0)
				r = entry(s, &e);
			if (r == 0)
				r = tensor(s, &e, &t);
			if (r < 0)
				return r;
			t.name = sf_arena_strdup(s->arena, t.name, t.name_len);
			if (!t.name || all->n >= SF_MAP_NONE - 1)
				return no_memory(s);
			there = sf_map_add(names, t.name, t.name_len, (uint32_t)all->n, same_name,
			                   all, &failed);
			if (failed)
				return no_memory(s);
			if (there != SF_MAP_NONE)
				all->at[there] = t; /* the last of equal names, as in serde's map */
			else if (sf_st_tensors_push(all, t) < 0)
				return no_memory(s);
		} while (accept(s, ','));
		r = expect(s, '}');
		if (r < 0)
			return r;
	}
	if (peek(s) != '\0' || s->p != s->end)
		return bad(s, "something behind the header's end");
	return 0;
}

static int by_range(const void *a, const void *b)
{
	const struct sf_st_tensor *x = *(const struct sf_st_tensor *const *)a,
				  *y = *(const struct sf_st_tensor *const *)b;

	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	return x->end < y->end ? -1 : x->end > y->end;
}

/* The tensors lie one behind the other from 0 on. */
static int check_ranges(const struct sf_st_tensors *all, uint64_t *ret_len, struct sf_error *err)
{
	SF_FREE const struct sf_st_tensor **order = sf_alloc_array(all->n, sizeof(*order));
	uint64_t at = 0;

	if (!order)
		return sf_fail(err, -ENOMEM, "safetensors: %zu tensors", all->n);
	for (size_t i = 0; i < all->n; i++)
		order[i] = &all->at[i];
	qsort(order, all->n, sizeof(*order), by_range);
	for (size_t i = 0; i < all->n; i++) {
		if (order[i]->begin != at)
			return sf_fail(err, -EBADMSG,
			               "safetensors: '%s' begins at %" PRIu64 ", expected %" PRIu64,
			               order[i]->name, order[i]->begin, at);
		at = order[i]->end;
	}
	*ret_len = at;
	return 0;
}

int sf_st_parse(const uint8_t *json, size_t len, struct sf_arena *arena, struct sf_st_header *ret,
                struct sf_error *err)
{
	struct scan s = { (const char *)json, (const char *)json + len, (const char *)json, arena,
		          err };
	struct sf_st_tensors all = { 0 };
	struct sf_st_header h = { 0 };
	struct sf_map names = { 0 };
	int r;

	if (len > SF_ST_HEADER_MAX)
		return sf_fail(err, -E2BIG, "safetensors: header of %zu bytes, limit %d", len,
		               SF_ST_HEADER_MAX);
	if (!sf_utf8_valid((const char *)json, len))
		return sf_fail(err, -EBADMSG, "safetensors: header of %zu bytes is not UTF-8", len);
	r = header(&s, &all, &names, &h.sharding_info);
	sf_map_release(&names);
	if (r == 0)
		r = check_ranges(&all, &h.data_len, err);
	if (r == 0) {
		h.n = all.n;
		h.data_off = 8 + (uint64_t)len;
		h.at = sf_arena_alloc(arena, all.n * sizeof(*h.at) + 1);
		if (!h.at)
			r = no_memory(&s);
	}
	if (r == 0) {
		if (all.n)
			memcpy(h.at, all.at, all.n * sizeof(*h.at));
		*ret = h;
	}
	sf_st_tensors_release(&all);
	return r;
}

void sf_st_put_entry(struct sf_buf *out, const char *name, size_t name_len, enum sf_dtype dtype,
                     const uint64_t *shape, unsigned ndim, uint64_t begin, uint64_t end)
{
	sf_escape_json(out, name, name_len);
	sf_buf_printf(out, ":{\"dtype\":\"%s\",\"shape\":[", sf_dtype_info(dtype)->safetensors);
	for (unsigned d = 0; d < ndim; d++) {
		uint64_t n = dtype == SF_F4_E2M1FN_X2 && d + 1 == ndim ? shape[d] * 2 : shape[d];
		sf_buf_printf(out, d ? ",%" PRIu64 : "%" PRIu64, n);
	}
	sf_buf_printf(out, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin, end);
}
