#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "parse/safetensors.h"
#include "tests/lib/sf_test.h"
#include "tests/lib/file_range.h"

enum { MAX = 60 };
#define METADATA "{\"format\":\"pt\",\"by\":\"a test\"}"

/* A writer that has its tensors in memory, or says only how large they are. */
struct writer {
	struct sf_st_file plan;
	uint32_t tensor[MAX];
	struct sf_st_part part[MAX];
	char name[MAX][32];
	uint64_t shape[MAX][3];
	const uint8_t *data[MAX];
	struct sf_buf out;
	uint64_t payload; /* bytes that were asked for where there is no data */
	size_t calls, fail_at;
};

static struct sf_st_part part_of(const void *arg, uint32_t number)
{
	return ((const struct writer *)arg)->part[number];
}

static int put_bytes(void *arg, const void *at, size_t len)
{
	struct writer *w = arg;

	sf_buf_add(&w->out, at, len);
	return ++w->calls == w->fail_at ? -EIO : sf_buf_check(&w->out);
}

static int put_payload(void *arg, uint32_t number, uint64_t off, uint64_t len)
{
	struct writer *w = arg;

	ck_assert_uint_lt(number, w->plan.n);
	ck_assert_uint_le(off + len, w->part[number].bytes);
	if (w->data[number])
		return put_bytes(w, w->data[number] + off, len);
	w->payload += len;
	return 0;
}

static int range(struct writer *w, uint64_t off, uint64_t len)
{
	const struct sf_st_file_sink to = { put_bytes, put_payload, w };

	w->calls = 0;
	w->payload = 0;
	sf_buf_reset(&w->out);
	return st_file_range(&w->plan, off, len, &to);
}

static int plan(struct writer *w, uint32_t n, struct sf_error *err)
{
	w->plan = (struct sf_st_file){ .part = part_of, .arg = w, .tensor = w->tensor, .n = n };
	for (uint32_t i = 0; i < n; i++)
		w->tensor[i] = i;
	return sf_st_file_plan(&w->plan, METADATA, strlen(METADATA), err);
}

static void drop(struct writer *w)
{
	sf_st_file_release(&w->plan);
	sf_buf_release(&w->out);
}

static void two_tensors(struct writer *w)
{
	static const uint64_t a[] = { 3 }, b[] = { 2, 2 };
	static const uint8_t bytes[3] = { 1, 2, 3 };
	static const float floats[4] = { 0, 1, 2, 3 };
	struct sf_error err = SF_ERROR_INIT;

	w->part[0] = (struct sf_st_part){ "a", 1, a, sizeof(bytes), SF_UINT8, 1 };
	w->part[1] = (struct sf_st_part){ "b", 1, b, sizeof(floats), SF_FLOAT32, 2 };
	w->data[0] = bytes;
	w->data[1] = (const uint8_t *)floats;
	ck_assert_msg(plan(w, 2, &err) == 0, "%s", err.msg);
}

START_TEST(two_tensors_in_memory_become_a_file)
{
	static const char head[] =
		"{\"__metadata__\":" METADATA ","
		"\"b\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]},"
		"\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[16,19]}}";
	struct writer w = { 0 };

	two_tensors(&w);
	uint64_t size = sf_st_file_size(&w.plan), first = 8 + (strlen(head) + 7) / 8 * 8;
	ck_assert_int_eq(range(&w, 0, size), 0);
	ck_assert_uint_eq(w.out.len, size);
	ck_assert_uint_eq(size, first + 19);
	ck_assert_uint_eq(sf_le64(w.out.at), first - 8);
	ck_assert_mem_eq(w.out.at + 8, head, strlen(head));
	for (uint64_t i = 8 + strlen(head); i < first; i++)
		ck_assert_int_eq(w.out.at[i], ' ');
	ck_assert_mem_eq(w.out.at + first, w.data[1], 16);
	ck_assert_mem_eq(w.out.at + first + 16, w.data[0], 3);
	drop(&w);
}
END_TEST

START_TEST(any_range_is_that_of_the_file)
{
	uint64_t seed = sf_test_seed("any_range_is_that_of_the_file");
	struct writer w = { 0 };

	two_tensors(&w);
	uint64_t size = sf_st_file_size(&w.plan);
	ck_assert_int_eq(range(&w, 0, size), 0);
	uint8_t *whole = malloc(size);
	memcpy(whole, w.out.at, size);
	for (int i = 0; i < 3000; i++) {
		uint64_t off = sf_test_below(&seed, size),
			 len = sf_test_below(&seed, size - off + 1);
		ck_assert_int_eq(range(&w, off, len), 0);
		ck_assert_uint_eq(w.out.len, len);
		if (len)
			ck_assert_mem_eq(w.out.at, whole + off, len);
	}
	free(whole);
	drop(&w);
}
END_TEST

/* Random dtypes, names and sizes up to terabytes: the header reads back, large elements first, then
 * by name; whatever order the caller has. */
