/* Ownership helpers, checked arithmetic on sizes, little-endian loads. */
#ifndef SF_BASE_MEM_H
#define SF_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SF_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define SF_MIN(a, b) ((a) < (b) ? (a) : (b))
#define SF_MAX(a, b) ((a) > (b) ? (a) : (b))

/* The last @i below @n for which @holds, an expression of @i that is true up to some number and
 * false behind it; 0 is not asked. Its type is that of @n. O(log n). */
#define SF_LAST_THAT(i, n, holds)                                                     \
	__extension__({                                                               \
		__typeof__((n) + 0) sf_lo_ = 0, sf_end_ = (n);                        \
		while (sf_end_ > sf_lo_ + 1) {                                        \
			const __typeof__(sf_lo_) i = sf_lo_ + (sf_end_ - sf_lo_) / 2; \
			if (holds)                                                    \
				sf_lo_ = i;                                           \
			else                                                          \
				sf_end_ = i;                                          \
		}                                                                     \
		sf_lo_;                                                               \
	})

/* Of @n ≥ 1 ascending starts, the first of them at or before @at, the last one that is not behind @at:
 * of several equal ones the last. O(log n). */
static inline size_t sf_last_start(const uint64_t *start, size_t n, uint64_t at)
{
	return SF_LAST_THAT(i, n, start[i] <= at);
}

/* The struct of @type whose @member @ptr points to. */
#define sf_container_of(ptr, type, member) \
	((type *)(void *)((char *)(1 ? (ptr) : &((type *)0)->member) - offsetof(type, member)))

/* One owner: the variable frees what it points to when it goes out of scope; SF_STEAL() hands
 * over. */
static inline void sf_freep(void *p)
{
	free(*(void **)p);
}
#define SF_CLEANUP(fn) __attribute__((cleanup(fn)))
#define SF_FREE SF_CLEANUP(sf_freep)
#define SF_STEAL(p)                            \
	__extension__({                        \
		__typeof__(p) sf_steal_ = (p); \
		(p) = NULL;                    \
		sf_steal_;                     \
	})

/* Every size that came from a file passes these before malloc or an offset sees it. False: it
 * overflowed. */
static inline bool sf_add(uint64_t a, uint64_t b, uint64_t *ret)
{
	return !__builtin_add_overflow(a, b, ret);
}
static inline bool sf_mul(uint64_t a, uint64_t b, uint64_t *ret)
{
	return !__builtin_mul_overflow(a, b, ret);
}

/* sf_alloc_array - calloc-checked n * size without clearing; NULL when it overflows or fails. n ==
 * 0 gives 1 byte. */
static inline void *sf_alloc_array(size_t n, size_t size)
{
	size_t bytes;
	if (__builtin_mul_overflow(n, size, &bytes))
		return NULL;
	return malloc(bytes ? bytes : 1);
}

static inline uint16_t sf_le16(const void *p)
{
	const uint8_t *b = p;
	return (uint16_t)(b[0] | b[1] << 8);
}
static inline uint32_t sf_le32(const void *p)
{
	const uint8_t *b = p;
	return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}
static inline uint64_t sf_le64(const void *p)
{
	return sf_le32(p) | (uint64_t)sf_le32((const uint8_t *)p + 4) << 32;
}
static inline void sf_put_le16(void *p, uint16_t v)
{
	uint8_t *b = p;
	b[0] = (uint8_t)v;
	b[1] = (uint8_t)(v >> 8);
}
static inline void sf_put_le32(void *p, uint32_t v)
{
	sf_put_le16(p, (uint16_t)v);
	sf_put_le16((uint8_t *)p + 2, (uint16_t)(v >> 16));
}
static inline void sf_put_le64(void *p, uint64_t v)
{
	sf_put_le32(p, (uint32_t)v);
	sf_put_le32((uint8_t *)p + 4, (uint32_t)(v >> 32));
}

#endif
