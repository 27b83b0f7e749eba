#include "config.h"

#include <pthread.h>

#include "base/mem.h"
#include "ckpt/ckpt_builder.h"
#include "read/layout.h"
#include "tests/lib/sf_test.h"

#define CHUNKS 10000

/* One tensor [CHUNKS, 6] of float32, a chunk a row. */
static struct sf_ckpt *rows(void)
{
	struct sf_ckpt_builder *b;
	struct sf_ckpt *ckpt;
	uint64_t shape[2] = { CHUNKS, 6 }, extent[2] = { 1, 6 };
	uint32_t n;

	ck_assert_int_eq(sf_ckpt_builder_new("test", "x", &b, NULL), 0);
	ck_assert_int_ge(sf_ckpt_builder_tensor(b, "w", 1, SF_FLOAT32, shape, 2, &n, NULL), 0);
	for (uint64_t i = 0; i < CHUNKS; i++)
		ck_assert_int_ge(sf_ckpt_builder_chunk(b, (uint64_t[]){ i, 0 }, extent, NULL), 0);
	ck_assert_int_ge(sf_ckpt_builder_finish(b, &ckpt, NULL), 0);
	return ckpt;
}

/* What chunk @i is said to be: every third is odd in one way or another. */
static struct sf_item_layout said(uint32_t i, int64_t *stride)
{
	struct sf_item_layout l = { .payload_off = 704 + i % 64,
		                    .payload_len = 24,
		                    .row_major = true };

	if (i % 3 == 0) {
		l.conj = i % 2;
		l.neg = i % 5 == 0;
		l.payload_len += i % 4;
	}
	if (i % 6 == 0) {
		l.row_major = false;
		stride[0] = 1;
		stride[1] = 2 + i % 7;
		l.stride = stride;
	}
	return l;
}

struct job {
	pthread_t id;
	struct sf_layouts *l;
	const struct sf_tensor *t;
	uint32_t from;
};

static void *put_and_get(void *arg)
{
	struct job *j = arg;

	for (uint32_t k = 0; k < CHUNKS; k++) {
		uint32_t i = (k * 7 + j->from) % CHUNKS;
		int64_t stride[2];
		struct sf_item_layout want = said(i, stride), got;
		if (!sf_layout_get(j->l, j->t, i, &got)) {
			ck_assert_int_eq(sf_layout_put(j->l, j->t, i, &want), 0);
			ck_assert(sf_layout_get(j->l, j->t, i, &got));
		}
		ck_assert_uint_eq(got.payload_off, want.payload_off);
		ck_assert_uint_eq(got.payload_len, want.payload_len);
		ck_assert_int_eq(got.row_major, want.row_major);
		ck_assert_int_eq(got.conj, want.conj);
		ck_assert_int_eq(got.neg, want.neg);
		if (!want.row_major)
			ck_assert_mem_eq(got.stride, stride, sizeof(stride));
	}
	return NULL;
}

START_TEST(what_is_put_is_got_by_all_threads)
{
	struct sf_ckpt *ckpt = rows();
	struct sf_item_layout none;
	struct sf_layouts *l;
	struct job j[4];

	ck_assert_int_eq(sf_layouts_new(ckpt->nchunks, &l, NULL), 0);
	for (uint32_t i = 0; i < CHUNKS; i++)
		ck_assert(!sf_layout_get(l, &ckpt->tensor[0], i, &none));
	for (uint32_t i = 0; i < 4; i++) {
		j[i] = (struct job){ .l = l, .t = &ckpt->tensor[0], .from = i * 3 };
		ck_assert_int_eq(pthread_create(&j[i].id, NULL, put_and_get, &j[i]), 0);
	}
	for (uint32_t i = 0; i < 4; i++)
		pthread_join(j[i].id, NULL);
	sf_layouts_free(l);
	sf_ckpt_free(ckpt);
}
END_TEST

static struct sf_torch_item head(enum sf_dtype dtype, uint64_t rows_, uint64_t cols, int64_t s0,
                                 int64_t s1)
{
	struct sf_torch_item h = { .payload_off = 640, .payload_len = rows_ * cols * 4 };

	h.t.dtype = dtype;
	h.t.ndim = 2;
	h.t.shape[0] = rows_;
	h.t.shape[1] = cols;
	h.t.stride[0] = s0;
	h.t.stride[1] = s1;
	return h;
}

