/* A random checkpoint and its dense bytes, for tests of readers: every item form, odd strides, any
 * tiling. */
#ifndef SF_TESTS_LIB_SF_FAKE_CKPT_H
#define SF_TESTS_LIB_SF_FAKE_CKPT_H

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "ckpt/ckpt_builder.h"
#include "parse/safetensors.h"
#include "parse/zip_write.h"
#include "tests/lib/test_stores.h"
#include "tests/lib/sf_test.h"

#define FAKE_FILES 12
#define FAKE_TENSORS 24
#define FAKE_OBJECTS 6

enum fake_form {
	FAKE_RAW,
	FAKE_TORCH,
	FAKE_TORCH_ODD,
	FAKE_TORCH_DIR,
	FAKE_ZSTD,
	FAKE_BLOB,
	FAKE_NFORMS
};

struct fake_tensor {
	uint8_t *dense; /* what a reader has to give */
	uint64_t bytes;
	enum sf_dtype dtype;
	enum fake_form form;
};
struct fake {
	uint64_t seed;
	struct sf_buf file[FAKE_FILES];
	char name[FAKE_FILES][32];
	struct sf_mem_object object[FAKE_FILES]; /* for sf_store_mem */
	struct fake_tensor t[FAKE_TENSORS];
	unsigned ntensors;
	struct {
		uint8_t *at;
		uint64_t len;
	} o[FAKE_OBJECTS];
	struct sf_ckpt_builder *b;
	struct sf_ckpt *ckpt;
};

/* One frame of raw blocks: what any decoder takes, without an encoder here. */
static inline void fake_zstd(struct sf_buf *out, const uint8_t *p, size_t len)
{
	static const uint8_t head[6] = { 0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58 };

	sf_buf_add(out, head, sizeof(head));
	for (size_t at = 0;;) {
		size_t n = SF_MIN(len - at, (size_t)100000);
		uint32_t block = (uint32_t)n << 3 | (at + n == len);
		sf_buf_byte(out, (uint8_t)block);
		sf_buf_byte(out, (uint8_t)(block >> 8));
		sf_buf_byte(out, (uint8_t)(block >> 16));
		sf_buf_add(out, p + at, n);
		at += n;
		if (at == len)
			return;
	}
}

static inline void fake_str(struct sf_buf *out, const char *s)
{
	uint8_t n[4];

	sf_put_le32(n, (uint32_t)strlen(s));
	sf_buf_byte(out, 'X');
	sf_buf_add(out, n, 4);
	sf_buf_str(out, s);
}

static inline void fake_tuple(struct sf_buf *out, const uint64_t *at, unsigned n)
{
	sf_buf_byte(out, '(');
	for (unsigned i = 0; i < n; i++) {
		uint8_t v[4];
		sf_put_le32(v, (uint32_t)at[i]);
		sf_buf_byte(out, 'J');
		sf_buf_add(out, v, 4);
	}
	sf_buf_byte(out, 't');
}

/* data.pkl of one tensor, as torch.save spells it (without memo). */
static inline void fake_pkl(struct sf_buf *out, enum sf_dtype dtype, const uint64_t *shape,
                            const uint64_t *stride, unsigned ndim, uint64_t numel, uint64_t off,
                            bool conj)
{
	uint8_t v[4];

	sf_buf_add(out, "\x80\x02", 2);
	sf_buf_str(out, "ctorch._utils\n_rebuild_tensor_v2\n((");
	fake_str(out, "storage");
	sf_buf_printf(out, "ctorch\n%s\n", sf_dtype_info(dtype)->storage);
	fake_str(out, "0");
	fake_str(out, "cpu");
	sf_buf_byte(out, 'J');
	sf_put_le32(v, (uint32_t)numel);
	sf_buf_add(out, v, 4);
	sf_buf_str(out, "tQJ");
	sf_put_le32(v, (uint32_t)off);
	sf_buf_add(out, v, 4);
	fake_tuple(out, shape, ndim);
	fake_tuple(out, stride, ndim);
	sf_buf_str(out, "\x89"
	                "ccollections\nOrderedDict\n)R");
	if (conj) {
		sf_buf_str(out, "}");
		fake_str(out, "conj");
		sf_buf_str(out, "\x88s");
	}
	sf_buf_str(out, "tR.");
}

