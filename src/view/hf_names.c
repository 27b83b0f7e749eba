#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "view/catalog_map.h"
#include "view/entry_name.h"
#include "view/hf_names.h"

#define MODULE "module."

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

int sf_natural_compare(const char *a, const char *b)
{
	const char *x = a, *y = b;

	while (*x && *y) {
		if (is_digit(*x) && is_digit(*y)) {
			size_t n, m;
			for (; *x == '0' && is_digit(x[1]);)
				x++;
			for (; *y == '0' && is_digit(y[1]);)
				y++;
			for (n = 0; is_digit(x[n]);)
				n++;
			for (m = 0; is_digit(y[m]);)
				m++;
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
	if (*x || *y)
		return *x ? 1 : -1;
	return strcmp(a, b); /* they differ in leading zeros only, or not at all */
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
static char *unwrap(const char *name, size_t len, bool strip, struct sf_arena *arena)
{
	char *out = sf_arena_alloc(arena, len + 1), *to = out;

	if (!out)
		return NULL;
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
	if (*out == '.' && len && *name != '.') /* the first component was a wrapper */
		out++;
	return out;
}

static bool shows(const struct sf_catalog *c, uint32_t entry, size_t len, const char *name)
{
	return c->entry[entry].tensor != SF_NONE && !is_extra_state(name, len) &&
	       !memchr(name, '\0', len) && !sf_view_safetensors_refuses(c, entry, true);
}

static int same(void *arg, uint32_t value, const char *name, size_t len)
{
	const char *other = ((const char **)arg)[value];

	return strlen(other) == len && memcmp(other, name, len) == 0;
}

static int check_names(const struct sf_catalog *c, const uint32_t *entry, const char **name,
                       uint32_t n, struct sf_error *err)
{
	struct sf_map map = { 0 };
	int failed = sf_map_reserve(&map, n);

	for (uint32_t i = 0; i < n && !failed; i++) {
		uint32_t other = sf_map_add(&map, name[i], strlen(name[i]), i, same, name, &failed);
		if (other == SF_MAP_NONE)
			continue;
		failed = sf_fail(err, -EINVAL,
		                 "hf/: keys '%.200s' and '%.200s' both become '%.200s'",
		                 c->entry[entry[other]].name, c->entry[entry[i]].name, name[i]);
	}
	sf_map_release(&map);
	return failed == -ENOMEM ? sf_fail(err, failed, "no memory for the names of hf/") : failed;
}

static int map_names(const struct sf_catalog *c, struct sf_arena *arena, const char **name,
                     uint32_t n)
{
	struct sf_buf b = { 0 };
	int r = 0;

	for (uint32_t i = 0; i < n && r >= 0; i++) {
		sf_buf_reset(&b);
		if (!sf_map_name(c->opt->hf_map, c->opt->nhf_map, name[i], strlen(name[i]), &b))
			continue;
		r = sf_buf_check(&b);
		if (r >= 0)
			name[i] = sf_arena_strdup(arena, (const char *)b.at, b.len);
		if (!name[i])
			r = -ENOMEM;
	}
	sf_buf_release(&b);
	return r;
}

struct pair {
	const char *name;
	uint32_t entry;
};

static int compare(const void *a, const void *b)
{
	return sf_natural_compare(((const struct pair *)a)->name, ((const struct pair *)b)->name);
}

static int sort(uint32_t *entry, const char **name, uint32_t n)
{
	SF_FREE struct pair *pair = sf_alloc_array(n, sizeof(*pair));

	if (!pair)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		pair[i] = (struct pair){ name[i], entry[i] };
	qsort(pair, n, sizeof(*pair), compare);
	for (uint32_t i = 0; i < n; i++) {
		name[i] = pair[i].name;
		entry[i] = pair[i].entry;
	}
	return 0;
}

int sf_hf_choose(const struct sf_catalog *c, uint32_t group, struct sf_arena *arena,
                 uint32_t **ret_entry, const char ***ret_name, uint32_t *ret_n,
                 struct sf_error *err)
{
	const struct sf_cat_group *g = &c->group[group];
	uint32_t *entry = sf_arena_calloc(arena, (size_t)g->n + 1, sizeof(*entry));
	const char **name = sf_arena_calloc(arena, (size_t)g->n + 1, sizeof(*name));
	bool module = c->opt->hf_strip;
	uint32_t n = 0;
	int r;

	if (!entry || !name)
		return sf_fail(err, -ENOMEM, "no memory for the names of hf/");
	for (uint32_t i = g->first; i < g->first + g->n; i++) {
		uint32_t e = c->by_group[i];
		size_t len;
		const char *s = sf_entry_stripped(&c->entry[e], g->of->strip, &len);
		if (!shows(c, e, len, s))
			continue;
		entry[n] = e;
		name[n] = unwrap(s, len, c->opt->hf_strip, arena);
		if (!name[n])
			return sf_fail(err, -ENOMEM, "no memory for the names of hf/");
		module &= strncmp(name[n], MODULE, strlen(MODULE)) == 0;
		n++;
	}
	for (uint32_t i = 0; module && i < n; i++)
		name[i] += strlen(MODULE);
	r = c->opt->nhf_map ? map_names(c, arena, name, n) : 0;
	if (r >= 0)
		r = sort(entry, name, n);
	if (r < 0)
		return sf_fail(err, r, "no memory for the names of hf/");
	r = check_names(c, entry, name, n, err);
	*ret_entry = entry;
	*ret_name = name;
	*ret_n = n;
	return r;
}
