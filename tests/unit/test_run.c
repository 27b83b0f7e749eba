#include "config.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "format/run.h"
#include "store/source.h"
#include "tests/lib/test_stores.h"
#include "tests/lib/sf_test.h"

/* A bucket: names alone, and what it was asked. Below a directory it is itself, with a prefix. */
struct bucket {
	char (*name)[64];
	uint64_t *size;
	size_t n;
	unsigned lists, entries, opens;
	const char *tracker; /* what objects hold */
};
struct bucket_store {
	struct sf_store s;
	struct bucket *b;
	char prefix[160];
};

static int bucket_open(struct sf_store *s, const char *name, const struct sf_objinfo *want,
                       struct sf_source **ret, struct sf_error *err)
{
	struct bucket_store *f = (struct bucket_store *)s;
	static struct sf_store *mem;
	static struct sf_mem_object one;

	(void)want;
	f->b->opens++;
	sf_store_free(mem);
	one = (struct sf_mem_object){ name, f->b->tracker, strlen(f->b->tracker) };
	ck_assert_int_eq(sf_store_mem(s->io, &one, 1, &mem, err), 0);
	return mem->ops->open(mem, name, NULL, ret, err);
}

static int bucket_list(struct sf_store *s, const char *dir, unsigned depth,
                       int (*each)(void *arg, const struct sf_objinfo *info), void *arg,
                       struct sf_error *err)
{
	struct bucket_store *f = (struct bucket_store *)s;
	char root[200], last[64] = "";
	int skip = 0, r = 0;

	snprintf(root, sizeof(root), "%s%s%s", f->prefix, dir, *dir ? "/" : "");
	(void)err;
	f->b->lists++;
	for (size_t i = 0; i < f->b->n && r >= 0; i++) {
		const char *name = f->b->name[i], *below = name + strlen(root);
		const char *slash = strchr(name, '/');
		unsigned level = 0;
		if (strncmp(name, root, strlen(root)) != 0)
			continue;
		slash = strchr(below, '/');
		for (const char *c = slash; c; c = strchr(c + 1, '/'))
			level++;
		char top[64];
		snprintf(top, sizeof(top), "%.*s", slash ? (int)(slash - below) : 0, below);
		if (slash && strcmp(top, last) != 0) {
			char full[300];
			snprintf(full, sizeof(full), "%s%s%s", dir, *dir ? "/" : "", top);
			snprintf(last, sizeof(last), "%s", top);
			skip = each(arg, &(struct sf_objinfo){ .name = full, .size = UINT64_MAX });
			r = skip;
		}
		if (level > depth || (slash && skip == SF_LIST_SKIP))
			continue;
		f->b->entries++;
		r = each(arg, &(struct sf_objinfo){ .name = name + strlen(f->prefix),
		                                    .size = f->b->size[i],
		                                    .version = { .etag = "e" } });
	}
	return r < 0 ? r : 0;
}

static int bucket_below(struct sf_store *s, const char *dir, struct sf_store **ret,
                        struct sf_error *err);

static void bucket_free(struct sf_store *s)
{
	free(s->source);
	free(s);
}

static const struct sf_store_ops bucket_ops = {
	.open = bucket_open, .list = bucket_list, .below = bucket_below, .free = bucket_free
};

static struct sf_store *bucket_store(struct sf_io *io, struct bucket *b, const char *prefix)
{
	struct bucket_store *f = calloc(1, sizeof(*f));

	f->s = (struct sf_store){ .ops = &bucket_ops, .io = io, .far = true };
	f->s.source = strdup("b");
	f->b = b;
	snprintf(f->prefix, sizeof(f->prefix), "%s", prefix);
	return &f->s;
}

static int bucket_below(struct sf_store *s, const char *dir, struct sf_store **ret,
                        struct sf_error *err)
{
	struct bucket_store *f = (struct bucket_store *)s;
	char prefix[300];

	(void)err;
	snprintf(prefix, sizeof(prefix), "%s%.60s/", f->prefix, dir);
	*ret = bucket_store(s->io, f->b, prefix);
	return 0;
}

static void put(struct bucket *b, const char *name)
{
	b->name = realloc(b->name, (b->n + 1) * sizeof(*b->name));
	b->size = realloc(b->size, (b->n + 1) * sizeof(*b->size));
	snprintf(b->name[b->n], sizeof(*b->name), "%s", name);
	b->size[b->n++] = 10;
}

static void drop(struct bucket *b, const char *name)
{
	for (size_t i = 0; i < b->n; i++)
		if (strcmp(b->name[i], name) == 0) {
			memmove(b->name[i], b->name[i + 1], (b->n - i - 1) * sizeof(*b->name));
			memmove(&b->size[i], &b->size[i + 1], (b->n - i - 1) * sizeof(*b->size));
			b->n--;
			return;
		}
	ck_abort_msg("no '%s'", name);
}

