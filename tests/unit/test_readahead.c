/* Readahead over a server: who reads forward finds what comes next, each byte fetched once; who jumps
 * pays for nothing that he did not ask for. */
#include "config.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"
#include "read/readahead.h"
#include "read/streams.h"
#include "tests/lib/sf_fake_ckpt.h"
#include "tests/lib/store_far.h"

#define MIB (UINT64_C(1) << 20)
#define TENSORS 6
#define TENSOR (6 * MIB)
#define SIZE (TENSORS * TENSOR)
#define READ (UINT64_C(256) << 10)

static struct sf_io io;
static struct fake f;
static struct sf_far far;
static struct sf_store *store;
static struct sf_reader *reader;
static struct sf_readahead *ahead;
static _Atomic uint64_t bad_from, bad_end; /* a range of the file that its view refuses */

/* A file of all tensors, one behind the other. */
static int emit(void *arg, uint64_t off, uint64_t len, struct sf_parts *p, struct sf_error *err)
{
	int r = 0;

	ck_assert_uint_le(off + len, SIZE);
	if (off < bad_end && off + len > bad_from)
		return sf_fail(err, -EBADMSG, "refused");
	for (uint64_t n; len && r >= 0; off += n, len -= n) {
		n = SF_MIN(len, TENSOR - off % TENSOR);
		r = sf_parts_tensor(p, (uint32_t)(off / TENSOR), off % TENSOR, n, SF_DTYPE_NONE);
	}
	return r;
}

static void begin(uint64_t seed, bool is_far)
{
	const uint64_t shape = TENSOR;

	bad_from = bad_end = 0;
	fake_begin(&f, seed);
	f.ntensors = TENSORS;
	for (unsigned i = 0; i < TENSORS; i++)
		fake_tensor(&f, i, i % 2 ? FAKE_TORCH : FAKE_RAW, &shape, 1, SF_INT8);
	ck_assert_int_eq(sf_io_init(&io, 4, NULL), 0);
	memset(&far, 0, sizeof(far));
	far.reorder = seed % 2;
	far.hints = (struct sf_source_hints){ .range_max = 8 * MIB,
		                              .gap_max = MIB,
		                              .head_guess = 4096,
		                              .ahead = is_far ? 16 * MIB : 0,
		                              .inflight = 16 };
	fake_objects(&f);
	ck_assert_int_eq(sf_store_far(&io, f.object, FAKE_FILES, &far, &store, NULL), 0);
	fake_finish(&f, store);
	ck_assert_int_eq(sf_reader_new(f.ckpt, store, &reader, NULL), 0);
	ahead = sf_readahead_new(reader, emit, NULL, SIZE);
	ck_assert_ptr_nonnull(ahead);
	sf_far_forget(&far);
}

static uint64_t held(void)
{
	struct sf_budget_stat s;

	sf_budget_stat(io.budget, &s);
	return s.held - io.pages.locked.bytes;
}

static void end(void)
{
	sf_readahead_close(ahead);
	sf_reader_free(reader);
	ck_assert_uint_eq(held(), 0);
	sf_store_free(store);
	sf_io_release(&io);
	fake_release(&f);
}

struct ask {
	struct sf_readahead_read q;
	atomic_int done;
};

static void note_done(struct sf_read *rd, int r)
{
	struct ask *a = rd->priv;

	atomic_store(&a->done, r ? r : 1);
}

static void ask(struct ask *a, uint64_t off, uint64_t len)
{
	int r;

	memset(a, 0, sizeof(*a));
	a->q.rd.emit = emit;
	a->q.rd.off = off;
	a->q.rd.len = len;
	a->q.rd.done = note_done;
	a->q.rd.priv = a;
	r = sf_readahead_start(ahead, reader, &a->q);
	if (r == -EAGAIN)
		sf_readahead_park(ahead, reader, &a->q);
	else
		a->done = r ? r : 1;
}

