#include "config.h"

#include "base/mem.h"
#include "save/save_item.h"
#include "tests/lib/sf_test.h"

#define DIMS 4
#define ELEMENTS_MAX 256 /* 4 to the power of DIMS */

static struct sf_save_items items;
static struct sf_error err;

static void begin(void)
{
	ck_assert_int_eq(sf_save_items_init(&items, &err), 0);
}

static void end(void)
{
	sf_save_items_release(&items);
}

static struct shardfuse_save_tensor tensor(const char *key, unsigned ndim, const uint64_t *shape)
{
	struct shardfuse_save_tensor t = SHARDFUSE_INIT(t);

	t.key = key;
	t.dtype = "float32";
	t.ndim = ndim;
	t.shape = shape;
	t.at = &items;
	return t;
}

static void refused(const struct shardfuse_save_tensor *t, const char *message)
{
	size_t n = items.item.n;

	ck_assert_int_eq(sf_save_items_tensor(&items, t, &err), -EINVAL);
	ck_assert_str_eq(err.msg, message);
	ck_assert_uint_eq(items.item.n, n);
}

START_TEST(a_box_is_copied_as_it_is)
{
	uint64_t shape[2] = { 8, 4 }, offset[2] = { 2, 1 }, extent[2] = { 3, 2 };
	char key[] = "model.w";
	struct shardfuse_save_tensor t = tensor(key, 2, shape);
	const struct sf_save_item *item;

	begin();
	t.offset = offset;
	t.extent = extent;
	t.requires_grad = 1;
	ck_assert_msg(sf_save_items_tensor(&items, &t, &err) == 0, "%s", err.msg);
	memset(key, 'x', 3);
	memset(shape, 1, sizeof(shape));
	memset(offset, 1, sizeof(offset));
	memset(extent, 1, sizeof(extent));
	item = &items.item.at[0];
	ck_assert_str_eq(item->key, "model.w");
	ck_assert_uint_eq(item->key_len, 7);
	ck_assert_uint_eq(item->npath, 0);
	ck_assert_uint_eq(item->dtype, SF_FLOAT32);
	ck_assert(item->requires_grad);
	ck_assert_uint_eq(item->shape[1], 4);
	ck_assert_uint_eq(item->origin[0], 2);
	ck_assert_uint_eq(item->extent[1], 2);
	ck_assert_uint_eq(item->bytes, 24);
	ck_assert_uint_gt(item->stored, 24);
	ck_assert_ptr_eq(item->from.at, &items);
	ck_assert_ptr_null(item->from.stride);
	end();
}
END_TEST

START_TEST(an_older_callers_struct_and_defaults_are_the_whole_dense_tensor)
{
	uint64_t shape[2] = { 8, 4 };
	struct shardfuse_save_tensor t = tensor("w", 2, shape);

	begin();
	t.struct_size = offsetof(struct shardfuse_save_tensor, provide);
	ck_assert_int_eq(sf_save_items_tensor(&items, &t, &err), 0);
	ck_assert_uint_eq(items.item.at[0].bytes, 128);
	t.struct_size = 0;
	ck_assert_int_eq(sf_save_items_tensor(&items, &t, &err), -EINVAL);
	end();
}
END_TEST

START_TEST(a_path_makes_the_key_and_one_that_says_no_more_than_it_is_none)
{
	const struct shardfuse_save_step path[3] = { { "optim", 0 }, { NULL, 12 }, { "a.b", 0 } };
	const struct shardfuse_save_step one[1] = { { "w", 0 } };
	struct shardfuse_save_tensor t = tensor(NULL, 0, NULL);

	begin();
	t.path = path;
	t.npath = 3;
	ck_assert_int_eq(sf_save_items_tensor(&items, &t, &err), 0);
	ck_assert_str_eq(items.item.at[0].key, "optim.12.a.b");
	ck_assert_uint_eq(items.item.at[0].npath, 3);
	ck_assert_ptr_null(items.item.at[0].path[1].name);
	ck_assert_uint_eq(items.item.at[0].path[1].index, 12);
	ck_assert_str_eq(items.item.at[0].path[2].name, "a.b");
	t.path = one;
	t.npath = 1;
	ck_assert_int_eq(sf_save_items_tensor(&items, &t, &err), 0);
	ck_assert_str_eq(items.item.at[1].key, "w");
	ck_assert_uint_eq(items.item.at[1].npath, 0);
	t.npath = 0;
	refused(&t, "neither a key nor a path");
	end();
}
END_TEST