/* A DCP step; without @meta one that is being written. */
static void put_step(struct bucket *b, const char *step, bool meta)
{
	char name[64];

	if (meta) {
		snprintf(name, sizeof(name), "%s/.metadata", step);
		put(b, name);
	}
	for (int i = 0; i < 2; i++) {
		snprintf(name, sizeof(name), "%s/__%d_0.distcp", step, i);
		put(b, name);
	}
}

struct world {
	struct sf_io io;
	struct bucket b;
	struct sf_store *s;
	struct sf_run *run;
};

static void begin(struct world *w, unsigned refresh_ms)
{
	struct sf_error err = SF_ERROR_INIT;

	ck_assert_int_eq(sf_io_init(&w->io, 2, &err), 0);
	w->s = bucket_store(&w->io, &w->b, "");
	ck_assert_msg(sf_run_new(w->s, NULL, refresh_ms, &w->run, &err) == 0, "%s", err.msg);
}

static void end(struct world *w)
{
	sf_run_free(w->run);
	sf_store_free(w->s);
	sf_io_release(&w->io);
	free(w->b.name);
	free(w->b.size);
}

static void refresh(struct world *w)
{
	struct sf_error err = SF_ERROR_INIT;

	w->b.lists = w->b.entries = 0;
	ck_assert_msg(sf_run_refresh(w->run, &err) == 0, "%s", err.msg);
}

/* "step1 step2 |step3": complete, then the latest */
static const char *state(struct world *w)
{
	static char text[4096];
	struct sf_run_step s;
	const char *name;
	uint32_t i = 0;
	size_t n = 0;

	text[0] = '\0';
	for (; (name = sf_run_next(w->run, i, &i)); i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s ", name);
	if (sf_run_latest(w->run, &i) >= 0) {
		sf_run_step(w->run, i, &s);
		snprintf(text + n, sizeof(text) - n, "|%s", s.name);
	}
	return text;
}

START_TEST(a_thousand_steps_of_a_server_cost_two_listings_and_then_one)
{
	struct world w = { 0 };
	char name[32];
	uint32_t at;

	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "step%d", i);
		put_step(&w.b, name, true);
	}
	begin(&w, 0);
	ck_assert_uint_eq(w.b.lists, 2); /* of names, of all */
	ck_assert_uint_eq(sf_run_nsteps(w.run), 1000);
	ck_assert_int_eq(sf_run_find(w.run, "step777", 7, &at), 0);
	ck_assert_uint_eq(at, 777); /* in order of their numbers */
	ck_assert_uint_eq(w.b.opens, 0);
	refresh(&w);
	ck_assert_uint_eq(w.b.lists, 1);
	ck_assert_uint_eq(w.b.entries, 0);
	put_step(&w.b, "step1000", false);
	for (int i = 0; i < 3; i++) {
		refresh(&w);
		ck_assert_uint_eq(w.b.lists, 2); /* of names, of the one that is written */
		ck_assert_uint_eq(w.b.entries, 2);
		ck_assert_int_eq(sf_run_find(w.run, "step1000", 8, &at), -ENOENT);
	}
	put(&w.b, "step1000/.metadata");
	refresh(&w);
	ck_assert_int_eq(sf_run_find(w.run, "step1000", 8, &at), 0);
	ck_assert_uint_eq(at, 1000);
	refresh(&w);
	ck_assert_uint_eq(w.b.lists, 1);
	end(&w);
}
END_TEST

START_TEST(steps_come_and_go_and_keep_their_numbers)
{
	struct world w = { 0 };
	struct sf_run_step s;
	uint32_t at;

	put_step(&w.b, "step9", true);
	put_step(&w.b, "step10", true);
	put_step(&w.b, "other", true); /* is not called as steps are, beside some that are */
	put_step(&w.b, "latest", true);
	begin(&w, 0);
	ck_assert_str_eq(state(&w), "step9 step10 |step10");
	drop(&w.b, "step9/.metadata");
	drop(&w.b, "step9/__0_0.distcp");
	drop(&w.b, "step9/__1_0.distcp");
	put_step(&w.b, "step20", true);
	refresh(&w);
	ck_assert_str_eq(state(&w), "step10 step20 |step20");
	sf_run_step(w.run, 0, &s);
	ck_assert_int_eq(s.state, SF_RUN_GONE);
	put_step(&w.b, "step9", true);
	refresh(&w);
	ck_assert_int_eq(sf_run_find(w.run, "step9", 5, &at), 0);
	ck_assert_uint_eq(at, 0);
	end(&w);
}
END_TEST

