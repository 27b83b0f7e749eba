#include "config.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/format.h"
#include "store/fetch_many.h"
#include "tests/lib/sf_test.h"
#include "tests/lib/store_far.h"

/* Loads from a server: rounds are counted, not time. */

#define RANKS 1000
#define FILES_MAX 1100

static struct sf_io io;
static struct sf_far far;
static struct sf_store *store;
static struct sf_mem_object object[FILES_MAX];
static char name[FILES_MAX][64];
static size_t n;

static void add(const char *as, const void *at, size_t len)
{
	ck_assert_uint_lt(n, FILES_MAX);
	snprintf(name[n], sizeof(name[n]), "%s", as);
	object[n] = (struct sf_mem_object){ name[n], at, len };
	n++;
}

static void *file_at(const char *below, size_t *ret_len)
{
	char path[4096];
	FILE *f = fopen(sf_test_data(path, below), "rb");
	uint8_t *at = malloc(1 << 20);

	ck_assert_msg(f != NULL, "%s", path);
	*ret_len = fread(at, 1, 1 << 20, f);
	fclose(f);
	return at;
}

static void begin(unsigned inflight)
{
	far = (struct sf_far){ .hints = { .range_max = UINT64_C(8) << 20,
		                          .gap_max = 65536,
		                          .head_guess = 2048,
		                          .inflight = inflight } };
	ck_assert_int_eq(sf_io_init(&io, 2, NULL), 0);
	ck_assert_int_eq(sf_store_far(&io, object, n, &far, &store, NULL), 0);
}

static void end(void)
{
	sf_store_free(store);
	sf_io_release(&io);
	n = 0;
}

/* A thousand ranks that each wrote metadata of their own: many at a time, none without what the
 * listing said. */
START_TEST(metadata_of_many_ranks_is_asked_for_side_by_side)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_ckpt *ckpt = NULL;
	size_t len, data_len;
	uint8_t *meta = file_at("dcp/ranklocal/ckpt/__0.metadata", &len);
	uint8_t *data = file_at("dcp/ranklocal/ckpt/__0_0.distcp", &data_len);
	char as[64];

	for (int i = 0; i < RANKS; i++) {
		snprintf(as, sizeof(as), "__%d.metadata", i);
		add(as, meta, len);
	}
	add("__0_0.distcp", data, data_len);
	begin(100);
	ck_assert_msg(sf_ckpt_load(store, NULL, &ckpt, &err) == 0, "%s", err.msg);
	ck_assert_uint_gt(ckpt->ntensors, 0);
	ck_assert_uint_ge(far.requests, RANKS);
	ck_assert_uint_gt(far.most, 50);
	ck_assert_uint_le(far.most, 100);
	ck_assert_uint_lt(far.rounds, 100); /* one by one they are more than 1,000 */
	ck_assert_uint_eq(far.blind_opens, 0);
	sf_ckpt_free(ckpt);
	end();
	free(meta);
	free(data);
}
END_TEST

START_TEST(headers_of_many_files_are_asked_for_side_by_side)
{
	static char text[600][300];
	struct sf_error err = SF_ERROR_INIT;
	struct sf_ckpt *ckpt = NULL;
	char as[64];

	for (int i = 0; i < 600; i++) {
		char *t = text[i];
		int k = snprintf(
			t + 8, 200,
			"{\"w%d\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", i);
		while (k % 8)
			t[8 + k++] = ' ';
		sf_put_le64((uint8_t *)t, (uint64_t)k);
		memcpy(t + 8 + k, "abcd", 4);
		snprintf(as, sizeof(as), "part-%04d.safetensors", i);
		add(as, t, (size_t)k + 12);
	}
	begin(64);
	ck_assert_msg(sf_ckpt_load(store, NULL, &ckpt, &err) == 0, "%s", err.msg);
	ck_assert_uint_eq(ckpt->ntensors, 600);
	ck_assert_uint_eq(far.requests, 600);
	ck_assert_uint_gt(far.most, 32);
	ck_assert_uint_lt(far.rounds, 60);
	ck_assert_uint_eq(far.blind_opens, 0);
	sf_ckpt_free(ckpt);
	end();
}
END_TEST