START_TEST(headers_read_back_in_order)
{
	uint64_t seed = sf_test_seed("headers_read_back_in_order");

	for (int round = 0; round < 200; round++) {
		struct writer w = { 0 };
		struct sf_arena arena = { 0 };
		struct sf_error err = SF_ERROR_INIT;
		struct sf_st_header h;
		uint32_t n = (uint32_t)sf_test_below(&seed, MAX + 1);
		uint64_t bytes = 0;
		for (uint32_t i = 0; i < n; i++) {
			struct sf_st_part *p = &w.part[i];
			const struct sf_dtype_info *info;
			do {
				p->dtype =
					(enum sf_dtype)(1 + sf_test_below(&seed, SF_NDTYPES - 1));
				info = sf_dtype_info(p->dtype);
			} while (!info->st_order || p->dtype == SF_F4_E2M1FN_X2);
			p->name_len = (size_t)snprintf(w.name[i], sizeof(w.name[i]), "%c%" PRIu32,
			                               (char)('a' + sf_test_below(&seed, 26)), i);
			p->name = w.name[i];
			p->ndim = (unsigned)sf_test_below(&seed, 4);
			p->shape = w.shape[i];
			p->bytes = info->bytes;
			for (unsigned d = 0; d < p->ndim; d++)
				p->bytes *= w.shape[i][d] = sf_test_below(&seed, 8000);
			bytes += p->bytes;
		}
		ck_assert_msg(plan(&w, n, &err) == 0, "%s", err.msg);
		uint64_t size = sf_st_file_size(&w.plan);
		ck_assert_int_eq(range(&w, 0, size), 0);
		ck_assert_uint_eq(w.payload, bytes);
		ck_assert_uint_eq(w.out.len + bytes, size);
		ck_assert_msg(sf_st_parse(w.out.at + 8, w.out.len - 8, &arena, &h, &err) == 0, "%s",
		              err.msg);
		ck_assert_uint_eq(h.n, n);
		ck_assert_uint_eq(h.data_off % 8, 0);
		ck_assert_uint_eq(h.data_off + bytes, size);
		for (uint32_t k = 0; k < n; k++) {
			const struct sf_st_part *p = &w.part[w.tensor[k]], *q;
			ck_assert_uint_eq(h.at[k].name_len, p->name_len);
			ck_assert_mem_eq(h.at[k].name, p->name, p->name_len);
			ck_assert_int_eq(h.at[k].dtype, p->dtype);
			ck_assert_uint_eq(h.at[k].end - h.at[k].begin, p->bytes);
			ck_assert_uint_eq(h.data_off + h.at[k].begin, w.plan.start[n + 2 + k]);
			if (k == 0)
				continue;
			q = &w.part[w.tensor[k - 1]];
			int a = sf_dtype_info(q->dtype)->st_order,
			    b = sf_dtype_info(p->dtype)->st_order;
			ck_assert(a > b || (a == b && strcmp(q->name, p->name) < 0));
		}
		sf_arena_release(&arena);
		drop(&w);
	}
}
END_TEST

START_TEST(what_no_file_can_hold_is_refused)
{
	static const uint64_t shape[] = { INT64_MAX };
	struct writer w = { 0 };
	struct sf_error err = SF_ERROR_INIT;

	w.part[0] = (struct sf_st_part){ "a", 1, shape, INT64_MAX - 200, SF_UINT8, 1 };
	ck_assert_int_eq(plan(&w, 1, &err), 0);
	sf_st_file_release(&w.plan);
	w.part[0].bytes = INT64_MAX;
	ck_assert_int_eq(plan(&w, 1, &err), -E2BIG);
	ck_assert_msg(strstr(err.msg, "1 tensors"), "%s", err.msg);
	sf_st_file_release(&w.plan);
	w.part[1] = w.part[0];
	w.part[1].name = "b";
	w.part[0].bytes = w.part[1].bytes = UINT64_MAX;
	ck_assert_int_eq(plan(&w, 2, &err), -E2BIG);
	sf_st_file_release(&w.plan);
	/* a header over the format's limit */
	char *name = malloc(SF_ST_HEADER_MAX);
	memset(name, 'x', SF_ST_HEADER_MAX);
	w.part[0] = (struct sf_st_part){ name, SF_ST_HEADER_MAX, shape, 8, SF_UINT8, 1 };
	ck_assert_int_eq(plan(&w, 1, &err), -E2BIG);
	free(name);
	drop(&w);
}
END_TEST

START_TEST(what_the_taker_says_ends_it)
{
	struct writer w = { 0 };

	two_tensors(&w);
	ck_assert_int_eq(range(&w, 0, sf_st_file_size(&w.plan)), 0);
	size_t n = w.calls;
	ck_assert_uint_eq(n, 6);
	for (w.fail_at = 1; w.fail_at <= n; w.fail_at++) {
		ck_assert_int_eq(range(&w, 0, sf_st_file_size(&w.plan)), -EIO);
		ck_assert_uint_eq(w.calls, w.fail_at);
	}
	drop(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("st_file_plan");
	TCase *t = tcase_create("all");

	tcase_add_test(t, two_tensors_in_memory_become_a_file);
	tcase_add_test(t, any_range_is_that_of_the_file);
	tcase_add_test(t, headers_read_back_in_order);
	tcase_add_test(t, what_no_file_can_hold_is_refused);
	tcase_add_test(t, what_the_taker_says_ends_it);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
