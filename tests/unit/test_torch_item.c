#include "config.h"

#include <glob.h>
#include <inttypes.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "parse/pickle_write.h"
#include "parse/torch_tensor.h"
#include "parse/zip_read.h"
#include "parse/zip_write.h"
#include "tests/lib/sf_test.h"

static int head(const uint8_t *p, size_t len, uint64_t item_len, struct sf_torch_item *it,
                uint64_t *need, struct sf_error *err)
{
	uint8_t *copy = malloc(len + 1); /* of its own size, for sanitizers */
	int r;

	memcpy(copy, p, len);
	r = sf_torch_item_head(copy, len, item_len, it, need, err);
	free(copy);
	return r;
}

static bool same(const struct sf_torch_tensor *a, const struct sf_torch_tensor *b)
{
	return a->dtype == b->dtype && a->ndim == b->ndim && a->conj == b->conj &&
	       a->neg == b->neg && a->storage_numel == b->storage_numel &&
	       a->storage_off == b->storage_off && memcmp(a->shape, b->shape, a->ndim * 8) == 0 &&
	       memcmp(a->stride, b->stride, a->ndim * 8) == 0;
}

/* The long way of an item's data.pkl, over the directory and a value tree: 1 a tensor. */
static int slow(const uint8_t *p, size_t len, struct sf_torch_tensor *t, uint64_t *ret_off,
                uint64_t *ret_len, uint32_t *ret_crc)
{
	size_t tail = SF_MIN(len, (size_t)SF_ZIP_TAIL);
	struct sf_arena arena = { 0 };
	struct sf_zip_end end;
	struct sf_zip_dir d;
	struct sf_error err = SF_ERROR_INIT;
	struct sf_pv *v = NULL;
	const struct sf_zip_record *rec;
	uint64_t off = 0;
	int r;

	ck_assert_msg(sf_zip_find_end(p + len - tail, tail, len, &end, &err) == 0, "%s", err.msg);
	ck_assert_msg(sf_zip_parse_dir(p + end.dir_off, &end, len, &arena, &d, &err) == 0, "%s",
	              err.msg);
	rec = sf_zip_find(&d, "data.pkl");
	ck_assert_ptr_nonnull(rec);
	ck_assert_int_eq(sf_zip_local_data(p + rec->header_off, rec->header_off, &off, &err), 0);
	ck_assert_msg(sf_pickle_parse(p + off, rec->size, NULL, &arena, &v, NULL, &err) == 0, "%s",
	              err.msg);
	r = sf_torch_tensor_from_pv(v, t, &err);
	if (r == 1) {
		char name[80];
		snprintf(name, sizeof(name), "data/%s", t->storage_key->str.at);
		rec = sf_zip_find(&d, name);
		ck_assert_ptr_nonnull(rec);
		ck_assert_int_eq(
			sf_zip_local_data(p + rec->header_off, rec->header_off, ret_off, &err), 0);
		*ret_len = rec->size;
		*ret_crc = rec->crc;
	}
	sf_arena_release(&arena);
	return r;
}

/* Every item of a file that torch wrote, up to the end of its archive. */
static void check_items(const uint8_t *p, size_t len, int *ntensors, int *nothers)
{
	struct sf_torch_tensor t;
	struct sf_torch_item it, again;
	struct sf_error err = SF_ERROR_INIT;
	uint64_t off = 0, bytes = 0, need;
	uint32_t crc = 0;

	while (len > 100 && memcmp(p, "PK\3\4", 4) == 0) {
		const uint8_t *end = memmem(p, len, "PK\5\6", 4);
		ck_assert_ptr_nonnull(end);
		size_t item = (size_t)(end + 22 - p);
		int is_tensor = slow(p, item, &t, &off, &bytes, &crc),
		    r = head(p, item, item, &it, &need, &err);
		if (is_tensor == 1) {
			ck_assert_msg(r == 0, "%d %s", r, err.msg);
			ck_assert(same(&t, &it.t));
			ck_assert_uint_eq(it.payload_off, off);
			ck_assert_uint_eq(it.payload_len, bytes);
			if (crc) /* torch's own directory says the CRC of what we take for the
			            payload */
				ck_assert_uint_eq(sf_crc32(0, p + off, bytes), crc);
			if (*ntensors < 40)
				for (size_t n = 0; n <= SF_MIN(item, (size_t)1500); n++) {
					need = 0;
					r = head(p, n, item, &again, &need, &err);
					if (r == 0) {
						ck_assert(same(&it.t, &again.t));
						ck_assert_uint_eq(again.payload_off, off);
					} else {
						ck_assert_msg(r == -EAGAIN, "%zu: %d %s", n, r,
						              err.msg);
						ck_assert_uint_gt(need, n);
						ck_assert_uint_le(need, item);
					}
				}
			++*ntensors;
		} else {
			ck_assert_int_eq(r, -ENOTSUP);
			++*nothers;
		}
		p += item;
		len -= item;
	}
}

