/* Each allocation of a step of all ranks fails once: it ends well on all of them or on none, and nothing is lost. */
#include "config.h"

#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "save/save_tree.h"
#include "tests/fuzz/fz_malloc.h"
#include "tests/lib/sf_test.h"

#define RANKS 11 /* two levels */
#define TIMEOUT_MS 1000

/* The clock goes by turns of the ranks, and not at all while one waits. */
static int64_t virtual_ms;
int __real_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
	if (!virtual_ms)
		return __real_clock_gettime(clock, ret);
	*ret = sf_timespec((uint64_t)virtual_ms * 1000000);
	return 0;
}

static int answer(void *arg, const void *const *record, const size_t *len, uint32_t n,
                  struct sf_buf *ret, struct sf_error *err)
{
	(void)arg, (void)err;
	for (uint32_t i = 0; i < n; i++)
		sf_buf_add(ret, record[i], len[i]);
	return sf_buf_check(ret) < 0 ? sf_fail(err, -ENOMEM, "no memory for names") : 0;
}

struct world {
	struct shardfuse_comm comm[RANKS];
	struct sf_save_tree_step *step[RANKS];
	int r[RANKS];
	struct sf_error err[RANKS];
	struct sf_buf got[RANKS];
};

/* One step of all ranks, in turns. */
static void step_all(struct world *w, int failing)
{
	struct sf_verdict bad = { .code = -EIO, .err = { "disk" } };
	bool more = true;

	for (uint32_t i = 0; i < RANKS; i++) {
		struct sf_save_tree t;

		sf_save_tree_init(&t, &w->comm[i], TIMEOUT_MS);
		w->err[i] = (struct sf_error)SF_ERROR_INIT;
		w->r[i] = sf_save_tree_begin(&t, (int)i == failing ? &bad : NULL, "record", i % 7,
		                             answer, NULL, &w->step[i], &w->err[i]);
		w->r[i] = w->r[i] < 0 ? w->r[i] : -EAGAIN;
	}
	/* Check allocates: it is asked afterwards */
	for (int64_t end = virtual_ms + 10 * TIMEOUT_MS; more && virtual_ms < end;
	     virtual_ms += 50) {
		more = false;
		for (uint32_t i = 0; i < RANKS; i++) {
			if (w->r[i] == -EAGAIN)
				w->r[i] = sf_save_tree_poll(w->step[i], 0, &w->got[i], &w->err[i]);
			more |= w->r[i] == -EAGAIN;
		}
	}
	for (uint32_t i = 0; i < RANKS; i++)
		sf_save_tree_step_free(SF_STEAL(w->step[i]));
}

static void check(struct world *w, int failing, bool fault)
{
	for (uint32_t i = 0; i < RANKS; i++) {
		ck_assert_int_ne(w->r[i], -EAGAIN);
		if (!fault)
			ck_assert_int_eq(w->r[i], failing < 0 ? 0 : -EIO);
		ck_assert_msg((w->r[i] < 0) == (w->r[0] < 0), "rank 0: %d, rank %u: %d %s", w->r[0],
		              i, w->r[i], w->err[i].msg);
		ck_assert_int_eq(w->err[i].msg[0] != '\0', w->r[i] < 0);
		ck_assert_uint_eq(w->got[i].len, w->r[i] < 0 ? 0 : 27);
		sf_buf_release(&w->got[i]);
	}
}

/* All go in well, or rank 9 does not. */
START_TEST(the_nth_allocation_fails)
{
	int failing = _i ? 9 : -1;
	long n = 0, failed;

	virtual_ms = 1000;
	do {
		struct world w = { .r = { 0 } };

		ck_assert_int_eq(shardfuse_comm_threads(RANKS, w.comm, NULL), 0);
		fz_malloc_fails(n++, false);
		step_all(&w, failing);
		failed = fz_malloc_fails(-1, false);
		check(&w, failing, failed != 0);
		step_all(&w, -1); /* and the next is as if nothing had been */
		check(&w, -1, false);
		for (uint32_t i = 0; i < RANKS; i++)
			shardfuse_comm_free(&w.comm[i]);
	} while (failed);
	ck_assert_int_gt(n, 40);
	virtual_ms = 0;
}
END_TEST

/* No memory at all from some point on: it ends, and not well. */
START_TEST(no_allocation_succeeds_any_more)
{
	long n = 0, failed;

	virtual_ms = 1000;
	do {
		struct world w = { .r = { 0 } };

		ck_assert_int_eq(shardfuse_comm_threads(RANKS, w.comm, NULL), 0);
		fz_malloc_fails(n++, true);
		step_all(&w, -1);
		failed = fz_malloc_fails(-1, false);
		for (uint32_t i = 0; i < RANKS; i++) {
			ck_assert_int_ne(w.r[i], -EAGAIN);
			ck_assert_int_eq(w.err[i].msg[0] != '\0', w.r[i] < 0);
			sf_buf_release(&w.got[i]);
		}
		step_all(&w, -1);
		check(&w, -1, false);
		for (uint32_t i = 0; i < RANKS; i++)
			shardfuse_comm_free(&w.comm[i]);
	} while (failed);
	virtual_ms = 0;
}
END_TEST

int main(void)
{
	Suite *s = suite_create("save_tree_faults");
	TCase *tc = tcase_create("faults");

	tcase_add_loop_test(tc, the_nth_allocation_fails, 0, 2);
	tcase_add_test(tc, no_allocation_succeeds_any_more);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
