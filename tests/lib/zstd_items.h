/* A checkpoint whose tensors are one compressed item each, in memory, and readers of it: what they
 * decode is counted. */
#ifndef SF_TESTS_LIB_ZSTD_ITEMS_H
#define SF_TESTS_LIB_ZSTD_ITEMS_H

#include <pthread.h>
#include <stdatomic.h>

#include "parse/zstd.h"
#include "read/op.h"
#include "tests/lib/sf_fake_ckpt.h"

#define ZITEMS 8

struct zitems {
	struct sf_buf file[ZITEMS]; /* a tensor each */
	struct sf_mem_object object[ZITEMS];
	struct sf_fault plan;
	struct sf_store *store;
	struct sf_ckpt *ckpt;
	uint64_t bytes; /* of a tensor */
	uint8_t salt;   /* so that no two of these have the same bytes */
};

static inline uint8_t zitem_byte(const struct zitems *z, unsigned tensor, uint64_t at)
{
	return (uint8_t)(at * 7 + (at >> 12) + tensor * 31 + z->salt);
}

static inline void zitems_init(struct zitems *z, struct sf_io *io, uint64_t bytes, uint8_t salt)
{
	struct sf_objinfo listing[ZITEMS] = { 0 };
	static char name[ZITEMS][8];
	struct sf_ckpt_builder *b;
	struct sf_store *inner;

	memset(z, 0, sizeof(*z));
	z->plan.fail_at = -1;
	z->bytes = bytes;
	z->salt = salt;
	ck_assert_int_eq(sf_ckpt_builder_new("fake", "memory", &b, NULL), 0);
	for (unsigned i = 0; i < ZITEMS; i++) {
		const uint64_t shape = bytes, origin = 0;
		uint8_t *plain = malloc(bytes);
		uint32_t tensor, place;
		for (uint64_t k = 0; k < bytes; k++)
			plain[k] = zitem_byte(z, i, k);
		fake_zstd(&z->file[i], plain, bytes);
		free(plain);
		snprintf(name[i], sizeof(name[i]), "f%u", i);
		listing[i] = (struct sf_objinfo){ .name = name[i], .size = z->file[i].len };
		z->object[i] = (struct sf_mem_object){ name[i], z->file[i].at, z->file[i].len };
		ck_assert_int_ge(
			sf_ckpt_builder_tensor(b, name[i], 2, SF_UINT8, &shape, 1, &tensor, NULL),
			0);
		ck_assert_int_ge(sf_ckpt_builder_chunk(b, &origin, &shape, NULL), 0);
		ck_assert_int_ge(sf_ckpt_builder_place(b, name[i], 2, SF_ITEM_RAW, SF_CODEC_ZSTD,
		                                       &place, NULL),
		                 0);
		sf_ckpt_builder_set_item(b, tensor, 0, place, 0, z->file[i].len);
	}
	ck_assert_int_eq(sf_store_mem(io, z->object, ZITEMS, &inner, NULL), 0);
	ck_assert_int_eq(sf_store_fault(inner, &z->plan, &z->store, NULL), 0);
	ck_assert_int_ge(sf_ckpt_builder_listing(b, listing, ZITEMS, NULL), 0);
	ck_assert_int_ge(sf_ckpt_builder_finish(b, &z->ckpt, NULL), 0);
}

static inline void zitems_release(struct zitems *z)
{
	sf_ckpt_free(z->ckpt);
	sf_store_free(z->store);
	for (unsigned i = 0; i < ZITEMS; i++)
		sf_buf_release(&z->file[i]);
}

static inline struct sf_reader *zitems_reader(struct zitems *z)
{
	struct sf_reader *r;

	ck_assert_int_eq(sf_reader_new(z->ckpt, z->store, &r, NULL), 0);
	return r;
}

/* A piece of a tensor. */
struct zread {
	struct sf_read rd; /* first */
	struct zitems *z;
	unsigned tensor;
	atomic_int done;
	int r;
};

static inline int zread_emit(void *arg, uint64_t off, uint64_t len, struct sf_parts *p,
                             struct sf_error *err)
{
	(void)err;
	return sf_parts_tensor(p, ((struct zread *)arg)->tensor, off, len, SF_DTYPE_NONE);
}

static inline void zread_done(struct sf_read *rd, int r)
{
	struct zread *x = (struct zread *)rd;

	x->r = r;
	atomic_store(&x->done, 1);
}

static inline void zread_init(struct zread *x, struct zitems *z, unsigned tensor, uint64_t off,
                              uint64_t len)
{
	*x = (struct zread){ .z = z, .tensor = tensor };
	x->rd = (struct sf_read){
		.emit = zread_emit, .arg = x, .off = off, .len = len, .done = zread_done
	};
}

/* It has its bytes, and is let go. */
static inline void zread_check(struct zread *x)
{
	uint64_t at = x->rd.off;

	for (int i = 0; i < x->rd.niov; i++)
		for (size_t k = 0; k < x->rd.iov[i].iov_len; k++, at++)
			if (((uint8_t *)x->rd.iov[i].iov_base)[k] !=
			    zitem_byte(x->z, x->tensor, at))
				ck_abort_msg("tensor %u, byte %llu", x->tensor,
				             (unsigned long long)at);
	ck_assert_uint_eq(at, x->rd.off + x->rd.len);
	sf_read_release(&x->rd);
}

/* It is answered now, or later. */
static inline void zread_begin(struct zread *x, struct sf_reader *r)
{
	int e = sf_read_start(r, &x->rd);

	if (e == -EAGAIN)
		sf_read_park(r, &x->rd);
	else
		zread_done(&x->rd, e);
}

static inline int zread_wait(struct zread *x)
{
	while (!atomic_load(&x->done))
		usleep(100);
	return x->r;
}

static inline void zread_now(struct sf_reader *r, struct zitems *z, unsigned tensor, uint64_t off,
                             uint64_t len)
{
	struct zread x;

	zread_init(&x, z, tensor, off, len);
	zread_begin(&x, r);
	ck_assert_msg(zread_wait(&x) == 0, "%s", x.rd.err.msg);
	zread_check(&x);
}

/* Bytes of compressed items that were read, of all readers. */
static inline uint64_t zitems_fetched(struct sf_io *io)
{
	return atomic_load(&io->counters.fetched_bytes[SF_FETCH_TENSOR]);
}

static inline struct sf_budget_stat zitems_stat(struct sf_io *io)
{
	struct sf_budget_stat s;

	sf_budget_stat(io->budget, &s);
	return s;
}

/* 0, or 77 where there is no zstd. */
static inline int zitems_skip(void)
{
	struct sf_unzstd *u;

	if (sf_unzstd_new(&u, NULL) < 0)
		return sf_test_skip("built without zstd");
	sf_unzstd_free(u);
	return 0;
}

#endif
