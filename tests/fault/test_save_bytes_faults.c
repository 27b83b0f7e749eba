/* Each allocation of what makes bytes for a save fails once: -ENOMEM with a message, nothing lost. */
#include "config.h"

#include <errno.h>
#include <string.h>

#include "base/arena.h"
#include "save/dcp_meta_write.h"
#include "save/save_item_bytes.h"
#include "save/save_values.h"
#include "tests/fuzz/fz_malloc.h"
#include "tests/lib/sf_test.h"

/* Runs @step until none of its allocations failed; it returns what it made or why not, with a message. */
static void torture(int (*step)(struct sf_error *err), int least)
{
	long n = 0, failed;

	do {
		struct sf_error err = SF_ERROR_INIT;
		fz_malloc_fails(n++, false);
		int r = step(&err);
		failed = fz_malloc_fails(-1, false);
		ck_assert_msg(r == (failed ? -ENOMEM : 0), "allocation %ld: %d, %s", n - 1, r,
		              err.msg);
		ck_assert_int_eq(err.msg[0] != '\0', r < 0);
	} while (failed);
	ck_assert_int_ge(n, least);
}

/* Wide enough that arena, map and vectors grow. */
static int json(struct sf_error *err)
{
	static char text[20000];
	struct shardfuse_values *vs;
	struct shardfuse_value *v;
	size_t len = 0;
	int r;

	for (int i = 0; i < 1000; i++)
		len += (size_t)sprintf(text + len, "%c\"key%d\":[1.5]", i ? ',' : '{', i);
	text[len++] = '}';
	vs = shardfuse_values_new();
	if (!vs)
		return sf_fail(err, -ENOMEM, "no memory for values");
	r = sf_save_value_json(vs, text, len, &v, err);
	shardfuse_values_free(vs);
	return r;
}

START_TEST(json_is_told)
{
	torture(json, 10);
}
END_TEST

/* One check at the end is enough. */
static int built(struct sf_error *err)
{
	struct shardfuse_values *vs = shardfuse_values_new();
	struct shardfuse_value *dict = shardfuse_value_dict(vs), *list = shardfuse_value_list(vs);
	const uint64_t dim[2] = { 2, 3 };
	struct sf_buf out = { 0 };
	int r = shardfuse_value_set(dict, shardfuse_value_str(vs, "list", 4), list);

	for (int i = 0; i < 300 && r == 0; i++)
		r = shardfuse_value_append(list, shardfuse_value_int(vs, i));
	if (r == 0)
		r = shardfuse_value_set(dict, shardfuse_value_bytes(vs, "b", 1),
		                        shardfuse_value_size(vs, dim, 2));
	if (r == 0)
		r = shardfuse_value_set(dict, shardfuse_value_none(vs),
		                        shardfuse_value_dtype(vs, "int8"));
	if (r < 0)
		sf_fail(err, r, "no memory for values");
	else
		r = sf_save_object_item(sf_save_value_tree(dict), &out, err);
	if (r == 0)
		r = sf_save_object_check(out.at, out.len, err);
	sf_buf_release(&out);
	shardfuse_values_free(vs);
	return r;
}

START_TEST(builders_and_objects_are_told)
{
	torture(built, 20);
}
END_TEST

static int tensor(struct sf_error *err)
{
	const uint64_t extent[2] = { 2, 3 };
	struct sf_save_tensor_item t = {
		.dtype = SF_FLOAT32, .ndim = 2, .extent = extent, .bytes = 24
	};
	struct sf_buf head = { 0 }, tail = { 0 };
	int r = sf_save_tensor_item_plan(&t, err);

	if (r == 0) {
		r = sf_save_tensor_item_head(&t, 1, &head);
		if (r == 0)
			r = sf_save_tensor_item_tail(&t, 1, &tail);
		if (r == 0 && (head.len != t.head_len || tail.len != t.tail_len))
			r = -EBADMSG; /* Check's own assertions allocate */
		if (r < 0)
			sf_fail(err, r, "an item's bytes");
	}
	sf_buf_release(&head);
	sf_buf_release(&tail);
	return r;
}

START_TEST(items_are_told)
{
	torture(tensor, 5);
}
END_TEST

static int nowhere(void *arg, const void *at, size_t len, struct sf_error *err)
{
	(void)arg, (void)at, (void)len, (void)err;
	return 0;
}

static int metadata(struct sf_error *err)
{
	enum { N = 200 };
	static char name[N][24], step[N][24], large[2 << 20];
	static struct shardfuse_save_step path[N];
	static struct sf_global_key key[N];
	static uint64_t off[N], len[N];
	static uint32_t rank[N], file[N];
	const struct sf_dcp_meta_options opt = { .storage_info_module = "a.b" };
	struct sf_global_plan g = { .nranks = 1,
		                    .key = key,
		                    .nkeys = N,
		                    .nchunks = N,
		                    .rank = rank,
		                    .file = file,
		                    .off = off,
		                    .len = len };

	memset(large, 'x', sizeof(large));
	for (unsigned i = 0; i < N; i++) {
		key[i] = (struct sf_global_key){ .key = name[i],
			                         .key_len = (uint32_t)sprintf(name[i], "%u\xff", i),
			                         .kind = SF_SAVE_OBJECT,
			                         .npath = 1,
			                         .path = &path[i],
			                         .first = i,
			                         .nchunks = 1 };
		sprintf(step[i], "step%u", i);
		path[i].name = step[i];
		file[i] = i;
	}
	key[N / 2].key = large;
	key[N / 2].key_len = sizeof(large);
	return sf_dcp_meta_write(&g, &opt, nowhere, NULL, err);
}

START_TEST(metadata_is_told)
{
	torture(metadata, 8);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("save_bytes_faults");
	TCase *t = tcase_create("all");

	tcase_add_test(t, json_is_told);
	tcase_add_test(t, builders_and_objects_are_told);
	tcase_add_test(t, items_are_told);
	tcase_add_test(t, metadata_is_told);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
