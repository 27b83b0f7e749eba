#include "config.h"

#include <pthread.h>

#include "base/mem.h"
#include "ckpt/ckpt_builder.h"
#include "read/layout.h"
#include "tests/lib/sf_fake_ckpt.h"
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
	ck_assert_int_eq(sf_layout_convert(SF_BOOL, false, true, got, 0, 8, NULL), -ENOTSUP);
	ck_assert_int_eq(sf_layout_convert(SF_INT32, true, false, got, 0, 8, NULL), 0);
}
END_TEST

/* An item whose bytes lie in two pieces, zeros between: as long as a test likes. */
struct sparse {
	const uint8_t *head, *tail;
	uint64_t head_len, tail_len, len, longest; /* longest: bytes of one read */
};

static int read_sparse(void *arg, const struct sf_torch_range *range, size_t n, uint8_t *to,
                       struct sf_error *err)
{
	struct sparse *s = arg;

	for (size_t k = 0; k < n; k++) {
		uint64_t off = range[k].off, len = range[k].len;
		if (off > s->len || len > s->len - off)
			return sf_fail(err, -ERANGE, "%llu bytes at %llu", (unsigned long long)len,
			               (unsigned long long)off);
		s->longest = SF_MAX(s->longest, len);
		for (uint64_t i = off; i < off + len; i++)
			*to++ = i < s->head_len             ? s->head[i]
			        : i >= s->len - s->tail_len ? s->tail[i - (s->len - s->tail_len)]
			                                    : 0;
	}
	return 0;
}

static int from_dir(struct sparse *s, struct sf_torch_item *ret, struct sf_error *err)
{
	const struct sf_torch_input in = { s->len, NULL, read_sparse, s };

	return sf_layout_from_dir(&in, ret, err);
}

/* The end of an archive from @at on: a directory of data.pkl and data/0, said to have @dir_len
 * bytes (0: those it has). */
static void put_tail(struct sf_buf *out, uint64_t at, uint64_t pkl_len, uint64_t data_off,
                     uint64_t data_len, uint64_t dir_len)
{
	const struct sf_zip_entry e[2] = { { "archive/data.pkl", 16, 0, pkl_len, 0 },
		                           { "archive/data/0", 14, data_off, data_len, 0 } };

	for (int i = 0; i < 2; i++)
		sf_zip_put_central(out, &e[i]);
	if (!dir_len)
		dir_len = out->len;
	sf_zip_put_end(out, 2, at + out->len - dir_len, dir_len);
}

START_TEST(an_archives_directory_leads_to_the_payload_or_to_an_error)
{
	const uint64_t extent[2] = { 1, 6 }, step[2] = { 6, 1 }, dir_max = UINT64_C(64) << 20;
	const uint8_t data[24] = { 1, 2, 3 };
	struct sf_buf pkl = { 0 }, item = { 0 };
	uint64_t data_at;

	fake_pkl(&pkl, SF_FLOAT32, extent, step, 2, 6, 0, false);
	sf_zip_put_header(&item, &(struct sf_zip_entry){ "archive/data.pkl", 16, 0, pkl.len, 0 });
	sf_buf_add(&item, pkl.at, pkl.len);
	data_at = item.len;
	sf_zip_put_header(&item, &(struct sf_zip_entry){ "archive/data/0", 14, data_at, 24, 0 });
	sf_buf_add(&item, data, 24);
	ck_assert_int_eq(sf_buf_check(&item), 0);

	const struct {
		uint64_t pkl_len, data_off, data_len, dir_len, hole;
		uint64_t extra_at; /* a local header whose extra field is said to have 65,535 bytes;
		                      or 1 */
		int r;
		const char *word;
	} cases[] = {
		{ pkl.len, data_at, 24, 0, 0, 1, 0, NULL },
		{ pkl.len, data_at, 24, 0, 1 << 20, 1, 0, NULL },
		/* the directory would have a byte more than is looked at, yet be inside the item */
		{ pkl.len, data_at, 24, dir_max + 1, dir_max + 9, 1, -E2BIG, "67108865" },
		/* so would data.pkl */
		{ dir_max + 1, data_at, 24, 0, dir_max + 9, 1, -E2BIG, "data.pkl" },
		/* the local header leads out of the item; the size does */
		{ pkl.len, data_at, 24, 0, 0, 28, -EBADMSG, "data.pkl" },
		{ pkl.len, data_at, 24, 0, 0, data_at + 28, -EBADMSG, "data/0" },
		{ pkl.len + 5000, data_at, 24, 0, 0, 1, -EBADMSG, "data.pkl" },
		{ pkl.len, data_at, 5000, 0, 0, 1, -EBADMSG, "data/0" },
	};
	for (size_t i = 0; i < SF_ARRAY_LEN(cases); i++) {
		struct sf_error err = SF_ERROR_INIT;
		struct sf_torch_item got = { 0 };
		struct sf_buf tail = { 0 };
		SF_FREE uint8_t *head = malloc(item.len);
		put_tail(&tail, item.len + cases[i].hole, cases[i].pkl_len, cases[i].data_off,
		         cases[i].data_len, cases[i].dir_len);
		memcpy(head, item.at, item.len);
		if (cases[i].extra_at > 1)
			head[cases[i].extra_at] = head[cases[i].extra_at + 1] = 0xff;
		struct sparse s = {
			head, tail.at, item.len, tail.len, item.len + cases[i].hole + tail.len, 0
		};
		int r = from_dir(&s, &got, &err);
		ck_assert_msg(r == cases[i].r, "case %zu: %d %s", i, r, err.msg);
		if (r < 0)
			ck_assert_msg(strstr(err.msg, cases[i].word) != NULL, "case %zu: %s", i,
			              err.msg);
		else
			ck_assert_uint_eq(got.payload_off,
			                  data_at + sf_zip_header_len(14, data_at, 24));
		if (r == 0)
			ck_assert_uint_eq(got.payload_len, 24);
		ck_assert_uint_le(s.longest, 1 << 20);
		sf_buf_release(&tail);
	}
	sf_buf_release(&pkl);
	sf_buf_release(&item);
}
END_TEST

