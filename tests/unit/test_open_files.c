#include "config.h"

#include <pthread.h>

#include "base/mem.h"
#include "store/open_files.h"
#include "tests/lib/sf_test.h"

#define LIMIT 8
#define KEYS 40

static int nfreed;
static void count_free(struct sf_source *src)
{
	__atomic_add_fetch(&nfreed, 1, __ATOMIC_RELAXED);
	free(src);
}
static const struct sf_source_ops ops = { .free = count_free };

static struct sf_source *make(uint32_t key)
{
	struct sf_source *s = calloc(1, sizeof(*s));

	s->ops = &ops;
	s->refs = 1;
	s->size = key;
	return s;
}

/* Property: the same as a list in order of use that is cut at the limit. */
START_TEST(it_keeps_the_ones_used_last)
{
	uint64_t seed = sf_test_seed("it_keeps");
	struct sf_open_files *f;
	uint32_t order[KEYS];
	size_t n = 0;
	int made = 0;

	ck_assert_int_eq(sf_open_files_new(LIMIT, &f, NULL), 0);
	for (int round = 0; round < 20000; round++) {
		uint32_t key = (uint32_t)sf_test_below(&seed, KEYS);
		struct sf_source *s = sf_open_files_get(f, key);
		size_t i = 0;
		while (i < n && order[i] != key)
			i++;
		ck_assert_int_eq(s != NULL, i < n);
		if (s) {
			ck_assert_uint_eq(s->size, key);
			if (sf_test_below(&seed, 20) == 0) {
				sf_open_files_drop(f, key, s);
				memmove(order + i, order + i + 1, (--n - i) * sizeof(*order));
			} else {
				memmove(order + 1, order, i * sizeof(*order));
				order[0] = key;
			}
		} else {
			struct sf_source *mine = make(key);
			made++;
			s = sf_open_files_put(f, key, mine);
			ck_assert_ptr_eq(s, mine);
			sf_source_unref(mine);
			memmove(order + 1, order, SF_MIN(n, (size_t)LIMIT - 1) * sizeof(*order));
			order[0] = key;
			n = SF_MIN(n + 1, (size_t)LIMIT);
		}
		sf_source_unref(s);
		ck_assert_int_eq(made - nfreed, (int)n); /* nothing stays open beside them */
	}
	sf_open_files_free(f);
	ck_assert_int_eq(made, nfreed);
}
END_TEST

START_TEST(the_first_of_two_that_open_a_file_is_kept)
{
	struct sf_open_files *f;
	struct sf_source *a = make(1), *b = make(1), *kept;

	ck_assert_int_eq(sf_open_files_new(1, &f, NULL), 0);
	sf_source_unref(sf_open_files_put(f, 1, a));
	kept = sf_open_files_put(f, 1, b);
	ck_assert_ptr_eq(kept, a);
	sf_open_files_drop(f, 1, b); /* not the one that is kept */
	sf_source_unref(kept);
	kept = sf_open_files_get(f, 1);
	ck_assert_ptr_eq(kept, a);
	sf_source_unref(kept);
	sf_source_unref(a);
	sf_source_unref(b);
	sf_open_files_free(f);
	ck_assert_int_eq(nfreed, 2);
}
END_TEST

static void *use(void *arg)
{
	struct sf_open_files *f = arg;
	uint64_t seed = (uint64_t)pthread_self();

	for (int i = 0; i < 20000; i++) {
		uint32_t key = (uint32_t)sf_test_below(&seed, KEYS);
		struct sf_source *s = sf_open_files_get(f, key), *mine;
		if (!s) {
			mine = make(key);
			s = sf_open_files_put(f, key, mine);
			sf_source_unref(mine);
		}
		ck_assert_uint_eq(s->size, key);
		sf_source_unref(s);
	}
	return NULL;
}

START_TEST(threads_share_it)
{
	struct sf_open_files *f;
	pthread_t t[4];

	ck_assert_int_eq(sf_open_files_new(LIMIT, &f, NULL), 0);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&t[i], NULL, use, f), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	unsigned kept = 0;
	for (uint32_t key = 0; key < KEYS; key++) {
		struct sf_source *s = sf_open_files_get(f, key);
		kept += s != NULL;
		sf_source_unref(s);
	}
	ck_assert_uint_eq(kept, LIMIT);
	sf_open_files_free(f);
}
END_TEST

static void fresh(void)
{
	nfreed = 0;
}

static Suite *suite(void)
{
	Suite *s = suite_create("open_files");
	TCase *t = tcase_create("open_files");

	tcase_add_checked_fixture(t, fresh, NULL);
	tcase_add_test(t, it_keeps_the_ones_used_last);
	tcase_add_test(t, the_first_of_two_that_open_a_file_is_kept);
	tcase_add_test(t, threads_share_it);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return sf_test_main(suite());
}
