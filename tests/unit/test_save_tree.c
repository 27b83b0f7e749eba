#include "config.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread_pool.h"
#include "save/save_tree.h"
#include "tests/lib/sf_test.h"

#define RANKS 60
#define LONG_MS 600000 /* no machine is that slow */

/* The clock stands still until a test moves it: nothing here depends on how fast the machine is. */
static int64_t virtual_ms; /* 0: the clock goes */
int __real_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
	if (!virtual_ms)
		return __real_clock_gettime(clock, ret);
	*ret = sf_timespec((uint64_t)virtual_ms * 1000000);
	return 0;
}

/* A record of random length whose bytes are the rank's. */
static size_t record_of(uint64_t seed, uint32_t rank, size_t most, uint8_t *ret)
{
	uint64_t state = seed + rank * 1000003u;
	size_t len = sf_test_below(&state, 4) ? sf_test_below(&state, most + 1) : 0;

	for (size_t i = 0; i < len; i++)
		ret[i] = (uint8_t)(rank * 7 + i);
	return len;
}

/* What rank 0 answers: all records, each behind its length. */
static int concatenate(void *arg, const void *const *record, const size_t *len, uint32_t n,
                       struct sf_buf *answer, struct sf_error *err)
{
	(void)arg, (void)err;
	for (uint32_t i = 0; i < n; i++) {
		sf_buf_printf(answer, "%u %zu\n", i, len[i]);
		sf_buf_add(answer, record[i], len[i]);
	}
	return 0;
}

static void expected_answer(uint64_t seed, uint32_t n, size_t most, struct sf_buf *ret)
{
	uint8_t *at = malloc(most + 1);

	for (uint32_t i = 0; i < n; i++) {
		size_t len = record_of(seed, i, most, at);
		sf_buf_printf(ret, "%u %zu\n", i, len);
		sf_buf_add(ret, at, len);
	}
	free(at);
}

/* ---- ranks that are threads ---- */

struct job {
	struct shardfuse_comm comm;
	uint64_t seed;
	size_t most;
	unsigned steps;
	bool polled;
	sf_save_tree_answer *answer;
	uint64_t failing; /* ranks */
	pthread_t thread;
	int r; /* of the last step */
	struct sf_error err;
	struct sf_buf got;
};

static int one_step(struct job *j, struct sf_save_tree *t, const void *at, size_t len)
{
	struct sf_verdict v = { 0 };
	struct sf_save_tree_step *step;
	int r;

	if (j->failing >> j->comm.rank & 1)
		v.code = sf_fail(&v.err, -1 - (int)j->comm.rank, "disk %u is full", j->comm.rank);
	sf_buf_release(&j->got);
	if (!j->polled)
		return sf_save_tree_step(t, &v, at, len, j->answer, NULL, &j->got, &j->err);
	r = sf_save_tree_begin(t, &v, at, len, j->answer, NULL, &step, &j->err);
	ck_assert_int_eq(r, 0);
	while ((r = sf_save_tree_poll(step, j->comm.rank % 3, &j->got, &j->err)) == -EAGAIN)
		sched_yield();
	sf_save_tree_step_free(step);
	return r;
}

static void *run_rank(void *arg)
{
	struct job *j = arg;
	uint8_t *at = malloc(j->most + 1);
	struct sf_save_tree t;

	sf_save_tree_init(&t, &j->comm, LONG_MS);
	for (unsigned i = 0; i < j->steps && j->r >= 0; i++) {
		size_t len = record_of(j->seed + i, j->comm.rank, j->most, at);
		j->r = one_step(j, &t, at, len);
	}
	free(at);
	return NULL;
}

static void run_all(struct job *job, const struct job *like, uint32_t n)
{
	struct shardfuse_comm comm[RANKS];

	ck_assert_int_eq(shardfuse_comm_threads(n, comm, NULL), 0);
	for (uint32_t i = 0; i < n; i++) {
		job[i] = *like;
		job[i].comm = comm[i];
		ck_assert_int_eq(sf_thread_start(&job[i].thread, run_rank, &job[i]), 0);
	}
	for (uint32_t i = 0; i < n; i++)
		pthread_join(job[i].thread, NULL);
	for (uint32_t i = 0; i < n; i++)
		shardfuse_comm_free(&comm[i]);
}