START_TEST(items_of_real_checkpoints_are_found_from_their_heads)
{
	char pattern[4096];
	int ntensors = 0, nothers = 0;
	glob_t g;

	ck_assert_int_eq(glob(sf_test_data(pattern, "dcp*/*/ckpt/__*.distcp"), 0, NULL, &g), 0);
	for (size_t i = 0; i < g.gl_pathc; i++) {
		FILE *f = fopen(g.gl_pathv[i], "rb");
		struct sf_buf b = { 0 };
		uint8_t block[4096];
		size_t n;
		ck_assert_ptr_nonnull(f);
		while ((n = fread(block, 1, sizeof(block), f)) > 0)
			sf_buf_add(&b, block, n);
		fclose(f);
		check_items(b.at, b.len, &ntensors, &nothers);
		sf_buf_release(&b);
	}
	globfree(&g);
	ck_assert_int_gt(ntensors, 100);
	ck_assert_int_gt(nothers, 1);
}
END_TEST

/* An item as we write it: sizes in the local headers. */
static void make(struct sf_buf *b, enum sf_dtype dtype, const uint64_t *shape, unsigned ndim,
                 uint64_t bytes)
{
	static const struct {
		const char *name, *text;
	} small[] = { { "x/byteorder", "little" }, { "x/version", "3\n" } };
	struct sf_buf pkl = { 0 };
	struct sf_arena arena = { 0 };
	struct sf_pickle_writer w;
	struct sf_zip_entry e[4] = { { "x/data.pkl", 10, 0, 0, 0 } };
	size_t n = 1, dir;

	ck_assert_int_eq(sf_pickle_writer_init(&w, &pkl, &arena), 0);
	sf_pw_proto(&w);
	sf_pw_tensor(&w, &(struct sf_pw_tensor){ dtype, ndim, shape, bytes, 0 });
	sf_pw_stop(&w);
	e[0].size = pkl.len;
	sf_zip_put_header(b, &e[0]);
	sf_buf_add(b, pkl.at, pkl.len);
	for (size_t i = 0; i < 2; i++, n++) {
		e[n] = (struct sf_zip_entry){ small[i].name, strlen(small[i].name), b->len,
			                      strlen(small[i].text), 0 };
		sf_zip_put_header(b, &e[n]);
		sf_buf_str(b, small[i].text);
	}
	e[n] = (struct sf_zip_entry){ "x/data/0", 8, b->len, bytes, 0 };
	sf_zip_put_header(b, &e[n++]);
	memset(sf_buf_extend(b, bytes), 'd', bytes);
	dir = b->len;
	for (size_t i = 0; i < n; i++)
		sf_zip_put_central(b, &e[i]);
	sf_zip_put_end(b, n, dir, b->len - dir);
	ck_assert_int_eq(sf_buf_check(b), 0);
	sf_pickle_writer_release(&w);
	sf_arena_release(&arena);
	sf_buf_release(&pkl);
}

