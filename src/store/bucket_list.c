#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/vec.h"
#include "store/bucket_list.h"

#define EMPTY_MOST 1000 /* S3 may send some: each looked through what it does not show */

void sf_bucket_pager_release(struct sf_bucket_pager *p)
{
	free(p->token);
	free(p->seen);
	p->token = NULL;
	p->seen = NULL;
	p->nseen = p->seen_cap = 0;
}

static uint64_t hash_of(const char *what, const char *s)
{
	return sf_hash(s, strlen(s)) ^ (uint8_t)*what;
}

static bool was_seen(const struct sf_bucket_pager *p, uint64_t h)
{
	size_t i = 0;

	while (i < p->nseen && p->seen[i] != h)
		i++;
	return i < p->nseen;
}

int sf_bucket_pager_not_again(struct sf_bucket_pager *p, const char *what, const char *s,
                              struct sf_error *err)
{
	uint64_t h = hash_of(what, s);

	if (was_seen(p, h))
		return sf_fail(err, -EBADMSG,
		               "listing: the server repeats itself: %s '%.200s' was sent before "
		               "(page %u)",
		               what, s, p->pages);
	if (p->nseen == p->seen_cap &&
	    sf_vec_grow((void **)&p->seen, &p->seen_cap, p->nseen + 1, sizeof(*p->seen)) < 0)
		return sf_fail(err, -ENOMEM, "listing: no memory");
	p->seen[p->nseen++] = h;
	return 0;
}

int sf_bucket_pager_asked(struct sf_bucket_pager *p, const char *token, struct sf_error *err)
{
	bool right = p->token && strcmp(token, p->token) == 0;

	if (right)
		p->echoes = true;
	if (right || (!p->echoes && !was_seen(p, hash_of("token", token))))
		return 0;
	return sf_fail(err, -EBADMSG,
	               "listing: page %u was asked for by token '%.100s', the answer is that to "
	               "'%.100s'",
	               p->pages + 1, p->token ? p->token : "", token);
}

int sf_bucket_pager_turn(struct sf_bucket_pager *p, const char *token, struct sf_error *err)
{
	if (++p->pages > SF_BUCKET_PAGES_MAX)
		return sf_fail(err, -E2BIG, "listing: more than %d pages", SF_BUCKET_PAGES_MAX);
	p->empty = p->entries != p->entries_before || p->pages == 1 ? 0 : p->empty + 1;
	p->entries_before = p->entries;
	if (p->empty > EMPTY_MOST)
		return sf_fail(err, -EBADMSG,
		               "listing: %d pages, one behind the other, had nothing in them and "
		               "promised more",
		               EMPTY_MOST);
	return token ? sf_bucket_pager_not_again(p, "token", token, err) : 0;
}

int sf_bucket_pager_key(const struct sf_bucket_pager *p, const char *key, size_t len,
                        struct sf_error *err)
{
	size_t n = strlen(p->prefix);

	if (!len || len > SF_BUCKET_KEY_MAX || memchr(key, '\0', len))
		return sf_fail(
			err, -EBADMSG,
			"listing: a key of %zu bytes (1 to %d are allowed), or one with a NUL", len,
			SF_BUCKET_KEY_MAX);
	if (len < n || memcmp(key, p->prefix, n) != 0)
		return sf_fail(
			err, -EBADMSG,
			"listing: key '%.*s' does not begin with '%.200s', which was asked for",
			(int)(len < 200 ? len : 200), key, p->prefix);
	return 0;
}
