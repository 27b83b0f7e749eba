#include "config.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"
#include "base/thread_pool.h"
#include "tests/lib/far_world.h"

/* Reads from a server: every request costs a round trip and ends on a thread that is not ours. */

/* One item of one file: @rows of @len bytes, @step apart in it, are a tensor's columns [0, len). */
static void one_tensor(uint64_t rows, uint64_t len, uint64_t step)
{
	const uint64_t shape[2] = { rows, step }, zero[2] = { 0, 0 }, cut[2] = { 0, len };
	const uint64_t left[2] = { rows, len }, right[2] = { rows, step - len };
	uint32_t number, place;

	fake_begin(&f, 1);
	ck_assert_int_ge(sf_ckpt_builder_tensor(f.b, "w", 1, SF_INT8, shape, 2, &number, NULL), 0);
	ck_assert_int_ge(sf_ckpt_builder_place(f.b, f.name[0], strlen(f.name[0]), SF_ITEM_RAW,
	                                       SF_CODEC_NONE, &place, NULL),
	                 0);
	ck_assert_int_ge(sf_ckpt_builder_chunk(f.b, zero, left, NULL), 0);
	ck_assert_int_ge(sf_ckpt_builder_chunk(f.b, cut, right, NULL), 0);
	f.ntensors = 1;
	f.t[0].dtype = SF_INT8;
	f.t[0].bytes = rows * step;
	f.t[0].dense = malloc(rows * step);
	for (uint64_t i = 0; i < rows * step; i++)
		f.t[0].dense[i] = (uint8_t)sf_test_rand(&f.seed);
	for (uint64_t i = 0; i < rows; i++)
		sf_buf_add(&f.file[0], f.t[0].dense + i * step, len);
	sf_ckpt_builder_set_item(f.b, number, 0, place, 0, rows * len);
	for (uint64_t i = 0; i < rows; i++)
		sf_buf_add(&f.file[0], f.t[0].dense + i * step + len, step - len);
	sf_ckpt_builder_set_item(f.b, number, 1, place, rows * len, rows * (step - len));
}

static const struct sf_source_hints small = { .range_max = 4096, .inflight = 8 };

/* Property: whatever the server is like, the bytes are right; and each block that it lent is given
 * back, once. */
START_TEST(any_server_gives_the_bytes)
{
	uint64_t seed = sf_test_seed("any_server");

	for (int round = 0; round < 6; round++) {
		struct sf_far how = { .inline_of = (unsigned)sf_test_below(&seed, 4),
			              .reorder = sf_test_below(&seed, 2),
			              .lends = sf_test_below(&seed, 2) };
		how.hints = (struct sf_source_hints){
			.range_max = 512 +
			             sf_test_below(&seed, sf_test_below(&seed, 2) ? 4096 : 1 << 20),
			.gap_max = sf_test_below(&seed, 2) * sf_test_below(&seed, 5000),
			.head_guess = sf_test_below(&seed, 2) * sf_test_below(&seed, 4000),
			.inflight = 1 + (unsigned)sf_test_below(&seed, 40),
		};
		fake_random(&f, sf_test_rand(&seed));
		begin(how);
		for (int k = 0; k < 40; k++) {
			uint32_t i = (uint32_t)sf_test_below(&seed, f.ntensors);
			uint64_t off = sf_test_below(&seed, f.t[i].bytes),
				 len = 1 + sf_test_below(&seed, f.t[i].bytes - off);
			uint8_t *got = malloc(len);
			struct sf_error err = SF_ERROR_INIT;
			ck_assert_msg(sf_read_tensor(reader, i, off, got, len, &err) == 0, "%s",
			              err.msg);
			ck_assert_mem_eq(got, f.t[i].dense + off, len);
			free(got);
		}
		end();
	}
}
END_TEST

static int emit_tensor(void *arg, uint64_t off, uint64_t len, struct sf_parts *p,
                       struct sf_error *err)
{
	return sf_parts_tensor(p, *(uint32_t *)arg, off, len, SF_DTYPE_NONE);
}

