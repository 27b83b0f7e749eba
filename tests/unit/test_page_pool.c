#include "config.h"

#include <pthread.h>
#include <string.h>

#include "base/mem.h"
#include "base/page_pool.h"
#include "tests/lib/sf_test.h"

#define MIB ((size_t)1 << 20)

static struct sf_budget *budget;
static struct sf_page_pool pool;

static void setup(void)
{
	struct sf_error err;

	ck_assert_int_eq(sf_budget_new(64 * MIB, &budget, &err), 0);
	sf_page_pool_init(&pool, budget);
}

static void teardown(void)
{
	sf_page_pool_release(&pool);
	sf_budget_free(budget);
}

static uint64_t held(void)
{
	struct sf_budget_stat s;

	sf_budget_stat(budget, &s);
	return s.held;
}

static struct sf_pages take(size_t len)
{
	struct sf_pages p;

	ck_assert_int_eq(sf_page_pool_take(&pool, len, &p), 0);
	ck_assert_uint_ge(p.len, len);
	ck_assert_uint_le(p.len, len + len / 4 + 4096);
	memset(p.at, 0x5a, p.len);
	return p;
}

START_TEST(pages_are_handed_out_again)
{
	struct sf_pages a = take(2 * MIB), b = take(2 * MIB + 20000), c;
	uint8_t *at_a = a.at, *at_b = b.at;

	ck_assert_uint_eq(held(), 0);
	sf_page_pool_give(&pool, &a);
	sf_page_pool_give(&pool, &b);
	ck_assert_ptr_null(a.at);
	ck_assert_uint_eq(held(), 4 * MIB + 20480); /* kept, and charged */
	c = take(2 * MIB);
	ck_assert_ptr_eq(c.at, at_a); /* the smallest that is large enough */
	b = take(2 * MIB);
	ck_assert_ptr_eq(b.at, at_b);
	ck_assert_uint_eq(held(), 0);
	sf_page_pool_give(&pool, &b);
	a = take(3 * MIB); /* too large for that one */
	ck_assert_ptr_ne(a.at, at_b);
	b = take(MIB); /* which is too large for this */
	ck_assert_ptr_ne(b.at, at_b);
	sf_page_pool_give(&pool, &a);
	sf_page_pool_give(&pool, &b);
	sf_page_pool_give(&pool, &c);
}
END_TEST

START_TEST(small_things_and_much_are_not_kept)
{
	struct sf_pages p = take(1000), q[10];

	ck_assert(!p.mapped);
	sf_page_pool_give(&pool, &p);
	ck_assert_uint_eq(held(), 0);
	p = take(9 * MIB); /* an eighth of the budget are 8 */
	sf_page_pool_give(&pool, &p);
	ck_assert_uint_eq(held(), 0);
	for (size_t i = 0; i < SF_ARRAY_LEN(q); i++)
		q[i] = take(MIB);
	for (size_t i = 0; i < SF_ARRAY_LEN(q); i++)
		sf_page_pool_give(&pool, &q[i]);
	ck_assert_uint_eq(held(), 8 * MIB);
	p = (struct sf_pages){ 0 };
	sf_page_pool_give(&pool, &p);
}
END_TEST

START_TEST(what_is_kept_goes_to_who_wants_room)
{
	struct sf_pages p = take(4 * MIB), q = take(4 * MIB);

	sf_page_pool_give(&pool, &p);
	ck_assert(sf_budget_take(budget, SF_BUDGET_ITEM, 30 * MIB));
	ck_assert_uint_eq(held(), 34 * MIB);
	ck_assert(sf_budget_take(budget, SF_BUDGET_ITEM, 32 * MIB));
	ck_assert_uint_eq(held(), 62 * MIB); /* the pool's went */
	/* somebody reads, and there is no room for it now */
	ck_assert(sf_budget_take(budget, SF_BUDGET_BUFFER, MIB));
	sf_page_pool_give(&pool, &q);
	ck_assert_uint_eq(held(), 63 * MIB);
	sf_budget_give(budget, SF_BUDGET_BUFFER, MIB);
	sf_budget_give(budget, SF_BUDGET_ITEM, 62 * MIB);
	ck_assert_uint_eq(held(), 0);
}
END_TEST

/* Many at once: each has pages that nobody else has. */
static void *turns(void *arg)
{
	uint64_t seed = *(uint64_t *)arg;

	for (int i = 0; i < 500; i++) {
		struct sf_pages p;
		uint64_t len = SF_PAGES_MIN + sf_test_below(&seed, MIB);
		bool same = true;
		ck_assert_int_eq(sf_page_pool_take(&pool, len, &p), 0);
		memset(p.at, i, len);
		for (size_t k = 0; k < len; k += 512)
			same &= p.at[k] == (uint8_t)i;
		ck_assert(same);
		sf_page_pool_give(&pool, &p);
		if (sf_budget_take(budget, SF_BUDGET_ITEM, 60 * MIB))
			sf_budget_give(budget, SF_BUDGET_ITEM, 60 * MIB);
	}
	return NULL;
}

START_TEST(nobody_gets_what_somebody_has)
{
	uint64_t seed[4];
	pthread_t t[4];

	for (uint64_t i = 0; i < 4; i++) {
		seed[i] = i + 1;
		ck_assert_int_eq(pthread_create(&t[i], NULL, turns, &seed[i]), 0);
	}
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	sf_page_pool_release(&pool);
	ck_assert_uint_eq(held(), 0);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("page_pool");
	TCase *t = tcase_create("page_pool");

	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, pages_are_handed_out_again);
	tcase_add_test(t, small_things_and_much_are_not_kept);
	tcase_add_test(t, what_is_kept_goes_to_who_wants_room);
	tcase_add_test(t, nobody_gets_what_somebody_has);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return sf_test_main(suite());
}
