#include "config.h"

#include "tests/lib/reader_world.h"

/*
 * A read of an item that is strided in every dimension is a copy for every two bytes: it holds no more
 * of those at once than its share, whatever its length.
 */

#define A 512
#define B 1024
#define C 2
#define BYTES (A * B * C) /* 524,288 pieces of 64 bytes are 32 MiB, and as much again as copies */
#define LIMIT (UINT64_C(32) << 20)
#define MOST (UINT64_C(14) << 20)

/* A tensor "w" [A, B, C] of bytes in one item, whose elements lie last dimension first. */
static void strided_item(struct fake *f)
{
	const uint64_t shape[3] = { A, B, C }, zero[3] = { 0 },
		       stride[3] = { 1, A, (uint64_t)A * B };
	struct fake_tensor *t = &f->t[0];
	struct sf_buf pkl = { 0 };
	uint32_t number, place;
	uint8_t *data;

	fake_begin(f, 1);
	f->ntensors = 1;
	t->dtype = SF_UINT8;
	t->bytes = BYTES;
	t->dense = malloc(t->bytes);
	data = malloc(t->bytes);
	for (uint64_t k = 0; k < t->bytes; k++)
		t->dense[k] = (uint8_t)sf_test_rand(&f->seed);
	fake_box(data, t->dense, shape, 3, 1, zero, shape, stride, false);
	fake_pkl(&pkl, t->dtype, shape, stride, 3, BYTES, 0, false);
	fake_zip(&f->file[0], &pkl, data, t->bytes, false);
	ck_assert_int_ge(sf_ckpt_builder_tensor(f->b, "w", 1, t->dtype, shape, 3, &number, NULL),
	                 0);
	ck_assert_int_ge(sf_ckpt_builder_chunk(f->b, zero, shape, NULL), 0);
	ck_assert_int_ge(sf_ckpt_builder_place(f->b, f->name[0], strlen(f->name[0]), SF_ITEM_TORCH,
	                                       SF_CODEC_NONE, &place, NULL),
	                 0);
	sf_ckpt_builder_set_item(f->b, number, 0, place, 0, f->file[0].len);
	sf_buf_release(&pkl);
	free(data);
}

static void compare(struct sf_reader *r, const struct fake *f, uint64_t off, uint64_t len)
{
	struct asks asks = { .n = 1 };
	uint8_t *got = malloc(len);
	struct sf_read rd = { .emit = emit, .arg = &asks, .len = len, .buf = got };
	int e;

	asks.at[0] = (struct ask){ .kind = ASK_TENSOR, .off = off, .len = len };
	e = sf_read_wait(r, &rd);
	ck_assert_msg(e == 0, "%d %s", e, rd.err.msg);
	ck_assert_int_eq(memcmp(got, f->t[0].dense + off, len), 0);
	sf_read_release(&rd);
	free(got);
}

/* @_i: as open_store() has it */
START_TEST(a_read_holds_few_pieces_at_once)
{
	struct sf_budget_stat stat;
	struct sf_reader *reader;
	struct sf_store *store;
	struct sf_fault plan;
	struct sf_io io;
	struct fake f;
	char dir[256];

	ck_assert_int_eq(sf_io_init(&io, 4, NULL), 0);
	sf_budget_set_limit(io.budget, LIMIT);
	strided_item(&f);
	open_reader(&f, &io, _i, &plan, dir, &store, &reader);
	compare(reader, &f, 0, BYTES);
	compare(reader, &f, 12345, 777777);
	sf_budget_stat(io.budget, &stat);
	ck_assert_msg(stat.most <= MOST,
	              "%llu bytes were held for a read of %d, at most %llu may be",
	              (unsigned long long)stat.most, BYTES, (unsigned long long)MOST);
	/* they are charged, too */
	ck_assert_uint_gt(stat.most, SF_MIN((uint64_t)BYTES, UINT64_C(1) << 19));
	close_reader(&f, &io, dir, store, reader);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("read_pieces");
	TCase *tc = tcase_create("bound");

	tcase_add_loop_test(tc, a_read_holds_few_pieces_at_once, 0, 4);
	suite_add_tcase(s, tc);
	return s;
}

int main(void)
{
	return sf_test_main(suite());
}
