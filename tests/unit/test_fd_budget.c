#include "config.h"

#include "base/mem.h"
#include "store/fd_budget.h"
#include "tests/lib/sf_test.h"

struct waiter {
	struct sf_fd_wait w;
	int turn; /* 0: it waits */
};
static int turns;

static void granted(struct sf_fd_wait *w)
{
	((struct waiter *)w)->turn = ++turns;
}

START_TEST(nothing_is_counted_while_all_files_of_all_readers_fit)
{
	struct sf_fd_budget *fds;

	ck_assert_int_eq(sf_fd_budget_new(10, 2, &fds, NULL), 0);
	ck_assert(!sf_fd_budget_counts(fds));
	sf_fd_budget_add(fds, 6);
	ck_assert(!sf_fd_budget_counts(fds));
	sf_fd_budget_add(fds, 4);
	ck_assert(!sf_fd_budget_counts(fds));
	sf_fd_budget_add(fds, 1);
	ck_assert(sf_fd_budget_counts(fds));
	sf_fd_budget_remove(fds, 6);
	ck_assert(!sf_fd_budget_counts(fds));
	sf_fd_budget_free(fds);
	sf_fd_budget_free(NULL);
}
END_TEST

START_TEST(who_came_first_has_his_turn_first)
{
	struct waiter w[4] = { { { .n = 3 } }, { { .n = 1 } }, { { .n = 4 } }, { { .n = 1 } } };
	struct sf_fd_budget *fds;

	turns = 0;
	ck_assert_int_eq(sf_fd_budget_new(10, 2, &fds, NULL), 0); /* 5 may be held */
	ck_assert(sf_fd_budget_take(fds, 4));
	ck_assert(!sf_fd_budget_take(fds, 2));
	for (size_t i = 0; i < SF_ARRAY_LEN(w); i++) {
		w[i].w.granted = granted;
		ck_assert(!sf_fd_budget_queue(fds, &w[i].w));
	}
	ck_assert(!sf_fd_budget_take(fds, 1)); /* one is left, but others wait */
	sf_fd_budget_give(fds, 4);
	ck_assert_int_eq(w[0].turn, 1);
	ck_assert_int_eq(w[1].turn, 2);
	ck_assert_int_eq(w[2].turn, 0);
	ck_assert_int_eq(w[3].turn, 0); /* it would fit, and is not the first */
	sf_fd_budget_give(fds, 3);
	ck_assert_int_eq(w[2].turn, 3);
	ck_assert_int_eq(w[3].turn, 0);
	sf_fd_budget_give(fds, 1);
	ck_assert_int_eq(w[3].turn, 4);
	sf_fd_budget_give(fds, 5);
	ck_assert(sf_fd_budget_take(fds, 5));
	ck_assert(!sf_fd_budget_take(fds, 1));
	sf_fd_budget_give(fds, 5);
	w[0].turn = 0;
	ck_assert(sf_fd_budget_queue(fds, &w[0].w)); /* at once: nobody is told */
	ck_assert_int_eq(w[0].turn, 0);
	sf_fd_budget_give(fds, 3);
	sf_fd_budget_free(fds);
}
END_TEST

START_TEST(a_batch_has_its_files_however_little_is_kept)
{
	struct sf_fd_budget *fds;

	ck_assert_int_eq(sf_fd_budget_new(1, 2, &fds, NULL), 0);
	ck_assert(sf_fd_budget_take(fds, 2));
	ck_assert(!sf_fd_budget_take(fds, 1));
	sf_fd_budget_give(fds, 2);
	sf_fd_budget_free(fds);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("fd_budget");
	TCase *tc = tcase_create("fd_budget");

	tcase_add_test(tc, nothing_is_counted_while_all_files_of_all_readers_fit);
	tcase_add_test(tc, who_came_first_has_his_turn_first);
	tcase_add_test(tc, a_batch_has_its_files_however_little_is_kept);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
