/* The public interface alone: only shardfuse.h, linked with libshardfuse. */
#include "config.h"
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include "shardfuse.h"
#include "tests/lib/sf_test.h"

static struct shardfuse *open_data(const char *which)
{
	struct shardfuse_error err = { { 0 } };
	struct shardfuse *h = NULL;
	char path[4096];
	int r = shardfuse_open(sf_test_data(path, which), &h, &err);
	ck_assert_msg(r == 0, "%s", err.msg);
	return h;
}

START_TEST(what_cannot_be_opened_says_why)
{
	struct shardfuse_error err = { { 0 } };
	struct shardfuse *h = NULL;

	ck_assert_int_eq(shardfuse_open("/no/such/place", &h, &err), -ENOENT);
	ck_assert_ptr_nonnull(strstr(err.msg, "/no/such/place"));
	ck_assert_int_lt(shardfuse_open("/no/such/place", &h, NULL), 0);
	ck_assert_ptr_null(h);
	shardfuse_close(NULL);
	shardfuse_file_close(NULL);
}
END_TEST

START_TEST(tensors_are_found_by_name)
{
	struct shardfuse *h = open_data("dcp/fsdp4/ckpt");
	struct shardfuse_tensor t;
	uint64_t n = shardfuse_tensor_count(h);

	ck_assert_uint_gt(n, 10);
	for (uint64_t i = 0; i < n; i++) {
		ck_assert_int_eq(shardfuse_tensor_info(h, i, &t), 0);
		ck_assert_int_eq(shardfuse_tensor_find(h, t.key, t.key_len), (int64_t)i);
		uint64_t elements = 1;
		for (unsigned d = 0; d < t.ndim; d++)
			elements *= t.shape[d];
		ck_assert_uint_eq(elements * t.elem_bytes, t.bytes);
	}
	ck_assert_int_eq(shardfuse_tensor_info(h, n, &t), -EINVAL);
	ck_assert_int_eq(shardfuse_tensor_find(h, "model", 5), -ENOENT);
	shardfuse_close(h);
}
END_TEST

START_TEST(ranges_are_checked)
{
	struct shardfuse *h = open_data("dcp/fsdp4/ckpt");
	struct shardfuse_error err = { { 0 } };
	struct shardfuse_tensor t;
	char byte;

	ck_assert_int_eq(shardfuse_tensor_info(h, 0, &t), 0);
	ck_assert_int_eq(shardfuse_tensor_read(h, 0, t.bytes, &byte, 0, &err), 0);
	ck_assert_int_eq(shardfuse_tensor_read(h, 0, t.bytes - 1, &byte, 1, &err), 0);
	ck_assert_int_eq(shardfuse_tensor_read(h, 0, t.bytes, &byte, 1, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.msg, t.key));
	ck_assert_int_eq(shardfuse_tensor_read(h, 0, UINT64_MAX, &byte, 2, NULL), -EINVAL);
	ck_assert_int_eq(shardfuse_tensor_read(h, UINT64_MAX, 0, &byte, 1, NULL), -EINVAL);
	shardfuse_close(h);
}
END_TEST

