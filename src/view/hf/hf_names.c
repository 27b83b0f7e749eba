#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "catalog/catalog_map.h"
#include "catalog/entry_name.h"
#include "view/hf/hf_names.h"

#define MODULE "module."

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Behind the zeros in front of the number at @s: its last digit at least is left. */
static const char *skip_zeros(const char *s, const char *end)
{
	while (*s == '0' && end - s > 1 && is_digit(s[1]))
		s++;
	return s;
}

static size_t digits(const char *s, const char *end)
{
	size_t n = 0;

	while (s + n < end && is_digit(s[n]))
		n++;
	return n;
}

static int plain_compare(const char *a, size_t a_len, const char *b, size_t b_len)
{
	size_t n = SF_MIN(a_len, b_len);
	int d = n ? memcmp(a, b, n) : 0;

	return d ? d : (a_len > b_len) - (a_len < b_len);
}

int sf_natural_compare(const char *a, size_t a_len, const char *b, size_t b_len)
{
	const char *x = a, *y = b, *x_end = a + a_len, *y_end = b + b_len;

	while (x < x_end && y < y_end) {
		if (is_digit(*x) && is_digit(*y)) {
			x = skip_zeros(x, x_end);
			y = skip_zeros(y, y_end);
			size_t n = digits(x, x_end), m = digits(y, y_end);
			int d = n != m ? (n < m ? -1 : 1) : memcmp(x, y, n);
			if (d)
				return d;
			x += n;
			y += n;
		} else if (*x == *y) {
			x++;
			y++;
		} else {
			return (uint8_t)*x < (uint8_t)*y ? -1 : 1;
		}
	}
	if (x < x_end || y < y_end)
		return x < x_end ? 1 : -1;
	/* they differ in leading zeros only, or not at all */
	return plain_compare(a, a_len, b, b_len);
}

static bool is_part(const char *s, size_t len, const char *part)
{
	return len == strlen(part) && memcmp(s, part, len) == 0;
}

static bool is_wrapper(const char *s, size_t len)
{
	return is_part(s, len, "_orig_mod") || is_part(s, len, "_fsdp_wrapped_module") ||
	       is_part(s, len, "_checkpoint_wrapped_module");
}

static bool is_extra_state(const char *name, size_t len)
{
	for (size_t from = 0, i = 0; i <= len; i++)
		if (i == len || name[i] == '.' || name[i] == '/') {
			if (is_part(name + from, i - from, "_extra_state"))
				return true;
			from = i + 1;
		}
	return false;
}

/* @name without wrapper components, NUL behind. */
static int unwrap(const char *name, size_t len, bool strip, struct sf_arena *arena,
                  struct sf_hf_name *ret)
{
	char *out = sf_arena_alloc(arena, len + 1), *to = out;

	if (!out)
		return -ENOMEM;
	for (size_t from = 0, i = 0; i <= len; i++)
		if (i == len || name[i] == '.') {
			if (!strip || !is_wrapper(name + from, i - from)) {
				if (to != out || from)
					*to++ = '.';
				memcpy(to, name + from, i - from);
				to += i - from;
			}
			from = i + 1;
		}
	*to = '\0';
	if (to > out && *out == '.' && *name != '.') /* the first component was a wrapper */
		out++;
	ret->s = out;
	ret->len = (uint32_t)(to - out);
	return 0;
}

static bool shows(const struct sf_catalog *c, uint32_t entry, size_t len, const char *name)
{
	return c->entry[entry].tensor != SF_NONE && !is_extra_state(name, len) &&
	       !sf_view_safetensors_refuses(c, entry, true);
}

static int same(void *arg, uint32_t value, const char *name, size_t len)
{
	const struct sf_hf_name *other = (const struct sf_hf_name *)arg + value;

	return other->len == len && (len == 0 || memcmp(other->s, name, len) == 0);
}

static int check_names(const struct sf_catalog *c, struct sf_hf_name *name, uint32_t n,
                       struct sf_error *err)
{
	struct sf_map map = { 0 };
	int failed = sf_map_reserve(&map, n);

