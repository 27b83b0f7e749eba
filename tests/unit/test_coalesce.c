#include "config.h"

#include "base/mem.h"
#include "read/coalesce.h"
#include "tests/lib/sf_test.h"

#define SRC (1 << 16)
#define DST (1 << 16)
#define RANGE_MAX (UINT64_C(1) << 20) /* a local file's */
#define GAP_MAX 4096

static uint8_t src[SRC];
static const uint8_t *from = src; /* what run() reads, and how much of it there is */
static uint64_t from_len = SRC;
static struct sf_source_hints hints = { .range_max = RANGE_MAX, .gap_max = GAP_MAX };

/* Does the requests' work on memory; returns the bytes fetched. */
static uint64_t run(struct sf_coalesce *c)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < c->ranges.n; i++) {
		const struct sf_range *r = &c->ranges.at[i];
		void *scratch = malloc(sf_range_needs(c, r) + 1);
		uint64_t at = r->off;
		sf_range_lend(c, r, scratch);
		ck_assert_uint_ge(r->niov, 1);
		ck_assert_uint_le(r->niov, SF_RANGE_IOV);
		ck_assert_uint_le(r->len, hints.range_max);
		for (uint32_t k = r->iov0; k < r->iov0 + r->niov; k++) {
			ck_assert_uint_le(at + c->iovs.at[k].iov_len, from_len);
			memcpy(c->iovs.at[k].iov_base, from + at, c->iovs.at[k].iov_len);
			at += c->iovs.at[k].iov_len;
		}
		ck_assert_uint_eq(at - r->off, r->len);
		bytes += r->len;
		sf_range_scatter(c, r);
		sf_range_unlend(c, r, scratch);
		free(scratch);
	}
	return bytes;
}

/* Pieces that a plan could make: rows of a box whose source is strided in any way. */
static size_t random_pieces(uint64_t *seed, struct sf_piece *p, uint64_t *ret_dst,
                            uint64_t *ret_bytes)
{
	uint64_t len = 1 + sf_test_below(seed, sf_test_below(seed, 2) ? 16 : 700);
	uint64_t count = 1 + sf_test_below(seed, 40), rows = 1 + sf_test_below(seed, 12);
	bool transposed = sf_test_below(seed, 2);
	uint64_t row_step, step, gap = sf_test_below(seed, 3) ? 0 : sf_test_below(seed, 300),
				 dst_step, n = 0, dst = 0;

	if (transposed) { /* the rows lie side by side, what follows in a row lies far away */
		row_step = len + (sf_test_below(seed, 3) ? 0 : sf_test_below(seed, 20));
		step = rows * row_step + (sf_test_below(seed, 2) ? 5000 : gap);
	} else {
		step = len + gap;
		row_step = count * step + gap;
	}
	dst_step = sf_test_below(seed, 2) ? len : len + sf_test_below(seed, 50);
	while (rows > 1 && (rows - 1) * row_step + (count - 1) * step + len > SRC - 100)
		rows--;
	while (count > 1 && (rows - 1) * row_step + (count - 1) * step + len > SRC - 100)
		count--;
	*ret_bytes = 0;
	for (uint64_t k = 0; k < rows; k++) {
		struct sf_piece one = { .src_off = k * row_step,
			                .dst_off = dst,
			                .len = len,
			                .count = count,
			                .src_step = (int64_t)step,
			                .dst_step = (int64_t)dst_step };
		uint64_t used = (count - 1) * dst_step + len;
		if (dst + used > DST)
			break;
		if (count == 1)
			one.src_step = one.dst_step = 0;
		if (k == 0 && len > 1 && count > 1 && sf_test_below(seed, 2)) {
			/* begins inside a run, as a range that begins inside a row does */
			uint64_t cut = 1 + sf_test_below(seed, len - 1);
			p[n++] = (struct sf_piece){ .src_off = one.src_off + cut,
				                    .dst_off = cut,
				                    .len = len - cut,
				                    .count = 1 };
			*ret_bytes += len - cut;
			one.src_off += step;
			one.dst_off += dst_step;
			if (--one.count == 1)
				one.src_step = one.dst_step = 0;
		}
		p[n++] = one;
		*ret_bytes += one.len * one.count;
		dst += (used + 63) & ~UINT64_C(63);
	}
	*ret_dst = dst;
	return n;
}

/* Property: the requests bring every byte of the pieces to its place and touch no other, whatever
 * the source would like. */
