/* Reads that wait for memory: who reads an item piece by piece keeps it from piece to piece, and no
 * deadline counts what others are waited for. Decoding is counted. */
#include "config.h"

#include "read/item_cache_priv.h"
#include "tests/lib/zstd_items.h"

#define ITEM 600000
#define PIECE 50000
#define FOR_EVER (INT64_C(3600) * 1000000000)

static struct sf_io io;
static struct zitems z;

static void begin(uint64_t limit)
{
	ck_assert_int_eq(sf_io_init(&io, 4, NULL), 0);
	sf_budget_set_limit(io.budget, limit);
	zitems_init(&z, &io, ITEM, 0);
}

static void end(void)
{
	ck_assert_uint_eq(zitems_stat(&io).held, 0);
	ck_assert_uint_eq(zitems_stat(&io).waiting, 0);
	zitems_release(&z);
	sf_io_release(&io);
}

/* What a load is taken to have taken: no test hangs on how fast this machine is. */
static void keep(const struct sf_reader *r, int64_t next, int64_t all)
{
	r->items->keep.least_ns = SF_MAX(next, all);
	r->items->keep.next_ns = next;
	r->items->keep.all_ns = all;
}

static uint64_t decoded(void)
{
	return zitems_fetched(&io) / z.file[0].len;
}

/* A read of another item that finds no room; or does, where what has it was kept for a moment only and
 * this machine is slow. */
static void park(struct zread *x, struct sf_reader *r, unsigned tensor)
{
	zread_init(x, &z, tensor, 0, PIECE);
	zread_begin(x, r);
	while (!zitems_stat(&io).waiting && !atomic_load(&x->done))
		usleep(100);
}

/* _i: of the same reader or of another. */
START_TEST(who_reads_on_keeps_its_item_while_others_wait)
{
	struct sf_reader *r[2];
	struct zread other;

	begin(ITEM + PIECE);
	r[0] = zitems_reader(&z);
	r[1] = zitems_reader(&z);
	keep(r[0], FOR_EVER, FOR_EVER);
	zread_now(r[0], &z, 0, 0, PIECE);
	park(&other, r[_i], 1);
	for (uint64_t off = PIECE; off < ITEM; off += PIECE) {
		ck_assert_int_eq(atomic_load(&other.done), 0);
		zread_now(r[0], &z, 0, off, PIECE);
		ck_assert(off + PIECE == ITEM || decoded() == 1);
	}
	/* all of it was read: nobody is waited for */
	ck_assert_int_eq(zread_wait(&other), 0);
	zread_check(&other);
	ck_assert_uint_eq(decoded(), 2);
	sf_reader_free(r[0]);
	sf_reader_free(r[1]);
	end();
}
END_TEST

START_TEST(who_does_not_read_on_is_not_waited_for_long)
{
	struct zread other;
	struct sf_reader *r;

	begin(ITEM + PIECE);
	r = zitems_reader(&z);
	keep(r, 20000000, FOR_EVER);
	zread_now(r, &z, 0, 0, PIECE);
	park(&other, r, 1);
	ck_assert_int_eq(zread_wait(&other), 0);
	zread_check(&other);
	zread_now(r, &z, 0, PIECE, PIECE);
	ck_assert_uint_eq(decoded(), 3);
	sf_reader_free(r);
	end();
}
END_TEST

START_TEST(who_reads_on_for_ever_is_not_waited_for_so_long)
{
	struct zread other;
	struct sf_reader *r;

	begin(ITEM + PIECE);
	r = zitems_reader(&z);
	keep(r, FOR_EVER, 5000000);
	zread_now(r, &z, 0, 0, PIECE);
	park(&other, r, 1);
	while (!atomic_load(&other.done)) /* less than all of it, again and again */
		zread_now(r, &z, 0, 0, 1);
	ck_assert_int_eq(zread_wait(&other), 0);
	zread_check(&other);
	sf_reader_free(r);
	end();
}
END_TEST

/* More than half of the budget is not kept; but from piece to piece, if nobody waits. */
START_TEST(one_reader_of_a_large_item_decodes_it_once)
{
	struct sf_reader *r;

	begin(ITEM + ITEM / 2);
	r = zitems_reader(&z);
	keep(r, FOR_EVER, FOR_EVER);
	for (unsigned t = 0; t < 3; t++) {
		for (uint64_t off = 0; off < ITEM; off += PIECE)
			zread_now(r, &z, t, off, PIECE);
		ck_assert_uint_eq(decoded(), t + 1);
		while (zitems_stat(&io).held >= ITEM) /* read through: it goes */
			usleep(100);
	}
	keep(r, 5000000, 5000000);
	zread_now(r, &z, 3, 0, PIECE);
	while (zitems_stat(&io).held >= ITEM) /* nobody comes: it goes too */
		usleep(100);
	sf_reader_free(r);
	end();
}
END_TEST

#define READERS 40

struct client {
	pthread_t id;
	struct sf_reader *r;
	unsigned tensor;
};

