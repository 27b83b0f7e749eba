#include "config.h"

#include <string.h>

#include "tests/lib/far_world.h"
#include "value/object.h"

/* Items that are taken whole, or whose header is not theirs alone, from a server: no request and no
 * round trip that is not needed. */

static const struct sf_source_hints hints = {
	.range_max = UINT64_C(4) << 20, .gap_max = 65536, .head_guess = 2048, .inflight = 64
};

/* Nothing was seen yet. */
static void anew(void)
{
	sf_reader_free(reader);
	ck_assert_int_eq(sf_reader_new(f.ckpt, store, &reader, NULL), 0);
	sf_far_forget(&far);
}

static void read_tensor(uint32_t i, uint64_t off, uint64_t len)
{
	struct sf_error err = SF_ERROR_INIT;
	uint8_t *got = malloc(len);

	ck_assert_msg(sf_read_tensor(reader, i, off, got, len, &err) == 0, "%s", err.msg);
	ck_assert_mem_eq(got, f.t[i].dense + off, len);
	free(got);
}

static int one_item(void *arg, uint32_t object, const uint8_t *item, uint64_t len,
                    struct sf_error *err)
{
	ck_assert_uint_eq(len, f.o[object].len);
	ck_assert_mem_eq(item, f.o[object].at, len);
	*(unsigned *)arg += 1;
	return 0;
}

static int one_value(void *arg, uint32_t object, struct sf_object_value *v, struct sf_error *err)
{
	ck_assert_uint_eq(v->root->str.len, f.o[object].len);
	*(unsigned *)arg += 1;
	return 0;
}

/* Plain or compressed: its stored length is known, so it is asked for whole. */
START_TEST(an_object_is_one_request)
{
	unsigned seen = 0;

	fake_begin(&f, sf_test_seed("object_is_one_request"));
	for (unsigned i = 0; i < FAKE_OBJECTS; i++)
		fake_object(&f, i);
	begin((struct sf_far){ .hints = hints });
	for (uint32_t i = 0; i < FAKE_OBJECTS; i++) {
		anew();
		ck_assert_int_eq(sf_read_objects(reader, &i, 1, 1 << 20, one_item, &seen, NULL), 0);
		ck_assert_uint_eq(far.requests, 1);
		anew();
		ck_assert_int_eq(sf_objects_load(reader, &i, 1, one_value, &seen, NULL), 0);
		ck_assert_uint_eq(far.requests, 1);
	}
	ck_assert_uint_eq(seen, 2 * FAKE_OBJECTS);
	ck_assert_uint_eq(far.blind_opens, 0);
	end();
}
END_TEST

/* As many requests as it has items, all in one round. */
START_TEST(compressed_items_are_one_round_trip)
{
	const uint64_t shape[2] = { 8, 100000 };

	fake_begin(&f, 9);
	f.ntensors = 1;
	fake_tensor(&f, 0, FAKE_ZSTD, shape, 2, SF_INT8);
	begin((struct sf_far){ .hints = hints });
	ck_assert_uint_gt(f.ckpt->tensor[0].nchunks, 1);
	read_tensor(0, 0, f.t[0].bytes);
	ck_assert_uint_eq(far.requests, f.ckpt->tensor[0].nchunks);
	ck_assert_uint_eq(far.rounds, 1);
	end();
}
END_TEST

static int emit_box(void *arg, uint64_t off, uint64_t len, struct sf_parts *p, struct sf_error *err)
{
	return sf_parts_box(p, 0, arg, SF_DTYPE_NONE);
}

/* Rows from the middle of a tensor that was never seen, to places apart: its headers and the rows
 * come together. */
START_TEST(a_box_of_unseen_items_is_one_round_trip)
{
	const uint64_t shape[2] = { 1000, 3000 }, origin[2] = { 700, 0 }, extent[2] = { 10, 3000 };
	const int64_t stride[2] = { 4000, 1 };
	uint8_t *got = calloc(10, 4000);
	struct sf_read_box box = {
		.origin = origin, .extent = extent, .at = got, .stride = stride
	};
	struct sf_read rd = { .emit = emit_box, .arg = &box, .len = 30000 };

	fake_begin(&f, 9);
	f.ntensors = 1;
	fake_tensor(&f, 0, FAKE_TORCH, shape, 2, SF_INT8);
	begin((struct sf_far){ .hints = hints });
	ck_assert_msg(sf_read_wait(reader, &rd) == 0, "%s", rd.err.msg);
	for (int i = 0; i < 10; i++)
		ck_assert_mem_eq(got + i * 4000, f.t[0].dense + (700 + i) * 3000, 3000);
	ck_assert_uint_eq(far.rounds, 1);
	sf_read_release(&rd);
	free(got);
	end();
}
END_TEST