static void check_answers(struct job *job, uint32_t n)
{
	struct sf_buf want = { 0 };

	expected_answer(job->seed + job->steps - 1, n, job->most, &want);
	for (uint32_t i = 0; i < n; i++) {
		ck_assert_msg(job[i].r == 0, "rank %u of %u: %s", i, n, job[i].err.msg);
		ck_assert_uint_eq(job[i].got.len, want.len);
		ck_assert(!memcmp(job[i].got.at, want.at, want.len));
		sf_buf_release(&job[i].got);
	}
	sf_buf_release(&want);
}

START_TEST(records_reach_rank_0_and_its_answer_reaches_all)
{
	struct job job[RANKS];

	for (uint32_t n = 1 + (uint32_t)_i; n <= RANKS; n += 12) {
		struct job like = { .seed = sf_test_seed("records"), .most = 300, .steps = 3 };
		like.answer = concatenate;
		like.polled = n % 2;
		run_all(job, &like, n);
		check_answers(job, n);
	}
}
END_TEST

START_TEST(records_are_large)
{
	struct job job[12], like = { .most = 9 << 20, .steps = 2, .answer = concatenate };

	like.seed = sf_test_seed("large");
	run_all(job, &like, SF_ARRAY_LEN(job));
	check_answers(job, SF_ARRAY_LEN(job));
}
END_TEST

START_TEST(what_a_rank_fails_at_all_fail_at_with_the_lowest_ones_words)
{
	struct job job[RANKS];
	uint64_t seed = sf_test_seed("failing");

	for (int round = 0; round < 20; round++) {
		uint32_t n = 1 + (uint32_t)sf_test_below(&seed, RANKS), low = 0, count = 0;
		struct job like = { .seed = seed, .most = 100, .steps = 2 };
		char want[200];

		like.polled = round % 2;
		like.answer = concatenate;
		for (uint32_t i = 0; i < n; i++)
			like.failing |= (uint64_t)!sf_test_below(&seed, round < 10 ? 4 : n) << i;
		like.failing |= like.failing ? 0 : UINT64_C(1) << sf_test_below(&seed, n);
		while (!(like.failing >> low & 1))
			low++;
		count = (uint32_t)__builtin_popcountll(like.failing) - 1;
		snprintf(want, sizeof(want), n > 1 ? "rank %u: disk %u is full" : "disk %u is full",
		         low, low);
		if (count)
			snprintf(want + strlen(want), 100, " (%u more rank%s failed)", count,
			         count > 1 ? "s" : "");
		run_all(job, &like, n);
		for (uint32_t i = 0; i < n; i++) {
			int code = -1 - (int)low;
			ck_assert_int_eq(job[i].r, code == -EAGAIN ? -EBUSY : code);
			ck_assert_str_eq(job[i].err.msg, want);
			ck_assert_ptr_null(job[i].got.at);
		}
	}
}
END_TEST

static int refuse(void *arg, const void *const *record, const size_t *len, uint32_t n,
                  struct sf_buf *answer, struct sf_error *err)
{
	(void)arg, (void)record, (void)len;
	sf_buf_str(answer, "not all of it");
	return sf_fail(err, -EINVAL, "tensor 'w': ranks 1 and %u overlap", n - 1);
}

START_TEST(what_rank_0_cannot_answer_all_fail_at)
{
	struct job job[20], like = { .most = 100, .steps = 1, .answer = refuse };

	run_all(job, &like, 20);
	for (uint32_t i = 0; i < 20; i++) {
		ck_assert_int_eq(job[i].r, -EINVAL);
		ck_assert_str_eq(job[i].err.msg, "tensor 'w': ranks 1 and 19 overlap");
	}
}
END_TEST