/* A torch.save archive; @first: data/0 comes before data.pkl, so only the directory tells. */
static inline void fake_zip(struct sf_buf *out, const struct sf_buf *pkl, const uint8_t *data,
                            size_t len, bool first)
{
	struct {
		const char *name;
		const void *at;
		size_t len;
	} rec[3] = { { "archive/data.pkl", pkl->at, pkl->len },
		     { "archive/data/0", data, len },
		     { "archive/version", "3\n", 2 } };
	struct sf_zip_entry e[3];
	struct sf_buf z = { 0 };
	uint64_t dir;

	if (first) {
		rec[0].name = "archive/data/0", rec[0].at = data, rec[0].len = len;
		rec[1].name = "archive/data.pkl", rec[1].at = pkl->at, rec[1].len = pkl->len;
	}
	for (int i = 0; i < 3; i++) {
		e[i] = (struct sf_zip_entry){ rec[i].name, strlen(rec[i].name), z.len, rec[i].len,
			                      0 };
		e[i].crc = sf_crc32(0, rec[i].at, rec[i].len);
		sf_zip_put_header(&z, &e[i]);
		sf_buf_add(&z, rec[i].at, rec[i].len);
	}
	dir = z.len;
	for (int i = 0; i < 3; i++)
		sf_zip_put_central(&z, &e[i]);
	sf_zip_put_end(&z, 3, dir, z.len - dir);
	ck_assert_int_eq(sf_buf_check(&z), 0);
	sf_buf_add(out, z.at, z.len);
	sf_buf_release(&z);
}

/* The box's elements out of the dense tensor, at @stride (elements), conjugated when asked. */
static inline void fake_box(uint8_t *to, const uint8_t *dense, const uint64_t *shape, unsigned ndim,
                            size_t elem, const uint64_t *origin, const uint64_t *extent,
                            const uint64_t *stride, bool conj)
{
	uint64_t at[8] = { 0 }, volume = 1;

	for (unsigned d = 0; d < ndim; d++)
		volume *= extent[d];
	for (uint64_t i = 0; i < volume; i++) {
		uint64_t src = 0, dst = 0, rest = i;
		for (unsigned d = ndim; d-- > 0;) {
			at[d] = rest % extent[d];
			rest /= extent[d];
		}
		for (unsigned d = 0; d < ndim; d++) {
			src = src * shape[d] + origin[d] + at[d];
			dst += at[d] * stride[d];
		}
		memcpy(to + dst * elem, dense + src * elem, elem);
		if (conj)
			to[dst * elem + elem - 1] ^= 0x80;
	}
}

static inline void fake_item(struct fake *f, struct sf_buf *out, const struct fake_tensor *t,
                             const uint64_t *shape, unsigned ndim, const uint64_t *origin,
                             const uint64_t *extent)
{
	size_t elem = sf_dtype_info(t->dtype)->bytes;
	uint64_t stride[8], volume = 1, numel, off = 0;
	unsigned perm[8];
	bool conj = false;
	struct sf_buf pkl = { 0 }, zip = { 0 };

	for (unsigned d = 0; d < ndim; d++)
		perm[d] = d;
	if (t->form == FAKE_TORCH_ODD) {
		for (unsigned d = ndim; d-- > 1;) {
			unsigned k = (unsigned)sf_test_below(&f->seed, d + 1), x = perm[d];
			perm[d] = perm[k];
			perm[k] = x;
		}
		off = sf_test_below(&f->seed, 3);
		conj = t->dtype == SF_COMPLEX64 && sf_test_below(&f->seed, 2);
	}
	for (unsigned d = ndim; d-- > 0; volume *= extent[perm[d]])
		stride[perm[d]] = volume;
	numel = volume + off + (t->form == FAKE_TORCH_ODD ? sf_test_below(&f->seed, 3) : 0);
	uint8_t *data = calloc(numel ? numel : 1, elem);
	fake_box(data + off * elem, t->dense, shape, ndim, elem, origin, extent, stride, conj);
	if (t->form == FAKE_RAW || t->form == FAKE_BLOB) {
		sf_buf_add(out, data, numel * elem);
	} else {
		fake_pkl(&pkl, t->dtype, extent, stride, ndim, numel, off, conj);
		fake_zip(t->form == FAKE_ZSTD ? &zip : out, &pkl, data, numel * elem,
		         t->form == FAKE_TORCH_DIR);
		if (t->form == FAKE_ZSTD)
			fake_zstd(out, zip.at, zip.len);
	}
	sf_buf_release(&pkl);
	sf_buf_release(&zip);
	free(data);
}

/* Cuts of one dimension: 0 = from[0] < from[1] … */
static inline unsigned fake_cuts(struct fake *f, uint64_t n, uint64_t from[5])
{
	unsigned k = 1, want = 1 + (unsigned)sf_test_below(&f->seed, 4);

	from[0] = 0;
	for (uint64_t x = 1; x < n && k < want; x++)
		if (sf_test_below(&f->seed, n) < want)
			from[k++] = x;
	from[k] = n;
	return k;
}

