#include "config.h"

#include <assert.h>
#include <errno.h>

#include "base/map.h"
#include "base/mem.h"

/* Linear probing; a slot's place comes from the stored half of its hash, so growing asks for no
 * key. */
static size_t slots_for(size_t n)
{
	size_t cap = 16;

	while (cap / 4 * 3 < n)
		cap *= 2;
	return cap;
}

static int rehash(struct sf_map *m, size_t cap)
{
	uint32_t *hash32 = sf_alloc_array(cap, sizeof(*hash32));
	uint32_t *value = sf_alloc_array(cap, sizeof(*value));

	if (!hash32 || !value) {
		free(hash32);
		free(value);
		return -ENOMEM;
	}
	memset(value, 0xff, cap * sizeof(*value)); /* SF_MAP_NONE: free */
	for (size_t i = 0; i < m->cap; i++) {
		if (m->value[i] == SF_MAP_NONE)
			continue;
		size_t at = m->hash32[i] & (cap - 1);
		while (value[at] != SF_MAP_NONE)
			at = (at + 1) & (cap - 1);
		hash32[at] = m->hash32[i];
		value[at] = m->value[i];
	}
	free(m->hash32);
	free(m->value);
	m->hash32 = hash32;
	m->value = value;
	m->cap = cap;
	return 0;
}

int sf_map_reserve(struct sf_map *m, size_t n)
{
	if (n > UINT32_MAX / 2)
		return -ENOMEM; /* values and places are 32 bits */
	if (m->cap && n <= m->cap / 4 * 3)
		return 0;
	return rehash(m, slots_for(n));
}

/* The slot that has @key, or the free one where it would go. */
static size_t find(const struct sf_map *m, uint32_t hash32, const char *key, size_t len,
                   sf_map_same *same, void *arg)
{
	size_t at = hash32 & (m->cap - 1);

	while (m->value[at] != SF_MAP_NONE &&
	       (m->hash32[at] != hash32 || !same(arg, m->value[at], key, len)))
		at = (at + 1) & (m->cap - 1);
	return at;
}

uint32_t sf_map_add(struct sf_map *m, const char *key, size_t len, uint32_t value,
                    sf_map_same *same, void *arg, int *ret_failed)
{
	uint32_t hash32 = (uint32_t)(sf_hash(key, len) >> 32);
	size_t at;

	assert(value != SF_MAP_NONE);
	*ret_failed = 0;
	if (m->cap) {
		at = find(m, hash32, key, len, same, arg);
		if (m->value[at] != SF_MAP_NONE)
			return m->value[at];
	}
	if (!m->cap || m->n + 1 > m->cap / 4 * 3) {
		*ret_failed = sf_map_reserve(m, m->n + 1);
		if (*ret_failed)
			return SF_MAP_NONE;
	}
	for (at = hash32 & (m->cap - 1); m->value[at] != SF_MAP_NONE;)
		at = (at + 1) & (m->cap - 1);
	m->hash32[at] = hash32;
	m->value[at] = value;
	m->n++;
	return SF_MAP_NONE;
}

uint32_t sf_map_get(const struct sf_map *m, const char *key, size_t len, sf_map_same *same,
                    void *arg)
{
	if (!m->n)
		return SF_MAP_NONE;
	return m->value[find(m, (uint32_t)(sf_hash(key, len) >> 32), key, len, same, arg)];
}

void sf_map_release(struct sf_map *m)
{
	free(m->hash32);
	free(m->value);
	*m = (struct sf_map){ 0 };
}
