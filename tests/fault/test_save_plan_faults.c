/* Each allocation of a plan fails once: it is told, nothing is lost, and the next plan is right. */
#include "config.h"

#include "tests/fuzz/fz_malloc.h"
#include "tests/lib/save_plan_world.h"

static void fill(struct world *w)
{
	static const struct shardfuse_save_step path[3] = { { "model", 0 },
		                                            { NULL, 3 },
		                                            { "w", 0 } };
	const uint64_t shape[2] = { 8, 4 }, zero[2] = { 0, 0 };

	for (uint32_t r = 0; r < w->nranks; r++) {
		const uint64_t origin[2] = { 2 * r, 0 }, extent[2] = { 2, 4 };
		struct sf_save_item *item = add(w, r, "model.3.w", 2, shape, origin, extent);
		item->path = path;
		item->npath = 3;
		if (r) /* structures that differ */
			add(w, r, "model.norm", 2, shape, zero, shape);
		add_object(w, r, "step", 300, 5);
	}
}

static int plan_and_lay(const struct sf_save_record *rec, uint32_t n, struct sf_error *err)
{
	struct sf_global_plan g;
	int r = sf_save_plan_make(rec, n, SHARDFUSE_DEDUP_BALANCED, &g, err);

	if (r < 0)
		return r;
	r = sf_global_plan_layout(&g, 3, err);
	sf_global_plan_release(&g);
	return r;
}

START_TEST(the_nth_allocation_fails)
{
	struct world w = { .nranks = 4 };
	struct sf_save_record rec[4];
	long n = 0, failed;
	int shrinks = 0;

	fill(&w);
	if (_i) /* a hole: what finds it allocates too */
		w.rank[2].item.at[0].extent = w.rank[2].item.at[0].origin;
	encode(&w);
	for (uint32_t r = 0; r < 4; r++)
		rec[r] = (struct sf_save_record){ w.record[r].at, w.record[r].len };
	do {
		struct sf_error err = SF_ERROR_INIT;
		int r;

		fz_malloc_fails(n++, false);
		r = plan_and_lay(rec, 4, &err);
		failed = fz_malloc_fails(-1, false);
		/* columns that are not made smaller do no harm */
		if (!failed || r < 0)
			ck_assert_int_eq(r, failed ? -ENOMEM : _i ? -EINVAL : 0);
		else
			shrinks++;
		ck_assert_int_eq(err.msg[0] != '\0', r < 0);
	} while (failed);
	ck_assert_int_gt(n, 15);
	ck_assert_int_eq(shrinks, _i ? 0 : 4);
	release(&w);
}
END_TEST

START_TEST(the_nth_allocation_of_a_record_fails)
{
	struct world w = { .nranks = 1 };
	long n = 0, failed;

	fill(&w);
	do {
		struct sf_error err = SF_ERROR_INIT;
		struct sf_buf to = { 0 };
		uint64_t hash;
		int r;

		fz_malloc_fails(n++, false);
		r = sf_save_plan_encode(&w.rank[0], &to, &hash, &err);
		failed = fz_malloc_fails(-1, false);
		ck_assert_int_eq(r, failed ? -ENOMEM : 0);
		sf_buf_release(&to);
	} while (failed);
	release(&w);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("save_plan_faults");
	TCase *t = tcase_create("save_plan_faults");

	tcase_add_loop_test(t, the_nth_allocation_fails, 0, 2);
	tcase_add_test(t, the_nth_allocation_of_a_record_fails);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return sf_test_main(suite());
}