START_TEST(requests_do_what_the_pieces_say)
{
	uint64_t seed = sf_test_seed("requests_do");
	struct sf_coalesce c = { 0 };
	uint8_t *got = malloc(DST + 64), *want = malloc(DST + 64);

	for (size_t i = 0; i < SRC; i++)
		src[i] = (uint8_t)sf_test_rand(&seed);
	for (int round = 0; round < 3000; round++) {
		struct sf_piece p[32];
		uint64_t dst, bytes, base = sf_test_below(&seed, 100);
		size_t n = random_pieces(&seed, p, &dst, &bytes);
		memset(got, 0x55, DST);
		memset(want, 0x55, DST);
		for (size_t i = 0; i < n; i++)
			for (uint64_t k = 0; k < p[i].count; k++)
				memcpy(want + p[i].dst_off + (int64_t)k * p[i].dst_step,
				       src + base + p[i].src_off + (int64_t)k * p[i].src_step,
				       p[i].len);
		hints.range_max = round % 3 ? RANGE_MAX : 4096 + sf_test_below(&seed, 8192);
		hints.gap_max = round % 4 ? GAP_MAX : sf_test_below(&seed, 10000);
		sf_coalesce_reset(&c);
		/* all at once, or as far as some entries go */
		size_t most = round % 2 ? SIZE_MAX : 1 + sf_test_below(&seed, 20);
		for (size_t k = 0, done; k < n; k += done) {
			sf_coalesce_reset(&c);
			ck_assert_int_eq(sf_coalesce_some(&c, &hints, 1, 2, 0, base, got, p + k,
			                                  n - k, most, &done),
			                 0);
			ck_assert_uint_gt(done, 0);
			run(&c);
		}
		ck_assert_msg(memcmp(got, want, DST) == 0,
		              "round %d: %zu pieces, len %llu, count %llu, steps %lld %lld", round,
		              n, (unsigned long long)p[0].len, (unsigned long long)p[0].count,
		              (long long)p[0].src_step, (long long)p[0].dst_step);
	}
	hints = sf_hints_local;
	sf_coalesce_release(&c);
	free(got);
	free(want);
}
END_TEST

/* 64 rows of 200 bytes, 20,000 apart: a file is asked 64 times, a server where a round trip costs
 * more than 20,000 bytes five times. */
START_TEST(a_source_says_what_a_request_is)
{
	const struct sf_source_hints server = { .range_max = UINT64_C(256) << 10,
		                                .gap_max = UINT64_C(64) << 10 };
	struct sf_piece p = { .len = 200, .count = 64, .src_step = 20000, .dst_step = 200 };
	struct sf_coalesce c = { 0 };
	uint8_t *got = malloc(64 * 200), *all = calloc(1, 64 * 20000);

	for (size_t i = 0; i < 64 * 20000; i++)
		all[i] = (uint8_t)(i * 2654435761u >> 13);
	from = all;
	from_len = 64 * 20000;
	ck_assert_int_eq(sf_coalesce(&c, &sf_hints_local, 0, 0, 0, 0, got, &p, 1), 0);
	ck_assert_uint_eq(run(&c), 64 * 200);
	ck_assert_uint_eq(c.ranges.n, 64);
	sf_coalesce_reset(&c);
	memset(got, 0, 64 * 200);
	ck_assert_int_eq(sf_coalesce(&c, &server, 0, 0, 0, 0, got, &p, 1), 0);
	run(&c);
	ck_assert_uint_eq(c.ranges.n, 5);
	for (size_t i = 0; i < 64; i++)
		ck_assert_mem_eq(got + i * 200, all + i * 20000, 200);
	from = src;
	from_len = SRC;
	sf_coalesce_release(&c);
	free(got);
	free(all);
}
END_TEST

START_TEST(a_column_shard_is_one_request_with_an_iovec_a_row)
{
	struct sf_coalesce c = { 0 };
	uint8_t *got = malloc(DST);
	/* from inside row 0 to inside row 11: 200-byte rows of 800 */
	struct sf_piece p[3] = { { .src_off = 50, .dst_off = 0, .len = 150, .count = 1 },
		                 { .src_off = 200,
		                   .dst_off = 750,
		                   .len = 200,
		                   .count = 10,
		                   .src_step = 200,
		                   .dst_step = 800 },
		                 { .src_off = 2200, .dst_off = 8750, .len = 30, .count = 1 } };

	ck_assert_int_eq(sf_coalesce(&c, &hints, 0, 0, 0, 7, got, p, 3), 0);
	ck_assert_uint_eq(c.ranges.n, 1);
	ck_assert_uint_eq(c.ranges.at[0].niov, 12);
	ck_assert_uint_eq(run(&c), 2180);
	ck_assert_mem_eq(got + 8750, src + 2207, 30);
	sf_coalesce_release(&c);
	free(got);
}
END_TEST