static int answer(struct ask *a)
{
	uint64_t at = a->q.rd.off, end = at + a->q.rd.len;
	int r;

	while (!(r = atomic_load(&a->done)))
		sched_yield();
	for (int i = 0; r == 1 && i < a->q.rd.niov; i++) {
		const uint8_t *got = a->q.rd.iov[i].iov_base;
		for (uint64_t k = 0, n; k < a->q.rd.iov[i].iov_len; k += n, at += n) {
			n = SF_MIN(a->q.rd.iov[i].iov_len - k, TENSOR - at % TENSOR);
			ck_assert_mem_eq(got + k, f.t[at / TENSOR].dense + at % TENSOR, n);
		}
	}
	if (r == 1)
		ck_assert_uint_eq(at, end);
	sf_readahead_release(&a->q);
	return r;
}

static int read_at(uint64_t off, uint64_t len)
{
	struct ask a;

	ask(&a, off, len);
	return answer(&a);
}

/* Bytes of headers that may come with the tensors': a guess for each item, and again for a part
 * that began inside one whose header had not come. */
#define HEADERS (UINT64_C(200) << 10)

START_TEST(who_reads_forward_gets_each_byte_once_and_seldom_waits)
{
	const uint64_t len = _i == 2 ? 100000 : READ;
	uint64_t reads = 0;

	begin((uint64_t)_i, true);
	for (uint64_t off = 0; off < SIZE; off += len, reads++)
		ck_assert_int_eq(read_at(off, SF_MIN(len, SIZE - off)), 1);
	/* reads that meet the end of what was asked ahead fetch it again */
	ck_assert_uint_le(far.bytes, SIZE + HEADERS);
	ck_assert_uint_ge(far.bytes, SIZE);
	ck_assert_uint_lt(far.requests, reads / 2);
	/* the file's last read is behind it: nothing is kept */
	end();
}
END_TEST

/* The same for who waits with a place of his own, and with others (TSan looks). */
static uint8_t place[4][READ];
static void *reads_forward(void *arg)
{
	uint8_t *buf = arg;

	for (uint64_t off = 0, len; off < SIZE; off += len) {
		len = SF_MIN(READ, SIZE - off);
		struct sf_readahead_read q = {
			.rd = { .emit = emit, .off = off, .len = len, .buf = buf }
		};
		ck_assert_int_eq(sf_readahead_wait(ahead, reader, &q), 0);
		for (uint64_t k = 0, n; k < len; k += n) {
			n = SF_MIN(len - k, TENSOR - (off + k) % TENSOR);
			ck_assert_mem_eq(buf + k,
			                 f.t[(off + k) / TENSOR].dense + (off + k) % TENSOR, n);
		}
		ck_assert(q.rd.niov == 1 && q.rd.iov->iov_base == buf);
		sf_readahead_release(&q);
	}
	return NULL;
}

START_TEST(who_waits_gets_it_where_he_wants_it)
{
	const unsigned n = _i ? 4 : 1;
	pthread_t thread[4];

	begin((uint64_t)_i, true);
	for (unsigned i = 0; i < n; i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, reads_forward, place[i]), 0);
	for (unsigned i = 0; i < n; i++)
		pthread_join(thread[i], NULL);
	ck_assert_uint_ge(far.bytes, SIZE);
	if (n == 1) {
		ck_assert_uint_le(far.bytes, SIZE + HEADERS);
		ck_assert_uint_lt(far.requests, SIZE / READ / 2);
	}
	end();
}
END_TEST

/* What lies on this machine is not read ahead: each read takes its own bytes. What does not, is again. */
START_TEST(what_the_cache_has_is_left_to_it)
{
	const uint64_t half = SIZE / 2 / READ * READ;
	uint64_t off = 0, before;

	begin(3, true);
	far.here = true;
	for (; off < 16 * READ; off += READ)
		ck_assert_int_eq(read_at(off, READ), 1);
	before = far.bytes;
	for (uint64_t from = off; off < half; off += READ) {
		ck_assert_int_eq(read_at(off, READ), 1);
		ck_assert_uint_le(far.bytes, before + (off + READ - from) + HEADERS);
	}
	far.here = false;
	for (before = far.requests; off < SIZE; off += READ)
		ck_assert_int_eq(read_at(off, SF_MIN(READ, SIZE - off)), 1);
	ck_assert_uint_lt(far.requests - before,
	                  (SIZE - half) / READ * 3 / 4); /* else one a read, and headers */
	end();
}
END_TEST