/* ---- ranks that are polled in turn, and a clock that the test moves ---- */

#define TIMEOUT_MS 1000

struct world {
	uint32_t n;
	struct shardfuse_comm comm[RANKS];
	struct sf_save_tree tree[RANKS];
	struct sf_save_tree_step *step[RANKS];
	int r[RANKS]; /* 1: has not come */
	struct sf_error err[RANKS];
	struct sf_buf got[RANKS];
};

static void world_new(struct world *w, uint32_t n)
{
	memset(w, 0, sizeof(*w));
	virtual_ms = 1000;
	w->n = n;
	ck_assert_int_eq(shardfuse_comm_threads(n, w->comm, NULL), 0);
	for (uint32_t i = 0; i < n; i++) {
		sf_save_tree_init(&w->tree[i], &w->comm[i], TIMEOUT_MS);
		w->r[i] = 1;
	}
}

static void world_again(struct world *w)
{
	for (uint32_t i = 0; i < w->n; i++) {
		sf_save_tree_step_free(SF_STEAL(w->step[i]));
		sf_buf_release(&w->got[i]);
		sf_save_tree_init(&w->tree[i], &w->comm[i], TIMEOUT_MS);
		w->r[i] = 1;
	}
}

static void world_free(struct world *w)
{
	world_again(w);
	for (uint32_t i = 0; i < w->n; i++)
		shardfuse_comm_free(&w->comm[i]);
	virtual_ms = 0;
}

static void come(struct world *w, uint32_t rank)
{
	ck_assert_int_eq(sf_save_tree_begin(&w->tree[rank], NULL, "x", rank % 2, concatenate, NULL,
	                                    &w->step[rank], &w->err[rank]),
	                 0);
	w->r[rank] = -EAGAIN;
}

/* Polls whoever is not at its end, so often as all could have something to say. False: all ended. */
static bool turn(struct world *w)
{
	bool more = false;

	for (int k = 0; k < 8; k++) {
		more = false;
		for (uint32_t i = 0; i < w->n; i++) {
			if (w->r[i] == -EAGAIN)
				w->r[i] = sf_save_tree_poll(w->step[i], 0, &w->got[i], &w->err[i]);
			more |= w->r[i] == -EAGAIN;
		}
	}
	return more;
}

/* The missing rank that is nearest to rank 0 on @rank's way there, its own included; -1: none. */
static int cut_off_by(uint64_t missing, uint32_t rank)
{
	int by = -1;

	for (;; rank = (rank - 1) / SF_SAVE_TREE_CHILDREN) {
		if (missing >> rank & 1)
			by = (int)rank;
		if (!rank)
			return by;
	}
}

static void check_missing(struct world *w, uint64_t missing)
{
	int low = -1, said = -1;

	for (uint32_t i = 0; i < w->n && low < 0; i++)
		if (missing >> i & 1 && cut_off_by(missing, i) == (int)i)
			low = (int)i;
	for (uint32_t i = 0; i < w->n; i++) {
		char want[64];
		int by = cut_off_by(missing, i);

		if (missing >> i & 1)
			continue;
		ck_assert_msg(w->r[i] == -ETIMEDOUT, "rank %u: %d %s", i, w->r[i], w->err[i].msg);
		if (by < 0) { /* it hears rank 0, as rank 0 hears it */
			if (said >= 0)
				ck_assert_str_eq(w->err[i].msg, w->err[said].msg);
			said = (int)i;
			snprintf(want, sizeof(want), " %d ", low);
			if (!strstr(w->err[i].msg, want)) {
				snprintf(want, sizeof(want), " %d,", low);
				ck_assert_msg(strstr(w->err[i].msg, want) != NULL, "%d: %s", low,
				              w->err[i].msg);
			}
		} else {
			ck_assert_msg(strstr(w->err[i].msg, ": no word from rank ") != NULL, "%s",
			              w->err[i].msg);
		}
	}
}