/* Into the reader's own memory: what is lent is used, and goes back with the read. */
START_TEST(what_is_lent_goes_back_with_the_read)
{
	uint32_t t = 0;

	one_tensor(64, 8192, 20000);
	begin((struct sf_far){ .lends = true });
	for (int round = 0; round < 3; round++) {
		struct sf_read rd = { .emit = emit_tensor, .arg = &t, .len = f.t[0].bytes };
		uint64_t at = 0;
		ck_assert_int_eq(sf_read_wait(reader, &rd), 0);
		ck_assert_uint_gt(far.lent, far.back);
		for (int i = 0; i < rd.niov; at += rd.iov[i++].iov_len)
			ck_assert_mem_eq(rd.iov[i].iov_base, f.t[0].dense + at, rd.iov[i].iov_len);
		ck_assert_uint_eq(at, f.t[0].bytes);
		sf_read_release(&rd);
		while (far.lent != far.back) /* whoever answered may have it still */
			sched_yield();
	}
	end();
}
END_TEST

/* Requests that end within submit are a loop: stack does not grow with their number. */
START_TEST(requests_that_end_at_once_do_not_nest)
{
	uint8_t *got;

	one_tensor(4000, 200, 5000);
	begin((struct sf_far){ .inline_of = 1, .hints = { .range_max = 1000, .inflight = 4 } });
	got = malloc(f.t[0].bytes);
	ck_assert_int_eq(sf_read_tensor(reader, 0, 0, got, f.t[0].bytes, NULL), 0);
	ck_assert_mem_eq(got, f.t[0].dense, f.t[0].bytes);
	ck_assert_uint_gt(far.requests, 15000);
	ck_assert_uint_lt(far.deepest, 65536);
	free(got);
	end();
}
END_TEST

/* The same of a compressed item, slice by slice. */
START_TEST(slices_that_end_at_once_do_not_nest)
{
	uint64_t shape = 4000000;
	uint8_t *got;

	fake_begin(&f, 5);
	f.ntensors = 1;
	fake_tensor(&f, 0, FAKE_ZSTD, &shape, 1, SF_INT8);
	begin((struct sf_far){ .inline_of = 1, .hints = { .range_max = 1000, .inflight = 4 } });
	got = malloc(f.t[0].bytes);
	ck_assert_int_eq(sf_read_tensor(reader, 0, 0, got, f.t[0].bytes, NULL), 0);
	ck_assert_mem_eq(got, f.t[0].dense, f.t[0].bytes);
	ck_assert_uint_gt(far.requests, 3900);
	ck_assert_uint_lt(far.deepest, 65536);
	free(got);
	end();
}
END_TEST

/* A request that takes long holds up no other: all the rest come and go beside it. */
START_TEST(one_slow_request_is_no_barrier)
{
	const uint64_t bytes = 4096 * 500;
	uint8_t *got;

	one_tensor(500, 4096, 8192);
	begin((struct sf_far){ .hints = { .range_max = 4096, .inflight = 8 }, .hold_until = 500 });
	got = malloc(bytes);
	ck_assert_int_eq(sf_read_tensor(reader, 0, 0, got, bytes, NULL), 0);
	ck_assert_mem_eq(got, f.t[0].dense, bytes);
	/* it was answered when 500 had been asked, not after its long wait */
	ck_assert_uint_eq(far.requests, 500);
	ck_assert_uint_eq(far.held_late, 0);
	ck_assert_uint_eq(far.most, 8);
	free(got);
	end();
}
END_TEST

static atomic_int on_far;

static void note_done(struct sf_read *rd, int r)
{
	atomic_int *done = rd->priv;

	if (pthread_equal(pthread_self(), far.thread))
		atomic_fetch_add(&on_far, 1);
	atomic_store(done, r == 0 ? 1 : r);
}

