#include "config.h"

#include <stdio.h>

#include "cli/info.h"
#include "seam_world.h"
#include "view/entry_json.h"

/* What is said of tensors: which storage they have, how their items lie. */

static int one(struct sf_ckpt_builder *b, const char *key, uint32_t place, uint64_t off,
               const int64_t *stride, bool neg, uint32_t *ret, struct sf_error *err)
{
	const uint64_t shape[2] = { 4, 3 }, row[2] = { 0, 0 }, half[2] = { 2, 3 },
		       below[2] = { 2, 0 };
	int r = sf_ckpt_builder_tensor(b, key, strlen(key), SF_UINT8, shape, 2, ret, err);

	if (r >= 0)
		r = sf_ckpt_builder_chunk(b, row, half, err);
	if (r >= 0 && (stride || neg))
		r = sf_ckpt_builder_layout(b, stride, false, neg, err);
	if (r >= 0)
		r = sf_ckpt_builder_chunk(b, below, half, err);
	if (r >= 0)
		sf_ckpt_builder_set_item(b, *ret, 0, place, off, 6);
	if (r >= 0)
		sf_ckpt_builder_set_item(b, *ret, 1, place, off + 6, 6);
	return r;
}

static int lower(struct sf_ckpt_builder *b, struct sf_error *err)
{
	const int64_t columns[2] = { 1, 2 };
	uint32_t place, first, t;
	int r = sf_ckpt_builder_place(b, "f", 1, SF_ITEM_RAW, SF_CODEC_NONE, &place, err);

	if (r >= 0)
		r = one(b, "embed\n", place, 0, NULL, false, &first, err);
	if (r >= 0)
		r = one(b, "head", place, 0, NULL, false, &t, err);
	if (r >= 0)
		r = sf_ckpt_builder_tie(b, t, first, err);
	if (r >= 0)
		r = one(b, "turned", place, 12, columns, true, &t, err);
	return r;
}

static void open_world(struct seam *w)
{
	uint8_t at[32] = { 0 };

	seam_file(w, "f", at, sizeof(at));
	seam_open(w, lower);
}

static void has(const char *text, const char *want, bool yes)
{
	ck_assert_msg((strstr(text, want) != NULL) == yes, "'%s' in: %s", want, text);
}

START_TEST(json_has_ties_and_strides)
{
	struct sf_buf b = { 0 };
	struct seam w = { 0 };

	open_world(&w);
	sf_entry_json(&b, w.s.catalog, 0);
	has(sf_buf_cstr(&b), "tied_to", false);
	has(sf_buf_cstr(&b), "stride", false);
	sf_buf_reset(&b);
	sf_entry_json(&b, w.s.catalog, 1);
	has(sf_buf_cstr(&b), "\"bytes\": 12, \"tied_to\": \"embed\\n\", \"group\"", true);
	sf_buf_reset(&b);
	sf_entry_json(&b, w.s.catalog, 2);
	has(sf_buf_cstr(&b), "tied_to", false);
	has(sf_buf_cstr(&b), "\"extent\": [2, 3], \"stride\": [1, 2], \"neg\": true}, {\"file\"",
	    true);
	has(sf_buf_cstr(&b), "\"origin\": [2, 0], \"extent\": [2, 3]}]", true);
	sf_buf_reset(&b);
	sf_ckpt_json(&b, w.s.catalog);
	has(sf_buf_cstr(&b), "\"tensors\": 3,\n \"tied\": 1,\n", true);
	sf_buf_release(&b);
	seam_close(&w);
}
END_TEST

/* The text of `info KEY`. */
static char *said(struct seam *w, const char *key)
{
	struct sf_error err = SF_ERROR_INIT;
	FILE *old = stdout;
	char *text = NULL;
	size_t len;

	stdout = open_memstream(&text, &len);
	ck_assert_ptr_nonnull(stdout);
	int r = sf_info_keys(&w->s, key, false, &err);
	fclose(stdout);
	stdout = old;
	ck_assert_msg(r >= 0, "%s", err.msg);
	return text;
}

START_TEST(info_of_a_key_has_ties_and_strides)
{
	struct seam w = { 0 };

	open_world(&w);
	char *text = said(&w, "head");
	has(text, ", tied to embed\\x0a\n", true);
	has(text, "layout", false);
	free(text);
	text = said(&w, "turned");
	has(text, "tied", false);
	has(text, "  chunk  origin  extent  layout", true);
	has(text, "[2, 3]  stride [1, 2], negated  ", true);
	has(text, "[2, 3]  dense  ", true);
	free(text);
	seam_close(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("seam_said");
	TCase *tc = tcase_create("seam_said");

	tcase_add_test(tc, json_has_ties_and_strides);
	tcase_add_test(tc, info_of_a_key_has_ties_and_strides);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
