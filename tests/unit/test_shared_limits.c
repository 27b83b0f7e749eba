#include "config.h"

#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"
#include "ckpt/ckpt_builder.h"
#include "parse/pickle_write.h"
#include "sf_test.h"
#include "value/value_json.h"
#include "view/vfile.h"

/* A pickle names one long text, number or class at every turn, for two bytes each. What we make of
 * it must not grow with the uses. */

#define NAME_MAX_BYTES 65536

static struct sf_error err;
static char text[NAME_MAX_BYTES + 2];

static struct sf_ckpt_builder *new_builder(void)
{
	struct sf_ckpt_builder *b;

	memset(text, 'a', sizeof(text) - 1);
	ck_assert_int_eq(sf_ckpt_builder_new("dcp", "/runs/1", &b, &err), 0);
	return b;
}

static int add_object(struct sf_ckpt_builder *b, const char *name, size_t len)
{
	uint32_t id;

	return sf_ckpt_builder_object(b, name, len, &id, &err);
}

START_TEST(a_key_may_have_64_kib)
{
	struct sf_ckpt_builder *b = new_builder();

	ck_assert_int_eq(add_object(b, text, NAME_MAX_BYTES), 0);
	ck_assert_int_eq(add_object(b, text, NAME_MAX_BYTES + 1), -E2BIG);
	ck_assert_msg(strstr(err.msg, "'aaa") && strstr(err.msg, "65537") &&
	                      strstr(err.msg, "limit is 65536"),
	              "%s", err.msg);
	sf_ckpt_builder_free(b);
}
END_TEST

START_TEST(an_element_of_a_path_may_have_64_kib)
{
	struct sf_path_elem path[2] = { { "a", 1, 0 }, { text, NAME_MAX_BYTES, 0 } };
	struct sf_ckpt_builder *b = new_builder();

	ck_assert_int_eq(add_object(b, "w", 1), 0);
	ck_assert_int_eq(sf_ckpt_builder_path(b, "w", 1, path, 2, &err), 0);
	path[1].len++;
	ck_assert_int_eq(sf_ckpt_builder_path(b, "w", 1, path, 2, &err), -E2BIG);
	ck_assert_msg(strstr(err.msg, "element 1") && strstr(err.msg, "'w'") &&
	                      strstr(err.msg, "65537") && strstr(err.msg, "limit is 65536"),
	              "%s", err.msg);
	sf_ckpt_builder_free(b);
}
END_TEST

/* 64 MiB and four bytes a byte of key: 1,024 elements of 64 KiB, and no more of them. */
START_TEST(texts_of_paths_count_each_time)
{
	struct sf_path_elem path[512];
	struct sf_ckpt_builder *b = new_builder();

	for (size_t i = 0; i < SF_ARRAY_LEN(path); i++)
		path[i] = (struct sf_path_elem){ text, NAME_MAX_BYTES, 0 };
	ck_assert_int_eq(add_object(b, "u", 1), 0);
	ck_assert_int_eq(add_object(b, "v", 1), 0);
	ck_assert_int_eq(add_object(b, "w", 1), 0);
	ck_assert_int_eq(sf_ckpt_builder_path(b, "u", 1, path, 512, &err), 0);
	ck_assert_int_eq(sf_ckpt_builder_path(b, "v", 1, path, 512, &err), 0);
	ck_assert_int_eq(sf_ckpt_builder_path(b, "w", 1, path, 1, &err), -E2BIG);
	ck_assert_msg(strstr(err.msg, "'w'") && strstr(err.msg, "67174400") &&
	                      strstr(err.msg, "67108876"),
	              "%s", err.msg);
	sf_ckpt_builder_free(b);
}
END_TEST

static struct sf_pv text_of(char *at, size_t len)
{
	memset(at, 'm', len);
	at[len] = '\0';
	return (struct sf_pv){ .kind = SF_PV_STR, .shared = true, .str = { at, len } };
}

/* STACK_GLOBAL of one text that lies in the memo: the module and the name. */
static int parse_global(size_t len)
{
	struct sf_buf p = { 0 };
	struct sf_arena arena = { 0 };
	struct sf_pv *v;
	uint8_t n[4];
	size_t used;
	int r;

	sf_buf_str(&p, "\x80\x04X");
	sf_put_le32(n, (uint32_t)len);
	sf_buf_add(&p, n, 4);
	memset(text, 'a', sizeof(text));
	sf_buf_add(&p, text, len);
	sf_buf_add(&p, "q\0h\0\x93.", 6);
	r = sf_pickle_parse(p.at, p.len, NULL, &arena, &v, &used, &err);
	sf_buf_release(&p);
	sf_arena_release(&arena);
	return r;
}

START_TEST(names_of_classes_may_have_4_kib)
{
	ck_assert_int_eq(parse_global(SF_PICKLE_NAME_MAX), 0);
	ck_assert_int_eq(parse_global(SF_PICKLE_NAME_MAX + 1), -E2BIG);
	ck_assert_msg(strstr(err.msg, "4097") && strstr(err.msg, "limit 4096"), "%s", err.msg);
}
END_TEST