START_TEST(strides_of_dense_memory_are_none)
{
	const uint64_t shape[3] = { 4, 1, 5 }, dense[3] = { 5, 99, 1 }, other[3] = { 1, 0, 4 };
	const uint64_t far[3] = { UINT64_MAX / 8, 0, 1 };
	struct shardfuse_save_tensor t = tensor("w", 3, shape);

	begin();
	t.stride = dense;
	ck_assert_int_eq(sf_save_items_tensor(&items, &t, &err), 0);
	ck_assert_ptr_null(items.item.at[0].from.stride);
	t.key = "x";
	t.stride = other;
	ck_assert_int_eq(sf_save_items_tensor(&items, &t, &err), 0);
	ck_assert_ptr_ne(items.item.at[1].from.stride, other);
	ck_assert_mem_eq(items.item.at[1].from.stride, other, sizeof(other));
	t.key = "y";
	t.stride = far;
	refused(&t, "tensor 'y': stride 2305843009213693951 of dimension 0 is no place in memory");
	end();
}
END_TEST

START_TEST(what_cannot_be_saved_is_refused_by_name)
{
	const uint64_t shape[2] = { 8, 4 }, offset[2] = { 6, 0 }, extent[2] = { 3, 4 };
	const uint64_t huge[2] = { UINT64_C(1) << 40, UINT64_C(1) << 30 };
	struct shardfuse_save_tensor t = tensor("w", 2, shape);

	begin();
	t.dtype = "float33";
	refused(&t, "tensor 'w': dtype 'float33' is not known: torch's words are float32, "
	            "bfloat16, float16, int64 …");
	t.dtype = NULL;
	refused(&t, "tensor 'w': dtype '' is not known: torch's words are float32, bfloat16, "
	            "float16, int64 …");
	t.dtype = "qint8";
	refused(&t, "tensor 'w': quantized tensors (qint8) are not saved");
	t.dtype = "float32";
	t.offset = offset;
	t.extent = extent;
	refused(&t, "tensor 'w': dimension 0: 3 elements from 6 on, the shape has 8");
	t.offset = t.extent = NULL;
	t.shape = huge;
	refused(&t, "tensor 'w': more than 2^63 bytes");
	t.shape = NULL;
	refused(&t, "tensor 'w': no shape");
	t.shape = shape;
	t.ndim = 65;
	refused(&t, "tensor 'w': 65 dimensions, the limit is 64");
	t.ndim = 2;
	t.device = 7;
	refused(&t, "tensor 'w': device 7 is not known");
	t.device = 0;
	t.at = NULL;
	refused(&t, "tensor 'w': 128 bytes, neither memory nor a provider");
	t.at = shape;
	t.key = "a\0b";
	t.key_len = 3;
	refused(&t, "key 'a' goes on behind a NUL");
	t.key = "\x1b[31m\\\xff\u00e9\n";
	t.key_len = 0;
	t.dtype = "\a";
	refused(&t, "tensor '\\x1b[31m\\\\\\xff\u00e9\\x0a': dtype '\\x07' is not known: torch's "
	            "words are float32, bfloat16, float16, int64 …");
	end();
}
END_TEST

START_TEST(a_name_in_a_message_has_an_end)
{
	char name[SF_SAVE_KEY_MAX + 1];

	for (size_t len = 0; len < 300; len++) {
		memset(name, 'x', len);
		struct sf_save_shown x = sf_save_shown(name, len);
		ck_assert_uint_eq(strlen(x.at), len <= 189 ? len : 192);
		memset(name, '\n', len);
		x = sf_save_shown(name, len);
		ck_assert_uint_eq(strlen(x.at), len <= 48 ? 4 * len : 195);
	}
}
END_TEST

START_TEST(the_same_box_twice_is_refused_but_empty_ones_are_not)
{
	const uint64_t shape[2] = { 8, 4 }, offset[2] = { 4, 0 }, none[2] = { 0, 4 };
	struct shardfuse_save_tensor t = tensor("w", 2, shape);

	begin();
	t.offset = offset;
	ck_assert_int_eq(sf_save_items_tensor(&items, &t, &err), 0);
	refused(&t, "tensor 'w' is added twice with boxes of one origin");
	t.extent = none;
	t.at = NULL;
	ck_assert_int_eq(sf_save_items_tensor(&items, &t, &err), 0);
	ck_assert_int_eq(sf_save_items_tensor(&items, &t, &err), 0);
	t = tensor("v", 2, shape);
	t.offset = offset;
	ck_assert_int_eq(sf_save_items_tensor(&items, &t, &err), 0);
	ck_assert_uint_eq(items.item.n, 4);
	end();
}
END_TEST

/* ---- ranges of elements ---- */