static inline void fake_tensor(struct fake *f, unsigned i, enum fake_form form,
                               const uint64_t *shape, unsigned ndim, enum sf_dtype dtype)
{
	static const enum sf_item_form forms[FAKE_NFORMS] = { SF_ITEM_RAW,   SF_ITEM_TORCH,
		                                              SF_ITEM_TORCH, SF_ITEM_TORCH,
		                                              SF_ITEM_TORCH, SF_ITEM_ST_BLOB };
	struct fake_tensor *t = &f->t[i];
	uint64_t cut[8][5], numel = 1;
	unsigned n[8], at[8] = { 0 }, chunks = 1, chunk = 0;
	uint32_t number, place;
	char name[32];

	snprintf(name, sizeof(name), "t%u.weight", i);
	for (unsigned d = 0; d < ndim; d++) {
		numel *= shape[d];
		n[d] = fake_cuts(f, shape[d], cut[d]);
		chunks *= n[d];
	}
	t->dtype = dtype;
	t->form = form;
	t->bytes = numel * sf_dtype_info(dtype)->bytes;
	t->dense = malloc(t->bytes ? t->bytes : 1);
	for (uint64_t k = 0; k < t->bytes; k++)
		t->dense[k] = (uint8_t)sf_test_rand(&f->seed);
	ck_assert_int_ge(
		sf_ckpt_builder_tensor(f->b, name, strlen(name), dtype, shape, ndim, &number, NULL),
		0);
	unsigned first = (unsigned)sf_test_below(&f->seed, FAKE_FILES);
	for (; chunk < chunks; chunk++) {
		uint64_t origin[8], extent[8];
		for (unsigned d = 0; d < ndim; d++) {
			origin[d] = cut[d][at[d]];
			extent[d] = cut[d][at[d] + 1] - origin[d];
		}
		ck_assert_int_ge(sf_ckpt_builder_chunk(f->b, origin, extent, NULL), 0);
		unsigned file = (first + chunk) % FAKE_FILES;
		struct sf_buf *out = &f->file[file];
		/* a gap, sometimes: items need not touch */
		for (size_t k = sf_test_below(&f->seed, 2) * sf_test_below(&f->seed, 40); k > 0;
		     k--)
			sf_buf_byte(out, 0xee);
		uint64_t off = out->len;
		if (form == FAKE_BLOB) {
			struct sf_buf json = { 0 };
			uint8_t len[8];
			uint64_t bytes = sf_dtype_info(dtype)->bytes;
			for (unsigned d = 0; d < ndim; d++)
				bytes *= extent[d];
			sf_buf_str(&json, "{");
			sf_st_put_entry(&json, name, strlen(name), dtype, extent, ndim, 0, bytes);
			sf_buf_str(&json, "}");
			while (json.len % 8)
				sf_buf_byte(&json, ' ');
			sf_put_le64(len, json.len);
			sf_buf_add(out, len, 8);
			sf_buf_add(out, json.at, json.len);
			fake_item(f, out, t, shape, ndim, origin, extent);
			sf_buf_release(&json);
			ck_assert_int_ge(sf_ckpt_builder_place(f->b, f->name[file],
			                                       strlen(f->name[file]), forms[form],
			                                       SF_CODEC_NONE, &place, NULL),
			                 0);
			sf_ckpt_builder_set_item(f->b, number, chunk, place, off, bytes);
		} else {
			fake_item(f, out, t, shape, ndim, origin, extent);
			ck_assert_int_ge(sf_ckpt_builder_place(f->b, f->name[file],
			                                       strlen(f->name[file]), forms[form],
			                                       form == FAKE_ZSTD ? SF_CODEC_ZSTD
			                                                         : SF_CODEC_NONE,
			                                       &place, NULL),
			                 0);
			sf_ckpt_builder_set_item(f->b, number, chunk, place, off, out->len - off);
		}
		for (unsigned d = ndim; d-- > 0;) {
			if (++at[d] < n[d])
				break;
			at[d] = 0;
		}
	}
}

static inline void fake_object(struct fake *f, unsigned i)
{
	bool zstd = i % 2;
	unsigned file = (unsigned)sf_test_below(&f->seed, FAKE_FILES);
	struct sf_buf *out = &f->file[file];
	uint64_t off = out->len;
	uint32_t number, place;
	char name[32];

	snprintf(name, sizeof(name), "o%u", i);
	f->o[i].len = 1 + sf_test_below(&f->seed, 5000);
	f->o[i].at = malloc(f->o[i].len);
	for (uint64_t k = 0; k < f->o[i].len; k++)
		f->o[i].at[k] = (uint8_t)sf_test_rand(&f->seed);
	if (zstd)
		fake_zstd(out, f->o[i].at, f->o[i].len);
	else
		sf_buf_add(out, f->o[i].at, f->o[i].len);
	ck_assert_int_ge(sf_ckpt_builder_object(f->b, name, strlen(name), &number, NULL), 0);
	ck_assert_uint_eq(number, i);
	ck_assert_int_ge(sf_ckpt_builder_place(f->b, f->name[file], strlen(f->name[file]),
	                                       SF_ITEM_TORCH, zstd ? SF_CODEC_ZSTD : SF_CODEC_NONE,
	                                       &place, NULL),
	                 0);
	sf_ckpt_builder_set_object(f->b, number, place, off, out->len - off);
}