/* Whatever a load looks at, it knows from the listing: no object costs a question of its own. */
START_TEST(a_load_opens_nothing_that_was_not_listed)
{
	static const char *const some[] = {
		"safetensors", "safetensors_zstd", "zstd",    "dtypes",
		"hf_sharded",  "hf_flat",          "strides", "nested"
	};
	struct sf_error err = SF_ERROR_INIT;
	struct sf_ckpt *ckpt = NULL;
	char dir[4096], below[64], path[4400];
	struct dirent *e;
	DIR *d;

	snprintf(below, sizeof(below), "dcp/%s/ckpt", some[_i]);
	d = opendir(sf_test_data(dir, below));
	ck_assert_msg(d != NULL, "%s", dir);
	while ((e = readdir(d))) {
		size_t len;
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		snprintf(path, sizeof(path), "%s/%s", below, e->d_name);
		uint8_t *at = file_at(path, &len);
		add(e->d_name, at, len);
	}
	closedir(d);
	begin(64);
	ck_assert_msg(sf_ckpt_load(store, NULL, &ckpt, &err) == 0, "%s: %s", dir, err.msg);
	ck_assert_uint_gt(far.opens, 0);
	ck_assert_uint_eq(far.blind_opens, 0);
	sf_ckpt_free(ckpt);
	for (size_t i = 0; i < n; i++)
		free((void *)object[i].at);
	end();
}
END_TEST

/* Each object has its own end: missing ones, another version, and those that answer. */
START_TEST(one_failure_is_no_others)
{
	static const uint8_t bytes[1000] = { 1, 2, 3, [989] = 4, 5, 6, 7, 8, 9 };
	const struct sf_objinfo right = { .name = "a", .size = 1000 },
				wrong = { .name = "b", .size = 7 };
	struct sf_fetch_one f[4] = { { .name = "a", .want = &right, .len = 100 },
		                     { .name = "b", .want = &wrong, .len = 100 },
		                     { .name = "none", .len = 100 },
		                     { .name = "c", .len = 5000 } };
	struct sf_fetch_one some = { .name = "a", .off = 990, .len = 100 };
	uint8_t got[1000];

	add("a", bytes, 1000);
	add("b", bytes, 1000);
	add("c", bytes, 1000);
	begin(3);
	sf_fetch_many(store, f, 4, SF_FETCH_METADATA);
	ck_assert_int_eq(f[0].r, 0);
	ck_assert_int_eq(f[1].r, -ESTALE);
	ck_assert_ptr_nonnull(strstr(f[1].err.msg, "'b'"));
	ck_assert_int_eq(f[2].r, -ENOENT);
	ck_assert_int_eq(f[3].r, 0);
	ck_assert_uint_eq(far.requests, 2);
	/* nothing is counted before it is used, what lies behind the beginning is asked for */
	ck_assert_uint_eq(io.counters.fetched_requests[SF_FETCH_METADATA], 0);
	ck_assert_int_eq(sf_source_read(f[0].src, 0, got, 100, SF_FETCH_METADATA, NULL), 0);
	ck_assert_uint_eq(far.requests, 2);
	ck_assert_uint_eq(io.counters.fetched_bytes[SF_FETCH_METADATA], 100);
	ck_assert_int_eq(sf_source_read(f[0].src, 50, got, 100, SF_FETCH_METADATA, NULL), 0);
	ck_assert_uint_eq(far.requests, 3);
	ck_assert_int_eq(sf_source_read(f[3].src, 0, got, 1000, SF_FETCH_METADATA, NULL), 0);
	ck_assert_mem_eq(got, bytes, 1000);
	ck_assert_uint_eq(far.requests, 3);
	ck_assert_uint_eq(io.counters.fetched_bytes[SF_FETCH_METADATA], 1200);
	sf_fetch_many_release(f, 4);
	/* not from the beginning on, and fewer than were asked for */
	sf_far_forget(&far);
	sf_fetch_many(store, &some, 1, SF_FETCH_METADATA);
	ck_assert_int_eq(some.r, 0);
	ck_assert_uint_eq(far.bytes, 10);
	ck_assert_int_eq(sf_source_read(some.src, 992, got, 8, SF_FETCH_METADATA, NULL), 0);
	ck_assert_mem_eq(got, bytes + 992, 8);
	ck_assert_uint_eq(far.requests, 1);
	ck_assert_int_eq(sf_source_read(some.src, 989, got, 8, SF_FETCH_METADATA, NULL), 0);
	ck_assert_mem_eq(got, bytes + 989, 8);
	ck_assert_uint_eq(far.requests, 2);
	sf_fetch_many_release(&some, 1);
	end();
}
END_TEST

