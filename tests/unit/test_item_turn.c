#include "config.h"

#include "tests/lib/item_cache_world.h"

/* What a load will hold is taken to be four times its size: two fit. */
START_TEST(no_more_loads_run_than_fit)
{
	struct sf_item_cache *c;
	struct wait x[ITEMS];
	uint64_t each;

	begin(100000);
	ck_assert_int_eq(sf_item_cache_new(&io, &c, NULL), 0);
	each = claim_of(c, want(0));
	ck_assert_uint_ge(each, LEN);
	sf_budget_set_limit(io.budget, 2 * each);
	for (int i = 0; i < ITEMS; i++)
		load(c, want(i), &x[i]);
	ck_assert_uint_eq(io.counters.fetched_requests[SF_FETCH_OBJECT], 2);
	ck_assert_uint_le(held(), 2 * each);
	free_cache(c);
	for (int i = 0; i < ITEMS; i++)
		ck_assert_int_eq(wait_done(&x[i]), -ECANCELED);
	ck_assert_uint_eq(held(), 0);
	/* one that takes all there is runs, alone */
	io.counters.fetched_requests[SF_FETCH_OBJECT] = 0;
	sf_budget_set_limit(io.budget, each - 1);
	ck_assert_int_eq(sf_item_cache_new(&io, &c, NULL), 0);
	for (int i = 0; i < 3; i++)
		load(c, want(i), &x[i]);
	ck_assert_uint_eq(io.counters.fetched_requests[SF_FETCH_OBJECT], 1);
	free_cache(c);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(wait_done(&x[i]), -ECANCELED);
	end();
}
END_TEST

/* Each load in its turn, in the order in which they were asked for. */
START_TEST(loads_that_wait_come_in_order_and_one_that_is_given_up_does_not)
{
	struct sf_cache_entry *unwanted;
	struct sf_item_cache *c;
	struct wait x[ITEMS], again;
	struct sf_cache_want w;

	begin(3);
	sf_budget_set_limit(io.budget, LEN); /* one at a time */
	ck_assert_int_eq(sf_item_cache_new(&io, &c, NULL), 0);
	for (int i = 0; i < ITEMS; i++)
		load(c, want(i), &x[i]);
	load(c, want(7), &again); /* two wait for this one */
	ck_assert(sf_item_cache_cancel(c, &x[5].w, &unwanted));
	ck_assert_ptr_nonnull(unwanted);
	sf_item_cache_give_up(c, unwanted);
	ck_assert(!sf_item_cache_cancel(c, &x[5].w, &unwanted));
	ck_assert(sf_item_cache_cancel(c, &x[7].w, &unwanted));
	ck_assert_ptr_null(unwanted);
	sf_item_cache_give_up(c, unwanted);
	for (int i = 0; i < ITEMS; i++) {
		struct wait *y = i == 7 ? &again : &x[i];
		if (i == 5)
			continue;
		ck_assert_int_eq(wait_done(y), 0);
		for (int k = i + 1; k < ITEMS; k++) /* its turn comes when this one is let go */
			ck_assert_int_eq(atomic_load(&x[k].done), 0);
		ck_assert_uint_eq(y->item->len, LEN - i);
		ck_assert(!sf_item_cache_cancel(c, &y->w, &unwanted));
		sf_cached_unref(c, y->item);
	}
	w = want(5);
	ck_assert_ptr_null(sf_item_cache_get(c, &w));
	ck_assert_int_eq(atomic_load(&x[5].done), 0);
	ck_assert_int_eq(atomic_load(&x[7].done), 0);
	ck_assert_uint_eq(io.counters.fetched_requests[SF_FETCH_OBJECT], ITEMS - 1);
	free_cache(c);
	end();
}
END_TEST

/* Its turn comes between the two halves of giving it up: the load is called off by then. */
START_TEST(an_item_may_have_its_turn_while_it_is_given_up)
{
	struct sf_cache_entry *unwanted;
	struct sf_item_cache *c;
	struct wait x;

	begin(0);
	sf_budget_set_limit(io.budget, LEN);
	ck_assert_int_eq(sf_item_cache_new(&io, &c, NULL), 0);
	sf_budget_add(io.budget, SF_BUDGET_ITEM, LEN);
	load(c, want(0), &x);
	ck_assert(sf_item_cache_cancel(c, &x.w, &unwanted));
	ck_assert_ptr_nonnull(unwanted);
	sf_budget_give(io.budget, SF_BUDGET_ITEM, LEN);
	while (held()) /* it gives back what it was granted */
		usleep(100);
	usleep(1000);
	sf_item_cache_give_up(c, unwanted);
	ck_assert_uint_eq(io.counters.fetched_requests[SF_FETCH_OBJECT], 0);
	free_cache(c);
	end();
}
END_TEST