static inline void fake_begin(struct fake *f, uint64_t seed)
{
	memset(f, 0, sizeof(*f));
	f->seed = seed;
	ck_assert_int_eq(sf_ckpt_builder_new("fake", "memory", &f->b, NULL), 0);
	for (unsigned i = 0; i < FAKE_FILES; i++)
		snprintf(f->name[i], sizeof(f->name[i]), "__%u_0.distcp", i);
}

/* Tensors of every form with random shapes and tilings, and objects. */
static inline void fake_random(struct fake *f, uint64_t seed)
{
	static const enum sf_dtype dtypes[] = { SF_FLOAT32, SF_BFLOAT16, SF_COMPLEX64, SF_INT8,
		                                SF_FLOAT64 };

	fake_begin(f, seed);
	f->ntensors = FAKE_TENSORS;
	for (unsigned i = 0; i < FAKE_TENSORS; i++) {
		uint64_t shape[8];
		unsigned ndim = (unsigned)sf_test_below(&f->seed, 5);
		enum sf_dtype dtype = dtypes[sf_test_below(&f->seed, SF_ARRAY_LEN(dtypes))];
		enum fake_form form = (enum fake_form)(i % FAKE_NFORMS);
		for (unsigned d = 0; d < ndim; d++)
			shape[d] = 1 + sf_test_below(&f->seed, ndim < 3 ? 60 : 12);
		if (form == FAKE_BLOB && dtype == SF_COMPLEX64)
			dtype = SF_FLOAT32;
		fake_tensor(f, i, form, shape, ndim, dtype);
	}
	for (unsigned i = 0; i < FAKE_OBJECTS; i++)
		fake_object(f, i);
}

static inline void fake_objects(struct fake *f)
{
	for (unsigned i = 0; i < FAKE_FILES; i++) {
		ck_assert_int_eq(sf_buf_check(&f->file[i]), 0);
		f->object[i] =
			(struct sf_mem_object){ f->name[i],
			                        f->file[i].at ? (void *)f->file[i].at : (void *)"",
			                        f->file[i].len };
	}
}

struct fake_listing {
	struct sf_objinfo at[FAKE_FILES];
	char name[FAKE_FILES][32];
	size_t n;
};
static inline int fake_list_one(void *arg, const struct sf_objinfo *info)
{
	struct fake_listing *l = arg;

	if (info->size == UINT64_MAX || l->n == FAKE_FILES)
		return 0;
	snprintf(l->name[l->n], sizeof(l->name[0]), "%s", info->name);
	l->at[l->n] = *info;
	l->at[l->n].name = l->name[l->n];
	l->n++;
	return 0;
}

/* Lists @store and finishes the checkpoint. */
static inline void fake_finish(struct fake *f, struct sf_store *store)
{
	struct fake_listing l = { 0 };
	struct sf_error err = SF_ERROR_INIT;

	ck_assert_int_ge(store->ops->list(store, "", 1, fake_list_one, &l, &err), 0);
	ck_assert_int_ge(sf_ckpt_builder_listing(f->b, l.at, l.n, &err), 0);
	ck_assert_msg(sf_ckpt_builder_finish(f->b, &f->ckpt, &err) >= 0, "%s", err.msg);
	f->b = NULL;
}

static inline void fake_release(struct fake *f)
{
	sf_ckpt_free(f->ckpt);
	sf_ckpt_builder_free(f->b);
	for (unsigned i = 0; i < FAKE_FILES; i++)
		sf_buf_release(&f->file[i]);
	for (unsigned i = 0; i < f->ntensors; i++)
		free(f->t[i].dense);
	for (unsigned i = 0; i < FAKE_OBJECTS; i++)
		free(f->o[i].at);
}

/* A new directory below $TMPDIR with the files in it. */
static inline void fake_write(struct fake *f, char dir[256])
{
	const char *tmp = getenv("TMPDIR");
	char path[512];

	snprintf(dir, 256, "%s/sf-fake-XXXXXX", tmp ? tmp : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	for (unsigned i = 0; i < FAKE_FILES; i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, f->name[i]);
		FILE *to = fopen(path, "w");
		ck_assert_ptr_nonnull(to);
		if (f->file[i].len)
			ck_assert_uint_eq(fwrite(f->file[i].at, 1, f->file[i].len, to),
			                  f->file[i].len);
		fclose(to);
	}
}
static inline void fake_remove(struct fake *f, const char *dir)
{
	char path[512];

	for (unsigned i = 0; i < FAKE_FILES; i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, f->name[i]);
		unlink(path);
	}
	rmdir(dir);
}

#endif
