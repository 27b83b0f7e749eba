#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "parse/pickle_read.h"
#include "parse/torch_item.h"
#include "pt_world.h"

/* Tensors too large to be read: what data.pkl says of them is what torch allocates. */

static void claim(struct world *w, unsigned ndim, const uint64_t *shape)
{
	char name[16];

	snprintf(name, sizeof(name), "t%u", w->n);
	struct world_key *k = world_add(w, name);
	k->dtype = SF_UINT8;
	k->ndim = ndim;
	memcpy(k->shape, shape, ndim * sizeof(*shape));
}

static int open_all(struct world *w, struct sf_vfile **ret, struct sf_error *err)
{
	const struct sf_selection sel = { .entry = w->all, .n = w->n };
	int r = sf_view_pt(w->cat, w->reader, &sel, ret, err);

	return r < 0 ? r : sf_vfile_prepare(*ret, err);
}

/* data.pkl of the file, which is its first record. */
static void parse_pickle(struct sf_vfile *f, struct sf_arena *arena, struct sf_pv **ret)
{
	static uint8_t head[1 << 20];
	struct sf_error err = SF_ERROR_INIT;
	uint64_t off;
	size_t used;

	ck_assert_int_eq(sf_vfile_pread(f, 0, head, 30, &err), 30);
	ck_assert_int_ge(sf_zip_local_data(head, 0, &off, &err), 0);
	uint64_t len = sf_le32(head + 22);
	ck_assert_uint_lt(off + len, sizeof(head));
	ck_assert_int_eq(sf_vfile_pread(f, off, head, len, &err), (int64_t)len);
	ck_assert_msg(sf_pickle_parse(head, len, NULL, arena, ret, &used, &err) >= 0, "%s",
	              err.msg);
	ck_assert_uint_eq(used, len);
}

/* Each of pickle's forms of an integer at both of its ends: K M J and LONG1, whose sign byte is
 * wanted where the top bit is set. */
START_TEST(sizes_and_strides_of_every_width_are_what_they_are)
{
	static const uint64_t size[] = { 0,
		                         1,
		                         255,
		                         256,
		                         65535,
		                         65536,
		                         INT32_MAX,
		                         UINT64_C(1) << 31,
		                         UINT32_MAX,
		                         UINT64_C(1) << 32,
		                         (UINT64_C(1) << 39) - 1,
		                         UINT64_C(1) << 39,
		                         (UINT64_C(1) << 47) + 5,
		                         UINT64_C(1) << 55 };
	struct world w;
	struct sf_vfile *f;
	struct sf_arena arena = { 0 };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_pv *root;

	world_init(&w);
	for (size_t i = 0; i < SF_ARRAY_LEN(size); i++)
		claim(&w, 2, (const uint64_t[]){ 3, size[i] });
	world_open(&w);
	ck_assert_msg(open_all(&w, &f, &err) >= 0, "%s", err.msg);
	parse_pickle(f, &arena, &root);
	ck_assert_int_eq(root->kind, SF_PV_DICT);
	ck_assert_uint_eq(root->seq.n, 2 * SF_ARRAY_LEN(size));
	for (size_t i = 0; i < SF_ARRAY_LEN(size); i++) {
		struct sf_torch_tensor t;
		ck_assert_msg(sf_torch_tensor_from_pv(root->seq.at[2 * i + 1], &t, &err) == 1,
		              "%" PRIu64 ": %s", size[i], err.msg);
		ck_assert_uint_eq(t.ndim, 2);
		ck_assert_uint_eq(t.shape[0], 3);
		ck_assert_uint_eq(t.shape[1], size[i]);
		/* torch's contiguous strides count an empty dimension as 1 */
		ck_assert_uint_eq((uint64_t)t.stride[0], size[i] ? size[i] : 1);
		ck_assert_int_eq(t.stride[1], 1);
		ck_assert_uint_eq(t.storage_numel, 3 * size[i]);
	}
	sf_arena_release(&arena);
	sf_vfile_unref(f);
	world_close(&w);
}
END_TEST

/* Offsets of files are signed: what passes 2^62 bytes is refused, and nothing before it. */
START_TEST(a_file_ends_below_2_62_bytes)
{
	static const struct {
		uint64_t bytes;
		bool fits;
	} t[] = { { (UINT64_C(1) << 62) - 8192, true },
		  { UINT64_C(1) << 62, false },
		  { (UINT64_C(1) << 63) - 1, false } };

	for (size_t i = 0; i < SF_ARRAY_LEN(t); i++) {
		struct sf_error err = SF_ERROR_INIT;
		struct sf_vfile *f = NULL;
		struct world w;
		uint64_t size;
		world_init(&w);
		claim(&w, 1, &t[i].bytes);
		world_open(&w);
		int r = open_all(&w, &f, &err);
		if (t[i].fits) {
			ck_assert_msg(r >= 0, "%s", err.msg);
			ck_assert_int_eq(sf_vfile_size(f, &size), 0);
			ck_assert_uint_gt(size, t[i].bytes);
			ck_assert_uint_lt(size, UINT64_C(1) << 62);
		} else {
			ck_assert_int_eq(r, -E2BIG);
			ck_assert_ptr_nonnull(strstr(err.msg, "2^62"));
		}
		sf_vfile_unref(f);
		world_close(&w);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("pt_numbers");
	TCase *tc = tcase_create("pt_numbers");

	tcase_add_test(tc, sizes_and_strides_of_every_width_are_what_they_are);
	tcase_add_test(tc, a_file_ends_below_2_62_bytes);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