/* Tensors of so many bytes each in one blob, at the beginning of the first file. */
static void one_blob(unsigned n, uint64_t bytes)
{
	struct sf_buf json = { 0 };
	uint32_t number, place;
	uint8_t len[8];
	char name[32];

	fake_begin(&f, 5);
	f.ntensors = n;
	ck_assert_int_ge(sf_ckpt_builder_place(f.b, f.name[0], strlen(f.name[0]), SF_ITEM_ST_BLOB,
	                                       SF_CODEC_NONE, &place, NULL),
	                 0);
	for (unsigned i = 0; i < n; i++) {
		const uint64_t zero = 0;
		snprintf(name, sizeof(name), "t%u", i);
		f.t[i].bytes = bytes;
		f.t[i].dense = malloc(bytes);
		for (uint64_t k = 0; k < bytes; k++)
			f.t[i].dense[k] = (uint8_t)sf_test_rand(&f.seed);
		ck_assert_int_ge(sf_ckpt_builder_tensor(f.b, name, strlen(name), SF_INT8, &bytes, 1,
		                                        &number, NULL),
		                 0);
		ck_assert_int_ge(sf_ckpt_builder_chunk(f.b, &zero, &bytes, NULL), 0);
		sf_ckpt_builder_set_item(f.b, number, 0, place, 0, bytes);
		sf_buf_str(&json, i ? "," : "{");
		sf_st_put_entry(&json, name, strlen(name), SF_INT8, &bytes, 1, i * bytes,
		                (i + 1) * bytes);
	}
	sf_buf_str(&json, "}");
	while (json.len % 8)
		sf_buf_byte(&json, ' ');
	sf_put_le64(len, json.len);
	sf_buf_add(&f.file[0], len, 8);
	sf_buf_add(&f.file[0], json.at, json.len);
	for (unsigned i = 0; i < n; i++)
		sf_buf_add(&f.file[0], f.t[i].dense, bytes);
	sf_buf_release(&json);
}

/* A blob of one tensor: what is wanted of it comes with its header. */
START_TEST(a_blob_of_one_tensor_is_one_request)
{
	const uint64_t bytes = 3000000;

	one_blob(1, bytes);
	begin((struct sf_far){ .hints = hints });
	read_tensor(0, 0, bytes);
	ck_assert_uint_eq(far.requests, 1);
	anew();
	read_tensor(0, 0, 100000); /* its beginning */
	ck_assert_uint_eq(far.requests, 1);
	ck_assert_uint_lt(far.bytes, 101000);
	anew();
	read_tensor(0, 1000000, 100000); /* further back: the header does alone, then those */
	ck_assert_uint_eq(far.requests, 2);
	ck_assert_uint_lt(far.bytes, 100000 + 65536 + 1);
	end();
}
END_TEST

/* A small blob of several: the first read has all of it, the next ones have nothing to ask for. */
START_TEST(a_small_blob_is_one_request)
{
	one_blob(20, 5000);
	begin((struct sf_far){ .hints = hints });
	for (uint32_t i = 0; i < 20; i++) {
		read_tensor(19 - i, 0, 5000);
		ck_assert_uint_eq(far.requests, 1);
	}
	ck_assert_uint_eq(far.bytes, f.file[0].len);
	end();
}
END_TEST

/* Of a large one the header is asked for once. One request takes no more than the server says. */
START_TEST(a_large_blob_has_its_header_asked_for_once)
{
	const struct sf_source_hints narrow = {
		.range_max = 100000, .gap_max = 65536, .head_guess = 2048, .inflight = 64
	};

	one_blob(20, 50000);
	begin((struct sf_far){ .hints = hints });
	for (uint32_t i = 0; i < 20; i++)
		read_tensor(i, 0, 50000);
	ck_assert_uint_eq(far.requests, 21);
	ck_assert_uint_le(far.bytes, 20 * 50000 + 65536);
	end();
	one_blob(1, 150000);
	begin((struct sf_far){ .hints = narrow });
	read_tensor(0, 0, 150000);
	ck_assert_uint_eq(far.requests, 3);
	end();
}
END_TEST

/* A file costs nothing to ask again: nothing is asked ahead. */
START_TEST(of_a_file_the_header_comes_alone)
{
	one_blob(1, 300000);
	begin((struct sf_far){ .hints = sf_hints_local });
	read_tensor(0, 0, 300000);
	ck_assert_uint_eq(io.counters.fetched_bytes[SF_FETCH_HEADER], 65536);
	ck_assert_uint_eq(io.counters.fetched_bytes[SF_FETCH_TENSOR], 300000);
	end();
}
END_TEST

/* What came with the header counts, until it is let go; where there is little memory the header
 * comes alone. */
START_TEST(what_comes_along_is_of_the_budget)
{
	struct sf_budget_stat stat;

	one_blob(1, 1000000);
	begin((struct sf_far){ .hints = hints });
	read_tensor(0, 0, 1000000);
	ck_assert_uint_eq(far.requests, 1);
	sf_budget_stat(io.budget, &stat);
	ck_assert_uint_ge(stat.held, 1000000);
	anew();
	sf_budget_stat(io.budget, &stat);
	ck_assert_uint_lt(stat.held, 1000000);
	sf_budget_set_limit(io.budget, UINT64_C(2) << 20);
	read_tensor(0, 0, 1000000);
	ck_assert_uint_eq(far.requests, 2);
	end();
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("far_whole");
	TCase *t = tcase_create("far_whole");

	tcase_set_timeout(t, 300);
	tcase_add_test(t, an_object_is_one_request);
	tcase_add_test(t, compressed_items_are_one_round_trip);
	tcase_add_test(t, a_box_of_unseen_items_is_one_round_trip);
	tcase_add_test(t, a_blob_of_one_tensor_is_one_request);
	tcase_add_test(t, a_small_blob_is_one_request);
	tcase_add_test(t, a_large_blob_has_its_header_asked_for_once);
	tcase_add_test(t, of_a_file_the_header_comes_alone);
	tcase_add_test(t, what_comes_along_is_of_the_budget);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return sf_test_main(suite());
}
