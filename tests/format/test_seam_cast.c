#include "config.h"

#include "seam_tree.h"
#include "tests/lib/sf_fake_ckpt.h"
#include "tool/claims.h"

#define TEXTS(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* A tensor that is another's values in another dtype. */

#define N 12 /* elements: [4, 3] */

static const uint64_t shape[2] = { 4, 3 }, zero[2] = { 0 };

static int add(struct sf_ckpt_builder *b, const char *key, enum sf_dtype dtype, uint32_t *ret,
               struct sf_error *err)
{
	return sf_ckpt_builder_tensor(b, key, strlen(key), dtype, shape, 2, ret, err);
}

/* "wide" in two runs of one stored file, the second first; "narrow" and "again" are it, and come
 * before and behind it. */
static int lower(struct sf_ckpt_builder *b, struct sf_error *err)
{
	uint32_t place, wide, narrow, again;
	int r = sf_ckpt_builder_place(b, "f", 1, SF_ITEM_RAW, SF_CODEC_NONE, &place, err);

	if (r >= 0)
		r = add(b, "narrow", SF_BFLOAT16, &narrow, err);
	if (r >= 0)
		r = add(b, "wide", SF_FLOAT32, &wide, err);
	for (uint32_t i = 0; i < 2 && r >= 0; i++) {
		r = sf_ckpt_builder_chunk(b, zero, shape, err);
		if (r >= 0)
			r = sf_ckpt_builder_part(b, i ? 5 : 0, i ? 7 : 5, err);
		if (r >= 0)
			sf_ckpt_builder_set_item(b, wide, i, place, i ? 3 : 40, i ? 28 : 20);
	}
	if (r >= 0)
		r = add(b, "again", SF_FLOAT16, &again, err);
	if (r >= 0)
		r = sf_ckpt_builder_cast(b, again, wide, err);
	return r < 0 ? r : sf_ckpt_builder_cast(b, narrow, wide, err);
}

static void make(struct seam *w, float want[N], size_t len)
{
	uint8_t at[64] = { 0 };

	for (int i = 0; i < N; i++)
		want[i] = (float)(i * i * 1001) / 7 - 3;
	memcpy(at + 40, want, 20);
	memcpy(at + 3, want + 5, 28);
	seam_file(w, "f", at, len);
}

START_TEST(it_is_read_as_the_other_one_cast)
{
	struct seam w = { 0 };
	uint16_t bf[N], half[N];
	float want[N];

	make(&w, want, 64);
	sf_dtype_cast(bf, SF_BFLOAT16, want, SF_FLOAT32, N);
	sf_dtype_cast(half, SF_FLOAT16, want, SF_FLOAT32, N);
	seam_open(&w, lower);
	ck_assert_uint_eq(w.s.ckpt->nwarnings, 0);
	seam_check(&w, "wide", want, sizeof(want));
	seam_check(&w, "narrow", bf, sizeof(bf));
	seam_check(&w, "again", half, sizeof(half));
	seam_verify(&w, NULL);
	for (uint32_t i = 0; i < 3; i++)
		ck_assert_int_eq(sf_claims_check_tensor(&w.s, i, NULL), 0);
	/* any bytes of it */
	const struct sf_entry *e = &w.s.catalog->entry[seam_entry(&w, "narrow")];
	for (uint64_t off = 0; off < sizeof(bf); off++)
		for (uint64_t len = 1; len <= sizeof(bf) - off; len++) {
			uint8_t got[sizeof(bf)];
			ck_assert_int_ge(sf_read_tensor(w.s.reader, e->tensor, off, got, len, NULL),
			                 0);
			ck_assert_int_eq(memcmp(got, (uint8_t *)bf + off, len), 0);
		}
	ck_assert_uint_eq(w.s.ckpt->tensor[e->tensor].nchunks, 2);
	seam_close(&w);
}
END_TEST

/* What is damaged of the one is of the other. */
START_TEST(its_damage_is_the_other_ones)
{
	struct seam w = { 0 };
	float want[N];

	make(&w, want, 50);
	seam_open(&w, lower);
	seam_warns(&w, "truncated-file", TEXTS("'f'"));
	seam_warns(&w, "missing-item", TEXTS("'wide' cast", "not whole"));
	seam_fails(&w, "narrow", -EBADMSG, TEXTS("20 bytes", "has 50"));
	seam_close(&w);
}
END_TEST

START_TEST(what_cannot_be_cast_is_refused)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_ckpt_builder *b;
	const uint64_t other[1] = { 12 };
	uint32_t a, c, i, s;

	ck_assert_int_eq(sf_ckpt_builder_new("seam", "src", &b, NULL), 0);
	ck_assert_int_eq(add(b, "a", SF_FLOAT32, &a, NULL), 0);
	ck_assert_int_eq(add(b, "c", SF_BFLOAT16, &c, NULL), 0);
	ck_assert_int_eq(add(b, "i", SF_INT32, &i, NULL), 0);
	ck_assert_int_eq(sf_ckpt_builder_tensor(b, "s", 1, SF_FLOAT16, other, 1, &s, NULL), 0);
	ck_assert_int_eq(sf_ckpt_builder_cast(b, i, a, &err), -EBADMSG);
	ck_assert_msg(strstr(err.msg, "'i' cannot be 'a'") != NULL, "%s", err.msg);
	ck_assert_int_eq(sf_ckpt_builder_cast(b, s, a, NULL), -EBADMSG);
	ck_assert_int_eq(sf_ckpt_builder_cast(b, s, 77, NULL), -EBADMSG);
	ck_assert_int_eq(sf_ckpt_builder_cast(b, c, a, NULL), 0);
	ck_assert_int_eq(sf_ckpt_builder_cast(b, a, c, NULL), -EBADMSG);
	sf_ckpt_builder_free(b);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("seam_cast");
	TCase *tc = tcase_create("seam_cast");

	tcase_add_test(tc, it_is_read_as_the_other_one_cast);
	tcase_add_test(tc, its_damage_is_the_other_ones);
	tcase_add_test(tc, what_cannot_be_cast_is_refused);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