/* Is [from, to) a box? Slowly: of the hull of its elements. */
static bool is_box(const uint64_t *shape, unsigned ndim, uint64_t from, uint64_t to)
{
	uint64_t lo[DIMS], hi[DIMS], volume = 1;

	memset(lo, 0xff, sizeof(lo));
	memset(hi, 0, sizeof(hi));
	for (uint64_t e = from; e < to; e++) {
		uint64_t left = e;
		for (unsigned d = ndim; d-- > 0; left /= shape[d]) {
			lo[d] = SF_MIN(lo[d], left % shape[d]);
			hi[d] = SF_MAX(hi[d], left % shape[d] + 1);
		}
	}
	for (unsigned d = 0; d < ndim; d++)
		volume *= hi[d] - lo[d];
	return volume == to - from;
}

static unsigned fewest(const uint64_t *shape, unsigned ndim, uint64_t start, uint64_t stop)
{
	unsigned best[ELEMENTS_MAX + 1] = { 0 };

	for (uint64_t to = start + 1; to <= stop; to++) {
		best[to] = UINT32_MAX;
		for (uint64_t from = start; from < to; from++)
			if (best[from] + 1 < best[to] && is_box(shape, ndim, from, to))
				best[to] = best[from] + 1;
	}
	return best[stop];
}

START_TEST(a_range_of_elements_is_the_fewest_boxes_in_order)
{
	uint64_t seed = sf_test_seed("a_range_of_elements_is_the_fewest_boxes_in_order");

	for (int round = 0; round < 150; round++) {
		unsigned ndim = 1 + (unsigned)sf_test_below(&seed, DIMS);
		uint64_t shape[DIMS], volume = 1, at, start, stop;
		struct shardfuse_save_tensor t = tensor("w", ndim, shape);

		for (unsigned d = 0; d < ndim; d++)
			volume *= shape[d] = 1 + sf_test_below(&seed, 4);
		start = at = sf_test_below(&seed, volume);
		stop = start + 1 + sf_test_below(&seed, volume - start);
		begin();
		ck_assert_msg(sf_save_items_flat(&items, &t, start, stop, &err) == 0, "%s",
		              err.msg);
		for (size_t i = 0; i < items.item.n; i++) {
			const struct sf_save_item *item = &items.item.at[i];
			uint64_t first = 0, n = 1;
			for (unsigned d = 0; d < ndim; d++) {
				first = first * shape[d] + item->origin[d];
				n *= item->extent[d];
				ck_assert_uint_le(item->origin[d] + item->extent[d], shape[d]);
			}
			ck_assert_uint_eq(first, at);
			ck_assert(is_box(shape, ndim, at, at + n));
			ck_assert_ptr_eq(item->from.at, (char *)&items + 4 * (at - start));
			at += n;
		}
		ck_assert_uint_eq(at, stop);
		ck_assert_uint_eq(items.item.n, fewest(shape, ndim, start, stop));
		end();
	}
}
END_TEST

static int provide_numbers(void *arg, uint64_t off, void *to, size_t len, struct shardfuse_error *e)
{
	(void)e;
	ck_assert_ptr_eq(arg, &items);
	for (size_t i = 0; i < len; i++)
		((uint8_t *)to)[i] = (uint8_t)(off + i);
	return 0;
}

START_TEST(a_ranges_provider_is_asked_for_bytes_of_the_range)
{
	const uint64_t shape[2] = { 4, 3 };
	struct shardfuse_save_tensor t = tensor("w", 2, shape);
	uint64_t at = 0;

	begin();
	t.at = NULL;
	t.provide = provide_numbers;
	t.provide_arg = &items;
	ck_assert_int_eq(sf_save_items_flat(&items, &t, 2, 10, &err), 0);
	ck_assert_uint_eq(items.item.n, 3);
	for (size_t i = 0; i < 3; i++) {
		const struct sf_save_item *item = &items.item.at[i];
		for (uint64_t off = 0; off < item->bytes; off++, at++) {
			uint8_t byte;
			ck_assert_int_eq(
				item->from.provide(item->from.provide_arg, off, &byte, 1, NULL), 0);
			ck_assert_uint_eq(byte, at);
		}
	}
	ck_assert_uint_eq(at, 32);
	end();
}
END_TEST