START_TEST(items_of_every_dtype_and_shape_that_we_write_are_found)
{
	uint64_t seed = sf_test_seed("items_of_every_dtype_and_shape_that_we_write_are_found");

	for (int i = 0; i < 500; i++) {
		enum sf_dtype dtype = (enum sf_dtype)(1 + i % (SF_NDTYPES - 1));
		uint64_t shape[8], numel = 1, stride = 1, need;
		unsigned ndim = (unsigned)sf_test_below(&seed, 8);
		struct sf_buf b = { 0 };
		struct sf_torch_item it;
		struct sf_torch_tensor t, m;
		struct sf_error err = SF_ERROR_INIT;
		uint64_t off = 0, len = 0;
		uint32_t crc;
		for (unsigned d = 0; d < ndim; d++)
			numel *= shape[d] = sf_test_below(&seed, 6);
		make(&b, dtype, shape, ndim, numel * sf_dtype_info(dtype)->bytes);
		ck_assert_msg(head(b.at, b.len, b.len, &it, &need, &err) == 0, "%s", err.msg);
		ck_assert_int_eq(it.t.dtype, dtype);
		ck_assert_uint_eq(it.t.ndim, ndim);
		ck_assert_uint_eq(it.t.storage_numel, numel);
		for (unsigned d = ndim; d-- > 0; stride *= shape[d] ? shape[d] : 1) {
			ck_assert_uint_eq(it.t.shape[d], shape[d]);
			ck_assert_int_eq(it.t.stride[d], (int64_t)stride);
		}
		ck_assert_uint_eq(it.payload_len, numel * sf_dtype_info(dtype)->bytes);
		ck_assert_int_eq(slow(b.at, b.len, &t, &off, &len, &crc), 1);
		ck_assert(same(&t, &it.t));
		ck_assert_uint_eq(off, it.payload_off);
		/* the fast way knows what we write, too */
		char key[64];
		int code = -1;
		size_t pkl = (size_t)((uint8_t *)memmem(b.at, b.len,
		                                        "\x80\x02"
		                                        "c",
		                                        3) -
		                      b.at);
		ck_assert_int_eq(
			sf_torch_match(b.at + pkl, sf_le32(b.at + 18), &m, key, &code, NULL), 1);
		ck_assert_int_eq(code, 0);
		ck_assert_str_eq(key, "0");
		ck_assert(same(&m, &t));
		sf_buf_release(&b);
	}
}
END_TEST

/* Every byte changed, every length cut: no payload outside of the item, and never the size of
 * another storage. */
START_TEST(a_damaged_item_never_gives_a_payload_outside)
{
	struct sf_buf b = { 0 };
	struct sf_torch_item it;
	uint64_t need;
	int good = 0;

	make(&b, SF_FLOAT32, (const uint64_t[]){ 3, 5 }, 2, 60);
	for (size_t i = 0; i < b.len; i++)
		for (int v = 0; v < 256; v += 3) {
			uint8_t was = b.at[i];
			struct sf_error err = SF_ERROR_INIT;
			b.at[i] = (uint8_t)v;
			if (head(b.at, b.len, b.len, &it, &need, &err) == 0) {
				uint64_t last = it.t.storage_off;
				bool empty = false;
				good++;
				ck_assert_uint_le(it.payload_off + it.payload_len, b.len);
				ck_assert_uint_eq(it.payload_len,
				                  it.t.storage_numel *
				                          sf_dtype_info(it.t.dtype)->bytes);
				for (unsigned d = 0; d < it.t.ndim; d++) {
					empty |= !it.t.shape[d];
					last += (it.t.shape[d] - 1) * (uint64_t)it.t.stride[d];
				}
				ck_assert(empty || last < it.t.storage_numel);
			} else {
				ck_assert_str_ne(err.msg, "");
			}
			b.at[i] = was;
		}
	ck_assert_int_gt(good, 1000);
	ck_assert_int_eq(head(b.at, b.len, b.len, &it, &need, NULL), 0);
	for (size_t item = 0; item < it.payload_off + it.payload_len; item++)
		ck_assert_int_lt(head(b.at, SF_MIN(item, b.len), item, &it, &need, NULL), 0);
	sf_buf_release(&b);
}
END_TEST

#define STORAGE(class, count)                    \
	"(X\7\0\0\0storagec" class "\nX\1\0\0\0" \
				   "0X\3\0\0\0cpu" count "tQ"