/* Three thousand values of one class: its names come once, and nothing more is allocated for it. */
START_TEST(a_class_that_is_used_often_is_written_once)
{
	enum { N = 3000 };
	static char name[SF_PICKLE_NAME_MAX + 1];
	static struct sf_pv global[N], *at[N];
	struct sf_pv str = text_of(name, SF_PICKLE_NAME_MAX);
	struct sf_pv list = { .kind = SF_PV_LIST, .seq = { at, N } };
	struct sf_arena arena = { .limit = 1 << 20 };
	struct sf_pickle_writer w;
	struct sf_buf out = { 0 };

	for (size_t i = 0; i < N; i++) {
		global[i] = (struct sf_pv){ .kind = SF_PV_GLOBAL, .global = { &str, &str } };
		at[i] = &global[i];
	}
	ck_assert_int_eq(sf_pickle_writer_init(&w, &out, &arena), 0);
	ck_assert_msg(sf_pw_value(&w, &list, &err) == 0, "%s", err.msg);
	ck_assert_uint_lt(out.len, 3 * SF_PICKLE_NAME_MAX + 3 * N);
	sf_pickle_writer_release(&w);
	sf_buf_release(&out);
	sf_arena_release(&arena);
}
END_TEST

/* Python's writer gives each part of a dotted name a call of its own. */
START_TEST(a_dotted_name_has_64_parts_at_most)
{
	static char name[SF_PICKLE_NAME_MAX + 1];
	struct sf_pv str = text_of(name, 132), module = text_of(text, 1);
	struct sf_pv v = { .kind = SF_PV_GLOBAL, .global = { &module, &str } };

	for (size_t dots = 64; dots <= 65; dots++) {
		struct sf_arena arena = { 0 };
		struct sf_pickle_writer w;
		struct sf_buf out = { 0 };
		name[2 * dots - 1] = '.';
		for (size_t i = 0; i < dots; i++)
			name[2 * i + 1] = '.';
		ck_assert_int_eq(sf_pickle_writer_init(&w, &out, &arena), 0);
		ck_assert_int_eq(sf_pw_value(&w, &v, &err), dots == 64 ? 0 : -E2BIG);
		sf_pickle_writer_release(&w);
		sf_buf_release(&out);
		sf_arena_release(&arena);
	}
	ck_assert_msg(strstr(err.msg, "65 parts, limit 64"), "%s", err.msg);
}
END_TEST

/* Decimal digits cost the square of the bytes, for each place that shows the number. */
START_TEST(digits_of_shared_integers_count_each_time)
{
	enum { BYTES = 30000 };
	static char digits[BYTES];
	struct sf_pv n = { .kind = SF_PV_LONG, .shared = true, .str = { digits, BYTES } };
	struct sf_pv *at[5] = { &n, &n, &n, &n, &n };
	struct sf_pv list = { .kind = SF_PV_LIST, .seq = { at, 4 } };
	struct sf_buf out = { 0 };

	memset(digits, 0x55, BYTES);
	ck_assert_msg(sf_value_json(&out, &list, &err) == 0, "%s", err.msg);
	sf_buf_reset(&out);
	list.seq.n = 5;
	ck_assert_int_eq(sf_value_json(&out, &list, &err), -E2BIG);
	ck_assert_msg(strstr(err.msg, "decimal digits") && strstr(err.msg, "30000") &&
	                      strstr(err.msg, "65536"),
	              "%s", err.msg);
	sf_buf_release(&out);
}
END_TEST

/* A file that cannot be sized. */
struct bad {
	struct sf_vfile f;
	int code, tried;
};

static int bad_prepare(struct sf_vfile *f, struct sf_error *e)
{
	struct bad *b = (struct bad *)f;

	return sf_fail(e, b->code, "no %d", ++b->tried);
}

static void bad_free(struct sf_vfile *f)
{
	(void)f;
}

START_TEST(a_refusal_that_is_the_bytes_own_is_remembered)
{
	static const struct sf_vfile_ops ops = { .prepare = bad_prepare, .free = bad_free };
	static const struct {
		int code;
		bool kept;
	} codes[] = { { -EBADMSG, true }, { -E2BIG, true },   { -ENOTSUP, true },   { -EIO, false },
		      { -ENOMEM, false }, { -ESTALE, false }, { -ETIMEDOUT, false } };

	for (size_t i = 0; i < SF_ARRAY_LEN(codes); i++) {
		struct bad b = { .code = codes[i].code };
		sf_vfile_init(&b.f, &ops, NULL);
		ck_assert_int_eq(sf_vfile_prepare(&b.f, NULL), codes[i].code);
		ck_assert_int_eq(sf_vfile_prepare(&b.f, &err), codes[i].code);
		ck_assert_int_eq(b.tried, codes[i].kept ? 1 : 2);
		ck_assert_str_eq(err.msg, codes[i].kept ? "no 1" : "no 2");
		sf_vfile_unref(&b.f);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("shared_limits");
	TCase *t = tcase_create("shared_limits");

	tcase_add_test(t, a_key_may_have_64_kib);
	tcase_add_test(t, an_element_of_a_path_may_have_64_kib);
	tcase_add_test(t, texts_of_paths_count_each_time);
	tcase_add_test(t, names_of_classes_may_have_4_kib);
	tcase_add_test(t, a_class_that_is_used_often_is_written_once);
	tcase_add_test(t, a_dotted_name_has_64_parts_at_most);
	tcase_add_test(t, digits_of_shared_integers_count_each_time);
	tcase_add_test(t, a_refusal_that_is_the_bytes_own_is_remembered);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