/* Random boxes with random strides of every tensor against the dense bytes. */
START_TEST(boxes_are_the_dense_tensor_cut)
{
	static const char *const which[] = { "dcp/fsdp4/ckpt", "dcp/columns/ckpt",
		                             "dcp/mesh2x2/ckpt", "dcp/dtypes/ckpt" };
	uint64_t seed = sf_test_seed("boxes");
	struct shardfuse *h = open_data(which[_i]);
	struct shardfuse_error err = { { 0 } };
	struct shardfuse_tensor t;

	for (uint64_t n = 0; n < shardfuse_tensor_count(h); n++) {
		uint64_t origin[64], extent[64], index[64] = { 0 }, elements = 1;
		int64_t stride[64], step;
		ck_assert_int_eq(shardfuse_tensor_info(h, n, &t), 0);
		if (t.bytes > 100000)
			continue;
		unsigned char *dense = malloc(t.bytes + 1);
		ck_assert_int_eq(shardfuse_tensor_read(h, n, 0, dense, t.bytes, &err), 0);
		bool plain = sf_test_below(&seed, 2) == 0;
		step = t.elem_bytes;
		for (unsigned d = t.ndim; d-- > 0;) {
			origin[d] = sf_test_below(&seed, t.shape[d] + 1);
			extent[d] = sf_test_below(&seed, t.shape[d] - origin[d] + 1);
			elements *= extent[d];
			stride[d] = step;
			step *= (int64_t)extent[d] + (plain ? 0 : (int64_t)sf_test_below(&seed, 3));
		}
		uint64_t room = (uint64_t)step + t.elem_bytes;
		unsigned char *got = malloc(room);
		memset(got, 0xee, room);
		int r = shardfuse_tensor_read_box(h, n, origin, extent, got, plain ? NULL : stride,
		                                  &err);
		ck_assert_msg(r == 0, "%s", err.msg);
		for (uint64_t e = 0; e < elements; e++) {
			uint64_t from = 0, to = 0;
			for (unsigned d = 0; d < t.ndim; d++) {
				from = from * t.shape[d] + origin[d] + index[d];
				to += index[d] * (uint64_t)stride[d];
			}
			ck_assert_mem_eq(got + to, dense + from * t.elem_bytes, t.elem_bytes);
			for (unsigned d = t.ndim; d > 0 && ++index[d - 1] == extent[d - 1]; d--)
				index[d - 1] = 0;
		}
		if (t.ndim) {
			extent[0] = t.shape[0] - origin[0] + 1;
			ck_assert_int_eq(
				shardfuse_tensor_read_box(h, n, origin, extent, got, NULL, &err),
				-EINVAL);
		}
		free(got);
		free(dense);
	}
	shardfuse_close(h);
}
END_TEST

START_TEST(objects_come_as_json)
{
	struct shardfuse *h = open_data("dcp/fsdp4/ckpt");
	struct shardfuse_error err = { { 0 } };
	const char *key;
	size_t len;
	char *json;

	ck_assert_uint_gt(shardfuse_object_count(h), 0);
	for (uint64_t i = 0; i < shardfuse_object_count(h); i++) {
		ck_assert_int_eq(shardfuse_object_key(h, i, &key, &len), 0);
		ck_assert_uint_gt(len, 0);
		int r = shardfuse_object_json(h, i, &json, &err);
		ck_assert_msg(r == 0, "%s", err.msg);
		ck_assert_uint_gt(strlen(json), 0);
		free(json);
	}
	ck_assert_int_eq(shardfuse_object_json(h, shardfuse_object_count(h), &json, &err), -EINVAL);
	shardfuse_close(h);
}
END_TEST

START_TEST(virtual_files_are_read_by_path)
{
	struct shardfuse *h = open_data("dcp/fsdp4/ckpt");
	struct shardfuse_error err = { { 0 } };
	struct shardfuse_file *f = NULL;
	char buf[16];

	ck_assert_int_eq(shardfuse_file_open(h, "npy/model.norm.weight.npy", &f, &err), 0);
	ck_assert_int_eq(shardfuse_file_pread(f, buf, sizeof(buf), 0, &err), 16);
	ck_assert_mem_eq(buf, "\x93NUMPY", 6);
	ck_assert_int_eq(
		shardfuse_file_pread(f, buf, sizeof(buf), shardfuse_file_size(f) - 3, &err), 3);
	ck_assert_int_eq(shardfuse_file_pread(f, buf, sizeof(buf), shardfuse_file_size(f), &err),
	                 0);
	shardfuse_file_close(f);
	ck_assert_int_eq(shardfuse_file_open(h, "nothing", &f, &err), -ENOENT);
	ck_assert_int_eq(shardfuse_file_open(h, "npy", &f, &err), -EISDIR);
	ck_assert_ptr_nonnull(strstr(err.msg, "npy"));
	shardfuse_close(h);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("library");
	TCase *tc = tcase_create("shardfuse.h");
	tcase_add_test(tc, what_cannot_be_opened_says_why);
	tcase_add_test(tc, tensors_are_found_by_name);
	tcase_add_test(tc, ranges_are_checked);
	tcase_add_loop_test(tc, boxes_are_the_dense_tensor_cut, 0, 4);
	tcase_add_test(tc, objects_come_as_json);
	tcase_add_test(tc, virtual_files_are_read_by_path);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