START_TEST(rows_of_a_transposed_item_share_their_spans)
{
	struct sf_coalesce c = { 0 };
	uint8_t *got = malloc(DST);
	struct sf_piece p[8];

	for (uint64_t i = 0; i < 8; i++) /* 8 of 4000 rows, 16 columns */
		p[i] = (struct sf_piece){ .src_off = i * 2,
			                  .dst_off = i * 32,
			                  .len = 2,
			                  .count = 8,
			                  .src_step = 8000,
			                  .dst_step = 2 };
	ck_assert_int_eq(sf_coalesce(&c, &hints, 0, 0, 0, 0, got, p, 8), 0);
	ck_assert_uint_eq(c.ranges.n, 8); /* not 64 */
	ck_assert_uint_eq(run(&c), 8 * 16);
	ck_assert_mem_eq(got + 3 * 32 + 5 * 2, src + 5 * 8000 + 6, 2);
	sf_coalesce_release(&c);
	free(got);
}
END_TEST

/* One strided piece of a source larger than requests may be; run() holds every request to its
 * limits. */
/* A transposed item that is longer than one request, its rows close together (_i: what a row of the
 * item has): once over it, not once a row. */
START_TEST(a_long_transposed_item_is_fetched_once)
{
	static const struct {
		uint64_t rows, cols, elem;
	} of[] = { { 1024, 1024, 4 },
		   { 512, 1024, 4 },
		   { 2000, 1000, 2 },
		   { 4, 1 << 19, 1 },
		   { 1023, 1025, 4 } };
	const uint64_t rows = of[_i].rows, cols = of[_i].cols, elem = of[_i].elem,
		       bytes = rows * cols * elem;
	struct sf_piece *p = calloc(rows, sizeof(*p));
	uint8_t *item = malloc(bytes), *got = calloc(1, bytes);
	struct sf_coalesce c = { 0 };
	uint64_t seed = sf_test_seed("a_long_transposed");

	for (uint64_t i = 0; i < bytes; i++)
		item[i] = (uint8_t)sf_test_rand(&seed);
	for (uint64_t r = 0; r < rows; r++) /* element (r, c) is stored at c * rows + r */
		p[r] = (struct sf_piece){ .src_off = r * elem,
			                  .dst_off = r * cols * elem,
			                  .len = elem,
			                  .count = cols,
			                  .src_step = (int64_t)(rows * elem),
			                  .dst_step = (int64_t)elem };
	from = item;
	from_len = bytes;
	ck_assert_int_eq(sf_coalesce(&c, &hints, 1, 2, 0, 0, got, p, rows), 0);
	ck_assert_uint_le(run(&c), bytes);
	ck_assert_uint_le(c.ranges.n, bytes / RANGE_MAX + 2);
	uint64_t wrong = 0;
	for (uint64_t r = 0; r < rows; r++)
		for (uint64_t k = 0; k < cols; k++)
			wrong += memcmp(got + (r * cols + k) * elem, item + (k * rows + r) * elem,
			                elem) != 0;
	ck_assert_uint_eq(wrong, 0);
	sf_coalesce_release(&c);
	from = src;
	from_len = SRC;
	free(p);
	free(item);
	free(got);
}
END_TEST

static size_t one_large(uint64_t len, uint64_t count, uint64_t src_step, uint64_t dst_step,
                        uint64_t off)
{
	uint64_t seed = 3, used = off + (count - 1) * src_step + len,
		 out = (count - 1) * dst_step + len;
	struct sf_piece p = { .src_off = off,
		              .len = len,
		              .count = count,
		              .src_step = (int64_t)src_step,
		              .dst_step = (int64_t)dst_step };
	struct sf_coalesce c = { 0 };
	uint8_t *large = malloc(used), *got = malloc(out);

	for (uint64_t i = 0; i < used; i++)
		large[i] = (uint8_t)sf_test_rand(&seed);
	memset(got, 0x55, out);
	from = large;
	from_len = used;
	ck_assert_int_eq(sf_coalesce(&c, &hints, 0, 0, 0, 0, got, &p, 1), 0);
	run(&c);
	uint64_t wrong = 0; /* an assertion a byte takes seconds */
	for (uint64_t i = 0; i < count; i++) {
		wrong += memcmp(got + i * dst_step, large + off + i * src_step, len) != 0;
		for (uint64_t k = len; k < dst_step && i + 1 < count; k++)
			wrong += got[i * dst_step + k] != 0x55;
	}
	ck_assert_uint_eq(wrong, 0);
	size_t n = c.ranges.n;
	sf_coalesce_release(&c);
	free(large);
	free(got);
	from = src;
	from_len = SRC;
	return n;
}

START_TEST(requests_keep_within_their_bytes_and_iovecs)
{
	/* an iovec a run: 1,023 of them; two where a gap is read over */
	ck_assert_uint_eq(one_large(100, 3000, 100, 150, 0), 3);
	ck_assert_uint_eq(one_large(100, 1023, 100, 150, 5), 1);
	ck_assert_uint_eq(one_large(100, 1024, 100, 150, 5), 2);
	ck_assert_uint_ge(one_large(100, 3000, 108, 100, 0), 6);
	/* spans of tiny runs: 1 MiB, whether the last run ends there or not */
	ck_assert_uint_eq(one_large(8, 200000, 24, 8, 0), 5);
	ck_assert_uint_eq(one_large(8, 3 << 16, 16, 8, 0), 3);
	ck_assert_uint_eq(one_large(63, 40000, 79, 70, 1000), 4);
	ck_assert_uint_eq(one_large(1, 2, 4000, 1, 0), 1);
}
END_TEST

