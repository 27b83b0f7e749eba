#include "config.h"

#include "base/mem.h"
#include "store/open_room.h"
#include "tests/lib/sf_test.h"

struct waiter {
	struct sf_open_wait w;
	int turn; /* 0: it waits */
};
static int turns;

static void granted(struct sf_open_wait *w)
{
	((struct waiter *)w)->turn = ++turns;
}

START_TEST(nothing_is_counted_while_all_files_of_all_readers_fit)
{
	struct sf_open_room *room;

	ck_assert_int_eq(sf_open_room_new(10, 2, &room, NULL), 0);
	ck_assert(!sf_open_room_counts(room));
	sf_open_room_add(room, 6);
	ck_assert(!sf_open_room_counts(room));
	sf_open_room_add(room, 4);
	ck_assert(!sf_open_room_counts(room));
	sf_open_room_add(room, 1);
	ck_assert(sf_open_room_counts(room));
	sf_open_room_remove(room, 6);
	ck_assert(!sf_open_room_counts(room));
	sf_open_room_free(room);
	sf_open_room_free(NULL);
}
END_TEST

START_TEST(who_came_first_has_his_turn_first)
{
	struct waiter w[4] = { { { .n = 3 } }, { { .n = 1 } }, { { .n = 4 } }, { { .n = 1 } } };
	struct sf_open_room *room;

	turns = 0;
	ck_assert_int_eq(sf_open_room_new(10, 2, &room, NULL), 0); /* room for 5 */
	ck_assert(sf_open_room_take(room, 4));
	ck_assert(!sf_open_room_take(room, 2));
	for (size_t i = 0; i < SF_ARRAY_LEN(w); i++) {
		w[i].w.granted = granted;
		ck_assert(!sf_open_room_queue(room, &w[i].w));
	}
	ck_assert(!sf_open_room_take(room, 1)); /* there is room, but others wait */
	sf_open_room_give(room, 4);
	ck_assert_int_eq(w[0].turn, 1);
	ck_assert_int_eq(w[1].turn, 2);
	ck_assert_int_eq(w[2].turn, 0);
	ck_assert_int_eq(w[3].turn, 0); /* it would fit, and is not the first */
	sf_open_room_give(room, 3);
	ck_assert_int_eq(w[2].turn, 3);
	ck_assert_int_eq(w[3].turn, 0);
	sf_open_room_give(room, 1);
	ck_assert_int_eq(w[3].turn, 4);
	sf_open_room_give(room, 5);
	ck_assert(sf_open_room_take(room, 5));
	ck_assert(!sf_open_room_take(room, 1));
	sf_open_room_give(room, 5);
	w[0].turn = 0;
	ck_assert(sf_open_room_queue(room, &w[0].w)); /* at once: nobody is told */
	ck_assert_int_eq(w[0].turn, 0);
	sf_open_room_give(room, 3);
	sf_open_room_free(room);
}
END_TEST

START_TEST(a_batch_has_room_however_little_is_kept)
{
	struct sf_open_room *room;

	ck_assert_int_eq(sf_open_room_new(1, 2, &room, NULL), 0);
	ck_assert(sf_open_room_take(room, 2));
	ck_assert(!sf_open_room_take(room, 1));
	sf_open_room_give(room, 2);
	sf_open_room_free(room);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("open_room");
	TCase *tc = tcase_create("open_room");

	tcase_add_test(tc, nothing_is_counted_while_all_files_of_all_readers_fit);
	tcase_add_test(tc, who_came_first_has_his_turn_first);
	tcase_add_test(tc, a_batch_has_room_however_little_is_kept);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