	for (uint32_t i = 0; i < n && !failed; i++) {
		uint32_t other = sf_map_add(&map, name[i].s, name[i].len, i, same, name, &failed);
		if (other == SF_MAP_NONE)
			continue;
		failed = sf_fail(
			err, -EINVAL, "hf/: keys '%.200s' and '%.200s' both become '%.200s'",
			c->entry[name[other].entry].name, c->entry[name[i].entry].name, name[i].s);
	}
	sf_map_release(&map);
	return failed == -ENOMEM ? sf_fail(err, failed, "no memory for the names of hf/") : failed;
}

static const char *name_at(const void *arg, uint32_t i, size_t *ret_len)
{
	const struct sf_hf_name *name = arg;

	*ret_len = name[i].len;
	return name[i].s;
}

static int map_names(const struct sf_catalog *c, struct sf_arena *arena, struct sf_hf_name *name,
                     uint32_t n, struct sf_error *err)
{
	const struct sf_view_options *o = c->opt;
	SF_FREE struct sf_hf_name *before = sf_alloc_array(n, sizeof(*before));
	struct sf_key_map rules;
	struct sf_buf b = { 0 };
	int r = sf_key_map_init(&rules, o->hf_map, o->nhf_map);

	if (before)
		memcpy(before, name, n * sizeof(*name));
	else
		r = -ENOMEM;

	for (uint32_t i = 0; i < n && r >= 0; i++) {
		sf_buf_reset(&b);
		r = sf_map_name(&rules, name[i].s, name[i].len, &b);
		if (r == 0)
			continue;
		if (r > 0)
			r = sf_buf_check(&b);
		if (r < 0)
			break;
		name[i].s = sf_arena_strdup(arena, (const char *)b.at, b.len);
		name[i].len = (uint32_t)b.len;
		if (!name[i].s)
			r = -ENOMEM;
	}
	if (r < 0)
		sf_fail(err, r, "no memory for the names of hf/");
	else if (!o->key.n && !o->ignore.n) /* else what it matches may be left out */
		r = sf_map_check(&rules, "hf-map", o->hf_map_arg, o->nhf_map_arg, name_at, before,
		                 n, err);
	sf_buf_release(&b);
	sf_key_map_release(&rules);
	return r < 0 ? r : 0;
}

static int compare(const void *a, const void *b)
{
	const struct sf_hf_name *x = a, *y = b;

	return sf_natural_compare(x->s, x->len, y->s, y->len);
}

int sf_hf_choose(const struct sf_catalog *c, uint32_t group, struct sf_arena *arena,
                 struct sf_hf_name **ret, uint32_t *ret_n, struct sf_error *err)
{
	const struct sf_cat_group *g = &c->group[group];
	struct sf_hf_name *name = sf_arena_calloc(arena, (size_t)g->n + 1, sizeof(*name));
	bool module = c->opt->hf_strip;
	uint32_t n = 0;
	int r = 0;

	if (!name)
		return sf_fail(err, -ENOMEM, "no memory for the names of hf/");
	for (uint32_t i = g->first; i < g->first + g->n; i++) {
		uint32_t e = c->by_group[i];
		size_t len;
		const char *s = sf_entry_stripped(&c->entry[e], g->of->strip, &len);
		if (!shows(c, e, len, s))
			continue;
		if (unwrap(s, len, c->opt->hf_strip, arena, &name[n]) < 0)
			return sf_fail(err, -ENOMEM, "no memory for the names of hf/");
		name[n].entry = e;
		module &= strncmp(name[n].s, MODULE, strlen(MODULE)) == 0;
		n++;
	}
	for (uint32_t i = 0; module && i < n; i++) {
		name[i].s += strlen(MODULE);
		name[i].len -= (uint32_t)strlen(MODULE);
	}
	if (c->opt->nhf_map)
		r = map_names(c, arena, name, n, err);
	if (r < 0)
		return r;
	qsort(name, n, sizeof(*name), compare);
	r = check_names(c, name, n, err);
	*ret = name;
	*ret_n = n;
	return r;
}