/* The server's thread answers requests; it makes none, plans nothing and replies to nobody. */
START_TEST(the_servers_thread_only_answers)
{
	fake_random(&f, sf_test_seed("servers_thread"));
	begin((struct sf_far){ .hints = small, .reorder = true });
	atomic_store(&on_far, 0);
	for (uint32_t i = 0; i < f.ntensors; i++) {
		struct sf_read rd = { .emit = emit_tensor, .len = f.t[i].bytes };
		atomic_int done = 0;
		uint32_t t = i;
		rd.arg = &t;
		rd.priv = &done;
		rd.done = note_done;
		rd.buf = malloc(f.t[i].bytes);
		sf_read_park(reader, &rd);
		while (!atomic_load(&done))
			sched_yield();
		ck_assert_msg(atomic_load(&done) == 1, "%s", rd.err.msg);
		ck_assert_mem_eq(rd.buf, f.t[i].dense, f.t[i].bytes);
		sf_read_release(&rd);
		free(rd.buf);
	}
	ck_assert_int_eq(atomic_load(&on_far), 0);
	ck_assert_uint_eq(far.own, 0);
	ck_assert_uint_gt(far.rounds, f.ntensors);
	end();
}
END_TEST

/* An item that was never seen costs one round trip: its header and what is wanted of its payload
 * come together. When the header is longer than was thought, the rest comes after it. */
START_TEST(an_unseen_item_is_one_round_trip)
{
	const struct sf_source_hints hints = { .range_max = UINT64_C(4) << 20,
		                               .gap_max = 4096,
		                               .head_guess = _i ? 64 : 2048,
		                               .inflight = 64 };
	const uint64_t shape = 3000000;
	uint64_t chunks, off = 2000000, len = 50000;
	uint8_t *got = malloc(shape);

	fake_begin(&f, 9);
	f.ntensors = 1;
	fake_tensor(&f, 0, FAKE_TORCH, &shape, 1, SF_INT8);
	begin((struct sf_far){ .hints = hints });
	/* from the middle: the header and the range lie far apart, and are asked for at once */
	ck_assert_int_eq(sf_read_tensor(reader, 0, off, got, len, NULL), 0);
	ck_assert_mem_eq(got, f.t[0].dense + off, len);
	if (!_i) {
		ck_assert_uint_eq(far.rounds, 1);
		ck_assert_uint_le(far.requests, 4);
	}
	sf_reader_free(reader);
	ck_assert_int_eq(sf_reader_new(f.ckpt, store, &reader, NULL), 0);
	/* all of it: one request an item */
	sf_far_forget(&far);
	chunks = f.ckpt->tensor[0].nchunks;
	ck_assert_int_eq(sf_read_tensor(reader, 0, 0, got, shape, NULL), 0);
	ck_assert_mem_eq(got, f.t[0].dense, shape);
	ck_assert_uint_eq(far.blind_opens, 0);
	ck_assert_uint_le(far.bytes, shape + chunks * (_i ? 6000 : 4200));
	if (!_i)
		ck_assert_uint_eq(far.requests, chunks);
	/* what is known is asked for alone */
	sf_far_forget(&far);
	ck_assert_int_eq(sf_read_tensor(reader, 0, 10, got, 1000, NULL), 0);
	ck_assert_mem_eq(got, f.t[0].dense + 10, 1000);
	ck_assert_uint_eq(far.bytes, 1000);
	free(got);
	end();
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("far_reads");
	TCase *t = tcase_create("far_reads");

	tcase_set_timeout(t, 300);
	tcase_add_test(t, any_server_gives_the_bytes);
	tcase_add_test(t, what_is_lent_goes_back_with_the_read);
	tcase_add_test(t, requests_that_end_at_once_do_not_nest);
	tcase_add_test(t, slices_that_end_at_once_do_not_nest);
	tcase_add_test(t, one_slow_request_is_no_barrier);
	tcase_add_test(t, the_servers_thread_only_answers);
	tcase_add_loop_test(t, an_unseen_item_is_one_round_trip, 0, 2);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return sf_test_main(suite());
}