START_TEST(a_header_that_contradicts_metadata_is_refused_with_both)
{
	struct sf_ckpt *ckpt = rows();
	const struct sf_tensor *t = &ckpt->tensor[0];
	struct sf_error err = SF_ERROR_INIT;
	struct sf_item_layout lay;
	struct sf_torch_item h;
	struct sf_chunk c;
	int64_t stride[SF_DIMS_MAX];

	sf_tensor_chunk(t, 5, &c);
	h = head(SF_FLOAT32, 1, 6, 6, 1);
	ck_assert_int_eq(sf_layout_from_item(ckpt, t, &c, &h, stride, &lay, &err), 0);
	ck_assert(lay.row_major);
	ck_assert_uint_eq(lay.payload_off, 640);
	/* a dimension of one element may have any stride */
	h = head(SF_FLOAT32, 1, 6, 77, 1);
	ck_assert_int_eq(sf_layout_from_item(ckpt, t, &c, &h, stride, &lay, &err), 0);
	ck_assert(lay.row_major);
	h.t.storage_off = 1; /* four bytes later, and then the payload is short */
	ck_assert_int_eq(sf_layout_from_item(ckpt, t, &c, &h, stride, &lay, &err), -EBADMSG);
	ck_assert_ptr_nonnull(strstr(err.msg, "20"));
	h.payload_len += 4;
	ck_assert_int_eq(sf_layout_from_item(ckpt, t, &c, &h, stride, &lay, &err), 0);
	ck_assert_uint_eq(lay.payload_off, 644);
	h = head(SF_FLOAT32, 1, 6, 6, 2);
	h.payload_len *= 2;
	ck_assert_int_eq(sf_layout_from_item(ckpt, t, &c, &h, stride, &lay, &err), 0);
	ck_assert(!lay.row_major);
	ck_assert_int_eq(lay.stride[1], 2);
	h = head(SF_INT32, 1, 6, 6, 1);
	ck_assert_int_eq(sf_layout_from_item(ckpt, t, &c, &h, stride, &lay, &err), -EBADMSG);
	ck_assert_ptr_nonnull(strstr(err.msg, "int32"));
	ck_assert_ptr_nonnull(strstr(err.msg, "float32"));
	h = head(SF_FLOAT32, 2, 3, 3, 1);
	ck_assert_int_eq(sf_layout_from_item(ckpt, t, &c, &h, stride, &lay, &err), -EBADMSG);
	ck_assert_ptr_nonnull(strstr(err.msg, "[2, 3]"));
	ck_assert_ptr_nonnull(strstr(err.msg, "[1, 6]"));
	h = head(SF_FLOAT32, 1, 6, 6, 1);
	h.t.storage_off = UINT64_MAX / 2;
	ck_assert_int_eq(sf_layout_from_item(ckpt, t, &c, &h, stride, &lay, &err), -EBADMSG);
	sf_ckpt_free(ckpt);
}
END_TEST

/* Property: converting a range in any pieces is converting the elements. */
START_TEST(signs_flip_in_any_piece_of_a_range)
{
	static const enum sf_dtype dtypes[] = { SF_FLOAT32, SF_BFLOAT16, SF_COMPLEX64,
		                                SF_COMPLEX128, SF_FLOAT64 };
	uint64_t seed = sf_test_seed("signs_flip");
	uint8_t want[320], got[320];

	for (int round = 0; round < 3000; round++) {
		enum sf_dtype d = dtypes[sf_test_below(&seed, SF_ARRAY_LEN(dtypes))];
		const struct sf_dtype_info *info = sf_dtype_info(d);
		bool conj = sf_test_below(&seed, 2), neg = sf_test_below(&seed, 2);
		for (size_t i = 0; i < sizeof(want); i++)
			want[i] = got[i] = (uint8_t)sf_test_rand(&seed);
		for (size_t i = 0; i < sizeof(want); i += info->bytes) {
			uint8_t *last = want + i + info->bytes - 1;
			if (info->is_complex && conj)
				*last ^= 0x80;
			if (neg)
				*last ^= 0x80;
			if (neg && info->is_complex)
				last[-(int)info->bytes / 2] ^= 0x80;
		}
		for (uint64_t at = 0, n; at < sizeof(got); at += n) {
			n = 1 + sf_test_below(&seed, sizeof(got) - at);
			ck_assert_int_eq(sf_layout_convert(d, conj, neg, got + at, at, n, NULL), 0);
		}
		ck_assert_mem_eq(got, want, sizeof(got));
	}
	ck_assert_int_eq(sf_layout_convert(SF_INT32, false, true, got, 0, 8, NULL), -ENOTSUP);
	ck_assert_int_eq(sf_layout_convert(SF_INT32, true, false, got, 0, 8, NULL), 0);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("layout");
	TCase *t = tcase_create("layout");

	tcase_add_test(t, what_is_put_is_got_by_all_threads);
	tcase_add_test(t, a_header_that_contradicts_metadata_is_refused_with_both);
	tcase_add_test(t, signs_flip_in_any_piece_of_a_range);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return sf_test_main(suite());
}