/* Eight at once, as a kernel hands them over, in an order of chance. */
START_TEST(the_order_of_reads_does_not_matter)
{
	uint64_t seed = sf_test_seed("order");
	struct ask a[8];

	begin(sf_test_rand(&seed), true);
	for (uint64_t off = 0; off < SIZE; off += 8 * READ) {
		unsigned order[8] = { 0, 1, 2, 3, 4, 5, 6, 7 };
		for (unsigned i = 8; i-- > 1;) {
			unsigned k = (unsigned)sf_test_below(&seed, i + 1), x = order[i];
			order[i] = order[k];
			order[k] = x;
		}
		for (unsigned i = 0; i < 8; i++)
			ask(&a[i], off + order[i] * READ, READ);
		for (unsigned i = 0; i < 8; i++)
			ck_assert_int_eq(answer(&a[i]), 1);
	}
	/* and now and then one that meets the end of what was asked ahead */
	ck_assert_uint_le(far.bytes, SIZE + HEADERS + READ);
	ck_assert_uint_lt(far.requests, SIZE / READ * 3 / 4);
	end();
}
END_TEST

/* Two readers of one file, far apart: each is a stream of its own. */
START_TEST(two_streams_of_a_file)
{
	const uint64_t half = SIZE / 2;
	uint64_t reads = 0;

	begin(4, true);
	for (uint64_t off = 0; off < half - 8 * MIB; off += READ, reads += 2) {
		ck_assert_int_eq(read_at(off, READ), 1);
		ck_assert_int_eq(read_at(half + off, READ), 1);
	}
	/* what each of them reads, and a window */
	ck_assert_uint_le(far.bytes, 2 * (half - 8 * MIB + 16 * MIB) + HEADERS);
	ck_assert_uint_lt(far.requests, reads * 3 / 4);
	end();
}
END_TEST

START_TEST(who_jumps_fetches_nothing_more)
{
	uint64_t seed = sf_test_seed("jumps"), asked = 0, before;

	begin(2, true);
	for (unsigned i = 0; i < TENSORS; i++) /* layouts are known then */
		ck_assert_int_eq(read_at(i * TENSOR, TENSOR), 1);
	sf_readahead_close(ahead);
	ahead = sf_readahead_new(reader, emit, NULL, SIZE);
	sf_far_forget(&far);
	for (int i = 0; i < 200; i++) {
		uint64_t len = 1 + sf_test_below(&seed, 4096), off;
		/* some forward, some back, some near: none goes on where one ended */
		off = sf_test_below(&seed, SIZE - len);
		before = far.bytes;
		ck_assert_int_eq(read_at(off, len), 1);
		asked += len;
		ck_assert_uint_le(far.bytes - before, len + 4096); /* between chunks */
	}
	ck_assert_uint_ge(far.bytes, asked);
	/* nor who takes one step of the same length after the other, with gaps */
	sf_far_forget(&far);
	for (uint64_t off = 0; off + READ <= SIZE; off += 3 * READ)
		ck_assert_int_eq(read_at(off, 4096), 1);
	ck_assert_uint_le(far.bytes, (SIZE / READ / 3 + 1) * 8192);
	end();
}
END_TEST

START_TEST(where_the_kernel_reads_ahead_we_do_not)
{
	begin(2, false);
	for (uint64_t off = 0; off < 4 * MIB; off += READ)
		ck_assert_int_eq(read_at(off, READ), 1);
	ck_assert_uint_le(far.bytes, 4 * MIB + HEADERS);
	ck_assert_uint_ge(far.requests, 16);
	end();
}
END_TEST

