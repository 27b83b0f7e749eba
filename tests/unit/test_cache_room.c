#include "config.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "store/cache_room.h"
#include "tests/lib/sf_test.h"

START_TEST(what_was_promised_is_taken_until_it_is_given_back)
{
	struct sf_cache_room r = { .limit = 100 };

	ck_assert(sf_cache_room_take(&r, 60));
	ck_assert(!sf_cache_room_take(&r, 41));
	ck_assert(sf_cache_room_take(&r, 40));
	ck_assert(!sf_cache_room_take(&r, 1));
	sf_cache_room_give(&r, 40);
	ck_assert_uint_eq(sf_cache_room_kept(&r, 60), 60);
	ck_assert(!sf_cache_room_take(&r, 41));
	ck_assert(sf_cache_room_take(&r, 40));
}
END_TEST

START_TEST(what_is_kept_during_a_sweep_is_not_forgotten)
{
	struct sf_cache_room r = { .limit = 100 };

	ck_assert(sf_cache_room_take(&r, 30));
	sf_cache_room_kept(&r, 30);
	ck_assert(sf_cache_room_take(&r, 20)); /* promised before, kept after */
	uint64_t begun = sf_cache_room_sweep(&r);
	ck_assert(sf_cache_room_take(&r, 40)); /* the sweep does not see it */
	sf_cache_room_kept(&r, 40);
	sf_cache_room_swept(&r, begun, 30);
	ck_assert(!sf_cache_room_take(&r, 11));
	ck_assert(sf_cache_room_take(&r, 10));
	ck_assert_uint_eq(sf_cache_room_kept(&r, 20), 60);
	sf_cache_room_give(&r, 10);
	sf_cache_room_swept(&r, sf_cache_room_sweep(&r), 10); /* others took some away */
	ck_assert(!sf_cache_room_take(&r, 91));
	ck_assert(sf_cache_room_take(&r, 90));
}
END_TEST

START_TEST(more_on_disk_than_allowed_is_no_room)
{
	struct sf_cache_room r = { .limit = 100 };

	sf_cache_room_swept(&r, sf_cache_room_sweep(&r), UINT64_MAX);
	ck_assert(!sf_cache_room_take(&r, 1));
	sf_cache_room_swept(&r, sf_cache_room_sweep(&r), 101);
	ck_assert(!sf_cache_room_take(&r, 1));
	ck_assert(!sf_cache_room_take(&r, UINT64_MAX / 2));
}
END_TEST

/* ---- many at once ---- */

#define LIMIT 1000
static struct sf_cache_room shared = { .limit = LIMIT };
static _Atomic uint64_t disk, passed, ended;

static void *keeper(void *arg)
{
	uint64_t state = (uintptr_t)arg;

	for (int i = 0; i < 20000; i++) {
		uint64_t n = 1 + sf_test_below(&state, 100);
		if (!sf_cache_room_take(&shared, n))
			continue;
		if (sf_test_below(&state, 3)) {
			passed += atomic_fetch_add(&disk, n) + n > LIMIT;
			sf_cache_room_kept(&shared, n);
		} else {
			sf_cache_room_give(&shared, n);
		}
	}
	ended++;
	return NULL;
}

START_TEST(no_more_is_kept_than_the_limit_by_any_number)
{
	enum { KEEPERS = 4 };
	pthread_t thread[KEEPERS];
	uint64_t seed = sf_test_seed("room");

	for (int i = 0; i < KEEPERS; i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, keeper,
		                                (void *)(uintptr_t)(sf_test_rand(&seed) | 1)),
		                 0);
	while (ended < KEEPERS) { /* and somebody sweeps */
		uint64_t begun = sf_cache_room_sweep(&shared), found = disk;
		uint64_t gone = found / 2;
		atomic_fetch_sub(&disk, gone);
		sf_cache_room_swept(&shared, begun, found - gone);
	}
	for (int i = 0; i < KEEPERS; i++)
		pthread_join(thread[i], NULL);
	ck_assert_uint_eq(passed, 0);
	ck_assert_uint_eq(shared.promised, 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("cache_room");
	TCase *t = tcase_create("cache_room");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, what_was_promised_is_taken_until_it_is_given_back);
	tcase_add_test(t, what_is_kept_during_a_sweep_is_not_forgotten);
	tcase_add_test(t, more_on_disk_than_allowed_is_no_room);
	tcase_add_test(t, no_more_is_kept_than_the_limit_by_any_number);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
