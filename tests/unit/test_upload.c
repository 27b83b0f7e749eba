#include "config.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"
#include "base/thread_pool.h"
#include "store/upload_plan.h"
#include "tests/lib/put_mem.h"
#include "tests/lib/sf_test.h"

/* ---- a world ---- */

struct world {
	struct sf_io io;
	struct sf_put_mem mem;
	struct sf_uploads u;
	struct sf_budget *budget;
};

static void begin_world(struct world *w)
{
	struct sf_error err = SF_ERROR_INIT;

	ck_assert_msg(sf_io_init(&w->io, 2, &err) == 0, "%s", err.msg);
	sf_put_mem_init(&w->mem);
	w->u.store = sf_put_mem_store(&w->mem, &w->io, "run/");
	ck_assert_msg(sf_uploads_init(&w->u, &err) == 0, "%s", err.msg);
}

static void end_world(struct world *w)
{
	sf_uploads_release(&w->u);
	sf_store_free(w->u.store);
	sf_put_mem_release(&w->mem);
	sf_io_release(&w->io);
}

static void fill(uint8_t *at, size_t n, uint64_t seed)
{
	for (size_t i = 0; i < n; i++)
		at[i] = (uint8_t)(sf_test_rand(&seed) >> 17);
}

static struct sf_upload *begin(struct world *w, const char *name, uint64_t size)
{
	const struct sf_upload_options o = { .size = size };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_upload *up;

	ck_assert_msg(sf_upload_begin(&w->u, name, &o, &up, &err) == 0, "%s", err.msg);
	return up;
}

static void write_it(struct sf_upload *up, uint64_t off, const void *at, size_t len)
{
	struct sf_error err = SF_ERROR_INIT;

	ck_assert_msg(sf_upload_write(up, off, at, len, &err) == 0, "%s", err.msg);
}

static void finish(struct sf_upload *up)
{
	struct sf_error err = SF_ERROR_INIT;
	char *etag = NULL;

	ck_assert_msg(sf_upload_finish(up, &etag, &err) == 0, "%s", err.msg);
	ck_assert_ptr_nonnull(etag);
	free(etag);
}

static void is_there(struct world *w, const char *name, const uint8_t *want, size_t len)
{
	size_t have = 0;
	const void *at = sf_put_mem_at(&w->mem, name, &have);

	ck_assert_msg(at != NULL, "'%s' is not there", name);
	ck_assert_uint_eq(have, len);
	ck_assert(len == 0 || memcmp(at, want, len) == 0);
}

/* ---- the plan ---- */

/* The slow reference: part after part. */
START_TEST(parts_are_where_a_walk_over_all_finds_them)
{
	uint64_t seed = sf_test_seed("parts_are_where_a_walk_over_all_finds_them");

	for (int round = 0; round < 500; round++) {
		const struct sf_put_ops limits = { .part_min = 1 + sf_test_below(&seed, 4),
			                           .part_max = 4 + sf_test_below(&seed, 60),
			                           .parts_max =
			                                   1 + (uint32_t)sf_test_below(&seed, 40) };
		uint64_t size = sf_test_below(&seed, 3) ? 0 : 1 + sf_test_below(&seed, 500), at = 0;
		struct sf_upload_plan p;
		int r = sf_upload_plan_init(&p, size, sf_test_below(&seed, 9), &limits, NULL);

		ck_assert_int_eq(r, size > limits.part_max * limits.parts_max ? -EFBIG : 0);
		if (r < 0)
			continue;
		for (uint32_t n = 0; n < limits.parts_max && at < (size ? size : UINT64_MAX); n++) {
			uint64_t start, len = 0;
			ck_assert_uint_eq(sf_upload_plan_part(&p, at, &start, &len), n);
			ck_assert_uint_eq(start, at);
			ck_assert(len > 0 && len <= limits.part_max);
			ck_assert(len >= limits.part_min || at + len == size);
			for (uint64_t i = 0; i < len; i++) {
				uint64_t s, l;
				ck_assert_uint_eq(sf_upload_plan_part(&p, at + i, &s, &l), n);
				ck_assert(s == start && l == len);
			}
			at += len;
		}
		ck_assert_uint_eq(sf_upload_plan_most(&p), at);
		ck_assert_uint_eq(sf_upload_plan_part(&p, at, &at, &at), UINT32_MAX);
	}
}
END_TEST

