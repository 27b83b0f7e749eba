#include "config.h"

#include "tests/lib/load.h"

/* What the keys of real checkpoints are, by group. */

START_TEST(composers_sharded_checkpoint_has_a_model_and_an_optimizer)
{
	struct sf_ckpt *ckpt = load_good("composer-0.32/ep0-ba2/ckpt");
	const struct sf_group *model = load_group(ckpt, "model"),
			      *optim = load_group(ckpt, "optimizers");

	ck_assert_int_eq(model->role, SF_ROLE_MODEL);
	ck_assert_uint_eq(model->ntensors, 8);
	ck_assert_uint_eq(model->strip, 2);
	ck_assert_int_eq(optim->role, SF_ROLE_OPTIM);
	ck_assert_uint_eq(optim->ntensors, 21);
	ck_assert_int_eq(load_group(ckpt, "rng")->role, SF_ROLE_OTHER);
	ck_assert_int_eq(ckpt->step, 2); /* ep0-ba2 */
	sf_ckpt_free(ckpt);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("roles");
	TCase *tc = tcase_create("roles");

	tcase_add_test(tc, composers_sharded_checkpoint_has_a_model_and_an_optimizer);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
