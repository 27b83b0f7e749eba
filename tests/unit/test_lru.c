#include "config.h"

#include <string.h>

#include "base/lru.h"
#include "base/mem.h"
#include "tests/lib/sf_test.h"

enum { N = 12 };
struct thing {
	char before[5];
	struct sf_lru_link link;
};

/* The order as an array says it, oldest first, is that of the list from both ends. */
static void same(const struct sf_lru *l, struct thing *t, const int *order, int n)
{
	const struct sf_lru_link *e = l->oldest;

	for (int i = 0; i < n; i++, e = e->newer)
		ck_assert_ptr_eq(e, &t[order[i]].link);
	ck_assert_ptr_null(e);
	e = l->newest;
	for (int i = n; i-- > 0; e = e->older)
		ck_assert_ptr_eq(e, &t[order[i]].link);
	ck_assert_ptr_null(e);
}

static int take_out(int *order, int n, int what)
{
	int at = 0;

	while (at < n && order[at] != what)
		at++;
	if (at == n)
		return n;
	memmove(order + at, order + at + 1, (size_t)(n - at - 1) * sizeof(*order));
	return n - 1;
}

START_TEST(uses_and_removals_keep_the_order)
{
	uint64_t seed = sf_test_seed("uses_and_removals_keep_the_order");
	struct sf_lru l = { 0 };
	struct thing t[N];
	int order[N], n = 0;

	for (int round = 0; round < 20000; round++) {
		int i = (int)sf_test_below(&seed, N), left = take_out(order, n, i);
		bool in = left < n;
		if (in && sf_test_below(&seed, 3) == 0) {
			sf_lru_remove(&l, &t[i].link);
			n = left;
		} else {
			if (in)
				sf_lru_touch(&l, &t[i].link);
			else
				sf_lru_add(&l, &t[i].link);
			order[left] = i;
			n = left + 1;
		}
		same(&l, t, order, n);
	}
	if (n > 0)
		ck_assert_ptr_eq(sf_container_of(l.oldest, struct thing, link), &t[order[0]]);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("lru");
	TCase *t = tcase_create("all");

	tcase_add_test(t, uses_and_removals_keep_the_order);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
