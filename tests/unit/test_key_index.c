#include "config.h"

#include "catalog/key_index.h"
#include "view_world.h"

/* Property: the index takes what sf_key_match takes of all names one by one, in stored order. */
START_TEST(the_index_agrees_with_looking_at_every_name)
{
	static const char letters[] = "ab./";
	const uint64_t one = 1;
	uint64_t seed = sf_test_seed("the_index_agrees_with_looking_at_every_name");
	uint32_t got[256], hits = 0;

	for (int round = 0; round < 40; round++) {
		struct sf_key_index ix;
		struct vw w;
		vw_init(&w);
		for (int i = 0; i < 200; i++) {
			char name[8];
			size_t len = sf_test_below(&seed, 7);
			bool is_tensor;
			for (size_t k = 0; k < len; k++)
				name[k] = letters[sf_test_below(&seed, 4)];
			name[len] = '\0';
			if (sf_ckpt_builder_find(w.b, name, len, &is_tensor) == SF_NONE)
				vw_tensor(&w, name, SF_INT8, 1, &one);
		}
		vw_open(&w);
		ck_assert_int_eq(sf_key_index_init(&ix, w.cat), 0);
		for (int i = 0; i < 500; i++) {
			char key[8];
			size_t len = sf_test_below(&seed, 6);
			uint32_t n, k = 0;
			for (size_t at = 0; at < len; at++)
				key[at] = letters[sf_test_below(&seed, 4)];
			if (len && i % 10 == 0)
				key[sf_test_below(&seed, len)] = '*';
			key[len] = '\0';
			n = sf_key_index_match(&ix, key, got);
			for (uint32_t e = 0; e < w.cat->n; e++) {
				if (!sf_key_match(key, w.cat->entry[e].name, w.cat->entry[e].len))
					continue;
				ck_assert_msg(k < n && got[k] == e, "'%s' has '%s'", key,
				              w.cat->entry[e].name);
				k++;
			}
			ck_assert_msg(k == n, "'%s': %u, not %u", key, n, k);
			hits += n;
		}
		sf_key_index_release(&ix);
		vw_close(&w);
	}
	ck_assert_uint_gt(hits, 10000);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("key_index");
	TCase *tc = tcase_create("key_index");

	tcase_add_test(tc, the_index_agrees_with_looking_at_every_name);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