START_TEST(a_rank_that_does_not_come_is_named_by_all_that_can_be_reached)
{
	uint64_t seed = sf_test_seed("missing");
	struct world *w = malloc(sizeof(*w));

	for (int round = 0; round < 60; round++) {
		uint64_t missing = 0;
		int64_t began;

		world_new(w, 2 + (uint32_t)sf_test_below(&seed, RANKS - 1));
		for (size_t k = 1 + sf_test_below(&seed, round % 2 ? 1 : 20); k--;)
			missing |= UINT64_C(1) << sf_test_below(&seed, w->n);
		if (missing & (missing - 1)) /* not all */
			missing &= missing - 1;
		for (uint32_t i = 0; i < w->n; i++)
			if (!(missing >> i & 1))
				come(w, i);
		for (began = virtual_ms; turn(w); virtual_ms += 100)
			ck_assert_int_lt(virtual_ms - began, 3 * TIMEOUT_MS);
		ck_assert_int_ge(virtual_ms - began, TIMEOUT_MS);
		check_missing(w, missing);
		/* those that come after all learn it where somebody told them, at once */
		for (uint32_t i = 0; i < w->n; i++)
			if (missing >> i & 1)
				come(w, i);
		for (began = virtual_ms; turn(w); virtual_ms += 100)
			ck_assert_int_lt(virtual_ms - began, 3 * TIMEOUT_MS);
		for (uint32_t i = 0; i < w->n; i++)
			ck_assert_int_lt(w->r[i], 0);
		/* and what is left over of it does not disturb the next save */
		world_again(w);
		for (uint32_t i = 0; i < w->n; i++)
			come(w, i);
		while (turn(w))
			virtual_ms += 100;
		for (uint32_t i = 0; i < w->n; i++)
			ck_assert_msg(w->r[i] == 0, "%s", w->err[i].msg);
		world_free(w);
	}
	free(w);
}
END_TEST

START_TEST(messages_of_missing_ranks_read_well)
{
	static const struct {
		uint64_t come;
		const char *msg;
	} c[] = {
		{ 0x3fffff & ~(UINT64_C(1) << 9), "no word from rank 9 for 1000 ms" },
		{ 0x3fffff & ~0x280ul, "no word from ranks 7 and 9 for 1000 ms" },
		{ 0x3fffff & ~0x288ul, "no word from ranks 3, 7 and 9 for 1000 ms" },
		{ 0x3ffffd, "no word from rank 1 for 1000 ms (through which 8 more are reached)" },
		{ 0x1, "no word from ranks 1, 2, 3, 4, 5, 6, 7 and 8 for 1000 ms "
		       "(through which 13 more are reached)" },
		{ 0x3f, "no word from 16 ranks for 1000 ms: 6, 7, 8, 9, 10, 11, 12, 13 …" },
	};
	struct world *w = malloc(sizeof(*w));

	for (size_t k = 0; k < SF_ARRAY_LEN(c); k++) {
		world_new(w, 22);
		for (uint32_t i = 0; i < w->n; i++)
			if (c[k].come >> i & 1)
				come(w, i);
		while (turn(w))
			virtual_ms += 100;
		ck_assert_str_eq(w->err[0].msg, c[k].msg);
		world_free(w);
	}
	free(w);
}
END_TEST

/* Rank @_i of 60 comes after ten timeouts, and says meanwhile that it lives. */
START_TEST(who_is_alive_is_not_given_up)
{
	struct world *w = malloc(sizeof(*w));
	uint32_t slow = (uint32_t)_i;

	world_new(w, RANKS);
	for (uint32_t i = 0; i < RANKS; i++)
		if (i != slow)
			come(w, i);
	for (int k = 0; k < 100; k++) {
		sf_save_tree_alive(&w->tree[slow]);
		ck_assert(turn(w));
		virtual_ms += TIMEOUT_MS / 10;
	}
	come(w, slow);
	turn(w);
	for (uint32_t i = 0; i < RANKS; i++)
		ck_assert_msg(w->r[i] == 0, "%s", w->err[i].msg);
	world_free(w);
	free(w);
}
END_TEST

