#include "config.h"

#include <errno.h>
#include <string.h>

#include "base/crc32.h"
#include "base/mem.h"
#include "parse/pickle_write.h"
#include "parse/torch_archive.h"
#include "parse/torch_item.h"
#include "save/save_item_bytes.h"
#include "tests/lib/sf_test.h"

/* The item as it lies in a shard. */
static void make(struct sf_save_tensor_item *t, const void *payload, struct sf_buf *ret)
{
	uint32_t crc = sf_crc32(0, payload, t->bytes);
	struct sf_error err = SF_ERROR_INIT;

	ck_assert_msg(sf_save_tensor_item_plan(t, &err) == 0, "%s", err.msg);
	ck_assert_int_eq(sf_save_tensor_item_head(t, crc, ret), 0);
	ck_assert_uint_eq(ret->len, t->head_len);
	ck_assert_uint_eq(ret->len % 64, 0);
	sf_buf_add(ret, payload, t->bytes);
	ck_assert_int_eq(sf_save_tensor_item_tail(t, crc, ret), 0);
	ck_assert_uint_eq(ret->len, t->head_len + t->bytes + t->tail_len);
}

static enum sf_dtype any_dtype(uint64_t *seed)
{
	enum sf_dtype d;

	do
		d = (enum sf_dtype)(1 + sf_test_below(seed, SF_NDTYPES - 1));
	while (sf_pw_tensor_dtype(d) != d);
	return d;
}

/* As a shard's reader finds it: by the item's first bytes, and by the directory. */
static void check_read(const struct sf_save_tensor_item *t, const struct sf_buf *item)
{
	const struct sf_torch_input in = { .len = item->len, .at = item->at };
	struct sf_arena arena = { 0 };
	struct sf_torch_archive archive;
	struct sf_error err = SF_ERROR_INIT;
	struct sf_torch_item found;
	uint64_t need;

	ck_assert_msg(sf_torch_item_head(item->at, item->len, item->len, &found, &need, &err) == 0,
	              "%s", err.msg);
	ck_assert_uint_eq(found.payload_off, t->head_len);
	ck_assert_uint_eq(found.payload_len, t->bytes);
	ck_assert_uint_eq(found.t.dtype, t->dtype);
	ck_assert_uint_eq(found.t.ndim, t->ndim);
	for (unsigned k = 0; k < t->ndim; k++)
		ck_assert_uint_eq(found.t.shape[k], t->extent[k]);
	ck_assert_msg(sf_torch_open(&in, &(struct sf_torch_options){ 0 }, &arena, &archive, &err) == 0, "%s", err.msg);
	ck_assert_uint_eq(archive.nstorages, 1);
	ck_assert_uint_eq(archive.storage[0].off, t->head_len);
	ck_assert_uint_eq(archive.storage[0].len, t->bytes);
	ck_assert_msg(sf_save_object_check(item->at, item->len, &err) == 0, "%s", err.msg);
	sf_arena_release(&arena);
}

START_TEST(an_item_is_as_long_as_planned_and_reads_back)
{
	uint64_t seed = sf_test_seed("an_item_is_as_long_as_planned_and_reads_back");
	uint8_t payload[6 * 6 * 6 * 6 * 16];

	for (size_t i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)sf_test_rand(&seed);
	for (int round = 0; round < 500; round++) {
		uint64_t extent[4];
		struct sf_save_tensor_item t = { .dtype = any_dtype(&seed),
			                         .ndim = (unsigned)sf_test_below(&seed, 5),
			                         .extent = extent };
		struct sf_buf item = { 0 };
		t.bytes = sf_dtype_info(t.dtype)->bytes;
		for (unsigned k = 0; k < t.ndim; k++) {
			extent[k] = sf_test_below(&seed, 7);
			t.bytes *= extent[k];
		}
		make(&t, payload, &item);
		check_read(&t, &item);
		sf_buf_release(&item);
	}
}
END_TEST