/* Two tiny pieces that follow each other: the second fills the span of the first, then the next. */
START_TEST(a_span_that_is_full_is_followed_by_another)
{
	const uint64_t first = 10000, all = 70000, step = 32;
	const struct sf_piece p[2] = { { 0, 0, 8, first, step, 8 },
		                       { first * step, first * 8, 8, all - first, step, 8 } };
	struct sf_coalesce c = { 0 };
	uint8_t *large = calloc(all, step), *got = malloc(all * 8);

	for (uint64_t i = 0; i < all; i++)
		memcpy(large + i * step, &i, 8);
	from = large;
	from_len = all * step;
	ck_assert_int_eq(sf_coalesce(&c, &hints, 0, 0, 0, 0, got, p, 2), 0);
	ck_assert_uint_eq(c.ranges.n, 3); /* 2.1 MiB */
	run(&c);
	for (uint64_t i = 0; i < all; i++)
		if (memcmp(got + i * 8, &i, 8) != 0)
			ck_abort_msg("run %llu", (unsigned long long)i);
	sf_coalesce_release(&c);
	from = src;
	from_len = SRC;
	free(large);
	free(got);
}
END_TEST

/* The bytes of a gap go where no others go. */
START_TEST(the_longest_gap_has_room)
{
	struct sf_coalesce c = { 0 };
	uint8_t *got = malloc(DST);
	const struct sf_piece gap[2] = {
		{ .src_off = 10, .len = 100, .count = 1 },
		{ .src_off = 110 + GAP_MAX, .dst_off = 100, .len = 100, .count = 1 }
	};
	const struct sf_piece tiny = {
		.src_off = 9000, .dst_off = 300, .len = 4, .count = 9, .src_step = 8, .dst_step = 4
	};

	ck_assert_int_eq(sf_coalesce(&c, &hints, 0, 0, 0, 0, got, gap, 2), 0);
	ck_assert_uint_eq(c.ranges.n, 1);
	ck_assert_int_eq(sf_coalesce(&c, &hints, 0, 1, 0, 0, got, &tiny, 1), 0);
	ck_assert_uint_eq(c.iovs.n, 4);
	ck_assert_uint_eq(c.iovs.at[1].iov_len, GAP_MAX);
	ck_assert_uint_eq(sf_range_needs(&c, &c.ranges.at[0]), GAP_MAX);
	ck_assert_uint_eq(sf_range_needs(&c, &c.ranges.at[1]), c.ranges.at[1].len);
	run(&c);
	sf_coalesce_reset(&c);
	struct sf_piece far[2] = { gap[0], gap[1] }; /* a byte more is two requests */
	far[1].src_off++;
	ck_assert_int_eq(sf_coalesce(&c, &hints, 0, 0, 0, 0, got, far, 2), 0);
	ck_assert_uint_eq(c.ranges.n, 2);
	run(&c);
	ck_assert_mem_eq(got + 100, src + far[1].src_off, 100);
	sf_coalesce_release(&c);
	free(got);
}
END_TEST

START_TEST(long_runs_are_cut_to_be_fetched_side_by_side)
{
	struct sf_coalesce c = { 0 };
	struct sf_piece p = { .len = RANGE_MAX * 3 + 5, .count = 1 };

	ck_assert_int_eq(sf_coalesce(&c, &hints, 0, 0, 0, 0, src, &p, 1), 0);
	ck_assert_uint_eq(c.ranges.n, 4);
	ck_assert_uint_eq(c.ranges.at[3].len, 5);
	sf_coalesce_release(&c);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("coalesce");
	TCase *t = tcase_create("coalesce");

	tcase_add_test(t, requests_do_what_the_pieces_say);
	tcase_add_test(t, a_source_says_what_a_request_is);
	tcase_add_test(t, a_column_shard_is_one_request_with_an_iovec_a_row);
	tcase_add_test(t, rows_of_a_transposed_item_share_their_spans);
	tcase_add_loop_test(t, a_long_transposed_item_is_fetched_once, 0, 5);
	tcase_add_test(t, long_runs_are_cut_to_be_fetched_side_by_side);
	tcase_add_test(t, requests_keep_within_their_bytes_and_iovecs);
	tcase_add_test(t, a_span_that_is_full_is_followed_by_another);
	tcase_add_test(t, the_longest_gap_has_room);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return sf_test_main(suite());
}