START_TEST(a_load_that_failed_holds_until_the_files_are_others)
{
	const struct sf_error why = { "it is broken" };
	struct sf_error said;
	struct world w = { 0 };

	put_step(&w.b, "step1", true);
	put_step(&w.b, "step2", true);
	begin(&w, 0);
	sf_run_fail(w.run, 1, &why);
	ck_assert_str_eq(state(&w), "step1 |step1");
	refresh(&w);
	ck_assert_str_eq(state(&w), "step1 |step1");
	sf_run_why(w.run, 1, &said);
	ck_assert_str_eq(said.msg, "it is broken");
	w.b.size[w.b.n - 1]++;
	refresh(&w);
	ck_assert_str_eq(state(&w), "step1 step2 |step2");
	end(&w);
}
END_TEST

START_TEST(the_latest_is_what_the_trainer_says_if_it_is_complete)
{
	static const struct {
		const char *file, *says, *latest;
	} cases[] = {
		{ "latest_checkpointed_iteration.txt", "10\n", "iter_0000010" },
		{ "latest_checkpointed_iteration.txt", "release", "release" },
		{ "latest_checkpointed_iteration.txt", "30", "iter_0000020" },
		{ "latest_checkpointed_iteration.txt", "", "iter_0000020" },
		{ "latest_checkpointed_iteration.txt", "99999999999999999999", "iter_0000020" },
		{ "latest", " iter_0000010 ", "iter_0000010" },
		{ "latest", "../x", "iter_0000020" },
	};
	struct world w = { .b.tracker = cases[_i].says };
	char want[100];

	put(&w.b, cases[_i].file);
	put_step(&w.b, "iter_0000010", true);
	put_step(&w.b, "iter_0000020", true);
	put_step(&w.b, "iter_0000030", false);
	put_step(&w.b, "release", true);
	begin(&w, 0);
	snprintf(want, sizeof(want), "iter_0000010 iter_0000020 release |%s", cases[_i].latest);
	ck_assert_str_eq(state(&w), want);
	end(&w);
}
END_TEST

START_TEST(directories_without_a_steps_name_count_where_there_is_no_other)
{
	struct world w = { 0 };

	put_step(&w.b, "final", true);
	put_step(&w.b, "half", false);
	put(&w.b, "logs/a.txt");
	begin(&w, 0);
	ck_assert_str_eq(state(&w), "final |final");
	ck_assert_uint_eq(sf_run_nsteps(w.run), 1);
	end(&w);
}
END_TEST

START_TEST(it_is_due_after_a_while_and_never_where_that_is_not_wanted)
{
	struct world w = { 0 };

	put_step(&w.b, "step1", true);
	begin(&w, 30);
	ck_assert(!sf_run_is_due(w.run));
	usleep(40000);
	ck_assert(sf_run_is_due(w.run));
	refresh(&w);
	ck_assert(!sf_run_is_due(w.run));
	end(&w);
	w = (struct world){ 0 };
	put_step(&w.b, "step1", true);
	begin(&w, 0);
	usleep(5000);
	ck_assert(!sf_run_is_due(w.run));
	end(&w);
}
END_TEST

/* Megatron's legacy files have nothing that is written last but the tracker. */
START_TEST(a_legacy_step_that_is_later_than_the_tracker_is_not_committed)
{
	struct world w = { .b.tracker = "10" };
	struct sf_error why;

	put(&w.b, "latest_checkpointed_iteration.txt");
	put(&w.b, "iter_0000010/mp_rank_00/model_optim_rng.pt");
	put(&w.b, "iter_0000020/mp_rank_00/model_optim_rng.pt");
	begin(&w, 0);
	ck_assert_str_eq(state(&w), "iter_0000010 |iter_0000010");
	sf_run_why(w.run, 1, &why);
	ck_assert_msg(strstr(why.msg, "latest_checkpointed_iteration.txt says 10"), "%s", why.msg);
	w.b.tracker = "20";
	refresh(&w);
	ck_assert_str_eq(state(&w), "iter_0000010 iter_0000020 |iter_0000020");
	end(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("run");
	TCase *tc = tcase_create("run");

	tcase_set_timeout(tc, 30);
	tcase_add_test(tc, a_thousand_steps_of_a_server_cost_two_listings_and_then_one);
	tcase_add_test(tc, steps_come_and_go_and_keep_their_numbers);
	tcase_add_test(tc, a_load_that_failed_holds_until_the_files_are_others);
	tcase_add_loop_test(tc, the_latest_is_what_the_trainer_says_if_it_is_complete, 0, 7);
	tcase_add_test(tc, directories_without_a_steps_name_count_where_there_is_no_other);
	tcase_add_test(tc, it_is_due_after_a_while_and_never_where_that_is_not_wanted);
	tcase_add_test(tc, a_legacy_step_that_is_later_than_the_tracker_is_not_committed);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
