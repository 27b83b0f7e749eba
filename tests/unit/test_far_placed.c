#include "config.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"
#include "read/reader.h"
#include "tests/lib/sf_fake_ckpt.h"
#include "tests/lib/store_far.h"

/* Payloads that come with their headers, to where they mostly begin. */

#define ROWS 40

static struct sf_io io;
static struct fake f;
static struct sf_far far;
static struct sf_store *store;
static struct sf_reader *reader;

/* Tensor @i, an item a row of @len bytes, in a file of its own; headers grow with @dims. */
static void tensor(unsigned i, unsigned dims, uint64_t len)
{
	uint64_t shape[8] = { ROWS, 1, 1, 1, 1, 1, 1, 1 }, extent[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };
	uint64_t stride[8], origin[8] = { 0 };
	uint32_t number, place;
	char name[8];

	shape[dims - 1] = extent[dims - 1] = len;
	for (unsigned d = 0; d < dims; d++)
		stride[d] = d + 1 < dims ? len : 1;
	snprintf(name, sizeof(name), "t%u", i);
	f.ntensors = i + 1;
	f.t[i].bytes = ROWS * len;
	f.t[i].dense = malloc(ROWS * len);
	for (uint64_t k = 0; k < ROWS * len; k++)
		f.t[i].dense[k] = (uint8_t)sf_test_rand(&f.seed);
	ck_assert_int_ge(sf_ckpt_builder_tensor(f.b, name, strlen(name), SF_INT8, shape, dims,
	                                        &number, NULL),
	                 0);
	ck_assert_int_ge(sf_ckpt_builder_place(f.b, f.name[i], strlen(f.name[i]), SF_ITEM_TORCH,
	                                       SF_CODEC_NONE, &place, NULL),
	                 0);
	for (origin[0] = 0; origin[0] < ROWS; origin[0]++)
		ck_assert_int_ge(sf_ckpt_builder_chunk(f.b, origin, extent, NULL), 0);
	for (uint32_t k = 0; k < ROWS; k++) {
		const uint64_t off = f.file[i].len;
		struct sf_buf pkl = { 0 };
		fake_pkl(&pkl, SF_INT8, extent, stride, dims, len, 0, false);
		fake_zip(&f.file[i], &pkl, f.t[i].dense + k * len, len, false);
		sf_ckpt_builder_set_item(f.b, number, k, place, off, f.file[i].len - off);
		sf_buf_release(&pkl);
	}
}

static void begin(void)
{
	ck_assert_int_eq(sf_io_init(&io, 4, NULL), 0);
	far = (struct sf_far){
		.reorder = true,
		.hints = { .range_max = 1 << 20, .gap_max = 64, .head_guess = 4096, .inflight = 8 }
	};
	fake_objects(&f);
	ck_assert_int_eq(sf_store_far(&io, f.object, FAKE_FILES, &far, &store, NULL), 0);
	fake_finish(&f, store);
	ck_assert_int_eq(sf_reader_new(f.ckpt, store, &reader, NULL), 0);
	sf_far_forget(&far);
}

static void end(void)
{
	sf_reader_free(reader);
	sf_store_free(store);
	sf_io_release(&io);
	fake_release(&f);
}

static int emit_tensor(void *arg, uint64_t off, uint64_t len, struct sf_parts *p,
                       struct sf_error *err)
{
	return sf_parts_tensor(p, *(uint32_t *)arg, off, len, SF_DTYPE_NONE);
}

static void note_done(struct sf_read *rd, int r)
{
	atomic_store((atomic_int *)rd->priv, r == 0 ? 1 : r);
}

/* As readahead reads: parked from the beginning, into the op's own memory. */
static void read_ahead(uint32_t t, uint64_t off, uint64_t len)
{
	atomic_int done = 0;
	struct sf_read rd = { .emit = emit_tensor,
		              .arg = &t,
		              .off = off,
		              .len = len,
		              .ahead = true,
		              .done = note_done,
		              .priv = &done };

	sf_read_park(reader, &rd);
	while (!done)
		sched_yield();
	ck_assert_msg(done == 1, "%s", rd.err.msg);
	ck_assert_int_eq(rd.niov, 1);
	ck_assert_uint_eq(rd.iov[0].iov_len, len);
	ck_assert_mem_eq(rd.iov[0].iov_base, f.t[t].dense + off, len);
	sf_read_release(&rd);
}

/* Items like one that was read: a request each, of the payload and its header; their bytes are held
 * once. */
START_TEST(payloads_of_usual_items_are_not_held_twice)
{
	const uint64_t len = 100000;
	struct sf_budget_stat stat;

	fake_begin(&f, 3);
	tensor(0, 2, len);
	begin();
	read_ahead(0, 0, len);
	sf_far_forget(&far);
	read_ahead(0, len, (ROWS - 1) * len);
	ck_assert_uint_eq(far.requests, ROWS - 1);
	ck_assert_uint_lt(far.bytes, (ROWS - 1) * (len + 1000));
	sf_budget_stat(io.budget, &stat);
	ck_assert_uint_lt(stat.most, ROWS * len * 5 / 4);
	end();
}
END_TEST

/* Property: with headers of any length, in any order and any cut, the bytes are right; and once the
 * longest is known each item costs one request, or two where only its middle is wanted. */
START_TEST(headers_of_other_lengths_only_cost_a_move)
{
	uint64_t seed = sf_test_seed("headers_of_other_lengths_only_cost_a_move");
	static const unsigned dims[] = { 3, 8, 2, 5 };

	for (int round = 0; round < 10; round++) {
		fake_begin(&f, sf_test_rand(&seed));
		for (unsigned i = 0; i < SF_ARRAY_LEN(dims); i++)
			tensor(i, dims[i], 3000);
		begin();
		if (round % 2) /* the longest */
			read_ahead(1, 0, 10);
		for (int k = 0; k < 60; k++) {
			uint32_t t = (uint32_t)sf_test_below(&seed, SF_ARRAY_LEN(dims));
			uint64_t off = sf_test_below(&seed, f.t[t].bytes);
			uint64_t len = 1 + sf_test_below(&seed, f.t[t].bytes - off);
			sf_far_forget(&far);
			read_ahead(t, off, k % 2 ? len : SF_MIN(len, 5000u));
			if (round % 2)
				ck_assert_uint_le(far.requests, 2 * (len / 3000 + 2));
		}
		end();
	}
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("far_placed");
	TCase *t = tcase_create("far_placed");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, payloads_of_usual_items_are_not_held_twice);
	tcase_add_test(t, headers_of_other_lengths_only_cost_a_move);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return sf_test_main(suite());
}
