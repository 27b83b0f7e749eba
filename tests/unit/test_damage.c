#include "config.h"

#include <string.h>

#include "view/damage.h"
#include "view_world.h"

static const uint64_t four[1] = { 4 };

/* A tensor of four floats, a chunk each in the given places; SF_NONE: metadata names no item. */
static void tensor(struct vw *w, const char *name, uint32_t a, uint64_t off_a, uint32_t b,
                   uint64_t off_b)
{
	const uint64_t origin[2] = { 0, 2 }, extent = 2;
	uint32_t t;

	vw_ok(sf_ckpt_builder_tensor(w->b, name, strlen(name), SF_FLOAT32, four, 1, &t, &err));
	for (int i = 0; i < 2; i++)
		vw_ok(sf_ckpt_builder_chunk(w->b, &origin[i], &extent, &err));
	if (a != SF_NONE)
		sf_ckpt_builder_set_item(w->b, t, 0, a, off_a, 8);
	if (b != SF_NONE)
		sf_ckpt_builder_set_item(w->b, t, 1, b, off_b, 8);
	vw_split(w, name, strlen(name));
}

static uint32_t place(struct vw *w, const char *file)
{
	uint32_t p;

	vw_ok(sf_ckpt_builder_place(w->b, file, strlen(file), SF_ITEM_RAW, SF_CODEC_NONE, &p,
	                            &err));
	return p;
}

static void check_text(const struct vw *w, const struct sf_damage *d, const char *want)
{
	struct sf_buf b = { 0 };

	sf_damage_text(&b, w->cat, d);
	ck_assert_str_eq(sf_buf_cstr(&b), want);
	sf_buf_release(&b);
}

struct told {
	const struct sf_catalog *c;
	uint32_t n, keyless;
	char keys[512];
};

static int tell(void *arg, const struct sf_damage_one *one)
{
	struct told *t = arg;

	t->n++;
	ck_assert(*one->text);
	if (one->entry == SF_NONE)
		t->keyless++;
	else if (t->n < 10)
		snprintf(t->keys + strlen(t->keys), sizeof(t->keys) - strlen(t->keys), "%s=%s ",
		         t->c->entry[one->entry].name, one->code);
	return 0;
}

START_TEST(a_file_and_a_cause_are_one_line_with_counts_and_groups)
{
	struct sf_damage_list l;
	struct vw w;

	vw_init(&w);
	uint32_t cut = place(&w, "cut"), gone = place(&w, "gone");
	vw_file(&w, "cut", "0123456789");
	tensor(&w, "model.a", cut, 0, cut, 1000000); /* whole, and past the end */
	tensor(&w, "model.b", cut, 4, cut, 4);       /* both past the end: one tensor */
	tensor(&w, "optim.c", gone, 0, gone, 8);
	tensor(&w, "optim.d", gone, 0, SF_NONE, 0);
	vw_object(&w, "optim.lr");
	vw_ok(sf_ckpt_builder_warn(w.b, "optim.c", "odd", "it is odd"));
	vw_ok(sf_ckpt_builder_warn(w.b, NULL, "strange", "all is strange"));
	vw_ok(sf_ckpt_builder_warn(w.b, NULL, "strange", "more is strange"));
	vw_open(&w);
	ck_assert_int_eq(sf_damage_fold(w.cat, &l), 0);
	ck_assert_uint_eq(l.n, 5);
	check_text(&w, &l.at[0], "cut: 10 of 1,000,008 bytes; 2 tensors incomplete, all in model");
	check_text(&w, &l.at[1], "gone: missing; 2 tensors incomplete, all in optim");
	check_text(&w, &l.at[2],
	           "missing-item: metadata names no stored item; 1 tensor incomplete, "
	           "all in optim");
	check_text(&w, &l.at[3], "odd: optim.c: it is odd");
	check_text(&w, &l.at[4], "strange: 2 warnings; first all is strange");
	sf_damage_release(&l);

	struct told t = { .c = w.cat };
	ck_assert_int_eq(sf_damage_each(w.cat, tell, &t), 0);
	ck_assert_uint_eq(t.keyless, 3); /* gone is missing, and the two strange ones */
	ck_assert_str_eq(t.keys, "optim.c=odd model.a=truncated-file model.b=truncated-file "
	                         "optim.c=missing-file optim.d=missing-file optim.d=missing-item ");
	ck_assert_uint_eq(t.n, 9); /* optim.d lacks an item too */

	struct sf_buf json = { 0 };
	ck_assert_int_eq(sf_damage_fold(w.cat, &l), 0);
	sf_damage_json(&json, w.cat, &l.at[0]);
	ck_assert_str_eq(sf_buf_cstr(&json),
	                 "{\"code\": \"truncated-file\", \"file\": \"cut\", \"size\": 10, "
	                 "\"needed\": 1000008, \"tensors\": 2, \"objects\": 0, \"groups\": "
	                 "[\"model\"], \"text\": \"cut: 10 of 1,000,008 bytes; 2 tensors "
	                 "incomplete, all in model\"}");
	sf_buf_release(&json);
	sf_damage_release(&l);
	vw_close(&w);
}
END_TEST