START_TEST(amazons_limits_hold_48_tib_whose_size_is_known_and_more_than_one_that_is_not)
{
	const struct sf_put_ops s3 = { .part_min = 5 << 20,
		                       .part_max = UINT64_C(5) << 30,
		                       .parts_max = 10000 };
	struct sf_upload_plan p;

	ck_assert_int_eq(sf_upload_plan_init(&p, UINT64_C(48) << 40, 8 << 20, &s3, NULL), 0);
	ck_assert_uint_eq(p.part % (1 << 20), 0);
	ck_assert_int_eq(sf_upload_plan_init(&p, UINT64_C(49) << 40, 8 << 20, &s3, NULL), -EFBIG);
	ck_assert_int_eq(sf_upload_plan_init(&p, 0, 8 << 20, &s3, NULL), 0);
	ck_assert(sf_upload_plan_most(&p) > UINT64_C(4) << 40);
}
END_TEST

/* ---- objects ---- */

START_TEST(an_object_of_one_part_is_one_put)
{
	struct world w = { .u.part_bytes = 10 };
	uint8_t at[10];

	begin_world(&w);
	fill(at, sizeof(at), 1);
	for (int known = 0; known < 2; known++)
		for (size_t len = 0; len <= 10; len += 5) {
			struct sf_upload *up = begin(&w, "a", known ? len : 0);
			if (len)
				write_it(up, 0, at, len);
			ck_assert_uint_eq(w.mem.calls[SF_PUT_MEM_PUT], known * 3 + len / 5);
			finish(up);
			is_there(&w, "run/a", at, len);
		}
	ck_assert_uint_eq(w.mem.calls[SF_PUT_MEM_PUT], 6);
	ck_assert_uint_eq(w.mem.calls[SF_PUT_MEM_BEGIN], 0);
	end_world(&w);
}
END_TEST

/* Pieces of [0, len) in any order, each once. */
static void write_shuffled(struct sf_upload *up, const uint8_t *at, size_t len, uint64_t *seed)
{
	size_t cut[64] = { 0 }, n = 1 + sf_test_below(seed, 40), order[64];

	for (size_t i = 1; i < n; i++)
		cut[i] = sf_test_below(seed, len + 1);
	cut[n] = len;
	for (size_t i = 1; i <= n; i++) /* insertion sort */
		for (size_t k = i; k > 1 && cut[k - 1] > cut[k]; k--) {
			size_t t = cut[k];
			cut[k] = cut[k - 1];
			cut[k - 1] = t;
		}
	for (size_t i = 0; i < n; i++)
		order[i] = i;
	for (size_t i = n; i > 1; i--) {
		size_t k = sf_test_below(seed, i), t = order[k];
		order[k] = order[i - 1];
		order[i - 1] = t;
	}
	for (size_t i = 0; i < n; i++)
		write_it(up, cut[order[i]], at + cut[order[i]], cut[order[i] + 1] - cut[order[i]]);
}

START_TEST(bytes_in_any_order_become_the_object)
{
	uint64_t seed = sf_test_seed("bytes_in_any_order_become_the_object");

	for (int round = 0; round < 60; round++) {
		struct world w = { .u.part_bytes = 1 + sf_test_below(&seed, 100),
			           .u.throttle = 1 + (unsigned)sf_test_below(&seed, 5),
			           .mem.parts_max = 200 };
		struct sf_budget *b = NULL;
		uint8_t at[1500];
		size_t len = sf_test_below(&seed, sizeof(at));

		ck_assert_int_eq(sf_budget_new(1 + sf_test_below(&seed, 400), &b, NULL), 0);
		w.u.budget = sf_test_below(&seed, 2) ? b : NULL;
		begin_world(&w);
		fill(at, len, seed);
		struct sf_upload *up = begin(&w, "x/y", sf_test_below(&seed, 2) ? len : 0);
		write_shuffled(up, at, len, &seed);
		finish(up);
		is_there(&w, "run/x/y", at, len);
		ck_assert_uint_eq(sf_put_mem_count(&w.mem), 1);
		ck_assert_uint_eq(sf_put_mem_unfinished(&w.mem), 0);
		ck_assert_uint_eq(w.mem.received, len); /* each byte went up once */
		ck_assert_uint_le(w.mem.most_bodies, w.u.throttle);
		end_world(&w);
		struct sf_budget_stat stat;
		sf_budget_stat(b, &stat);
		ck_assert_uint_eq(stat.held, 0);
		sf_budget_free(b);
	}
}
END_TEST

