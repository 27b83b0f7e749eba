#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "catalog/catalog_map.h"

static bool is_separator(char c)
{
	return c == '.' || c == '/';
}

/* Does @old match the first components of @name? *ret_used: bytes it took; star: the component its
 * '*' stands for. */
static bool match_prefix(const char *old, const char *name, size_t len, size_t *ret_used,
                         size_t *ret_star, size_t *ret_star_len)
{
	size_t at = 0;

	*ret_star = *ret_star_len = 0;
	for (const char *p = old; *p; p++) {
		bool whole = (p == old || is_separator(p[-1])) && (!p[1] || is_separator(p[1]));
		if (*p == '*' && whole) {
			size_t from = at;
			while (at < len && !is_separator(name[at]))
				at++;
			*ret_star = from;
			*ret_star_len = at - from;
		} else if (at < len &&
		           (*p == name[at] || (is_separator(*p) && is_separator(name[at])))) {
			at++;
		} else {
			return false;
		}
	}
	*ret_used = at;
	return !*old || at == len || is_separator(name[at]);
}

/* @s with its separators all dots, into the index's room. */
static int set_key(struct sf_key_map *m, const char *s, size_t len)
{
	sf_buf_reset(&m->key);
	sf_buf_add(&m->key, s, len);
	for (size_t i = 0; i < m->key.len; i++)
		if (is_separator((char)m->key.at[i]))
			m->key.at[i] = '.';
	return sf_buf_check(&m->key);
}

static int same_old(void *arg, uint32_t value, const char *key, size_t len)
{
	const char *old = ((const struct sf_key_map *)arg)->rule[value].old_name;
	size_t i = 0;

	for (; i < len && old[i]; i++)
		if (old[i] != key[i] && !(is_separator(old[i]) && key[i] == '.'))
			return false;
	return i == len && !old[i];
}

int sf_key_map_init(struct sf_key_map *m, const struct sf_map_rule *rule, size_t n)
{
	int r = 0;

	*m = (struct sf_key_map){ .rule = rule, .n = n };
	if (n >= SF_MAP_NONE)
		return -ENOMEM;
	m->wild = sf_alloc_array(n, sizeof(*m->wild));
	m->met = calloc(n + 1, sizeof(*m->met));
	if (!m->wild || !m->met)
		return -ENOMEM;
	for (size_t i = 0; i < n && !r; i++) {
		const char *old = rule[i].old_name;
		if (!*old || strchr(old, '*')) {
			m->wild[m->nwild++] = (uint32_t)i;
			continue;
		}
		r = set_key(m, old, strlen(old));
		if (!r) /* one that is there already comes first and wins */
			sf_map_add(&m->plain, (const char *)m->key.at, m->key.len, (uint32_t)i,
			           same_old, m, &r);
	}
	return r;
}

void sf_key_map_release(struct sf_key_map *m)
{
	sf_map_release(&m->plain);
	sf_buf_release(&m->key);
	free(m->wild);
	free(m->met);
	*m = (struct sf_key_map){ 0 };
}

/* The first rule whose OLD, without a '*', is the name or its first components; m->n: none. */
static int find_plain(struct sf_key_map *m, const char *name, size_t len, size_t *ret)
{
	int r = m->plain.n ? set_key(m, name, len) : 0;

	*ret = m->n;
	for (size_t i = 1; i <= len && m->plain.n && !r; i++) {
		if (i < len && !is_separator(name[i]))
			continue;
		uint32_t found = sf_map_get(&m->plain, (const char *)m->key.at, i, same_old, m);
		if (found != SF_MAP_NONE)
			*ret = SF_MIN(*ret, (size_t)found);
	}
	return r;
}

int sf_map_name(struct sf_key_map *m, const char *name, size_t len, struct sf_buf *out)
{
	const char *old, *to, *star;
	size_t best, used, at, n;
	int r = find_plain(m, name, len, &best);

	if (r < 0)
		return r;
	for (size_t i = 0; i < m->nwild && m->wild[i] < best; i++)
		if (match_prefix(m->rule[m->wild[i]].old_name, name, len, &used, &at, &n))
			best = m->wild[i];
	if (best == m->n)
		return 0;
	m->met[best] = true;
	old = m->rule[best].old_name;
	to = m->rule[best].new_name;
	star = strchr(to, '*');
	match_prefix(old, name, len, &used, &at, &n);
	if (star && strchr(old, '*')) {
		sf_buf_add(out, to, (size_t)(star - to));
		sf_buf_add(out, name + at, n);
		sf_buf_str(out, star + 1);
	} else {
		sf_buf_str(out, to);
	}
	if (!*old && *to && len)
		sf_buf_byte(out, '.'); /* a new prefix in front of everything */
	else if (!*to && *old && used < len)
		used++; /* the separator goes with the prefix */
	sf_buf_add(out, name + used, len - used);
	return 1;
}

