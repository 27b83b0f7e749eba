/* Checkpoints in memory behind stores that delay, and what a test asks a reader for. */
#ifndef SF_TESTS_LIB_READER_WORLD_H
#define SF_TESTS_LIB_READER_WORLD_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include "tests/lib/parts_zeros.h"
#include "tests/lib/test_stores.h"
#include "base/mem.h"
#include "parse/zstd.h"
#include "read/reader.h"
#include "store/guard.h"
#include "tests/lib/sf_fake_ckpt.h"

/* One part of a virtual file: what the test asks a reader for. */
struct ask {
	enum { ASK_TENSOR, ASK_OBJECT, ASK_LISTED, ASK_BYTES } kind;
	uint32_t index;
	uint64_t off, len;
	enum sf_dtype cast;
	const uint8_t *bytes;
};
struct asks {
	struct ask at[16];
	unsigned n;
};

static inline int emit(void *arg, uint64_t off, uint64_t len, struct sf_parts *p,
                       struct sf_error *err)
{
	const struct asks *a = arg;
	int r = 0;

	for (unsigned i = 0; i < a->n && r >= 0; i++) {
		const struct ask *k = &a->at[i];
		switch (k->kind) {
		case ASK_TENSOR:
			r = sf_parts_tensor(p, k->index, k->off, k->len, k->cast);
			break;
		case ASK_OBJECT:
			r = sf_parts_object(p, k->index, k->off, k->len);
			break;
		case ASK_LISTED:
			r = sf_parts_listed(p, k->index, k->off, k->len);
			break;
		case ASK_BYTES:
			r = k->bytes ? sf_parts_bytes(p, k->bytes, k->len) : parts_zeros(p, k->len);
			break;
		}
	}
	return r;
}

#define ROOM (1 << 20)

/* 0 memory, 1 files, 2 memory where nothing is answered at once, 3 files with few open at once,
 * short runs copied out of mappings */
static inline void open_store(struct fake *f, struct sf_io *io, int how, struct sf_fault *plan,
                              char dir[256], struct sf_store **ret)
{
	struct sf_store *inner;

	*dir = 0;
	fake_objects(f);
	if (how == 1 || how == 3) {
		fake_write(f, dir);
		ck_assert_int_eq(sf_store_open(io, dir, NULL, ret, NULL), 0);
		return;
	}
	ck_assert_int_eq(sf_store_mem(io, f->object, FAKE_FILES, ret, NULL), 0);
	if (how == 2) {
		inner = *ret;
		*plan = (struct sf_fault){ .fail_at = -1, .delay_ms = 1 };
		ck_assert_int_eq(sf_store_fault(inner, plan, ret, NULL), 0);
	}
}

/* Such a store with @f's checkpoint, and its reader. close_reader() ends @io, too. */
static inline void open_reader(struct fake *f, struct sf_io *io, int how, struct sf_fault *plan,
                               char dir[256], struct sf_store **ret, struct sf_reader **ret_reader)
{
	open_store(f, io, how, plan, dir, ret);
	fake_finish(f, *ret);
	ck_assert_int_eq(sf_reader_new(f->ckpt, *ret, ret_reader, NULL), 0);
}

static inline void close_reader(struct fake *f, struct sf_io *io, const char *dir,
                                struct sf_store *store, struct sf_reader *r)
{
	sf_reader_free(r);
	sf_store_free(store);
	sf_io_release(io);
	if (*dir)
		fake_remove(f, dir);
	fake_release(f);
}

/* Items of every codec: all of a suite needs zstd. */
static inline int run_with_zstd(Suite *(*suite)(void))
{
	struct sf_unzstd *z;

	if (sf_unzstd_new(&z, NULL) < 0)
		return sf_test_skip("built without zstd");
	sf_unzstd_free(z);
	return sf_test_main(suite());
}

/* A tensor "w" of one chunk, @rows * @cols, in one item at the start of file 0 behind @lead other
 * bytes. */
static inline void one_item(struct fake *f, enum sf_dtype dtype, uint64_t rows, uint64_t cols,
                            bool conj, bool raw, uint64_t lead, uint64_t cut)
{
	const uint64_t shape[2] = { rows, cols }, zero[2] = { 0 }, stride[2] = { cols, 1 };
	struct fake_tensor *t = &f->t[0];
	uint32_t number, place;
	struct sf_buf pkl = { 0 };
	uint8_t *data;

	fake_begin(f, 1);
	f->ntensors = 1;
	t->dtype = dtype;
	t->bytes = rows * cols * sf_dtype_info(dtype)->bytes;
	t->dense = malloc(t->bytes);
	data = malloc(t->bytes);
	for (uint64_t k = 0; k < t->bytes; k++)
		t->dense[k] = (uint8_t)sf_test_rand(&f->seed);
	fake_box(data, t->dense, shape, 2, sf_dtype_info(dtype)->bytes, zero, shape, stride, conj);
	for (uint64_t k = 0; k < lead; k++)
		sf_buf_byte(&f->file[0], 0xee);
	if (raw) {
		sf_buf_add(&f->file[0], data, t->bytes);
	} else {
		fake_pkl(&pkl, dtype, shape, stride, 2, rows * cols, 0, conj);
		fake_zip(&f->file[0], &pkl, data, t->bytes, false);
	}
	ck_assert_int_ge(sf_ckpt_builder_tensor(f->b, "w", 1, dtype, shape, 2, &number, NULL), 0);
	ck_assert_int_ge(sf_ckpt_builder_chunk(f->b, zero, shape, NULL), 0);
	ck_assert_int_ge(sf_ckpt_builder_place(f->b, f->name[0], strlen(f->name[0]),
	                                       raw ? SF_ITEM_RAW : SF_ITEM_TORCH, SF_CODEC_NONE,
	                                       &place, NULL),
	                 0);
	sf_ckpt_builder_set_item(f->b, number, 0, place, lead, f->file[0].len - lead - cut);
	sf_buf_release(&pkl);
	free(data);
}

#endif