START_TEST(who_looks_seldom_is_patient)
{
	struct world *w = malloc(sizeof(*w));

	world_new(w, RANKS);
	for (uint32_t i = 0; i < RANKS; i++)
		come(w, i);
	/* one round each: what a rank says the next hears two timeouts later */
	for (int k = 0; k < 20; k++, virtual_ms += 2 * TIMEOUT_MS)
		for (uint32_t i = 0; i < RANKS; i++)
			if (w->r[i] == -EAGAIN)
				w->r[i] = sf_save_tree_poll(w->step[i], 0, &w->got[i], &w->err[i]);
	for (uint32_t i = 0; i < RANKS; i++)
		ck_assert_msg(w->r[i] == 0, "%s", w->err[i].msg);
	world_free(w);
	free(w);
}
END_TEST

START_TEST(words_of_others_on_its_tag_fail_it)
{
	static const char *const word[] = { "", "?", "r", "f", "\1\0\0\0\1\0\0\0\0\0\0\0xr", "w" };
	static const size_t len[] = { 0, 1, 1, 1, 14, 1 };
	struct world *w = malloc(sizeof(*w));

	for (size_t k = 0; k < SF_ARRAY_LEN(word); k++)
		for (uint32_t from = 0; from < 20; from += 10) {
			uint32_t to = from ? (from - 1) / SF_SAVE_TREE_CHILDREN : 3;
			world_new(w, 20);
			w->comm[from].send(w->comm[from].arg, to, w->tree[to].tag, word[k], len[k],
			                   NULL);
			for (uint32_t i = 0; i < w->n; i++)
				come(w, i);
			while (turn(w))
				virtual_ms += 100;
			for (uint32_t i = 0; i < w->n; i++)
				ck_assert_msg(w->r[i] == -EBADMSG, "word %zu from %u: rank %u: %s",
				              k, from, i, w->err[i].msg);
			world_free(w);
		}
	free(w);
}
END_TEST

/* A rank that is alone has neither messages nor a number. */
START_TEST(one_rank_is_its_own_tree)
{
	struct shardfuse_comm comm;
	struct sf_save_tree t;
	struct sf_verdict v = { .code = -EIO, .err = { "disk" } };
	struct sf_buf got = { 0 };
	struct sf_error err = SF_ERROR_INIT;

	shardfuse_comm_self(&comm);
	sf_save_tree_init(&t, &comm, LONG_MS);
	sf_save_tree_alive(&t);
	ck_assert_int_eq(sf_save_tree_step(&t, NULL, "ab", 2, concatenate, NULL, &got, &err), 0);
	ck_assert_str_eq(sf_buf_cstr(&got), "0 2\nab");
	sf_buf_release(&got);
	ck_assert_int_eq(sf_save_tree_step(&t, NULL, NULL, 0, NULL, NULL, NULL, &err), 0);
	ck_assert_int_eq(sf_save_tree_step(&t, &v, NULL, 0, NULL, NULL, NULL, &err), -EIO);
	ck_assert_str_eq(err.msg, "disk");
	shardfuse_comm_free(&comm);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("save_tree");
	TCase *tc = tcase_create("tree");

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, records_reach_rank_0_and_its_answer_reaches_all, 0, 12);
	tcase_add_test(tc, records_are_large);
	tcase_add_test(tc, what_a_rank_fails_at_all_fail_at_with_the_lowest_ones_words);
	tcase_add_test(tc, what_rank_0_cannot_answer_all_fail_at);
	tcase_add_test(tc, a_rank_that_does_not_come_is_named_by_all_that_can_be_reached);
	tcase_add_test(tc, messages_of_missing_ranks_read_well);
	tcase_add_loop_test(tc, who_is_alive_is_not_given_up, 0, RANKS);
	tcase_add_test(tc, who_looks_seldom_is_patient);
	tcase_add_test(tc, words_of_others_on_its_tag_fail_it);
	tcase_add_test(tc, one_rank_is_its_own_tree);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