#define ORDERED "ccollections\nOrderedDict\n)R"
#define V2 "\x80\2ctorch._utils\n_rebuild_tensor_v2\n("
#define V3 "\x80\2ctorch._utils\n_rebuild_tensor_v3\n("
#define FLOATS(n) STORAGE("torch\nFloatStorage", "K" n)
static const struct {
	const char *pkl;
	size_t len;
	int code;
	enum sf_dtype dtype;
	uint64_t numel;
	bool conj, neg;
} pickles[] = {
#define P(text, ...)                                \
	{                                           \
		text, sizeof(text) - 1, __VA_ARGS__ \
	}
	P(V2 FLOATS("\x0a") "K\2K\4\x85K\2\x85\x89" ORDERED "tR.", 0, SF_FLOAT32, 10),
	P(V2 FLOATS("\x0a") "K\2K\5\x85K\2\x85\x89" ORDERED "tR.", -EBADMSG), /* one too far */
	P(V2 FLOATS("\x0a") "K\x09))\x89" ORDERED "tR.", 0, SF_FLOAT32, 10),
	P(V2 FLOATS("\x0a") "K\x0a))\x89" ORDERED "tR.", -EBADMSG),
	P(V2 FLOATS("\0") "K\x63K\0\x85K\x05\x85\x89" ORDERED "tR.", 0, SF_FLOAT32,
	  0), /* empty reaches nowhere */
	P(V2 FLOATS("\x0a") "K\0K\2\x85J\xff\xff\xff\xff\x85\x89" ORDERED "tR.", -EBADMSG),
	P(V2 FLOATS("\x0a") "K\0K\2K\2\x86K\1\x85\x89" ORDERED "tR.", -EBADMSG),
	P(V2 FLOATS("\x0a") "K\0\x8a\x08\0\0\0\0\0\0\0\x40K\x09\x86K\0K\0\x86\x89" ORDERED "tR.",
	  -EBADMSG), /* overflows */
	P(V2 STORAGE("torch\nFloatStorage",
	             "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f") "K\0))\x89" ORDERED "tR.",
	  -EBADMSG),
	P(V2 STORAGE("torch\nNoStorage", "K\1") "K\0))\x89" ORDERED "tR.", -EBADMSG),
	P(V2 STORAGE("torch.storage\nUntypedStorage", "K\4") "K\0K\4\x85K\1\x85\x89" ORDERED "tR.",
	  0, SF_UINT8, 4),
	P(V3 STORAGE("torch.storage\nUntypedStorage", "K\4") "K\0K\2\x85K\1\x85\x89" ORDERED
	                                                     "ctorch\nuint16\ntR.",
	  0, SF_UINT16, 2),
	P(V3 STORAGE("torch.storage\nUntypedStorage", "K\3") "K\0K\1\x85K\1\x85\x89" ORDERED
	                                                     "ctorch\nuint16\ntR.",
	  -EBADMSG),
	P(V3 STORAGE("torch.storage\nUntypedStorage", "K\4") "K\0K\2\x85K\1\x85\x89" ORDERED
	                                                     "ctorch\nwhat\ntR.",
	  -EBADMSG),
	P(V2 STORAGE("torch\nComplexFloatStorage", "K\4") "K\0K\4\x85K\1\x85\x89" ORDERED
	                                                  "}X\4\0\0\0conj\x88stR.",
	  0, SF_COMPLEX64, 4, true),
	P(V2 FLOATS("\4") "K\0K\4\x85K\1\x85\x89" ORDERED "}X\3\0\0\0neg\x88stR.", 0, SF_FLOAT32, 4,
	  false, true),
	P("\x80\2ctorch._utils\n_rebuild_parameter\n(ctorch._utils\n_rebuild_tensor_v2\n(" FLOATS(
		  "\4") "K\0K\4\x85K\1\x85\x88" ORDERED "tR\x88" ORDERED "tR.",
	  0, SF_FLOAT32, 4),
	P("\x80\2ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_tensor_"
	  "v2\nctorch\nTensor\n(" FLOATS("\4") "K\0K\4\x85K\1\x85\x88" ORDERED "t}tR.",
	  0, SF_FLOAT32, 4),
	P("\x80\2ctorch._utils\n_rebuild_tensor\n(" FLOATS("\4") "K\0K\4\x85K\1\x85tR.", 0,
	  SF_FLOAT32, 4),
	P("\x80\4\x8c\x0ctorch._utils\x8c\x12_rebuild_tensor_v2\x93(" FLOATS(
		  "\4") "K\0K\4\x85K\1\x85\x89" ORDERED "tR.",
	  0, SF_FLOAT32, 4),
	P("\x80\2ctorch._utils\n_rebuild_qtensor\n(" FLOATS("\4") "K\0K\4\x85K\1\x85NtR.", 0,
	  SF_FLOAT32, 4),
	P("\x80\2ctorch._utils\n_rebuild_qtensor\n(NtR.", -EBADMSG),
	P("\x80\2ctorch._utils\n_rebuild_sparse_tensor\n(NtR.", -ENOTSUP),
	P("\x80\2N.", -ENOTSUP),
	P("\x80\2", -EBADMSG),
#undef P
};