static void *read_in_pieces(void *arg)
{
	struct client *c = arg;

	for (uint64_t off = 0; off < ITEM; off += PIECE)
		zread_now(c->r, &z, c->tensor, off, PIECE);
	return NULL;
}

/* There is no room for one buffer each, either: who has an item goes past those who wait. _i: all
 * read it through one reader, each through its own. */
START_TEST(forty_who_read_in_pieces_decode_forty_times)
{
	struct sf_reader *r[READERS];
	struct client c[READERS];

	begin(ITEM + PIECE);
	for (unsigned i = 0; i < READERS; i++)
		r[i] = i && !_i ? r[0] : zitems_reader(&z);
	keep(r[0], FOR_EVER, FOR_EVER);
	for (unsigned i = 0; i < READERS; i++) {
		c[i] = (struct client){ .r = r[i], .tensor = i % ZITEMS };
		if (_i || i < ZITEMS)
			ck_assert_int_eq(pthread_create(&c[i].id, NULL, read_in_pieces, &c[i]), 0);
	}
	for (unsigned i = 0; i < READERS; i++)
		if (_i || i < ZITEMS)
			pthread_join(c[i].id, NULL);
	ck_assert_uint_eq(decoded(), _i ? READERS : ZITEMS);
	for (unsigned i = 0; i < READERS; i++)
		if (_i || !i)
			sf_reader_free(r[i]);
	end();
}
END_TEST

/* ---- deadlines ---- */

START_TEST(a_deadline_does_not_count_the_wait_for_memory)
{
	struct sf_reader *r;
	struct zread x;

	begin(ITEM + PIECE);
	r = zitems_reader(&z);
	io.timeout_ms = 2500;
	sf_budget_add(io.budget, SF_BUDGET_ITEM, ITEM);
	park(&x, r, 0);
	usleep(3000000);
	ck_assert_int_eq(atomic_load(&x.done), 0);
	sf_budget_give(io.budget, SF_BUDGET_ITEM, ITEM);
	ck_assert_msg(zread_wait(&x) == 0, "%s", x.rd.err.msg);
	zread_check(&x);
	sf_reader_free(r);
	end();
}
END_TEST

START_TEST(it_counts_from_when_the_turn_comes)
{
	struct sf_reader *r;
	struct zread x;

	begin(ITEM + PIECE);
	r = zitems_reader(&z);
	io.timeout_ms = 100;
	z.plan.delay_ms = 100000;
	sf_budget_add(io.budget, SF_BUDGET_ITEM, ITEM);
	park(&x, r, 0);
	usleep(250000);
	ck_assert_int_eq(atomic_load(&x.done), 0);
	sf_budget_give(io.budget, SF_BUDGET_ITEM, ITEM);
	ck_assert_int_eq(zread_wait(&x), -ETIMEDOUT);
	ck_assert_msg(strstr(x.rd.err.msg, "no answer") != NULL, "%s", x.rd.err.msg);
	sf_read_release(&x.rd);
	sf_reader_free(r);
	end();
}
END_TEST

START_TEST(the_wait_for_memory_has_a_bound_of_its_own)
{
	struct sf_reader *r;
	struct zread x;

	begin(ITEM + PIECE);
	ck_assert_uint_eq(sf_op_turn_ms(&io), 600000);
	io.timeout_ms = 2000;
	ck_assert_uint_eq(sf_op_turn_ms(&io), 600000);
	io.timeout_ms = 90000;
	ck_assert_uint_eq(sf_op_turn_ms(&io), 900000);
	r = zitems_reader(&z);
	io.timeout_ms = 20;
	io.turn_ms = 100;
	sf_budget_add(io.budget, SF_BUDGET_ITEM, ITEM);
	park(&x, r, 0);
	ck_assert_int_eq(zread_wait(&x), -ETIMEDOUT);
	ck_assert_msg(strstr(x.rd.err.msg, "no room in --memory") && strstr(x.rd.err.msg, "100 ms"),
	              "%s", x.rd.err.msg);
	sf_read_release(&x.rd);
	sf_budget_give(io.budget, SF_BUDGET_ITEM, ITEM);
	sf_reader_free(r);
	end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("turns");
	TCase *t = tcase_create("turns");
	int skip = zitems_skip();

	if (skip)
		return skip;
	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, who_reads_on_keeps_its_item_while_others_wait, 0, 2);
	tcase_add_test(t, who_does_not_read_on_is_not_waited_for_long);
	tcase_add_test(t, who_reads_on_for_ever_is_not_waited_for_so_long);
	tcase_add_test(t, one_reader_of_a_large_item_decodes_it_once);
	tcase_add_loop_test(t, forty_who_read_in_pieces_decode_forty_times, 0, 2);
	tcase_add_test(t, a_deadline_does_not_count_the_wait_for_memory);
	tcase_add_test(t, it_counts_from_when_the_turn_comes);
	tcase_add_test(t, the_wait_for_memory_has_a_bound_of_its_own);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
