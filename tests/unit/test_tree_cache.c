#include "config.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "pt_world.h"
#include "tree/tree.h"
#include "tree/tree_priv.h"

/* What is kept of files that nobody holds. */
enum { KEYS = 300, KEPT = 64 };

static struct sf_vfile *open_path(struct sf_tree *t, const char *path)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_vfile *f = NULL;
	sf_node n;

	ck_assert_msg(sf_tree_walk(t, path, true, &n, &err) >= 0, "%s: %s", path, err.msg);
	ck_assert_msg(sf_tree_open(t, n, &f, &err) >= 0, "%s: %s", path, err.msg);
	return f;
}

static struct sf_vfile *open_key(struct sf_tree *t, unsigned i)
{
	char path[32];

	snprintf(path, sizeof(path), "npy/k%u.npy", i);
	return open_path(t, path);
}

static struct sf_tree *many(struct world *w)
{
	static const uint64_t one = 1;
	struct sf_error err = SF_ERROR_INIT;
	struct sf_tree *t = NULL;
	char name[16];

	world_init(w);
	for (unsigned i = 0; i < KEYS; i++) {
		snprintf(name, sizeof(name), "k%u", i);
		world_tensor(w, name, SF_UINT8, 1, &one);
	}
	world_open(w);
	ck_assert_msg(sf_tree_new(w->cat, w->reader, &t, &err) >= 0, "%s", err.msg);
	return t;
}

START_TEST(a_file_is_one_object_while_somebody_holds_it)
{
	struct world w;
	struct sf_tree *t = many(&w);
	struct sf_vfile *held = open_key(t, 0), *again;

	for (unsigned i = 1; i < KEYS; i++) /* each another file: far more than are kept */
		sf_vfile_unref(open_key(t, i));
	again = open_key(t, 0);
	ck_assert_ptr_eq(again, held);
	/* ours, the second's and the cache's */
	ck_assert_int_eq((int)atomic_load(&held->refs), 3);
	sf_vfile_unref(again);
	sf_vfile_unref(held);
	sf_tree_free(t);
	world_close(&w);
}
END_TEST

START_TEST(of_files_that_nobody_holds_the_newest_are_kept)
{
	struct world w;
	struct sf_tree *t = many(&w);
	struct sf_vfile *last[KEYS];
	unsigned n = 0;

	for (unsigned i = 0; i < KEYS; i++) {
		last[i] = open_key(t, i);
		sf_vfile_unref(last[i]); /* from here on a number, not a pointer to follow */
	}
	for (unsigned i = 0; i < KEYS; i++) {
		char path[32];
		sf_node node;
		snprintf(path, sizeof(path), "npy/k%u.npy", i);
		ck_assert_int_eq(sf_tree_walk(t, path, true, &node, NULL), 0);
		struct sf_vfile *f = sf_tree_cache_get(t, node);
		ck_assert_msg((f != NULL) == (i >= KEYS - KEPT), "k%u is %skept", i,
		              f ? "" : "not ");
		n += f != NULL;
		sf_vfile_unref(f);
	}
	ck_assert_uint_eq(n, KEPT);
	ck_assert_uint_eq(t->locked.n, KEPT); /* what is counted is what is there */
	sf_tree_free(t);
	world_close(&w);
}
END_TEST

START_TEST(held_files_do_not_count_against_the_others_for_ever)
{
	struct world w;
	struct sf_tree *t = many(&w);
	struct sf_vfile *held[KEYS / 2];

	for (unsigned i = 0; i < KEYS / 2; i++)
		held[i] = open_key(t, i);
	ck_assert_uint_eq(t->locked.n, KEYS / 2); /* none can go */
	for (unsigned i = 0; i < KEYS / 2; i++) {
		struct sf_vfile *f = open_key(t, i);
		ck_assert_ptr_eq(f, held[i]);
		sf_vfile_unref(f);
	}
	for (unsigned i = 0; i < KEYS / 2; i++)
		sf_vfile_unref(held[i]);
	for (unsigned i = KEYS / 2; i < KEYS; i++)
		sf_vfile_unref(open_key(t, i));
	ck_assert_uint_le(t->locked.n, KEPT);
	sf_tree_free(t);
	world_close(&w);
}
END_TEST

/* A value of more than a megabyte is in memory whole: it goes as soon as nobody reads it. */
START_TEST(a_large_value_goes_when_it_is_let_go)
{
	enum { LEN = 3 << 20 };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_buf pkl = { 0 };
	const uint64_t one = 1;
	struct sf_tree *t = NULL;
	struct world w;
	uint8_t head[5] = { 'X' };
	sf_node n;

	world_init(&w);
	sf_put_le32(head + 1, LEN);
	sf_buf_str(&pkl, "\x80\x02");
	sf_buf_add(&pkl, head, sizeof(head));
	for (size_t i = 0; i < LEN; i++)
		sf_buf_byte(&pkl, 'v');
	sf_buf_byte(&pkl, '.');
	world_object(&w, "large", pkl.at, pkl.len, NULL, 0);
	world_object(&w, "small", "\x80\x02N.", 4, NULL, 0);
	world_tensor(&w, "k0", SF_UINT8, 1, &one);
	world_tensor(&w, "k1", SF_UINT8, 1, &one);
	world_open(&w);
	ck_assert_msg(sf_tree_new(w.cat, w.reader, &t, &err) >= 0, "%s", err.msg);

	struct sf_vfile *large = open_path(t, "state/large/value.json"),
			*small = open_path(t, "state/small/value.json");
	ck_assert_msg(sf_vfile_prepare(large, &err) >= 0, "%s", err.msg);
	ck_assert_msg(sf_vfile_prepare(small, &err) >= 0, "%s", err.msg);
	sf_vfile_unref(small);
	sf_vfile_unref(open_key(t, 0)); /* while it is held it stays */
	ck_assert_int_eq(sf_tree_walk(t, "state/large/value.json", true, &n, NULL), 0);
	struct sf_vfile *f = sf_tree_cache_get(t, n);
	ck_assert_ptr_eq(f, large);
	sf_vfile_unref(f);
	sf_vfile_unref(large);
	sf_vfile_unref(open_key(t, 1));
	ck_assert_ptr_null(sf_tree_cache_get(t, n));
	ck_assert_int_eq(sf_tree_walk(t, "state/small/value.json", true, &n, NULL), 0);
	f = sf_tree_cache_get(t, n);
	ck_assert_ptr_nonnull(f);
	sf_vfile_unref(f);
	sf_tree_free(t);
	sf_buf_release(&pkl);
	world_close(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("tree_cache");
	TCase *tc = tcase_create("tree_cache");

	tcase_add_test(tc, a_file_is_one_object_while_somebody_holds_it);
	tcase_add_test(tc, of_files_that_nobody_holds_the_newest_are_kept);
	tcase_add_test(tc, held_files_do_not_count_against_the_others_for_ever);
	tcase_add_test(tc, a_large_value_goes_when_it_is_let_go);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