START_TEST(a_tensors_numbers_are_checked_and_wrappers_taken_off)
{
	struct sf_torch_tensor t;
	struct sf_error err = SF_ERROR_INIT;
	char key[64];
	int r = sf_torch_item_pkl((const uint8_t *)pickles[_i].pkl, pickles[_i].len, &t, key, &err);

	ck_assert_msg(r == pickles[_i].code, "%d: %d %s", _i, r, err.msg);
	if (r < 0)
		return;
	ck_assert_int_eq(t.dtype, pickles[_i].dtype);
	ck_assert_uint_eq(t.storage_numel, pickles[_i].numel);
	ck_assert_int_eq(t.conj, pickles[_i].conj);
	ck_assert_int_eq(t.neg, pickles[_i].neg);
	ck_assert_str_eq(key, "0");
}
END_TEST

/* Where only the directory tells, a storage of up to a MiB would be fetched for nothing. */
START_TEST(a_storage_where_none_is_looked_for_is_not_read_over)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_torch_item it;
	struct sf_buf b = { 0 };
	uint64_t need = 0, off, len;
	uint8_t *name;

	/* another storage before the payload's */
	make(&b, SF_FLOAT32, (const uint64_t[]){ 256, 256 }, 2, 1 << 18);
	name = memmem(b.at, b.len, "x/data/0", 8);
	ck_assert_ptr_nonnull(name);
	name[7] = '1';
	size_t upto = (size_t)(name - b.at) + 8 + sf_le16(name - 2); /* header and padding */
	ck_assert_int_eq(head(b.at, upto, b.len, &it, &need, &err), -ENOTSUP);
	ck_assert_msg(strstr(err.msg, "another order"), "%s", err.msg);
	/* any before data.pkl, which is as long as this one's name */
	ck_assert_int_eq(sf_torch_item_pickle(b.at, upto, b.len, &off, &len, &need, &err), 0);
	memcpy(b.at + 30, "x/data/000", 10);
	size_t small = 40 + sf_le16(b.at + 28);
	ck_assert_int_eq(head(b.at, small, b.len, &it, &need, &err), -ENOTSUP);
	ck_assert_int_eq(sf_torch_item_pickle(b.at, small, b.len, &off, &len, &need, &err),
	                 -ENOTSUP);
	sf_buf_release(&b);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("torch_item");
	TCase *t = tcase_create("torch_item");

	tcase_add_test(t, items_of_real_checkpoints_are_found_from_their_heads);
	tcase_add_test(t, items_of_every_dtype_and_shape_that_we_write_are_found);
	tcase_add_test(t, a_damaged_item_never_gives_a_payload_outside);
	tcase_add_test(t, a_storage_where_none_is_looked_for_is_not_read_over);
	tcase_add_loop_test(t, a_tensors_numbers_are_checked_and_wrappers_taken_off, 0,
	                    SF_ARRAY_LEN(pickles));
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
