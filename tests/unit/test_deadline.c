#include "config.h"

#include <stdatomic.h>
#include <unistd.h>

#include "base/deadline.h"
#include "tests/lib/sf_test.h"

struct one {
	struct sf_deadline d; /* first */
	atomic_int asked, fired;
	bool over;        /* what is due finds nothing to do */
	unsigned put_off; /* so many times more, a millisecond each */
	int order;
};

static atomic_int fired_so_far; /* reset: tests may share a process (CK_FORK=no) */

static void reset(void)
{
	atomic_store(&fired_so_far, 0);
}

static bool due(struct sf_deadline *d)
{
	struct one *o = (struct one *)d;

	atomic_fetch_add(&o->asked, 1);
	if (o->put_off && o->put_off--) {
		d->at_ns += 1000000;
		return false;
	}
	return !o->over;
}

static void fire(struct sf_deadline *d)
{
	struct one *o = (struct one *)d;

	o->order = atomic_fetch_add(&fired_so_far, 1);
	atomic_fetch_add(&o->fired, 1);
}

static void add(struct sf_deadlines *l, struct one *o, const void *owner, unsigned ms)
{
	*o = (struct one){ .d = { .due = due, .fire = fire }, .over = o->over };
	ck_assert_int_eq(sf_deadlines_add(l, &o->d, owner, ms), 0);
}

static void wait_for(atomic_int *n, int want)
{
	while (atomic_load(n) < want)
		usleep(200);
}

START_TEST(what_is_due_may_put_it_off)
{
	struct sf_deadlines *l;
	struct one o[2] = { { .order = 0 } };

	reset();
	ck_assert_int_eq(sf_deadlines_new(&l, NULL), 0);
	add(l, &o[0], NULL, 50);
	o[0].put_off = 20; /* the thread sleeps for 50 ms yet */
	add(l, &o[1], NULL, 52);
	wait_for(&o[0].fired, 1);
	ck_assert_int_eq(atomic_load(&o[0].asked), 21);
	ck_assert_int_eq(o[0].order, 1); /* behind who was late meanwhile */
	ck_assert_int_eq(o[1].order, 0);
	sf_deadlines_free(l);
}
END_TEST

START_TEST(it_may_become_due_sooner_not_later)
{
	struct sf_deadlines *l;
	struct one o[3] = { { .order = 0 } };

	reset();
	ck_assert_int_eq(sf_deadlines_new(&l, NULL), 0);
	add(l, &o[0], NULL, 3600000);
	add(l, &o[1], NULL, 3600001);
	add(l, &o[2], NULL, 20);
	sf_deadlines_sooner(l, &o[1].d, 1);
	sf_deadlines_sooner(l, &o[2].d, 3600000); /* nothing */
	wait_for(&o[1].fired, 1);
	wait_for(&o[2].fired, 1);
	sf_deadlines_sooner(l, &o[1].d, 0); /* is not listed any more */
	ck_assert_int_eq(atomic_load(&o[0].asked), 0);
	sf_deadlines_remove(l, &o[0].d);
	sf_deadlines_free(l);
	ck_assert_int_eq(atomic_load(&o[1].fired), 1);
}
END_TEST

/* The earlier one first, whichever came first. */
START_TEST(who_is_late_is_called_in_order_of_time)
{
	struct sf_deadlines *l;
	struct one o[3] = { { .order = 0 } };

	ck_assert_int_eq(sf_deadlines_new(&l, NULL), 0);
	add(l, &o[0], NULL, 1500);
	add(l, &o[1], NULL, 40);
	add(l, &o[2], NULL, 700);
	wait_for(&fired_so_far, 3);
	ck_assert(o[1].order < o[2].order && o[2].order < o[0].order);
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(o[i].fired, 1);
		ck_assert(!o[i].d.listed && !o[i].d.expedited);
	}
	sf_deadlines_free(l);
}
END_TEST

START_TEST(what_is_removed_or_over_is_not_called)
{
	struct sf_deadlines *l;
	struct one gone = { .order = 0 }, over = { .over = true }, last = { .order = 0 };

	ck_assert_int_eq(sf_deadlines_new(&l, NULL), 0);
	add(l, &gone, NULL, 30);
	sf_deadlines_remove(l, &gone.d);
	sf_deadlines_remove(l, &gone.d); /* twice is nothing */
	add(l, &over, NULL, 30);
	add(l, &last, NULL, 60);
	wait_for(&last.fired, 1);
	ck_assert_int_eq(gone.asked, 0);
	ck_assert_int_eq(over.asked, 1);
	ck_assert_int_eq(over.fired, 0);
	sf_deadlines_free(l);
}
END_TEST

START_TEST(what_has_no_time_is_called_when_it_is_expedited)
{
	struct sf_deadlines *l;
	struct one o[4] = { { .order = 0 } };
	int us, them;

	ck_assert_int_eq(sf_deadlines_new(&l, NULL), 0);
	sf_deadlines_expedite(l, &o[3].d); /* not listed: nothing */
	for (int i = 0; i < 3; i++)
		add(l, &o[i], i == 1 ? &them : &us, 0);
	usleep(20000);
	ck_assert_int_eq(atomic_load(&fired_so_far), 0);
	sf_deadlines_expedite(l, &o[0].d);
	wait_for(&o[0].fired, 1);
	ck_assert(o[0].d.expedited);
	sf_deadlines_expedite_all(l, &us); /* but not theirs */
	wait_for(&o[2].fired, 1);
	ck_assert_int_eq(o[1].asked, 0);
	sf_deadlines_remove(l, &o[1].d);
	sf_deadlines_free(l);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("deadline");
	TCase *tc = tcase_create("deadline");

	tcase_add_checked_fixture(tc, reset, NULL);
	tcase_add_test(tc, who_is_late_is_called_in_order_of_time);
	tcase_add_test(tc, what_is_due_may_put_it_off);
	tcase_add_test(tc, it_may_become_due_sooner_not_later);
	tcase_add_test(tc, what_is_removed_or_over_is_not_called);
	tcase_add_test(tc, what_has_no_time_is_called_when_it_is_expedited);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
