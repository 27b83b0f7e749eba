#include "config.h"

#include <string.h>

#include "tests/lib/view_world.h"
#include "view/facts.h"

static const uint64_t two[] = { 4, 3 }, one[] = { 5 };

static const char *layers(struct vw *w, const struct sf_facts *f)
{
	static char out[256];

	out[0] = 0;
	for (uint32_t i = 0; i < f->nlayers; i++)
		snprintf(out + strlen(out), sizeof(out) - strlen(out), "%s%u %.*s", i ? ", " : "",
		         f->layers[i].n, (int)f->layers[i].len,
		         w->cat->entry[f->layers[i].entry].name);
	return out;
}

START_TEST(the_model_alone_has_parameters)
{
	enum sf_dtype dtype[SF_NDTYPES];
	struct sf_facts f;
	struct vw w;

	vw_init(&w);
	vw_tensor(&w, "model.a", SF_FLOAT32, 2, two);
	vw_tensor(&w, "model.b", SF_BFLOAT16, 1, one);
	vw_tensor(&w, "model.q", SF_F4_E2M1FN_X2, 1, one);
	vw_tensor(&w, "optim.a", SF_FLOAT64, 2, two);
	vw_object(&w, "optim.o");
	vw_open(&w);
	vw_ok(sf_facts_init(&f, w.cat));
	ck_assert_uint_eq(f.parameters, 12 + 5 + 10);
	ck_assert_uint_eq(f.all.ntensors, 4);
	ck_assert_uint_eq(f.all.nobjects, 1);
	ck_assert_uint_eq(f.all.bytes, 48 + 10 + 5 + 96);
	ck_assert_uint_eq(sf_facts_dtypes(&f.all, dtype), 4);
	ck_assert_int_eq(dtype[0], SF_FLOAT64);
	ck_assert_int_eq(dtype[1], SF_FLOAT32);
	ck_assert_int_eq(dtype[2], SF_BFLOAT16);
	ck_assert_uint_eq(f.nlargest, 3);
	ck_assert_str_eq(w.cat->entry[f.largest[0]].name, "model.a");
	ck_assert_str_eq(w.cat->entry[f.largest[2]].name, "model.q");
	sf_facts_release(&f);
	/* what --key leaves out does not count */
	w.opt.key.at = (const char *[]){ "optim" };
	w.opt.key.n = 1;
	vw_open(&w);
	vw_ok(sf_facts_init(&f, w.cat));
	ck_assert_uint_eq(f.parameters, 12); /* no model: all */
	ck_assert_uint_eq(f.group[0].ntensors, 1);
	ck_assert_uint_eq(f.group[0].nobjects, 1);
	sf_facts_release(&f);
	w.opt.key.n = 0;
	vw_close(&w);
}
END_TEST

START_TEST(layers_are_numbered_children)
{
	char name[64];
	struct sf_facts f;
	struct vw w;

	vw_init(&w);
	for (int i = 0; i < 12; i++) {
		snprintf(name, sizeof(name), "model.layers.%d.w", i);
		vw_tensor(&w, name, SF_FLOAT32, 1, one);
		snprintf(name, sizeof(name), "model.layers.%d.experts.%d.w", i, i % 3);
		vw_tensor(&w, name, SF_FLOAT32, 1, one);
	}
	vw_tensor(&w, "model.layers.norm", SF_FLOAT32, 1, one);
	for (int i = 0; i < 30; i++) {
		snprintf(name, sizeof(name), "model.vision.%d", i);
		vw_tensor(&w, name, SF_FLOAT32, 1, one);
	}
	vw_tensor(&w, "model.head.0.w", SF_FLOAT32, 1, one); /* one is no row */
	vw_tensor(&w, "optim.state.0.w", SF_FLOAT32, 1, one);
	vw_tensor(&w, "optim.state.1.w", SF_FLOAT32, 1, one);
	vw_open(&w);
	vw_ok(sf_facts_init(&f, w.cat));
	ck_assert_str_eq(layers(&w, &f), "30 model.vision, 12 model.layers");
	ck_assert_uint_eq(f.nlargest, SF_FACTS_LARGEST);
	sf_facts_release(&f);
	vw_close(&w);
}
END_TEST

START_TEST(the_containers_with_most_are_kept)
{
	char name[64];
	struct sf_facts f;
	struct vw w;

	vw_init(&w);
	for (int c = 0; c < 5; c++)
		for (int i = 0; i < 2 + c * 7 % 5; i++) { /* 2 4 6 3 5 */
			snprintf(name, sizeof(name), "c%d.%d", c, i);
			vw_tensor(&w, name, SF_FLOAT32, 1, one);
		}
	vw_open(&w);
	vw_ok(sf_facts_init(&f, w.cat));
	ck_assert_str_eq(layers(&w, &f), "6 c2, 5 c4, 4 c1");
	sf_facts_release(&f);
	vw_close(&w);
}
END_TEST

/* Shapes are claims: the sums stop, they do not wrap. */
START_TEST(sums_stop)
{
	static const uint64_t far[] = { UINT64_C(1) << 62, 2 };
	struct sf_facts f;
	uint32_t t;
	struct vw w;

	vw_init(&w);
	vw_ok(sf_ckpt_builder_tensor(w.b, "a", 1, SF_UINT8, far, 2, &t, &err));
	vw_ok(sf_ckpt_builder_tensor(w.b, "b", 1, SF_UINT8, far, 2, &t, &err));
	vw_ok(sf_ckpt_builder_tensor(w.b, "c", 1, SF_UINT8, far, 2, &t, &err));
	vw_open(&w);
	vw_ok(sf_facts_init(&f, w.cat));
	ck_assert_uint_eq(f.all.bytes, UINT64_MAX);
	ck_assert_uint_eq(f.parameters, UINT64_MAX);
	sf_facts_release(&f);
	vw_close(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("facts");
	TCase *tc = tcase_create("facts");

	tcase_add_test(tc, the_model_alone_has_parameters);
	tcase_add_test(tc, layers_are_numbered_children);
	tcase_add_test(tc, the_containers_with_most_are_kept);
	tcase_add_test(tc, sums_stop);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
