#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/inside/inside_priv.h"
#include "tests/lib/sf_test.h"
#include "tests/lib/store_far.h"

/* Stores over stores: which names a template stands for, what tars list. */

static struct sf_io io;

#define F(n)              \
	{                 \
		n, "x", 1 \
	}

/* ---- templates ---- */

static int match(const struct sf_mem_object *files, size_t n, const char *pattern,
                 struct sf_objinfos *ret, struct sf_arena *arena, struct sf_error *err)
{
	struct sf_store *mem;
	int r;

	ck_assert_int_eq(sf_io_init(&io, 1, NULL), 0);
	ck_assert_int_eq(sf_store_mem(&io, files, n, &mem, NULL), 0);
	r = inside_match(mem, pattern, arena, ret, err);
	sf_store_free(mem);
	sf_io_release(&io);
	return r;
}

START_TEST(a_template_is_the_files_of_all_ranks_in_order)
{
	static const struct {
		struct sf_mem_object file[6];
		const char *pattern, *want[4];
	} cases[] = {
		{ { F("r10"), F("r0"), F("r2"), F("r1"), F("x1"), F("r1.tmp") },
		  "r{rank}",
		  { "r0", "r1", "r2", NULL } },
		{ { F("d0/a.tar"), F("d1/a.tar"), F("d1/b.tar") },
		  "d{rank}/a.tar",
		  { "d0/a.tar", "d1/a.tar" } },
		{ { F("n1l0"), F("n0l1"), F("n0l0") },
		  "n{node_rank}l{local_rank}",
		  { "n0l0", "n0l1", "n1l0" } },
		{ { F("r0-n0"), F("r1-n1"), F("r00-n0x") },
		  "r{rank}-n{node_rank}",
		  { "r0-n0", "r1-n1" } },
		{ { F("0-0"), F("0-1"), F("1-1") }, "{rank}-{rank}", { "0-0", "1-1" } },
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(cases); i++) {
		SF_CLEANUP(sf_objinfos_release) struct sf_objinfos got = { 0 };
		SF_CLEANUP(sf_arena_release) struct sf_arena arena = { 0 };
		struct sf_error err = SF_ERROR_INIT;
		size_t n = i ? 0 : 1, k = 0;

		/* the first one has a gap but for its first file */
		while (n < 6 && cases[i].file[n].name)
			n++;
		int r = match(cases[i].file + (i == 0), n - (i == 0), cases[i].pattern, &got,
		              &arena, &err);
		ck_assert_msg(r == 0, "%zu: %s", i, err.msg);
		for (; k < 4 && cases[i].want[k]; k++)
			ck_assert_str_eq(got.at[k].name, cases[i].want[k]);
		ck_assert_uint_eq(got.n, k);
	}
}
END_TEST

START_TEST(what_a_template_lacks_is_named)
{
	static const struct {
		struct sf_mem_object file[4];
		const char *pattern, *said;
		int code;
	} cases[] = {
		{ { F("r0"), F("r2"), F("r3") }, "r{rank}", "'r1' is missing, 'r2' is", -ENOENT },
		{ { F("r1") }, "r{rank}", "'r0' is missing, 'r1' is there", -ENOENT },
		{ { F("n0l0"), F("n0l1"), F("n1l1") },
		  "n{node_rank}l{local_rank}",
		  "'n1l0' is missing",
		  -ENOENT },
		{ { F("n0l0"), F("n2l0") },
		  "n{node_rank}l{local_rank}",
		  "'n1l0' is missing",
		  -ENOENT },
		{ { F("a"), F("b") }, "r{rank}", "no 'r0', no 'r1' …: there are 2 other", -ENOENT },
		{ { F("r1"), F("r01"), F("r0") }, "r{rank}", "are of one rank", -EBADMSG },
		{ { F("r99999999999") }, "r{rank}", "matches nothing", -ENOENT },
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(cases); i++) {
		SF_CLEANUP(sf_objinfos_release) struct sf_objinfos got = { 0 };
		SF_CLEANUP(sf_arena_release) struct sf_arena arena = { 0 };
		struct sf_error err = SF_ERROR_INIT;
		size_t n = 0;

		while (n < 4 && cases[i].file[n].name)
			n++;
		ck_assert_int_eq(match(cases[i].file, n, cases[i].pattern, &got, &arena, &err),
		                 cases[i].code);
		ck_assert_msg(strstr(err.msg, cases[i].said), "%zu: %s", i, err.msg);
	}
}
END_TEST

START_TEST(a_template_has_a_place_for_a_rank)
{
	size_t dir;

	ck_assert(inside_is_template("/a/b/x{rank}.pt", &dir) && dir == 4);
	ck_assert(inside_is_template("s3://b/{node_rank}/x", &dir) && dir == 6);
	ck_assert(inside_is_template("x{local_rank}", &dir) && dir == 0);
	ck_assert(!inside_is_template("/a/{epoch}/x", &dir));
}
END_TEST

/* ---- the store ---- */

static const struct sf_mem_object stored[] = { { "t0", "aabbbc", 6 }, { "t1", "AABBBC", 6 } };

static struct sf_store *two_tars(void)
{
	static struct sf_error err;
	struct inside_build b = { .err = &err };
	struct sf_store *s;

