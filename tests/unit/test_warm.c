#include "config.h"

#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"
#include "tests/lib/load.h"
#include "tests/lib/store_far.h"
#include "tool/warm.h"

#define BIG ((size_t)40 << 20)

static struct sf_io io;
static struct sf_far far;
static struct sf_store *store;
static struct sf_mem_object object[3] = { { "a", NULL, BIG },
	                                  { "b", NULL, 100 },
	                                  { "c", NULL, 5000 } };
static struct sf_file file[3];
static char said[1000];
static struct sf_warm w;

static int open_far(void *arg, const struct sf_file *f, struct sf_source **ret,
                    struct sf_error *err)
{
	(void)arg;
	return store->ops->open(store, f->name, NULL, ret, err);
}

static void note(void *arg, const struct sf_file *f, const struct sf_error *err)
{
	(void)arg;
	ck_assert(err->msg[0] != '\0');
	strncat(said, f->name, sizeof(said) - strlen(said) - 1);
}

static void begin(unsigned at_once)
{
	ck_assert_int_eq(sf_io_init(&io, 2, NULL), 0);
	for (size_t i = 0; i < SF_ARRAY_LEN(object); i++) {
		object[i].at = calloc(1, object[i].len);
		file[i] = (struct sf_file){ .name = object[i].name, .info.size = object[i].len };
	}
	ck_assert_int_eq(sf_store_far(&io, object, 3, &far, &store, NULL), 0);
	said[0] = '\0';
	sf_warm_init(&w, NULL, at_once);
	w.open = open_far;
	w.failed = note;
}

static void end(void)
{
	sf_warm_release(&w);
	sf_store_free(store);
	sf_io_release(&io);
	for (size_t i = 0; i < SF_ARRAY_LEN(object); i++)
		free((void *)(uintptr_t)object[i].at);
}

START_TEST(each_byte_of_the_ranges_is_read_once_side_by_side)
{
	const struct sf_warm_range at[] = { { &file[0], 3, BIG - 5 },
		                            { &file[1], 0, 100 },
		                            { &file[2], 17, 1 },
		                            { &file[2], 100, 200 } };

	begin((unsigned)_i);
	ck_assert_int_eq(sf_warm_read(&w, at, SF_ARRAY_LEN(at), NULL), 0);
	ck_assert_uint_eq(w.bytes, BIG - 5 + 100 + 1 + 200);
	ck_assert_uint_eq(far.bytes, w.bytes);
	ck_assert_uint_eq(far.requests, 5 + 3);
	ck_assert_uint_eq(w.nfailed, 0);
	ck_assert_uint_le(far.most, (unsigned)_i);
	ck_assert_uint_ge(far.most, SF_MIN(_i, 2));
	end();
}
END_TEST

START_TEST(a_file_that_cannot_be_read_is_told_once_and_the_rest_is_read)
{
	struct sf_file gone = { .name = "gone", .missing = true };
	const struct sf_warm_range at[] = { { &file[1], 0, 101 }, /* past its end */
		                            { &file[1], 50, 51 },
		                            { &gone, 0, 0 },
		                            { &gone, 0, 10 },
		                            { &file[2], 0, 5000 } };

	begin(4);
	ck_assert_int_eq(sf_warm_read(&w, at, SF_ARRAY_LEN(at), NULL), 0);
	ck_assert_uint_eq(w.nfailed, 2);
	ck_assert(!strcmp(said, "bgone") || !strcmp(said, "goneb"));
	ck_assert_uint_eq(w.bytes, 5000);
	end();
}
END_TEST

static void *stop(void *arg)
{
	while (!far.requests)
		sched_yield();
	sf_warm_stop(arg);
	return NULL;
}

START_TEST(it_ends_when_it_is_to_stop)
{
	const struct sf_warm_range at[] = { { &file[0], 0, BIG }, { &file[0], 0, BIG } };
	struct sf_error err = SF_ERROR_INIT;
	pthread_t thread;

	far.hold_until = 1000; /* the first one is not answered for 20 s, and cannot be canceled */
	begin(2);
	ck_assert_int_eq(pthread_create(&thread, NULL, stop, &w), 0);
	ck_assert_int_eq(sf_warm_read(&w, at, SF_ARRAY_LEN(at), &err), -ECANCELED);
	pthread_join(thread, NULL);
	ck_assert_uint_le(far.requests, 3);
	ck_assert_str_eq(said, ""); /* what was canceled is no file's failure */
	end();
}
END_TEST

/* ---- which ranges ---- */

static uint64_t ranges_of(const char *pattern, struct sf_warm_ranges *v, struct sf_ckpt **ckpt)
{
	struct sf_view_options opt;
	struct sf_catalog *c;
	char path[400], msg[SF_ERROR_MAX];
	struct sf_store *dir;

	ck_assert_int_eq(
		sf_store_open(load_io(), sf_test_data(path, "dcp/fsdp4/ckpt"), NULL, &dir, NULL),
		0);
	ck_assert_int_eq(load_store(dir, NULL, ckpt, msg), 0);
	sf_view_options_init(&opt);
	if (pattern)
		opt.key = (struct sf_strs){ &pattern, 1 };
	ck_assert_int_eq(sf_catalog_new(*ckpt, &opt, &c, NULL), 0);
	ck_assert_int_eq(sf_warm_ranges_of(c, v, NULL), 0);
	for (size_t i = 0; i < v->n; i++) {
		ck_assert_uint_le(v->at[i].off + v->at[i].len, v->at[i].file->info.size);
		if (i && v->at[i].file == v->at[i - 1].file)
			ck_assert_uint_gt(v->at[i].off, v->at[i - 1].off + v->at[i - 1].len);
	}
	sf_catalog_free(c);
	return sf_warm_bytes(v->at, v->n);
}

START_TEST(all_keys_are_all_files_and_one_key_is_its_items)
{
	struct sf_warm_ranges v = { 0 };
	struct sf_ckpt *ckpt;
	uint64_t all = 0, one, items = 0;

	uint64_t got = ranges_of(NULL, &v, &ckpt);
	for (uint32_t i = 0; i < ckpt->nfiles; i++)
		all += ckpt->file[i].info.size;
	ck_assert_uint_eq(got, all);
	ck_assert_uint_eq(v.n, ckpt->nfiles);
	sf_warm_ranges_release(&v);

	const struct sf_tensor *t = &ckpt->tensor[0];
	for (uint32_t i = 0; i < t->nchunks; i++) {
		struct sf_chunk ch;
		sf_tensor_chunk(t, i, &ch);
		items += ch.len;
	}
	SF_FREE char *name = strndup(ckpt->key[t->key].name, ckpt->key[t->key].len);
	sf_ckpt_free(ckpt);
	one = ranges_of(name, &v, &ckpt);
	ck_assert_uint_eq(one, items);
	ck_assert_uint_gt(one, 0);
	sf_warm_ranges_release(&v);
	sf_ckpt_free(ckpt);
}
END_TEST

static void clean(void)
{
	memset(&far, 0, sizeof(far));
}

int main(void)
{
	Suite *s = suite_create("warm");
	TCase *t = tcase_create("warm");

	tcase_add_checked_fixture(t, clean, NULL);
	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, each_byte_of_the_ranges_is_read_once_side_by_side, 1, 5);
	tcase_add_test(t, a_file_that_cannot_be_read_is_told_once_and_the_rest_is_read);
	tcase_add_test(t, it_ends_when_it_is_to_stop);
	tcase_add_test(t, all_keys_are_all_files_and_one_key_is_its_items);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
