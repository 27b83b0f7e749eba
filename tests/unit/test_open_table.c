#include "config.h"
#include <pthread.h>
#include <stdatomic.h>
#include "tests/lib/sf_test.h"
#include "fuse/open_table.h"

START_TEST(the_first_open_fixes_the_mode_until_the_last_release)
{
	struct sf_open_table t;
	int32_t mode = -1;

	sf_open_table_init(&t);
	ck_assert_int_eq(sf_open_table_find(&t, 7, &mode), 0);
	ck_assert_int_eq(sf_open_table_enter(&t, 7, 41, &mode), 1);
	ck_assert_int_eq(mode, 41);
	ck_assert_int_eq(sf_open_table_enter(&t, 7, 42, &mode),
	                 0); /* 42 is the caller's to close */
	ck_assert_int_eq(mode, 41);
	ck_assert_int_eq(sf_open_table_enter(&t, 7, 0, &mode), 0);
	ck_assert_int_eq(mode, 41);
	ck_assert_int_eq(sf_open_table_find(&t, 7, &mode), 1);
	ck_assert_int_eq(sf_open_table_leave(&t, 7), 0);
	ck_assert_int_eq(sf_open_table_leave(&t, 7), 0);
	ck_assert_int_eq(sf_open_table_leave(&t, 7), 41);
	ck_assert_int_eq(sf_open_table_leave(&t, 7), 0); /* not open any more */
	ck_assert_int_eq(sf_open_table_enter(&t, 7, 0, &mode), 1);
	ck_assert_int_eq(sf_open_table_enter(&t, 7, 43, &mode), 0);
	ck_assert_int_eq(mode, 0); /* cached now */
	sf_open_table_release(&t);
}
END_TEST

enum { INODES = 40, THREADS = 4, ROUNDS = 20000 };

struct shared {
	struct sf_open_table t;
	_Atomic int32_t next; /* backing numbers: no two are the same */
	_Atomic int made, closed;
	uint64_t seed;
};

/* As open_passthrough does it: each backing is closed once, by its owner or by the last release. */
static void *open_and_close(void *arg)
{
	struct shared *s = arg;
	uint64_t state = s->seed + (uint64_t)pthread_self();
	int32_t mode;

	for (int i = 0; i < ROUNDS; i++) {
		uint64_t ino = 1 + sf_test_below(&state, INODES);
		int32_t mine = 0;
		if (!sf_open_table_find(&s->t, ino, &mode)) {
			mine = atomic_fetch_add(&s->next, 1);
			s->made++;
		}
		int r = sf_open_table_enter(&s->t, ino, mine, &mode);
		ck_assert_int_ge(r, 0);
		if (r == 0 && mine)
			s->closed++;
		if (r == 1)
			ck_assert_int_eq(mode, mine);
		if (sf_open_table_leave(&s->t, ino))
			s->closed++;
	}
	return NULL;
}

START_TEST(every_backing_file_is_closed_once)
{
	struct shared s = { .next = 1, .seed = sf_test_seed("open_table") };
	pthread_t id[THREADS];

	sf_open_table_init(&s.t);
	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&id[i], NULL, open_and_close, &s), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(id[i], NULL);
	ck_assert_int_gt(s.made, 0);
	ck_assert_int_eq(s.made, s.closed);
	ck_assert_uint_eq(s.t.locked.n, 0);
	sf_open_table_release(&s.t);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("open_table");
	TCase *tc = tcase_create("modes");
	tcase_add_test(tc, the_first_open_fixes_the_mode_until_the_last_release);
	tcase_add_test(tc, every_backing_file_is_closed_once);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