/* The writer of shards has the CRC when the payload went by: head and tail are as long without. */
START_TEST(a_crc_changes_no_length)
{
	const uint64_t big[2] = { UINT64_C(1) << 20, 5000 };
	struct sf_save_tensor_item t = {
		.dtype = SF_FLOAT32, .ndim = 2, .extent = big, .bytes = 4 * big[0] * big[1]
	};
	struct sf_buf a = { 0 }, b = { 0 };

	ck_assert_int_eq(sf_save_tensor_item_plan(&t, NULL), 0);
	ck_assert_uint_eq(t.head_len % 64, 0);
	for (int tail = 0; tail < 2; tail++) {
		sf_buf_reset(&a);
		sf_buf_reset(&b);
		int r = tail ? sf_save_tensor_item_tail(&t, 0, &a)
		             : sf_save_tensor_item_head(&t, 0, &a);
		ck_assert_int_eq(r, 0);
		r = tail ? sf_save_tensor_item_tail(&t, 0xdeadbeef, &b)
		         : sf_save_tensor_item_head(&t, 0xdeadbeef, &b);
		ck_assert_int_eq(r, 0);
		ck_assert_uint_eq(a.len, tail ? t.tail_len : t.head_len);
		ck_assert_uint_eq(b.len, a.len);
		ck_assert(memcmp(a.at, b.at, a.len) != 0);
	}
	sf_buf_release(&a);
	sf_buf_release(&b);
}
END_TEST

START_TEST(what_is_no_tensor_is_refused)
{
	const uint64_t extent[2] = { 2, 3 }, huge[2] = { UINT64_C(1) << 40, UINT64_C(1) << 40 };
	const struct {
		struct sf_save_tensor_item t;
		int want;
		const char *says;
	} cases[] = {
		{ { .dtype = SF_DTYPE_NONE, .ndim = 2, .extent = extent }, -EINVAL, "no dtype" },
		{ { .dtype = SF_QINT8, .ndim = 2, .extent = extent, .bytes = 6 },
		  -EINVAL,
		  "qint8" },
		{ { .dtype = SF_FLOAT32, .ndim = 2, .extent = extent, .bytes = 6 },
		  -EINVAL,
		  "6 bytes of a box that has 24" },
		{ { .dtype = SF_FLOAT32, .ndim = 2, .extent = huge }, -E2BIG, "2^64" },
		{ { .dtype = SF_FLOAT32, .ndim = 65, .extent = huge }, -EINVAL, "65 dimensions" },
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(cases); i++) {
		struct sf_save_tensor_item t = cases[i].t;
		struct sf_error err = SF_ERROR_INIT;
		ck_assert_int_eq(sf_save_tensor_item_plan(&t, &err), cases[i].want);
		ck_assert_msg(strstr(err.msg, cases[i].says), "%s", err.msg);
	}
}
END_TEST

START_TEST(an_object_reads_back)
{
	struct sf_pv one = { .kind = SF_PV_INT, .i = 1 },
		     key = { .kind = SF_PV_STR, .str = { "lr", 2 } };
	struct sf_pv *pair[] = { &key, &one };
	struct sf_pv dict = { .kind = SF_PV_DICT, .height = 1, .seq = { pair, 2 } };
	struct sf_buf item = { 0 };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_arena arena = { 0 };
	struct sf_torch_archive archive;

	ck_assert_msg(sf_save_object_item(&dict, &item, &err) == 0, "%s", err.msg);
	ck_assert_msg(sf_save_object_check(item.at, item.len, &err) == 0, "%s", err.msg);
	const struct sf_torch_input in = { .len = item.len, .at = item.at };
	ck_assert_msg(sf_torch_open(&in, &(struct sf_torch_options){ 0 }, &arena, &archive, &err) == 0, "%s", err.msg);
	ck_assert_uint_eq(archive.nstorages, 0);
	ck_assert_int_eq(sf_pv_get(archive.root, "lr")->i, 1);
	sf_arena_release(&arena);
	sf_buf_release(&item);
}
END_TEST

START_TEST(what_torch_cannot_load_is_no_object)
{
	static const char *const no[] = { "", "PK\3\4", "\x80\2}.", "some text" };

	for (size_t i = 0; i < SF_ARRAY_LEN(no); i++) {
		struct sf_error err = SF_ERROR_INIT;
		ck_assert_int_eq(sf_save_object_check(no[i], strlen(no[i]), &err), -EBADMSG);
		ck_assert_uint_gt(strlen(err.msg), 0);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("save_item_bytes");
	TCase *t = tcase_create("all");

	tcase_add_test(t, an_item_is_as_long_as_planned_and_reads_back);
	tcase_add_test(t, a_crc_changes_no_length);
	tcase_add_test(t, what_is_no_tensor_is_refused);
	tcase_add_test(t, an_object_reads_back);
	tcase_add_test(t, what_torch_cannot_load_is_no_object);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
