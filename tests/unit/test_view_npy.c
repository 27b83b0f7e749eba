#include "config.h"

#include <string.h>

#include "parse/npy.h"
#include "view_world.h"

static const uint64_t shape[2] = { 3, 5 };

/* The file is a header that says @descr and the tensor's shape, then @len bytes at @data. */
static void check(struct vw *w, uint32_t entry, const char *descr, unsigned ndim, const void *data,
                  uint64_t len)
{
	struct sf_buf head = { 0 };
	struct sf_vfile *f;
	uint64_t size;

	sf_npy_put_header(&head, descr, shape, ndim);
	vw_ok(sf_view_npy(w->cat, w->reader, entry, &f, &err));
	SF_FREE uint8_t *got = vw_read(f, &size);
	ck_assert_uint_eq(size, head.len + len);
	ck_assert_mem_eq(got, head.at, head.len);
	ck_assert_mem_eq(got + head.len, data, len);
	sf_buf_release(&head);
}

START_TEST(every_dtype_has_a_form_or_a_reason)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_vfile *f;
	struct vw w;
	char name[16];

	vw_init(&w);
	for (int d = 1; d < SF_NDTYPES; d++) {
		snprintf(name, sizeof(name), "t%d", d);
		vw_tensor(&w, name, (enum sf_dtype)d, d % 3, shape);
	}
	vw_object(&w, "o");
	vw_open(&w);
	for (int d = 1; d < SF_NDTYPES; d++) {
		const struct sf_dtype_info *info = sf_dtype_info((enum sf_dtype)d);
		uint32_t entry = (uint32_t)d - 1;
		uint64_t len;
		if (!info->npy) {
			ck_assert_ptr_nonnull(
				strstr(sf_view_npy_refuses(w.cat, entry), info->torch));
			ck_assert_int_eq(sf_view_npy(w.cat, w.reader, entry, &f, &err), -ENOTSUP);
			continue;
		}
		ck_assert_ptr_null(sf_view_npy_refuses(w.cat, entry));
		SF_FREE uint8_t *raw = vw_dense(&w, entry, &len);
		check(&w, entry, info->npy, d % 3, raw, len);
	}
	ck_assert_str_eq(sf_view_npy_refuses(w.cat, SF_NDTYPES - 1), "not a tensor");
	ck_assert_int_eq(sf_view_npy(w.cat, w.reader, SF_NDTYPES - 1, &f, &err), -ENOTSUP);
	ck_assert_int_eq(sf_view_raw(w.cat, w.reader, SF_NDTYPES - 1, &f, &err), -EINVAL);
	vw_close(&w);
}
END_TEST

START_TEST(bfloat16_can_be_shown_as_numbers)
{
	uint64_t len;
	float want[15];
	struct vw w;

	vw_init(&w);
	vw_tensor(&w, "b", SF_BFLOAT16, 2, shape);
	vw_tensor(&w, "f", SF_FLOAT32, 2, shape);
	vw_open(&w);
	SF_FREE uint8_t *raw = vw_dense(&w, 0, &len), *f = vw_dense(&w, 1, &len);
	check(&w, 0, "<V2", 2, raw, 30);
	w.opt.npy_bf16 = SF_NPY_U2;
	check(&w, 0, "<u2", 2, raw, 30);
	w.opt.npy_bf16 = SF_NPY_F4;
	sf_dtype_cast(want, SF_FLOAT32, raw, SF_BFLOAT16, 15);
	check(&w, 0, "<f4", 2, want, 60);
	check(&w, 1, "<f4", 2, f, 60);
	vw_close(&w);
}
END_TEST

START_TEST(casts_reach_npy_and_never_raw)
{
	uint16_t want[15];
	uint64_t len;
	struct vw w;

	vw_init(&w);
	vw_tensor(&w, "model.f", SF_FLOAT32, 2, shape);
	w.opt.dtype = SF_FLOAT16;
	vw_open(&w);
	SF_FREE uint8_t *raw = vw_dense(&w, 0, &len);
	ck_assert_uint_eq(len, 60);
	sf_dtype_cast(want, SF_FLOAT16, raw, SF_FLOAT32, 15);
	check(&w, 0, "<f2", 2, want, 30);
	vw_close(&w);
}
END_TEST

START_TEST(any_range_of_a_sharded_tensor)
{
	uint64_t rnd = sf_test_seed("any_range_of_a_sharded_tensor");
	const uint64_t rows[2] = { 40, 7 };
	struct sf_vfile *f;
	struct vw w;

	vw_init(&w);
	vw_tensor_n(&w, "t", 1, SF_INT32, 2, rows, 9);
	vw_open(&w);
	vw_ok(sf_view_npy(w.cat, w.reader, 0, &f, &err));
	vw_check_ranges(f, &rnd, 200);
	sf_vfile_unref(f);
	vw_close(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("view_npy");
	TCase *t = tcase_create("all");

	tcase_add_test(t, every_dtype_has_a_form_or_a_reason);
	tcase_add_test(t, bfloat16_can_be_shown_as_numbers);
	tcase_add_test(t, casts_reach_npy_and_never_raw);
	tcase_add_test(t, any_range_of_a_sharded_tensor);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