/* ---- what goes wrong ---- */

#define LEN 1000

/* An object of ten parts; 0 or how it failed, and it is dropped then. */
static int write_all(struct world *w, const char *name, const uint8_t *at, enum sf_upload_if when)
{
	const struct sf_upload_options o = { .size = LEN, .when = when };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_upload *up;
	int r = sf_upload_begin(&w->u, name, &o, &up, &err);

	for (size_t off = 0; r >= 0 && off < LEN; off += 50)
		r = sf_upload_write(up, off, at + off, 50, &err);
	if (r >= 0)
		r = sf_upload_finish(up, NULL, &err);
	if (r < 0) {
		ck_assert_msg(strncmp(err.msg, "'mem://run/", 11) == 0, "%s", err.msg);
		sf_upload_drop(up);
	}
	return r;
}

START_TEST(whatever_call_fails_the_object_is_not_there_and_nothing_of_it_is_left)
{
	uint8_t at[LEN];
	int n, r = -EIO;

	fill(at, LEN, 3);
	for (n = 0; r < 0; n++) {
		struct world w = { .u.part_bytes = 100,
			           .u.throttle = 3,
			           /* all but what calls it off */
			           .mem.fail_calls = 0xff & ~(1u << SF_PUT_MEM_ABORT),
			           .mem.fail_from = n,
			           .mem.fail_to = n + 1,
			           .mem.fail_code = -EIO };
		begin_world(&w);
		r = write_all(&w, "a", at, SF_UPLOAD_REPLACE);
		ck_assert_uint_eq(sf_put_mem_count(&w.mem), r < 0 ? 0 : 1);
		ck_assert_uint_eq(sf_put_mem_unfinished(&w.mem), 0);
		w.mem.fail_to = 0;
		ck_assert_int_eq(write_all(&w, "a", at, SF_UPLOAD_REPLACE), 0);
		is_there(&w, "run/a", at, LEN);
		end_world(&w);
	}
	ck_assert_int_eq(n, 1 + 10 + 1 + 1); /* begin, ten parts, finish; then none failed */
}
END_TEST

START_TEST(create_replaces_nothing)
{
	struct world w = { .u.part_bytes = 100 };
	uint8_t at[LEN];

	begin_world(&w);
	fill(at, LEN, 4);
	sf_put_mem_set(&w.mem, "run/a", "old", 3);
	ck_assert_int_eq(write_all(&w, "a", at, SF_UPLOAD_CREATE), -EEXIST);
	ck_assert_int_eq(sf_upload_put(&w.u, "a", "x", 1, SF_UPLOAD_CREATE, NULL, NULL), -EEXIST);
	is_there(&w, "run/a", (const uint8_t *)"old", 3);
	ck_assert_uint_eq(sf_put_mem_unfinished(&w.mem), 0);
	ck_assert_int_eq(write_all(&w, "b", at, SF_UPLOAD_CREATE), 0);
	end_world(&w);
}
END_TEST

struct writer {
	struct world *w;
	unsigned number;
	int r;
	uint8_t at[LEN];
};

static void *write_many(void *arg)
{
	struct writer *me = arg;
	char name[32];

	for (int i = 0; i < 6 && me->r >= 0; i++) {
		snprintf(name, sizeof(name), "%u/%d", me->number, i);
		me->r = write_all(me->w, name, me->at, SF_UPLOAD_REPLACE);
	}
	return NULL;
}

