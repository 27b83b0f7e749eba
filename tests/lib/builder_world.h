/* A checkpoint as a format builds it, step by step. */
#ifndef SF_TESTS_LIB_BUILDER_WORLD_H
#define SF_TESTS_LIB_BUILDER_WORLD_H

#include <stdio.h>
#include "base/mem.h"
#include "ckpt/box.h"
#include "ckpt/ckpt_builder.h"
#include "tests/lib/ckpt_find.h"
#include "tests/lib/sf_test.h"
#include "tests/lib/sf_test_chunks.h"

static struct sf_error err;

static inline struct sf_ckpt_builder *new_builder(void)
{
	struct sf_ckpt_builder *b;

	ck_assert_int_eq(sf_ckpt_builder_new("dcp", "/runs/1", &b, &err), 0);
	return b;
}

static inline struct sf_ckpt *finish(struct sf_ckpt_builder *b)
{
	struct sf_ckpt *ckpt;

	ck_assert_msg(sf_ckpt_builder_finish(b, &ckpt, &err) == 0, "%s", err.msg);
	return ckpt;
}

static inline uint32_t add_tensor(struct sf_ckpt_builder *b, const char *name,
                                  const uint64_t *shape, unsigned ndim)
{
	uint32_t id;

	ck_assert_msg(sf_ckpt_builder_tensor(b, name, strlen(name), SF_FLOAT32, shape, ndim, &id,
	                                     &err) == 0,
	              "%s", err.msg);
	return id;
}

static inline void add_chunk(struct sf_ckpt_builder *b, uint64_t origin, uint64_t extent)
{
	ck_assert_msg(sf_ckpt_builder_chunk(b, &origin, &extent, &err) == 0, "%s", err.msg);
}

static inline uint32_t add_place(struct sf_ckpt_builder *b, const char *file)
{
	uint32_t place;

	ck_assert_msg(sf_ckpt_builder_place(b, file, strlen(file), SF_ITEM_TORCH, SF_CODEC_NONE,
	                                    &place, &err) == 0,
	              "%s", err.msg);
	return place;
}

static inline const struct sf_warning *warning(const struct sf_ckpt *ckpt, const char *code,
                                               const char *key)
{
	for (uint32_t i = 0; i < ckpt->nwarnings; i++) {
		const struct sf_warning *w = &ckpt->warning[i];
		if (strcmp(w->code, code) == 0 &&
		    (key ? w->key != SF_NONE && strcmp(ckpt->key[w->key].name, key) == 0
		         : w->key == SF_NONE))
			return w;
	}
	return NULL;
}

#endif