	ck_assert_int_eq(sf_io_init(&io, 1, NULL), 0);
	ck_assert_int_eq(sf_store_mem(&io, stored, 2, &b.inner, NULL), 0);
	for (uint32_t i = 0; i < 2; i++) {
		struct inside_from f = { .info = { .name = stored[i].name, .size = 6 } };
		ck_assert_int_eq(inside_froms_push(&b.from, f), 0);
	}
	ck_assert_int_eq(inside_add(&b, "d/e/x", 0, 0, 2), 0);
	ck_assert_int_eq(inside_add(&b, "d/y", 0, 2, 3), 0);
	ck_assert_int_eq(inside_add(&b, "top", 0, 5, 1), 0);
	ck_assert_int_eq(inside_add(&b, "top", 1, 0, 6), 0); /* the first one stays */
	ck_assert_int_eq(inside_add(&b, "d-", 1, 2, 3), 0);
	ck_assert_int_eq(inside_store_new(&b, "/x/t{rank}", &s), 0);
	inside_build_release(&b);
	return s;
}

struct lines {
	char text[256];
	const char *skip;
};

static int line(void *arg, const struct sf_objinfo *info)
{
	struct lines *l = arg;
	size_t n = strlen(l->text);

	snprintf(l->text + n, sizeof(l->text) - n, "%s%s ", info->name,
	         info->size == UINT64_MAX ? "/" : "");
	return l->skip && strcmp(info->name, l->skip) == 0 ? SF_LIST_SKIP : 0;
}

START_TEST(members_are_listed_as_a_directory_would_be)
{
	static const struct {
		const char *dir, *skip, *want;
		unsigned depth;
	} cases[] = {
		{ "", NULL, "d- d/ d/e/x d/y top ", 9 },
		{ "", NULL, "d- d/ d/y top ", 1 },
		{ "", NULL, "d- d/ top ", 0 },
		{ "", "d", "d- d/ top ", 9 },
		{ "d", NULL, "d/e/ d/e/x d/y ", 9 },
		{ "d", NULL, "d/e/ d/y ", 0 },
		{ "d/e", NULL, "d/e/x ", 0 },
	};
	struct sf_store *s = two_tars();

	for (size_t i = 0; i < SF_ARRAY_LEN(cases); i++) {
		struct lines l = { .skip = cases[i].skip };
		ck_assert_int_eq(s->ops->list(s, cases[i].dir, cases[i].depth, line, &l, NULL), 0);
		ck_assert_str_eq(l.text, cases[i].want);
	}
	ck_assert_int_eq(s->ops->list(s, "top", 0, line, &(struct lines){ .skip = NULL }, NULL),
	                 -ENOENT);
	ck_assert_str_eq(s->source, "/x/t{rank}");
	sf_store_free(s);
	sf_io_release(&io);
}
END_TEST

START_TEST(a_member_is_its_bytes_of_the_version_that_was_listed)
{
	struct sf_store *s = two_tars();
	struct sf_source *src;
	char got[4] = "";

	ck_assert_int_eq(s->ops->open(s, "d/y", NULL, &src, NULL), 0);
	ck_assert_uint_eq(src->size, 3);
	ck_assert_int_eq(sf_source_read(src, 0, got, 3, SF_FETCH_TENSOR, NULL), 0);
	ck_assert_str_eq(got, "bbb");
	sf_source_unref(src);
	const struct sf_objinfo other = { .name = "d/y", .size = 4 };
	ck_assert_int_eq(s->ops->open(s, "d/y", &other, &src, NULL), -ESTALE);
	ck_assert_int_eq(s->ops->open(s, "d", NULL, &src, NULL), -ENOENT);
	ck_assert_int_eq(s->ops->fd(s, "d/y", &other, NULL), -ENOTSUP);
	sf_store_free(s);
	sf_io_release(&io);
}
END_TEST

START_TEST(names_without_their_packing)
{
	static const char *const cases[][2] = {
		{ "x.pt.gz", "x.pt" }, { "x.tgz", "x.tar" },     { "a/x.tar.zst", "a/x.tar" },
		{ ".gz", ".gz" },      { "a/.gz", "a/.gz" },     { "x.pt", "x.pt" },
		{ "x.txz", "x.tar" },  { "x.tar.lz4", "x.tar" },
	};
	SF_CLEANUP(sf_arena_release) struct sf_arena arena = { 0 };

	for (size_t i = 0; i < SF_ARRAY_LEN(cases); i++)
		ck_assert_str_eq(inside_unpacked_name(cases[i][0], &arena), cases[i][1]);
}
END_TEST

START_TEST(the_directory_of_a_files_url)
{
	static const char *const cases[][2] = {
		{ "s3://b/run/x.pt", "s3://b/run" },
		{ "s3://b/x.pt", "s3://b" },
		{ "https://h/a/x.tar?t=1", "https://h/a?t=1" },
		{ "gs://b/r/x-{rank}.tar", "gs://b/r" },
		{ "s3://b/run", NULL },
		{ "s3://b/run.pt/", NULL },
		{ "/a/x.pt", NULL },
		{ "s3://b.pt", NULL },
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(cases); i++) {
		SF_FREE char *dir = NULL;
		ck_assert_int_eq(sf_inside_dir(cases[i][0], &dir, NULL), 0);
		if (cases[i][1])
			ck_assert_str_eq(dir, cases[i][1]);
		else
			ck_assert_ptr_null(dir);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("inside");
	TCase *tc = tcase_create("inside");

	tcase_add_test(tc, a_template_is_the_files_of_all_ranks_in_order);
	tcase_add_test(tc, what_a_template_lacks_is_named);
	tcase_add_test(tc, a_template_has_a_place_for_a_rank);
	tcase_add_test(tc, members_are_listed_as_a_directory_would_be);
	tcase_add_test(tc, a_member_is_its_bytes_of_the_version_that_was_listed);
	tcase_add_test(tc, names_without_their_packing);
	tcase_add_test(tc, the_directory_of_a_files_url);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
