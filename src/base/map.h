/* A hash map from byte strings to u32, for names: open addressing, 8 bytes a slot, keys are not
 * copied. */
#ifndef SF_BASE_MAP_H
#define SF_BASE_MAP_H

#include <stddef.h>
#include <stdint.h>

#define SF_MAP_NONE UINT32_MAX

/* 64-bit hash of bytes; keyed with a per-process random seed so that hostile names cannot collide
 * by design. */
uint64_t sf_hash(const void *p, size_t len);
/* FNV-1a, 64 bits, gone on with from @h (SF_FNV1A at first): the same in every process, which
 * sf_hash is not; collisions can be made. */
#define SF_FNV1A UINT64_C(0xcbf29ce484222325)
uint64_t sf_fnv1a(uint64_t h, const void *p, size_t len);

/*
 * The map holds (hash, value); whether a slot's key equals the asked one is the caller's @same(arg,
 * value, key, len), so a map over 10^5 names costs no string of its own.
 */
struct sf_map {
	uint32_t *hash32; /* upper half of the hash, 0 slots are told by value */
	uint32_t *value;
	size_t n, cap; /* cap is a power of two or 0 */
};
typedef int sf_map_same(void *arg, uint32_t value, const char *key, size_t len);

int sf_map_reserve(struct sf_map *m, size_t n); /* 0 or -ENOMEM */
/* returns the value already there for that key, or SF_MAP_NONE after adding @value; *ret_failed is
 * -ENOMEM or 0 */
uint32_t sf_map_add(struct sf_map *m, const char *key, size_t len, uint32_t value,
                    sf_map_same *same, void *arg, int *ret_failed);
uint32_t sf_map_get(const struct sf_map *m, const char *key, size_t len, sf_map_same *same,
                    void *arg);
void sf_map_release(struct sf_map *m);

#endif
