/* Typed growing arrays: SF_VEC(sf_u32s, uint32_t); makes struct sf_u32s { at, n, cap } and its
 * functions. */
#ifndef SF_BASE_VEC_H
#define SF_BASE_VEC_H

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

/* 0 or -ENOMEM; *at is then unchanged. Grows by half, so n pushes cost O(n). */
int sf_vec_grow(void **at, size_t *cap, size_t need, size_t elem);

#define SF_VEC(name, type)                                                                         \
	struct name {                                                                              \
		type *at;                                                                          \
		size_t n, cap;                                                                     \
	};                                                                                         \
	/* room for @need elements in all; 0 or -ENOMEM */                                         \
	__attribute__((unused)) static inline int name##_reserve(struct name *v, size_t need)      \
	{                                                                                          \
		return need <= v->cap ? 0                                                          \
		                      : sf_vec_grow((void **)&v->at, &v->cap, need, sizeof(type)); \
	}                                                                                          \
	/* append a copy of @e; 0 or -ENOMEM */                                                    \
	__attribute__((unused)) static inline int name##_push(struct name *v, type e)              \
	{                                                                                          \
		if (name##_reserve(v, v->n + 1) < 0)                                               \
			return -ENOMEM;                                                            \
		v->at[v->n++] = e;                                                                 \
		return 0;                                                                          \
	}                                                                                          \
	__attribute__((unused)) static inline void name##_release(struct name *v)                  \
	{                                                                                          \
		free(v->at);                                                                       \
		v->at = NULL;                                                                      \
		v->n = v->cap = 0;                                                                 \
	}                                                                                          \
	_Static_assert(sizeof(type) > 0, "SF_VEC takes complete types")

#endif
