#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "catalog/entry_name.h"

const char *sf_entry_stripped(const struct sf_entry *e, unsigned strip, size_t *ret_len)
{
	const char *s = e->name;
	size_t len = e->len;

	*ret_len = e->len;
	if (e->npath <= strip || e->moved)
		return e->name;
	for (unsigned d = 0; d < strip; d++) {
		const struct sf_path_elem *p = &e->path[d];
		if (len <= p->len || (p->len && memcmp(s, p->s, p->len) != 0) || s[p->len] != '.')
			return e->name;
		s += p->len + 1;
		len -= (size_t)p->len + 1;
	}
	*ret_len = len;
	return s;
}

int sf_name_compare(const char *a, size_t a_len, const char *b, size_t b_len)
{
	size_t n = SF_MIN(a_len, b_len), i = 0;

	while (i < n && a[i] == b[i])
		i++;
	if (i == n)
		return a_len < b_len ? -1 : a_len > b_len;
	int x = a[i] == '.' ? -1 : (uint8_t)a[i], y = b[i] == '.' ? -1 : (uint8_t)b[i];
	return x < y ? -1 : 1;
}

size_t sf_name_prefix(const char *name, size_t len, unsigned depth)
{
	size_t at = 0;

	for (unsigned d = 0; d < depth; d++) {
		const char *dot = at < len ? memchr(name + at, '.', len - at) : NULL;
		if (!dot)
			return len + 1;
		at = (size_t)(dot - name) + 1;
	}
	return at;
}

bool sf_name_below(const char *name, size_t len, const char *of, size_t prefix)
{
	if (prefix == 0)
		return true;
	if (len + 1 < prefix || (prefix > 1 && memcmp(name, of, prefix - 1) != 0))
		return false;
	return len + 1 == prefix || name[prefix - 1] == '.';
}

bool sf_name_is_long(const char *part, size_t len, size_t room)
{
	size_t whole = len;

	if (len + room > 255)
		return true;
	if (3 * len + room <= 255)
		return false;
	for (size_t i = 0; i < len; i++)
		if (part[i] == '/' || part[i] == '%' || part[i] == '\0')
			whole += 2;
	return whole + room > 255;
}