START_TEST(who_holds_an_item_is_told_that_there_is_no_room)
{
	struct sf_item_cache *c;
	struct sf_cache_want w;
	struct wait x, y;

	begin(0);
	sf_budget_set_limit(io.budget, LEN + 1000);
	ck_assert_int_eq(sf_item_cache_new(&io, &c, NULL), 0);
	load(c, want(0), &x);
	ck_assert_int_eq(wait_done(&x), 0);
	w = want(1);
	y = (struct wait){ .w.done = note };
	ck_assert_int_eq(sf_item_cache_load(c, &w, &y.w, false), SF_CACHE_FULL);
	ck_assert_int_eq(atomic_load(&y.done), 0);
	ck_assert_int_eq(sf_item_cache_load(c, &w, &y.w, true), SF_CACHE_QUEUED);
	ck_assert_int_eq(atomic_load(&y.done), 0);
	struct wait z = { .w.done = note };
	ck_assert_int_eq(sf_item_cache_load(c, &w, &z.w, false), SF_CACHE_FULL);
	sf_cached_unref(c, x.item); /* goes, since somebody waits */
	ck_assert_int_eq(wait_done(&y), 0);
	w = want(0);
	ck_assert_ptr_null(sf_item_cache_get(c, &w));
	sf_cached_unref(c, y.item);
	w = want(1); /* kept: nobody waits now. But no more than half of the budget is */
	ck_assert_ptr_null(sf_item_cache_get(c, &w));
	sf_budget_set_limit(io.budget, 20 * LEN);
	for (int i = 0; i < ITEMS; i++) {
		load(c, want(i), &x);
		ck_assert_int_eq(wait_done(&x), 0);
		sf_cached_unref(c, x.item);
		while (held() > 10 * LEN) /* the load's thread lets go last */
			usleep(100);
	}
	ck_assert_uint_ge(held(), 8 * LEN);
	/* all of it for somebody else */
	ck_assert(sf_budget_take(io.budget, SF_BUDGET_BUFFER, 1));
	ck_assert(sf_budget_take(io.budget, SF_BUDGET_MADE, 1));
	ck_assert(sf_budget_take(io.budget, SF_BUDGET_MADE, 20 * LEN - 2));
	ck_assert_uint_eq(held(), 20 * LEN);
	sf_budget_give(io.budget, SF_BUDGET_MADE, 20 * LEN - 1);
	sf_budget_give(io.budget, SF_BUDGET_BUFFER, 1);
	free_cache(c);
	end();
}
END_TEST

/* More inside than was thought, a larger window than usual: it begins anew with more. */
START_TEST(a_load_that_needs_more_begins_anew)
{
	struct sf_item_cache *c;
	struct sf_cache_want w;
	struct sf_budget_stat s;
	struct wait x;

	begin(0);
	sf_budget_set_limit(io.budget, 64 << 20);
	ck_assert_int_eq(sf_item_cache_new(&io, &c, NULL), 0);
	w = want(0);
	w.expect = 100;
	load(c, w, &x);
	ck_assert_int_eq(wait_done(&x), 0);
	ck_assert_uint_eq(x.item->len, LEN);
	ck_assert_mem_eq(x.item->at, plain, LEN);
	sf_cached_unref(c, x.item);
	ck_assert_uint_gt(io.counters.fetched_requests[SF_FETCH_OBJECT], 2);

	file.at[off[1] + 5] = 0x70; /* 16 MiB */
	load(c, want(1), &x);
	ck_assert_int_eq(wait_done(&x), 0);
	ck_assert_mem_eq(x.item->at, plain + 1, LEN - 1);
	sf_cached_unref(c, x.item);
	sf_budget_stat(io.budget, &s);
	ck_assert_uint_ge(s.most, 16 << 20);

	file.at[off[2] + 5] = 0x88; /* 128 MiB, of 64 */
	load(c, want(2), &x);
	ck_assert_int_eq(wait_done(&x), -E2BIG);
	ck_assert_ptr_nonnull(
		strstr(x.w.err.msg, "more than 33554432 bytes; --memory is 67108864"));
	free_cache(c);
	end();
}
END_TEST

/* One who may not wait, because of what it holds, is told when the item goes back to wait. */
START_TEST(who_may_not_wait_is_told_when_a_load_begins_anew)
{
	struct sf_item_cache *c;
	struct sf_cache_want w;
	struct wait x, y = { .w.done = note };

	begin(20);
	file.at[off[1] + 5] = 0x68; /* 8 MiB */
	sf_budget_set_limit(io.budget, 8 << 20);
	ck_assert_int_eq(sf_item_cache_new(&io, &c, NULL), 0);
	load(c, want(0), &x);
	ck_assert_int_eq(wait_done(&x), 0);
	w = want(1);
	ck_assert_int_eq(sf_item_cache_load(c, &w, &y.w, false), SF_CACHE_BEGUN);
	ck_assert_int_eq(wait_done(&y), -EAGAIN);
	ck_assert(y.w.again);
	sf_cached_unref(c, x.item); /* had it not been told, nobody would come to this */
	load(c, w, &x);
	ck_assert_int_eq(wait_done(&x), 0);
	ck_assert_mem_eq(x.item->at, plain + 1, LEN - 1);
	sf_cached_unref(c, x.item);
	free_cache(c);
	end();
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("item_turn");
	TCase *t = tcase_create("item_cache");

	tcase_add_test(t, no_more_loads_run_than_fit);
	tcase_add_test(t, loads_that_wait_come_in_order_and_one_that_is_given_up_does_not);
	tcase_add_test(t, an_item_may_have_its_turn_while_it_is_given_up);
	tcase_add_test(t, who_holds_an_item_is_told_that_there_is_no_room);
	tcase_add_test(t, who_may_not_wait_is_told_when_a_load_begins_anew);
	tcase_add_test(t, a_load_that_needs_more_begins_anew);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	struct sf_unzstd *z;

	if (sf_unzstd_new(&z, NULL) < 0)
		return sf_test_skip("built without zstd");
	sf_unzstd_free(z);
	return sf_test_main(suite());
}