/* A run of many steps is told from its names: what each step holds is not listed for it. A
 * checkpoint whose directories are called so is listed whole. */
START_TEST(steps_of_a_run_are_not_listed)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_ckpt *ckpt = NULL;
	size_t len;
	uint8_t *meta;
	char as[64];

	for (int i = 0; i < 50; i++)
		for (int k = 0; k < 20; k++) {
			snprintf(as, sizeof(as), "step-%d/__%d_0.distcp", i, k);
			add(as, "x", 1);
		}
	begin(4);
	ck_assert_int_eq(sf_ckpt_load(store, NULL, &ckpt, &err), -ENOENT);
	ck_assert_uint_eq(far.lists, 1);
	end();

	meta = file_at("dcp/ranklocal/ckpt/__0.metadata", &len);
	add("__0.metadata", meta, len);
	add("step-1/a", "1", 1);
	add("step-1/b", "2", 1);
	begin(4);
	ck_assert_msg(sf_ckpt_load(store, NULL, &ckpt, &err) == 0, "%s", err.msg);
	ck_assert_uint_eq(ckpt->nlisting, 3);
	ck_assert_uint_eq(far.lists, 1 + 2);
	sf_ckpt_free(ckpt);
	end();
	free(meta);
}
END_TEST

/* Of directories that no format knows the newest are looked into, whatever lies in them, unless there
 * is a checkpoint here: that shows all. */
START_TEST(what_is_in_directories_is_listed_as_far_as_it_is_needed)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_ckpt *ckpt = NULL;
	uint8_t *meta;
	size_t len;
	char as[64];

	/* a bucket of other things */
	for (int i = 0; i < 200; i++)
		for (int k = 0; k < 4; k++) {
			snprintf(as, sizeof(as), "data%03d/%d.jpg", i, k);
			add(as, "x", 1);
		}
	begin(4);
	ck_assert_int_eq(sf_ckpt_load(store, NULL, &ckpt, &err), -ENOENT);
	ck_assert_uint_eq(far.lists, 1 + 7 + 65);
	end();

	/* runs under names of their own, beside other things: the newest are told */
	meta = file_at("dcp/ranklocal/ckpt/__0.metadata", &len);
	for (int i = 0; i < 100; i++) {
		snprintf(as, sizeof(as), "mine%d/.metadata", i);
		add(as, meta, len);
	}
	begin(4);
	ck_assert_int_eq(sf_ckpt_load(store, NULL, &ckpt, &err), -ENOENT);
	ck_assert_msg(strstr(err.msg, "mine99"), "%s", err.msg); /* no name of our store opens */
	end();

	/* a checkpoint: what lies beside it is shown, too */
	add("__0.metadata", meta, len);
	for (int i = 0; i < 100; i++) {
		snprintf(as, sizeof(as), "notes%d/a", i);
		add(as, "1", 1);
	}
	begin(4);
	ck_assert_msg(sf_ckpt_load(store, NULL, &ckpt, &err) == 0, "%s", err.msg);
	ck_assert_uint_eq(ckpt->nlisting, 101);
	ck_assert_uint_eq(far.lists, 1 + 7 + 1 + 100);
	sf_ckpt_free(ckpt);
	end();

	/* what a format knows by name is looked into at once */
	for (int i = 0; i < 100; i++) {
		snprintf(as, sizeof(as), "a%02d/b", i);
		add(as, "1", 1);
	}
	add("model/__0.metadata", meta, len);
	begin(4);
	int r = sf_ckpt_load(store, NULL, &ckpt, &err);
	ck_assert_msg(r == 0, "%s", err.msg);
	ck_assert_uint_eq(far.lists, 1 + 7 + 1 + 1 + 101);
	sf_ckpt_free(ckpt);
	end();
	free(meta);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("far_loads");
	TCase *t = tcase_create("far_loads");

	tcase_set_timeout(t, 300);
	tcase_add_test(t, metadata_of_many_ranks_is_asked_for_side_by_side);
	tcase_add_test(t, headers_of_many_files_are_asked_for_side_by_side);
	tcase_add_loop_test(t, a_load_opens_nothing_that_was_not_listed, 0, 8);
	tcase_add_test(t, one_failure_is_no_others);
	tcase_add_test(t, steps_of_a_run_are_not_listed);
	tcase_add_test(t, what_is_in_directories_is_listed_as_far_as_it_is_needed);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return sf_test_main(suite());
}