START_TEST(a_range_that_is_refused_leaves_nothing)
{
	const uint64_t shape[2] = { 4, 3 }, offset[2] = { 1, 0 };
	struct shardfuse_save_tensor t = tensor("w", 2, shape);

	begin();
	t.offset = offset;
	ck_assert_int_eq(sf_save_items_tensor(&items, &t, &err), 0);
	t.offset = NULL;
	ck_assert_int_eq(sf_save_items_flat(&items, &t, 1, 12, &err), -EINVAL);
	ck_assert_str_eq(err.msg, "tensor 'w' is added twice with boxes of one origin");
	ck_assert_uint_eq(items.item.n, 1);
	ck_assert_msg(sf_save_items_flat(&items, &t, 1, 3, &err) == 0, "%s", err.msg);
	ck_assert_int_eq(sf_save_items_flat(&items, &t, 1, 3, &err), -EINVAL);
	ck_assert_int_eq(sf_save_items_flat(&items, &t, 0, 1, &err), 0);
	ck_assert_uint_eq(items.item.n, 3);
	end();
}
END_TEST

START_TEST(ranges_that_are_empty_or_outside)
{
	const uint64_t shape[2] = { 4, 3 }, offset[2] = { 0, 0 }, empty[2] = { 0, 3 };
	struct shardfuse_save_tensor t = tensor("w", 2, shape);

	begin();
	ck_assert_int_eq(sf_save_items_flat(&items, &t, 5, 5, &err), 0);
	ck_assert_uint_eq(items.item.at[0].bytes, 0);
	ck_assert_int_eq(sf_save_items_flat(&items, &t, 5, 13, &err), -EINVAL);
	ck_assert_str_eq(err.msg, "tensor 'w': elements 5 to 13, it has 12");
	ck_assert_int_eq(sf_save_items_flat(&items, &t, 6, 5, &err), -EINVAL);
	t.offset = offset;
	ck_assert_int_eq(sf_save_items_flat(&items, &t, 0, 5, &err), -EINVAL);
	t = tensor("none", 2, empty);
	ck_assert_int_eq(sf_save_items_flat(&items, &t, 0, 0, &err), 0);
	ck_assert_uint_eq(items.item.at[1].extent[1], 3);
	t = tensor("scalar", 0, NULL);
	ck_assert_int_eq(sf_save_items_flat(&items, &t, 0, 1, &err), 0);
	ck_assert_uint_eq(items.item.at[2].bytes, 4);
	ck_assert_int_eq(sf_save_items_flat(&items, &t, 0, 0, &err), 0);
	ck_assert_uint_eq(items.item.n, 3);
	end();
}
END_TEST

START_TEST(files_have_names_below_the_checkpoint)
{
	static const char *const bad[] = { "",   "/etc/passwd", "..",  "a/../b", "a//b",
		                           "a/", ".",           "./a", NULL };

	begin();
	ck_assert_int_eq(sf_save_items_file(&items, "train/rank0.pt", "abc", 3, &err), 0);
	ck_assert_mem_eq(items.file.at[0].at, "abc", 3);
	ck_assert_int_eq(sf_save_items_file(&items, "empty", NULL, 0, &err), 0);
	ck_assert_int_eq(sf_save_items_file(&items, "train/rank0.pt", "abc", 3, &err), -EINVAL);
	ck_assert_str_eq(err.msg, "file 'train/rank0.pt' is added twice");
	for (size_t i = 0; bad[i]; i++)
		ck_assert_int_eq(sf_save_items_file(&items, bad[i], "abc", 3, &err), -EINVAL);
	ck_assert_int_eq(sf_save_items_file(&items, NULL, "abc", 3, &err), -EINVAL);
	ck_assert_int_eq(sf_save_items_file(&items, "b", NULL, 3, &err), -EINVAL);
	ck_assert_uint_eq(items.file.n, 2);
	end();
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("save_item");
	TCase *t = tcase_create("save_item");

	tcase_add_test(t, a_box_is_copied_as_it_is);
	tcase_add_test(t, an_older_callers_struct_and_defaults_are_the_whole_dense_tensor);
	tcase_add_test(t, a_path_makes_the_key_and_one_that_says_no_more_than_it_is_none);
	tcase_add_test(t, strides_of_dense_memory_are_none);
	tcase_add_test(t, what_cannot_be_saved_is_refused_by_name);
	tcase_add_test(t, a_name_in_a_message_has_an_end);
	tcase_add_test(t, the_same_box_twice_is_refused_but_empty_ones_are_not);
	tcase_add_test(t, a_range_of_elements_is_the_fewest_boxes_in_order);
	tcase_add_test(t, a_ranges_provider_is_asked_for_bytes_of_the_range);
	tcase_add_test(t, a_range_that_is_refused_leaves_nothing);
	tcase_add_test(t, ranges_that_are_empty_or_outside);
	tcase_add_test(t, files_have_names_below_the_checkpoint);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return sf_test_main(suite());
}