START_TEST(many_write_side_by_side_within_a_budget_of_two_parts)
{
	struct world w = { .u.part_bytes = 100, .u.throttle = 4 };
	struct sf_budget *b;
	struct sf_budget_stat stat;
	static struct writer me[6];
	pthread_t thread[6];
	char name[32];

	ck_assert_int_eq(sf_budget_new(200, &b, NULL), 0);
	w.u.budget = b;
	begin_world(&w);
	for (unsigned i = 0; i < 6; i++) {
		me[i] = (struct writer){ .w = &w, .number = i };
		fill(me[i].at, LEN, i);
		ck_assert_int_eq(sf_thread_start(&thread[i], write_many, &me[i]), 0);
	}
	for (unsigned i = 0; i < 6; i++) {
		pthread_join(thread[i], NULL);
		ck_assert_int_eq(me[i].r, 0);
	}
	for (unsigned i = 0; i < 6; i++)
		for (int k = 0; k < 6; k++) {
			snprintf(name, sizeof(name), "run/%u/%d", i, k);
			is_there(&w, name, me[i].at, LEN);
		}
	ck_assert_uint_le(w.mem.most_bodies, 4);
	sf_budget_stat(b, &stat);
	ck_assert_uint_le(stat.most, 200);
	ck_assert_uint_eq(stat.held, 0);
	end_world(&w);
	sf_budget_free(b);
}
END_TEST

static _Atomic bool cancel;

static int cancel_at_third_part(void *arg, enum sf_put_mem_call call, const char *name,
                                uint32_t part)
{
	(void)arg, (void)name;
	if (call == SF_PUT_MEM_PART && part == 2)
		cancel = true;
	return 0;
}

START_TEST(what_is_canceled_ends_and_is_called_off)
{
	struct world w = { .u.part_bytes = 100,
		           .u.throttle = 2,
		           .u.cancel = &cancel,
		           .mem.before = cancel_at_third_part };
	uint8_t at[LEN];
	int r;

	cancel = false;
	begin_world(&w);
	fill(at, LEN, 5);
	r = write_all(&w, "a", at, SF_UPLOAD_REPLACE);
	ck_assert_int_eq(r, -ECANCELED);
	ck_assert_uint_eq(sf_put_mem_count(&w.mem), 0);
	ck_assert_uint_eq(sf_put_mem_unfinished(&w.mem), 0);
	end_world(&w);
}
END_TEST

/* 150 of 250 bytes are there: what is written then fails, and so does all that follows. */
static void is_refused(struct world *w, uint64_t off, size_t len, const char *why)
{
	struct sf_upload *up = begin(w, "a", 250);
	struct sf_error err = SF_ERROR_INIT;
	uint8_t at[LEN] = { 0 };

	write_it(up, 0, at, 150);
	ck_assert_int_eq(sf_upload_write(up, off, at, len, &err), -EINVAL);
	ck_assert_msg(strstr(err.msg, why), "%s", err.msg);
	ck_assert_int_eq(sf_upload_write(up, 150, at, 100, &err), -EINVAL);
	ck_assert_msg(strstr(err.msg, why), "%s", err.msg);
	ck_assert_int_eq(sf_upload_finish(up, NULL, &err), -EINVAL);
	ck_assert_msg(strncmp(err.msg, "'mem://run/a': ", 15) == 0 && strstr(err.msg, why), "%s",
	              err.msg);
	sf_upload_drop(up);
}

START_TEST(bytes_that_come_twice_are_missing_or_are_too_many_are_refused)
{
	struct world w = { .u.part_bytes = 100 };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_upload *up;
	uint8_t at[LEN] = { 0 };

	begin_world(&w);
	is_refused(&w, 140, 20, "bytes of part 2 are written twice"); /* of a part that is open */
	is_refused(&w, 50, 1, "bytes from 50 on are written twice");  /* of one that is gone */
	is_refused(&w, 200, 51, "its size of 250");                   /* behind its end */
	up = begin(&w, "a", 250);
	write_it(up, 0, at, 150);
	ck_assert_int_eq(sf_upload_finish(up, NULL, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.msg, "150 bytes of it were written, it has 250"));
	sf_upload_drop(up);
	up = begin(&w, "b", 0);
	write_it(up, 0, at, 10);
	write_it(up, 300, at, 10);
	ck_assert_int_eq(sf_upload_finish(up, NULL, &err), -EINVAL);
	sf_upload_drop(up);
	ck_assert_uint_eq(sf_put_mem_count(&w.mem), 0);
	ck_assert_uint_eq(sf_put_mem_unfinished(&w.mem), 0);
	end_world(&w);
}
END_TEST

