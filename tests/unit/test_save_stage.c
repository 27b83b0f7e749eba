#include "config.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "save/save_stage.h"
#include "tests/lib/box_world.h"
#include "tests/lib/sf_test.h"

/* ---- bytes of a box, wherever they lie ---- */

START_TEST(any_range_of_any_layout_is_as_the_dense_box)
{
	uint64_t seed = sf_test_seed("gather");
	struct sf_error err = SF_ERROR_INIT;

	for (int round = 0; round < 400; round++) {
		struct box_world w;
		box_draw(&w, &seed);
		uint8_t *got = malloc(w.item.bytes + 2);
		for (int i = 0; i < 20; i++) {
			uint64_t off = i ? sf_test_below(&seed, w.item.bytes + 1) : 0;
			uint64_t len =
				i ? sf_test_below(&seed, w.item.bytes - off + 1) : w.item.bytes;
			memset(got, 0xa5, w.item.bytes + 2);
			ck_assert_int_eq(sf_stage_fill(&w.item, off, got + 1, len, &err), 0);
			ck_assert_mem_eq(got + 1, w.dense + off, len);
			ck_assert_uint_eq(got[0], 0xa5);
			ck_assert_uint_eq(got[len + 1], 0xa5);
		}
		free(got);
		box_undraw(&w);
	}
}
END_TEST

START_TEST(dense_host_memory_is_taken_where_it_lies)
{
	uint64_t seed = sf_test_seed("direct"), one[2] = { 3, 1 }, stride[2] = { 1, 77 };
	unsigned direct = 0;

	for (int round = 0; round < 400; round++) {
		struct box_world w;
		box_draw(&w, &seed);
		const void *at = sf_stage_direct(&w.item);
		if (at && w.item.bytes)
			ck_assert_mem_eq(at, w.dense, w.item.bytes);
		direct += at != NULL;
		w.item.from.stride = NULL;
		ck_assert_ptr_eq(sf_stage_direct(&w.item), w.memory);
		box_undraw(&w);
	}
	ck_assert_uint_gt(direct, 0);
	/* of a dimension of 1 the stride says nothing */
	struct sf_save_item item = { .kind = SF_SAVE_TENSOR,
		                     .dtype = SF_UINT8,
		                     .ndim = 2,
		                     .extent = one,
		                     .bytes = 3,
		                     .from = { .at = one, .stride = stride } };
	ck_assert_ptr_eq(sf_stage_direct(&item), one);
	item.from.at = NULL;
	ck_assert_ptr_null(sf_stage_direct(&item));
	item = (struct sf_save_item){ .kind = SF_SAVE_OBJECT, .archive = "abc", .bytes = 3 };
	ck_assert_ptr_eq(sf_stage_direct(&item), item.archive);
}
END_TEST

static int provide(void *arg, uint64_t off, void *to, size_t len, struct shardfuse_error *err)
{
	const char *text = arg;

	if (off > 2) {
		snprintf(err->msg, sizeof(err->msg), "the well is dry");
		return -EIO;
	}
	memcpy(to, text + off, len);
	return 0;
}

START_TEST(a_provider_is_asked_and_quoted)
{
	struct sf_save_item item = {
		.kind = SF_SAVE_TENSOR, .key = "w", .dtype = SF_UINT8, .bytes = 6
	};
	struct sf_error err = SF_ERROR_INIT;
	char got[4] = "";

	ck_assert_int_eq(sf_stage_fill(&item, 0, got, 2, &err), -EINVAL);
	item.from.provide = provide;
	item.from.provide_arg = (void *)(uintptr_t) "abcdef";
	ck_assert_int_eq(sf_stage_fill(&item, 1, got, 3, &err), 0);
	ck_assert_str_eq(got, "bcd");
	ck_assert_int_eq(sf_stage_fill(&item, 3, got, 3, &err), -EIO);
	ck_assert_str_eq(err.msg, "tensor 'w': its provider, bytes 3 to 6: the well is dry");
}
END_TEST

/* ---- the pool ---- */

static struct sf_stage_pool *pool;
static const struct sf_device *host;
static _Atomic uint64_t out, most, given;
#define BUDGET ((uint64_t)64 << 10)

