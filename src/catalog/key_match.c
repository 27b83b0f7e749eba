#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "catalog/catalog.h"

static char separator(char c)
{
	return c == '/' ? '.' : c;
}

static bool same_text(const char *a, const char *b, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (separator(a[i]) != separator(b[i]))
			return false;
	return true;
}

/* Both texts with one separator; names of ordinary length need no memory. */
static bool glob(const char *pattern, size_t pattern_len, const char *name, size_t len)
{
	char small[512], *at = small;
	bool hit;

	if (pattern_len + len > sizeof(small) && !(at = malloc(pattern_len + len)))
		return false;
	for (size_t i = 0; i < pattern_len; i++)
		at[i] = separator(pattern[i]);
	for (size_t i = 0; i < len; i++)
		at[pattern_len + i] = separator(name[i]);
	hit = sf_glob_match(at, pattern_len, at + pattern_len, len);
	if (at != small)
		free(at);
	return hit;
}

bool sf_key_match(const char *pattern, const char *name, size_t len)
{
	size_t n = strlen(pattern);

	if (strspn(pattern, "./") == n) /* nothing that could be below: a name and no more */
		return n == len && memcmp(pattern, name, n) == 0;
	if (n == len && same_text(pattern, name, n))
		return true; /* a name may hold glob characters: it matches itself */
	if (strpbrk(pattern, "*?["))
		return glob(pattern, n, name, len);
	if (n && separator(pattern[n - 1]) == '.' && n - 1 <= len)
		n--; /* "model/" is "model" */
	return n && n <= len && same_text(pattern, name, n) &&
	       (n == len || separator(name[n]) == '.');
}
