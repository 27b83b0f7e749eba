/* A key of a loaded checkpoint by its stored name; the product looks up shown ones. */
#ifndef SF_TESTS_LIB_CKPT_FIND_H
#define SF_TESTS_LIB_CKPT_FIND_H

#include <string.h>

#include "ckpt/ckpt.h"

/* Its number, or SF_NONE. */
static inline uint32_t ckpt_find(const struct sf_ckpt *ckpt, const char *name, size_t len)
{
	for (uint32_t i = 0; i < ckpt->nkeys; i++)
		if (ckpt->key[i].len == len && memcmp(ckpt->key[i].name, name, len) == 0)
			return i;
	return SF_NONE;
}

#endif
