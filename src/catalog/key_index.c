#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "catalog/key_index.h"

/* Both separators are one, and below every other byte: what is below a key follows it. */
static int rank(char c)
{
	return c == '.' || c == '/' ? -1 : (unsigned char)c;
}

/* The first @len bytes of @name against the key; a shorter one is less. */
static int compare(const char *a, size_t a_len, const char *b, size_t b_len)
{
	for (size_t i = 0; i < a_len && i < b_len; i++)
		if (rank(a[i]) != rank(b[i]))
			return rank(a[i]) < rank(b[i]) ? -1 : 1;
	return a_len < b_len ? -1 : a_len > b_len;
}

static int by_name(const void *a, const void *b, void *arg)
{
	const struct sf_catalog *c = arg;
	const struct sf_entry *x = &c->entry[*(const uint32_t *)a],
			      *y = &c->entry[*(const uint32_t *)b];

	return compare(x->name, x->len, y->name, y->len);
}

int sf_key_index_init(struct sf_key_index *ix, const struct sf_catalog *c)
{
	*ix = (struct sf_key_index){ c, sf_alloc_array(c->n, sizeof(*ix->at)) };
	if (!ix->at)
		return -ENOMEM;
	for (uint32_t i = 0; i < c->n; i++)
		ix->at[i] = i;
	if (c->n)
		qsort_r(ix->at, c->n, sizeof(*ix->at), by_name, (void *)c);
	return 0;
}

void sf_key_index_release(struct sf_key_index *ix)
{
	free(ix->at);
	ix->at = NULL;
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* The first position whose name is not less than the key. */
static uint32_t lower_bound(const struct sf_key_index *ix, const char *key, size_t len)
{
	uint32_t from = 0, to = ix->c->n;

	while (from < to) {
		uint32_t mid = from + (to - from) / 2;
		const struct sf_entry *e = &ix->c->entry[ix->at[mid]];
		if (compare(e->name, e->len, key, len) < 0)
			from = mid + 1;
		else
			to = mid;
	}
	return from;
}

uint32_t sf_key_index_match(const struct sf_key_index *ix, const char *key, uint32_t *ret)
{
	const struct sf_catalog *c = ix->c;
	size_t len = strlen(key), below = len;
	uint32_t n = 0;

	if (strpbrk(key, "*?[")) {
		for (uint32_t i = 0; i < c->n; i++)
			if (sf_key_match(key, c->entry[i].name, c->entry[i].len))
				ret[n++] = i;
		return n;
	}
	if (below && rank(key[below - 1]) < 0)
		below--; /* "model/" is "model" too */
	for (uint32_t i = lower_bound(ix, key, below); i < c->n; i++) {
		const struct sf_entry *e = &c->entry[ix->at[i]];
		if (e->len < below || compare(e->name, below, key, below) != 0 ||
		    (e->len > below && rank(e->name[below]) >= 0))
			break;
		if (sf_key_match(key, e->name, e->len))
			ret[n++] = ix->at[i];
	}
	if (n)
		qsort(ret, n, sizeof(*ret), by_number);
	return n;
}
