#include "config.h"

#include "tests/lib/st_world.h"

START_TEST(what_a_file_cannot_hold_is_skipped_with_the_reason)
{
	static const struct {
		const char *name, *why;
		struct view v;
	} bad[] = {
		{ "past", "malformed", { "FloatStorage", "0", 2, 1, 1, { 2 }, { 1 } } },
		{ "short",
		  "it reaches past its storage",
		  { "FloatStorage", "0", 3, 0, 1, { 3 }, { 1 } } },
		{ "gone",
		  "its archive has no such storage",
		  { "FloatStorage", "7", 2, 0, 1, { 2 }, { 1 } } },
		{ "step", "not contiguous", { "FloatStorage", "0", 2, 0, 2, { 2, 1 }, { 0, 1 } } },
		{ "big",
		  "safetensors has no complex128",
		  { "ComplexDoubleStorage", "0", 1, 0, 0, { 0 }, { 0 } } },
		{ "new",
		  "only recent readers",
		  { "ComplexFloatStorage", "0", 1, 0, 0, { 0 }, { 0 } } },
		{ "many",
		  "its size overflows",
		  { "FloatStorage",
		    "0",
		    2,
		    0,
		    4,
		    { INT32_MAX, INT32_MAX, INT32_MAX, 0 },
		    { 1, 1, 1, 1 } } },
		{ "none", NULL, { "FloatStorage", "7", 2, 9, 2, { 0, 5 }, { 3, 2 } } },
		{ "row", NULL, { "FloatStorage", "0", 2, 0, 2, { 1, 2 }, { 99, 1 } } },
	};
	struct world w;
	struct read_back rb;
	struct sf_buf b = { 0 };

	world_init(&w);
	world_tensor(&w, "m", SF_FLOAT32, 1, (uint64_t[]){ 3 });
	sf_buf_str(&b, "\x80\x02}(");
	for (size_t i = 0; i < SF_ARRAY_LEN(bad); i++) {
		put_str(&b, bad[i].name);
		put_tensor(&b, &bad[i].v);
	}
	put_str(&b, "sparse");
	sf_buf_str(&b, "ctorch._utils\n_rebuild_sparse_tensor\n)R");
	put_int(&b, 1); /* {(): [ONE]}: no text to name it by */
	sf_buf_str(&b, "})](");
	put_tensor(&b, &ONE);
	sf_buf_str(&b, "esu.");
	add_object(&w, "o", &b);
	world_open(&w);
	struct sf_vfile *f = make(&w, (struct sf_selection){ 0 });
	read_back(f, &rb);
	for (size_t i = 0; i < SF_ARRAY_LEN(bad); i++) {
		char name[32];
		snprintf(name, sizeof(name), "o.%s", bad[i].name);
		ck_assert_msg((find(&rb, name) == NULL) == (bad[i].why != NULL), "%s; skipped: %s",
		              name, rb.skipped);
		if (bad[i].why)
			check_skipped(&rb, name, bad[i].why);
	}
	check(&rb, "o.none", "", 0);
	check(&rb, "o.row", TWO_FLOATS, 8);
	check_skipped(&rb, "o.sparse", "not a dense tensor");
	check_skipped(&rb, "o.1.?", "not looked at");
	ck_assert_uint_eq(rb.head.n, 3);
	release(&rb);
	sf_vfile_unref(f);
	world_close(&w);
}
END_TEST

START_TEST(an_object_that_cannot_be_read_is_left_out_and_counted)
{
	struct world w;
	struct read_back rb;
	struct sf_buf b = { 0 };

	world_init(&w);
	sf_buf_str(&b, "\x80\x02}garbage");
	add_object(&w, "bad", &b);
	add_simple(&w, "o");
	world_add(&w, "nowhere")->nowhere = true;
	add_simple(&w, "p");
	world_open(&w);
	struct sf_vfile *f = make(&w, (struct sf_selection){ 0 });
	read_back(f, &rb);
	ck_assert_uint_eq(rb.head.n, 2);
	check(&rb, "o.t", TWO_FLOATS, 8);
	check(&rb, "p.t", TWO_FLOATS, 8);
	check_skipped(&rb, "bad", "its value cannot be read");
	check_skipped(&rb, "nowhere", "its value cannot be read");
	ck_assert_uint_eq(atomic_load(&w.io.counters.errors), 2);
	release(&rb);
	sf_vfile_unref(f);
	world_close(&w);
}
END_TEST

/* A dict that holds itself; a list of 2 lists of 2 lists …, 2^60 in all, without and with a tensor
 * at its bottom. */
START_TEST(values_that_grow_without_end_are_left_out_in_time)
{
	struct world w;
	struct read_back rb;
	struct sf_buf b = { 0 };

	world_init(&w);
	sf_buf_str(&b, "\x80\x02}q");
	sf_buf_byte(&b, 0);
	put_str(&b, "self");
	sf_buf_str(&b, "h");
	sf_buf_byte(&b, 0);
	sf_buf_byte(&b, 's');
	put_str(&b, "t");
	put_tensor(&b, &ONE);
	sf_buf_str(&b, "s.");
	add_object(&w, "cycle", &b);
	for (unsigned bomb = 0; bomb < 2; bomb++) {
		sf_buf_str(&b, "\x80\x02");
		if (bomb) /* each level's 0 and 1 are the same list; the names differ */
			put_tensor(&b, &ONE);
		else
			sf_buf_str(&b, "]");
		for (uint8_t i = 0; i < 60; i++) {
			const uint8_t level[] = { 'q', i, '0', ']', '(', 'h', i, 'h', i, 'e' };
			sf_buf_add(&b, level, sizeof(level));
		}
		sf_buf_byte(&b, '.');
		add_object(&w, bomb ? "full" : "empty", &b);
	}
	add_simple(&w, "o");
	world_open(&w);
	struct sf_vfile *f =
		make(&w, (struct sf_selection){ .entry = (const uint32_t[]){ 0, 1, 3 }, .n = 3 });
	read_back(f, &rb);
	ck_assert_uint_eq(rb.head.n, 2);
	check(&rb, "cycle.t", TWO_FLOATS, 8);
	check(&rb, "o.t", TWO_FLOATS, 8);
	release(&rb);
	sf_vfile_unref(f);

	/* the names alone would pass what a header may have */
	struct sf_error err = SF_ERROR_INIT;
	f = make(&w, (struct sf_selection){ 0 });
	ck_assert_int_eq(sf_vfile_prepare(f, &err), -E2BIG);
	ck_assert_str_ne(err.msg, "");
	sf_vfile_unref(f);
	world_close(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("st_skipped");
	TCase *t = tcase_create("objects");

	tcase_add_test(t, what_a_file_cannot_hold_is_skipped_with_the_reason);
	tcase_add_test(t, an_object_that_cannot_be_read_is_left_out_and_counted);
	tcase_add_test(t, values_that_grow_without_end_are_left_out_in_time);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
