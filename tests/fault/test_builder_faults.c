/* Each allocation of a checkpoint's making fails once: it is told, never a checkpoint with less in
 * it. */
#include "config.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "ckpt/ckpt_builder.h"
#include "tests/fuzz/fz_malloc.h"
#include "tests/lib/sf_test.h"

enum { TENSORS = 40, ROWS = 40 };

#define TRY(call)                  \
	do {                       \
		int r_ = call;     \
		if (r_ < 0)        \
			return r_; \
	} while (0)

/* Row @i of a tensor, whole, or as the two parts of a box. */
static int row(struct sf_ckpt_builder *b, uint64_t i, bool parts, struct sf_error *err)
{
	const uint64_t origin[2] = { i, 0 }, extent[2] = { 1, 8 };

	TRY(sf_ckpt_builder_chunk(b, origin, extent, err));
	if (!parts)
		return 0;
	TRY(sf_ckpt_builder_part(b, 0, 3, err));
	TRY(sf_ckpt_builder_chunk(b, origin, extent, err));
	return sf_ckpt_builder_part(b, 3, 5, err);
}

/* Tensors whose items come while they are open, or later; @late: rows from the last to the first. */
static int tensor(struct sf_ckpt_builder *b, unsigned k, const uint32_t *place, bool late,
                  struct sf_error *err)
{
	const uint64_t shape[2] = { ROWS, 8 };
	const bool parts = k % 7 == 3;
	char name[64];
	uint32_t t;

	snprintf(name, sizeof(name), "%s.%u.weight", k % 3 ? "model" : "optim", k);
	TRY(sf_ckpt_builder_tensor(b, name, strlen(name), SF_FLOAT32, shape, 2, &t, err));
	for (uint64_t i = 0; i < ROWS; i++)
		TRY(row(b, late ? ROWS - 1 - i : i, parts, err));
	for (uint32_t c = 0; c < (uint32_t)ROWS * (1 + parts); c++)
		sf_ckpt_builder_set_item(b, t, c, place[c % 2], 100 * c, 100);
	const struct sf_path_elem path[3] = { { k % 3 ? "model" : "optim", 5, false },
		                              { "0", 1, true },
		                              { name, (uint32_t)strlen(name), false } };
	TRY(sf_ckpt_builder_path(b, name, strlen(name), path, SF_ARRAY_LEN(path), err));
	if (k % 2) {
		char group[16];
		snprintf(group, sizeof(group), "g%u", k);
		TRY(sf_ckpt_builder_group(b, name, strlen(name), group, SF_ROLE_OTHER, 1, err));
	}
	return 0;
}

static int object(struct sf_ckpt_builder *b, const char *name, uint32_t place, struct sf_error *err)
{
	const uint64_t shape[1] = { 5 };
	uint32_t o;

	TRY(sf_ckpt_builder_object(b, name, strlen(name), &o, err));
	sf_ckpt_builder_set_object(b, o, place, 10, 10);
	TRY(sf_ckpt_builder_set_member(b, o, "inner", 5));
	sf_ckpt_builder_set_in_list(b, o);
	return sf_ckpt_builder_set_subclass(b, o, "lib.Packed", SF_FLOAT32, shape, 1);
}

static int fill(struct sf_ckpt_builder *b, struct sf_error *err)
{
	const struct sf_objinfo files[3] = {
		{ .name = "a", .size = 4000, .version = { .etag = "x" } },
		{ .name = "b", .size = 100 },
		{ .name = "other", .size = 1 }
	};
	char name[32];
	uint32_t place[3];

	TRY(sf_ckpt_builder_listing(b, files, SF_ARRAY_LEN(files), err));
	TRY(sf_ckpt_builder_place(b, "a", 1, SF_ITEM_RAW, SF_CODEC_NONE, &place[0], err));
	TRY(sf_ckpt_builder_place(b, "b", 1, SF_ITEM_RAW, SF_CODEC_NONE, &place[1], err)); /* cut */
	TRY(sf_ckpt_builder_place(b, "gone", 4, SF_ITEM_TORCH, SF_CODEC_NONE, &place[2], err));
	sf_ckpt_builder_facts(b, "writer", "content", 7, 4, 9);
	for (unsigned k = 0; k < TENSORS; k++)
		TRY(tensor(b, k, place, k % 2, err));
	TRY(object(b, "step", place[2], err));
	for (unsigned k = 0; k < 20; k++) { /* roots of their own */
		snprintf(name, sizeof(name), "root%u", k);
		TRY(object(b, name, place[2], err));
	}
	TRY(sf_ckpt_builder_warn(b, "step", "made-up", "%s", "a word"));
	sf_ckpt_builder_beside(b);
	return object(b, "beside", place[2], err);
}

static int make(struct sf_ckpt **ret, struct sf_error *err)
{
	struct sf_ckpt_builder *b = NULL;
	int r = sf_ckpt_builder_new("test", "memory", &b, err);

	if (r < 0)
		return r;
	r = fill(b, err);
	if (r >= 0)
		r = sf_ckpt_builder_finish(b, ret, err);
	if (r < 0)
		sf_ckpt_builder_free(b);
	return r;
}

START_TEST(memory_that_runs_out_anywhere_fails_the_making)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_ckpt *ckpt = NULL;
	long failed = 1, n;

	for (n = 0; failed; n++) {
		fz_malloc_fails(n, false);
		int r = make(&ckpt, &err);
		failed = fz_malloc_fails(-1, false);
		if (failed && r != -ENOMEM)
			ck_abort_msg("allocation %ld failed and the making said %d", n, r);
		if (!failed)
			ck_assert_msg(r == 0, "%s", err.msg);
		else
			ckpt = NULL;
	}
	ck_assert_int_gt(n, 20);
	ck_assert_uint_eq(ckpt->ntensors, TENSORS);
	ck_assert_uint_eq(ckpt->nobjects, 22);
	ck_assert_uint_gt(ckpt->ngroups, 20);
	ck_assert_uint_gt(ckpt->nwarnings, 2);
	sf_ckpt_free(ckpt);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("builder_faults");
	TCase *t = tcase_create("builder_faults");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, memory_that_runs_out_anywhere_fails_the_making);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