static void *takes_and_puts(void *arg)
{
	uint64_t seed = (uintptr_t)arg;

	for (int i = 0; i < 300; i++) {
		size_t len = 4096 * (1 + sf_test_below(&seed, sf_test_below(&seed, 10) ? 6 : 40));
		struct sf_stage_buf *b;
		if (sf_stage_get(pool, host, len, &b, NULL) < 0)
			return arg;
		uint64_t now = atomic_fetch_add(&out, len) + len, seen = atomic_load(&most);
		/* more than the budget only alone */
		if (now > BUDGET && now != len)
			return arg;
		while (seen < now && !atomic_compare_exchange_weak(&most, &seen, now))
			;
		if ((uintptr_t)b->at % 4096 || b->len < len)
			return arg;
		memset(b->at, i, len);
		atomic_fetch_add(&given, 1);
		atomic_fetch_sub(&out, len);
		sf_stage_put(pool, b);
	}
	return NULL;
}

START_TEST(threads_keep_to_the_budget_and_all_get_their_turn)
{
	pthread_t t[4];
	void *bad;

	host = sf_device_host();
	ck_assert_int_eq(sf_stage_pool_new(BUDGET, &pool, NULL), 0);
	for (uintptr_t i = 0; i < SF_ARRAY_LEN(t); i++)
		ck_assert_int_eq(pthread_create(&t[i], NULL, takes_and_puts, (void *)(i + 1)), 0);
	for (size_t i = 0; i < SF_ARRAY_LEN(t); i++) {
		pthread_join(t[i], &bad);
		ck_assert_ptr_null(bad);
	}
	ck_assert_uint_eq(given, 300 * SF_ARRAY_LEN(t));
	ck_assert_uint_gt(most, BUDGET); /* the large ones were among them */
	sf_stage_pool_free(pool);
}
END_TEST

static void *waits_for_one(void *arg)
{
	struct sf_stage_buf *b = NULL;
	int r = sf_stage_get(pool, host, *(size_t *)arg, &b, NULL);

	sf_stage_put(pool, b);
	return (void *)(intptr_t)r;
}

START_TEST(who_waits_is_told_when_staging_stops)
{
	struct sf_stage_buf *a, *b;
	size_t len = 8192;
	pthread_t t;
	void *r;

	host = sf_device_host();
	ck_assert_int_eq(sf_stage_pool_new(8192, &pool, NULL), 0);
	ck_assert_int_eq(sf_stage_get(pool, host, 4096, &a, NULL), 0);
	ck_assert_int_eq(sf_stage_try(pool, host, 8192, &b, NULL), -EAGAIN);
	ck_assert_int_eq(pthread_create(&t, NULL, waits_for_one, &len), 0);
	/* while it waits nobody goes past it */
	while (sf_stage_try(pool, host, 4096, &b, NULL) == 0)
		sf_stage_put(pool, b);
	sf_stage_pool_stop(pool, true);
	pthread_join(t, &r);
	ck_assert_int_eq((int)(intptr_t)r, -ECANCELED);
	ck_assert_int_eq(sf_stage_get(pool, host, 4096, &b, NULL), -ECANCELED);
	sf_stage_pool_stop(pool, false);
	ck_assert_int_eq(sf_stage_get(pool, host, 4096, &b, NULL), 0);
	sf_stage_put(pool, a);
	sf_stage_put(pool, b);
	/* what was put is given again */
	ck_assert_int_eq(sf_stage_get(pool, host, 4096, &a, NULL), 0);
	ck_assert_ptr_eq(a, b);
	sf_stage_put(pool, a);
	sf_stage_pool_set_budget(pool, 0);
	ck_assert_uint_eq(sf_stage_pool_budget(pool), 0);
	ck_assert_int_eq(sf_stage_get(pool, host, (size_t)5 << 20, &a, NULL), 0); /* alone */
	memset(a->at, 1, a->len);
	sf_stage_put(pool, a);
	sf_stage_pool_free(pool);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("save_stage");
	TCase *t = tcase_create("save_stage");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, any_range_of_any_layout_is_as_the_dense_box);
	tcase_add_test(t, dense_host_memory_is_taken_where_it_lies);
	tcase_add_test(t, a_provider_is_asked_and_quoted);
	tcase_add_test(t, threads_keep_to_the_budget_and_all_get_their_turn);
	tcase_add_test(t, who_waits_is_told_when_staging_stops);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