/* What is read ahead takes a quarter of the budget, or one part; and goes when others want it. */
START_TEST(what_is_ahead_gives_way)
{
	struct sf_budget_stat s;

	begin(2, true);
	sf_budget_set_limit(io.budget, 12 * MIB);
	for (uint64_t off = 0; off < 12 * MIB; off += READ)
		ck_assert_int_eq(read_at(off, READ), 1);
	sf_budget_stat(io.budget, &s);
	ck_assert_uint_le(s.most, 12 * MIB);
	while (far.flying)
		sched_yield();
	/* all of it, while parts lie there that nobody came for */
	sf_budget_wait(io.budget, SF_BUDGET_MADE, 12 * MIB - 1);
	sf_budget_wait(io.budget, SF_BUDGET_ITEM, 1);
	ck_assert_int_eq(read_at(12 * MIB, READ), 1);
	sf_budget_give(io.budget, SF_BUDGET_MADE, 12 * MIB - 1);
	sf_budget_give(io.budget, SF_BUDGET_ITEM, 1);
	for (uint64_t off = 12 * MIB + READ; off < SIZE; off += READ)
		ck_assert_int_eq(read_at(off, READ), 1);
	end();
}
END_TEST

/* A part that fails is read again by who comes there, for his own bytes. */
START_TEST(a_part_that_fails_fails_no_other_read)
{
	begin(2, true);
	bad_from = 9 * MIB + 5 * READ;
	bad_end = bad_from + 1;
	for (uint64_t off = 0; off < SIZE; off += READ)
		ck_assert_int_eq(read_at(off, READ), off == bad_from ? -EBADMSG : 1);
	end();
}
END_TEST

/* They wait for a part that does not come: canceled, they are answered at once, and it is not. */
START_TEST(who_waits_for_a_part_can_be_canceled)
{
	enum { ASKS = 80 }; /* more than the window */
	struct ask *a = calloc(ASKS, sizeof(*a));
	unsigned canceled = 0;

	begin(2, true);
	for (uint64_t off = 0; off < 2 * MIB; off += READ)
		ck_assert_int_eq(read_at(off, READ), 1);
	while (far.flying)
		sched_yield();
	sf_far_forget(&far);
	far.hold_until = 1000; /* the next request */
	for (unsigned i = 0; i < ASKS; i++)
		ask(&a[i], 2 * MIB + i * READ, READ);
	while (far.flying != 1)
		sched_yield();
	for (unsigned i = 0; i < ASKS; i++)
		sf_readahead_cancel(reader, &a[i].q);
	for (unsigned i = 0; i < ASKS; i++) {
		int r = answer(&a[i]);
		ck_assert(r == 1 || r == -ECANCELED);
		canceled += r == -ECANCELED;
	}
	ck_assert_uint_ge(canceled, 2);
	ck_assert_uint_eq(far.held_late, 0);
	atomic_store(&far.requests, 2000);
	free(a);
	end();
}
END_TEST

/* The file is closed while parts are under way, and read on by who had begun. */
START_TEST(a_file_is_closed_with_reads_under_way)
{
	struct ask a[4];

	begin(3, true);
	for (uint64_t off = 0; off < 2 * MIB; off += READ)
		ck_assert_int_eq(read_at(off, READ), 1);
	for (unsigned i = 0; i < 4; i++)
		ask(&a[i], 2 * MIB + i * 2 * MIB, READ);
	sf_readahead_close(ahead);
	ahead = NULL;
	for (unsigned i = 0; i < 4; i++)
		ck_assert_int_eq(answer(&a[i]), 1);
	end();
}
END_TEST