START_TEST(only_shown_keys_count)
{
	const char *keys[] = { "optim" };
	struct sf_damage_list l;
	struct vw w;

	vw_init(&w);
	uint32_t cut = place(&w, "cut"), gone = place(&w, "gone");
	vw_file(&w, "cut", "0123456789");
	tensor(&w, "model.a", cut, 0, cut, 100);
	tensor(&w, "optim.c", gone, 0, cut, 0);
	w.opt.key.at = keys;
	w.opt.key.n = 1;
	vw_open(&w);
	ck_assert_int_eq(sf_damage_fold(w.cat, &l), 0);
	ck_assert_uint_eq(l.n, 1);
	check_text(&w, &l.at[0], "gone: missing; 1 tensor incomplete");
	sf_damage_release(&l);
	struct told t = { .c = w.cat };
	ck_assert_int_eq(sf_damage_each(w.cat, tell, &t), 0);
	ck_assert_str_eq(t.keys, "optim.c=missing-file ");
	vw_close(&w);
}
END_TEST

START_TEST(counts_are_exact_where_warnings_were_cut_off)
{
	enum { HOLES = 1500, GONE = 1200 };
	struct sf_damage_list l;
	struct vw w;
	char name[32];
	uint32_t t;

	vw_init(&w);
	uint32_t gone = place(&w, "gone");
	for (int i = 0; i < HOLES; i++) {
		snprintf(name, sizeof(name), "model.h%d", i);
		vw_ok(sf_ckpt_builder_tensor(w.b, name, strlen(name), SF_FLOAT32, four, 1, &t,
		                             &err));
	}
	for (int i = 0; i < GONE; i++) {
		snprintf(name, sizeof(name), "model.g%d", i);
		tensor(&w, name, gone, 0, gone, 8);
	}
	vw_open(&w);
	ck_assert_uint_eq(w.ckpt->nwarnings, 1000);
	ck_assert_int_eq(sf_damage_fold(w.cat, &l), 0);
	ck_assert_uint_eq(l.n, 2);
	ck_assert_uint_eq(l.at[0].ntensors, GONE);
	ck_assert_str_eq(l.at[1].code, "hole");
	ck_assert_uint_eq(l.at[1].ntensors, HOLES);
	sf_damage_release(&l);
	struct told told = { .c = w.cat };
	ck_assert_int_eq(sf_damage_each(w.cat, tell, &told), 0);
	ck_assert_uint_eq(told.n, HOLES + GONE + 1); /* and the file itself */
	vw_close(&w);
}
END_TEST

START_TEST(a_whole_checkpoint_has_none)
{
	struct sf_damage_list l;
	struct vw w;

	vw_init(&w);
	vw_tensor(&w, "a", SF_FLOAT32, 1, four);
	vw_open(&w);
	ck_assert_int_eq(sf_damage_fold(w.cat, &l), 0);
	ck_assert_uint_eq(l.n, 0);
	sf_damage_release(&l);
	vw_close(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("damage");
	TCase *tc = tcase_create("damage");

	tcase_add_test(tc, a_file_and_a_cause_are_one_line_with_counts_and_groups);
	tcase_add_test(tc, only_shown_keys_count);
	tcase_add_test(tc, counts_are_exact_where_warnings_were_cut_off);
	tcase_add_test(tc, a_whole_checkpoint_has_none);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