/* _i: bit 0 of which record, bit 1 it has another name, or is packed. */
START_TEST(an_archives_directory_without_a_plain_record_is_an_error)
{
	const uint64_t extent[1] = { 6 }, step[1] = { 1 };
	const char *word = _i & 1 ? "data/0" : "data.pkl";
	struct sf_error err = SF_ERROR_INIT;
	struct sf_buf pkl = { 0 }, item = { 0 };
	struct sf_torch_item got = { 0 };
	uint64_t data_at;

	fake_pkl(&pkl, SF_FLOAT32, extent, step, 1, 6, 0, false);
	sf_zip_put_header(&item, &(struct sf_zip_entry){ "archive/data.pkl", 16, 0, pkl.len, 0 });
	sf_buf_add(&item, pkl.at, pkl.len);
	data_at = item.len;
	sf_zip_put_header(&item, &(struct sf_zip_entry){ "archive/data/0", 14, data_at, 24, 0 });
	sf_buf_add(&item, "123456789012345678901234", 24);
	uint64_t dir = item.len;
	struct sf_buf tail = { 0 };
	put_tail(&tail, dir, pkl.len, data_at, 24, 0);
	sf_buf_add(&item, tail.at, tail.len);
	sf_buf_release(&tail);
	ck_assert_int_eq(sf_buf_check(&item), 0);
	struct sparse s = { item.at, item.at, item.len, 0, item.len, 0 };
	ck_assert_int_eq(from_dir(&s, &got, &err), 0);

	uint8_t *name = memmem(item.at + dir, item.len - dir, word, strlen(word));
	ck_assert_ptr_nonnull(name);
	if (_i & 2)
		name[0] = 'D';
	else
		name[-(int)strlen("archive/") - 46 + 10] = 8;
	ck_assert_int_eq(from_dir(&s, &got, &err), _i & 2 ? -EBADMSG : -ENOTSUP);
	ck_assert_msg(strstr(err.msg, word) && strstr(err.msg, _i & 2 ? "no " : "compressed"), "%s",
	              err.msg);
	sf_buf_release(&pkl);
	sf_buf_release(&item);
}
END_TEST

START_TEST(integers_are_negated_as_torch_does)
{
	static const int64_t in[] = { 0, 1, -1, 255, 256, -256, 65536, INT64_MIN, INT64_MAX };
	static const enum sf_dtype dtypes[] = { SF_INT8,  SF_UINT8, SF_INT16, SF_UINT16,
		                                SF_INT32, SF_INT64, SF_UINT64 };
	uint64_t got[SF_ARRAY_LEN(in)], mask;

	for (size_t d = 0; d < SF_ARRAY_LEN(dtypes); d++) {
		unsigned elem = sf_dtype_info(dtypes[d])->bytes;
		mask = elem == 8 ? UINT64_MAX : (UINT64_C(1) << 8 * elem) - 1;
		for (size_t i = 0; i < SF_ARRAY_LEN(in); i++) {
			got[i] = (uint64_t)in[i];
			ck_assert_int_eq(sf_layout_convert(dtypes[d], true, true,
			                                   (uint8_t *)&got[i], 3 * elem, elem,
			                                   NULL),
			                 0);
			ck_assert_uint_eq(got[i] & mask, (0 - (uint64_t)in[i]) & mask);
		}
	}
	/* a part of one cannot be done: the carry comes from below */
	ck_assert_int_eq(sf_layout_convert(SF_INT32, false, true, (uint8_t *)got, 2, 4, NULL),
	                 -EINVAL);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("layout");
	TCase *t = tcase_create("layout");

	tcase_add_test(t, what_is_put_is_got_by_all_threads);
	tcase_add_test(t, a_header_that_contradicts_metadata_is_refused_with_both);
	tcase_add_test(t, signs_flip_in_any_piece_of_a_range);
	tcase_add_test(t, an_archives_directory_leads_to_the_payload_or_to_an_error);
	tcase_add_loop_test(t, an_archives_directory_without_a_plain_record_is_an_error, 0, 4);
	tcase_add_test(t, integers_are_negated_as_torch_does);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return sf_test_main(suite());
}