/* Where the size is not known parts become longer: the 19th here, of 2^48 bytes, has no room in any process. */
START_TEST(a_part_that_finds_no_memory_is_the_end_of_the_upload)
{
	const uint64_t first = UINT64_C(1) << 30, last = (first << 18) - first;
	struct world w = { .u.part_bytes = first,
		           .mem.part_max = UINT64_MAX / 2,
		           .mem.parts_max = 19 };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_upload *up;

	begin_world(&w);
	up = begin(&w, "a", 0);
	write_it(up, 0, "0123456789", 10);
	ck_assert_int_eq(sf_upload_write(up, last, "x", 1, &err), -ENOMEM);
	ck_assert_ptr_nonnull(strstr(err.msg, "no memory for a part of 281474976710656 bytes"));
	ck_assert_int_eq(sf_upload_write(up, 10, "x", 1, NULL), -ENOMEM);
	ck_assert_int_eq(sf_upload_finish(up, NULL, &err), -ENOMEM);
	ck_assert_ptr_nonnull(strstr(err.msg, "no memory for a part of 281474976710656 bytes"));
	sf_upload_drop(up);
	ck_assert_uint_eq(sf_put_mem_count(&w.mem), 0);
	end_world(&w);
}
END_TEST

static bool is_ours(void *arg, const char *name)
{
	(void)arg;
	return strncmp(name, "step1/", 6) == 0;
}

START_TEST(what_a_killed_process_left_is_swept_and_nobody_elses)
{
	struct world w = { .u.part_bytes = 100 };
	const char *const names[] = { "step1/x", "step1/y", "other" };
	struct sf_put_to to = { .name = NULL };
	char *id;

	begin_world(&w);
	for (size_t i = 0; i < 3; i++) {
		to.name = names[i];
		ck_assert_int_eq(w.u.store->ops->put->begin(w.u.store, &to, &id, NULL), 0);
		free(id);
	}
	ck_assert_int_eq(sf_upload_sweep(&w.u, "", is_ours, NULL, NULL), 0);
	ck_assert_uint_eq(sf_put_mem_unfinished(&w.mem), 1);
	sf_put_mem_set(&w.mem, "run/gone", "x", 1);
	ck_assert_int_eq(sf_upload_remove(&w.u, (const char *const[]){ "never", "gone" }, 2, NULL),
	                 0);
	ck_assert_uint_eq(sf_put_mem_count(&w.mem), 0);
	end_world(&w);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("upload");
	TCase *t = tcase_create("upload");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, parts_are_where_a_walk_over_all_finds_them);
	tcase_add_test(
		t, amazons_limits_hold_48_tib_whose_size_is_known_and_more_than_one_that_is_not);
	tcase_add_test(t, an_object_of_one_part_is_one_put);
	tcase_add_test(t, bytes_in_any_order_become_the_object);
	tcase_add_test(t, whatever_call_fails_the_object_is_not_there_and_nothing_of_it_is_left);
	tcase_add_test(t, create_replaces_nothing);
	tcase_add_test(t, many_write_side_by_side_within_a_budget_of_two_parts);
	tcase_add_test(t, what_is_canceled_ends_and_is_called_off);
	tcase_add_test(t, bytes_that_come_twice_are_missing_or_are_too_many_are_refused);
	tcase_add_test(t, a_part_that_finds_no_memory_is_the_end_of_the_upload);
	tcase_add_test(t, what_a_killed_process_left_is_swept_and_nobody_elses);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return sf_test_main(suite());
}
