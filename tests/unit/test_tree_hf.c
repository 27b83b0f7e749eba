#include "config.h"

#include "tree/tree_priv.h"
#include "view_world.h"

struct found {
	struct sf_tree *t;
	sf_node dir;
	uint32_t n;
};

static int find_again(void *arg, const char *name, size_t len, sf_node node, enum sf_node_type type,
                      uint64_t next_cookie)
{
	struct found *f = arg;
	sf_node again;

	(void)type;
	(void)next_cookie;
	ck_assert_int_eq(sf_tree_lookup(f->t, f->dir, name, len, &again), 0);
	ck_assert_uint_eq(again, node);
	ck_assert_int_eq(sf_tree_lookup(f->t, f->dir, name, len - 1, &again), -ENOENT);
	f->n++;
	return 0;
}

/* Names in hf/ are found by their hash: a directory of 10^5 files is looked up 10^5 times. */
START_TEST(every_file_of_hf_is_found_by_its_name)
{
	const uint64_t one = 1;
	struct sf_tree *t;
	struct vw w;
	char name[64];
	sf_node node;
	struct found found = { .n = 0 };

	vw_init(&w);
	for (int i = 0; i < 500; i++) {
		snprintf(name, sizeof(name), "model.layers.%d.w", i);
		vw_tensor(&w, name, SF_FLOAT32, 1, &one);
	}
	w.opt.max_shard_size = 1; /* a file each */
	vw_open(&w);
	vw_ok(sf_tree_new(w.cat, w.reader, &t, &err));
	ck_assert_ptr_nonnull(t->hf);
	ck_assert_uint_ge(sf_hf_nfiles(t), 501); /* and the index */
	ck_assert_uint_eq(t->hf_names.n, sf_hf_nfiles(t));
	vw_ok(sf_tree_walk(t, "hf", false, &found.dir, &err));
	found.t = t;
	ck_assert_int_eq(sf_tree_readdir(t, found.dir, 0, find_again, &found), 0);
	ck_assert_uint_eq(found.n, sf_hf_nfiles(t));
	ck_assert_int_eq(sf_tree_lookup(t, found.dir, "", 0, &node), -ENOENT);
	sf_tree_free(t);
	vw_close(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("tree_hf");
	TCase *tc = tcase_create("tree_hf");

	tcase_add_test(tc, every_file_of_hf_is_found_by_its_name);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
