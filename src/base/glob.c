#include "config.h"

#include "base/path.h"
#include "base/utf8.h"

/*
 * Python's fnmatch, by characters: a set that is not closed is a literal '[', the first ']' in a
 * set is a member, '!' negates, '^' and '\' are nothing special, a range that runs backwards is
 * empty.
 */

/* Is @c in the set behind the '[' at @p? Returns the pattern bytes of the set with its brackets, 0
 * when it is not closed. */
static size_t match_set(const char *p, size_t len, uint32_t c, bool *ret_hit)
{
	size_t at = 1, first, n;
	bool negate = false, hit = false;

	if (at < len && p[at] == '!') {
		negate = true;
		at++;
	}
	for (first = at;; at += n) {
		uint32_t lo, hi;
		if (at >= len)
			return 0;
		if (p[at] == ']' && at > first)
			break;
		n = sf_utf8_unit(p + at, len - at, &lo);
		hi = lo;
		/* "a-b": a '-' with a member behind it that does not close the set */
		if (at + n + 1 < len && p[at + n] == '-' && p[at + n + 1] != ']')
			n += 1 + sf_utf8_unit(p + at + n + 1, len - at - n - 1, &hi);
		hit |= lo <= c && c <= hi;
	}
	*ret_hit = hit != negate;
	return at + 1;
}

/* Does the pattern element at @p (not '*') take character @c? Returns its bytes, 0 when not. */
static size_t match_one(const char *p, size_t len, uint32_t c)
{
	uint32_t want;
	size_t n;

	if (p[0] == '?')
		return 1;
	if (p[0] == '[') {
		bool hit;
		n = match_set(p, len, c, &hit);
		if (n)
			return hit ? n : 0;
	}
	n = sf_utf8_unit(p, len, &want);
	return want == c ? n : 0;
}

bool sf_glob_match(const char *pattern, size_t pattern_len, const char *s, size_t len)
{
	const char *p = pattern, *p_end = pattern + pattern_len, *s_end = s + len;
	const char *star = NULL,
		   *star_s = NULL; /* behind the last '*', and where it stopped taking */
	uint32_t c = 0;            /* always set below, s < s_end; gcc 11 does not see it */

	/* Only the last '*' is ever tried again: an earlier one cannot help, so this is O(pattern *
	 * s). */
	while (s < s_end) {
		size_t n = sf_utf8_unit(s, (size_t)(s_end - s), &c);
		size_t took = 0;
		if (p < p_end && *p == '*') {
			star = ++p;
			star_s = s;
			continue;
		}
		if (p < p_end)
			took = match_one(p, (size_t)(p_end - p), c);
		if (took) {
			p += took;
			s += n;
		} else if (star) {
			star_s += sf_utf8_unit(star_s, (size_t)(s_end - star_s), &c);
			s = star_s;
			p = star;
		} else {
			return false;
		}
	}
	while (p < p_end && *p == '*')
		p++;
	return p == p_end;
}