/* Do these rules alone give a name to one of the names? 1, 0, -ENOMEM. */
static int any_match(const struct sf_map_rule *rule, size_t nrules, sf_key_name *name,
                     const void *names, uint32_t n)
{
	struct sf_key_map m;
	struct sf_buf out = { 0 };
	int r = sf_key_map_init(&m, rule, nrules);

	for (uint32_t i = 0; i < n && r == 0; i++) {
		size_t len;
		const char *s = name(names, i, &len);
		sf_buf_reset(&out);
		r = sf_map_name(&m, s, len, &out);
	}
	sf_buf_release(&out);
	sf_key_map_release(&m);
	return r;
}

int sf_map_check(const struct sf_key_map *m, const char *option, const struct sf_map_arg *arg,
                 size_t nargs, sf_key_name *name, const void *names, uint32_t n,
                 struct sf_error *err)
{
	for (size_t a = 0, first = 0; a < nargs; first = arg[a++].end) {
		struct sf_buf hint = { 0 };
		bool met = first == arg[a].end; /* an empty file asks for nothing */
		for (size_t i = first; i < arg[a].end && !met; i++)
			met = m->met[i];
		if (met)
			continue;
		int r = any_match(m->rule + first, arg[a].end - first, name, names, n);
		if (r > 0)
			continue;
		if (r < 0)
			return sf_fail(err, r, "--%s '%.200s'", option, arg[a].given);
		if (*arg[a].given == '@')
			return sf_fail(err, -EINVAL,
			               "--%s '%.200s': none of its %zu rules matches a key", option,
			               arg[a].given, arg[a].end - first);
		const char *old = m->rule[first].old_name;
		sf_key_hint(&hint, old, strlen(old), name, names, n);
		sf_fail(err, -EINVAL, "--%s '%.200s' matches no key%s", option, arg[a].given,
		        sf_buf_cstr(&hint));
		sf_buf_release(&hint);
		return -EINVAL;
	}
	return 0;
}

/* Bytes of the first @n path elements as the name spells them, dots between and one behind;
 * SIZE_MAX: the name is spelt otherwise. */
static size_t head_len(const struct sf_path_elem *path, uint32_t n, const char *name, size_t len)
{
	size_t at = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (len - at < path[i].len ||
		    (path[i].len && memcmp(name + at, path[i].s, path[i].len) != 0))
			return SIZE_MAX;
		at += path[i].len;
		if (at == len || name[at] != '.')
			return SIZE_MAX;
		at++;
	}
	return at;
}

/* The same from the end: a dot before each. */
static size_t tail_len(const struct sf_path_elem *path, uint32_t npath, uint32_t n,
                       const char *name, size_t len)
{
	size_t at = len;

	for (uint32_t i = 0; i < n; i++) {
		const struct sf_path_elem *e = &path[npath - 1 - i];
		if (at < (size_t)e->len + 1 || memcmp(name + at - e->len, e->s, e->len) != 0 ||
		    name[at - e->len - 1] != '.')
			return SIZE_MAX;
		at -= (size_t)e->len + 1;
	}
	return len - at;
}

/* Are the elements between @from and @to single components? Then new ones are split so too. */
static bool split_at_dots(const struct sf_key *key, uint32_t from)
{
	for (uint32_t i = from; i < key->npath; i++)
		if (key->path[i].len && memchr(key->path[i].s, '.', key->path[i].len))
			return false;
	return key->npath > from + 1;
}

int sf_map_path(const struct sf_key *key, unsigned strip, const char *name, size_t len,
                struct sf_arena *arena, const struct sf_path_elem **ret, uint32_t *ret_n,
                bool *ret_moved)
{
	uint32_t head = 0, tail = 0, n = 0, parts = 1;
	const char *mid;
	size_t mid_len, at = 0, tail_bytes = 0;
	struct sf_path_elem *path;

	while (head + 1 < key->npath && head_len(key->path, head + 1, name, len) != SIZE_MAX)
		at = head_len(key->path, ++head, name, len);
	*ret_moved = head < strip && strip < key->npath;
	mid = name + at;
	mid_len = len - at;
	/* with a new prefix in front the whole old path may have stayed */
	while (head + tail + (head > 0) < key->npath) {
		size_t more = tail_len(key->path, key->npath, tail + 1, mid, mid_len);
		if (more == SIZE_MAX)
			break;
		tail_bytes = more;
		tail++;
	}
	mid_len -= tail_bytes;
	bool split = split_at_dots(key, strip);
	for (size_t i = 0; split && i < mid_len; i++)
		parts += mid[i] == '.';
	path = sf_arena_calloc(arena, (size_t)head + parts + tail, sizeof(*path));
	if (!path)
		return -ENOMEM;
	memcpy(path, key->path, head * sizeof(*path));
	n = head;
	for (size_t from = 0, i = 0; i <= mid_len; i++)
		if (i == mid_len || (split && mid[i] == '.')) {
			path[n++] = (struct sf_path_elem){ .s = mid + from,
				                           .len = (uint32_t)(i - from) };
			from = i + 1;
		}
	memcpy(path + n, key->path + key->npath - tail, tail * sizeof(*path));
	*ret = path;
	*ret_n = n + tail;
	return 0;
}