START_TEST(a_stream_is_told_from_its_reads)
{
	const uint64_t n = 200000;
	struct sf_streams v = { .size = 1 << 30 };
	struct sf_stream *s;

	s = sf_streams_note(&v, 0, n);
	ck_assert(!sf_stream_forward(s));
	sf_stream_stalled(s, n, UINT64_MAX);
	ck_assert_uint_eq(s->window, 0);
	sf_streams_note(&v, 2 * n, n); /* the third came before the second */
	sf_streams_note(&v, n, n);
	ck_assert_uint_eq(s->holes, 0);
	sf_streams_note(&v, 3 * n, n);
	ck_assert(!sf_stream_forward(s));
	ck_assert_ptr_eq(sf_streams_note(&v, 4 * n, n), s);
	ck_assert(sf_stream_forward(s));
	sf_stream_stalled(s, n, 12 * MIB);
	ck_assert_uint_eq(s->window, 8 * MIB);
	sf_stream_stalled(s, n, 12 * MIB); /* of the same window */
	ck_assert_uint_eq(s->window, 8 * MIB);
	s->next += 8 * MIB;
	sf_stream_stalled(s, n, 12 * MIB);
	ck_assert_uint_eq(s->window, 12 * MIB);
	sf_stream_refused(s, MIB);
	ck_assert_uint_eq(s->window, 6 * MIB);
	/* it does not go on from next to nothing */
	for (unsigned i = 0; i < 3; i++)
		sf_stream_refused(s, 0);
	ck_assert_uint_eq(s->window, 0);
	s->next += 12 * MIB;
	sf_stream_stalled(s, n, 12 * MIB);
	ck_assert_uint_eq(s->window, 8 * MIB);
	sf_stream_refused(s, MIB);
	ck_assert_uint_eq(s->window, 4 * MIB);
	/* elsewhere: another one, and the first is kept until eight others came */
	for (uint64_t i = 1; i < SF_STREAMS; i++)
		ck_assert_ptr_ne(sf_streams_note(&v, i * 100 * MIB, 10), s);
	ck_assert_ptr_eq(sf_streams_note(&v, s->next, 10), s);
	sf_streams_note(&v, 900 * MIB, 10);
	ck_assert_ptr_eq(sf_streams_near(&v, s->next), s);
	ck_assert_ptr_null(sf_streams_near(&v, 100 * MIB));
	/* small steps: a kernel looking at a header */
	s = sf_streams_note(&v, 50 * MIB, 16384);
	for (uint64_t i = 1; i < 10; i++)
		ck_assert_ptr_eq(sf_streams_note(&v, 50 * MIB + i * 16384, 16384), s);
	ck_assert(!sf_stream_forward(s));
	/* pieces of 256 KiB in two reads, some MiB apart: none of it is a stream, however long */
	for (uint64_t i = 0; i < 40; i++) {
		uint64_t at = 200 * MIB + i * (i % 3 + 1) * MIB / 2;
		sf_streams_note(&v, at, READ / 2);
		s = sf_streams_note(&v, at + READ / 2, READ / 2);
		ck_assert_msg(!sf_stream_forward(s), "%llu", (unsigned long long)i);
	}
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("readahead");
	TCase *t = tcase_create("readahead");

	tcase_set_timeout(t, 300);
	tcase_add_loop_test(t, who_reads_forward_gets_each_byte_once_and_seldom_waits, 0, 3);
	tcase_add_loop_test(t, who_waits_gets_it_where_he_wants_it, 0, 2);
	tcase_add_test(t, what_the_cache_has_is_left_to_it);
	tcase_add_test(t, the_order_of_reads_does_not_matter);
	tcase_add_test(t, two_streams_of_a_file);
	tcase_add_test(t, who_jumps_fetches_nothing_more);
	tcase_add_test(t, where_the_kernel_reads_ahead_we_do_not);
	tcase_add_test(t, what_is_ahead_gives_way);
	tcase_add_test(t, a_part_that_fails_fails_no_other_read);
	tcase_add_test(t, who_waits_for_a_part_can_be_canceled);
	tcase_add_test(t, a_file_is_closed_with_reads_under_way);
	tcase_add_test(t, a_stream_is_told_from_its_reads);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return sf_test_main(suite());
}
