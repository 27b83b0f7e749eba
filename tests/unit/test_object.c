#include "config.h"

#include <malloc.h>
#include <string.h>

#include "pt_world.h"
#include "value/object.h"

#define PKL(s) s, sizeof(s) - 1

/* What was given to the callbacks, in their order: the object's value, or minus one and the
 * failure's code. */
struct seen {
	uint32_t object[WORLD_KEYS];
	int64_t value[WORLD_KEYS];
	int code[WORLD_KEYS];
	size_t n;
	const struct world *w;
};

static int take(void *arg, uint32_t object, struct sf_object_value *v, struct sf_error *err)
{
	struct seen *s = arg;

	s->object[s->n] = object;
	s->value[s->n] = v->root->kind == SF_PV_INT ? v->root->i : (int64_t)v->nstorages;
	s->code[s->n++] = 0;
	return 0;
}

static void failed(void *arg, uint32_t object, int code, const struct sf_error *why)
{
	struct seen *s = arg;

	ck_assert_ptr_nonnull(
		strstr(why->msg, s->w->ckpt->key[s->w->ckpt->object[object].key].name));
	s->object[s->n] = object;
	s->value[s->n] = -1;
	s->code[s->n++] = code;
}

/* An int object: "K" n. */
static struct world_key *add_int(struct world *w, uint8_t n)
{
	char path[16], pkl[] = "\x80\x02K?.";

	pkl[3] = (char)n;
	snprintf(path, sizeof(path), "o%u", w->n);
	return world_object(w, path, pkl, 5, NULL, 0);
}

START_TEST(values_come_in_the_order_that_was_asked_for)
{
	uint64_t seed = sf_test_seed("values_come_in_the_order_that_was_asked_for");
	struct sf_error err = SF_ERROR_INIT;
	static uint32_t ask[300];
	static struct seen s;
	struct world w;

	world_init(&w);
	for (uint32_t i = 0; i < SF_ARRAY_LEN(ask); i++) {
		add_int(&w, (uint8_t)i);
		ask[i] = i;
	}
	for (uint32_t i = SF_ARRAY_LEN(ask) - 1; i > 0; i--) {
		size_t j = sf_test_below(&seed, i + 1);
		uint32_t t = ask[i];
		ask[i] = ask[j];
		ask[j] = t;
	}
	world_open(&w);
	s = (struct seen){ .w = &w };
	ck_assert_msg(sf_objects_load(w.reader, ask, SF_ARRAY_LEN(ask), take, &s, &err) == 0, "%s",
	              err.msg);
	ck_assert_uint_eq(s.n, SF_ARRAY_LEN(ask));
	for (size_t i = 0; i < s.n; i++) {
		ck_assert_uint_eq(s.object[i], ask[i]);
		ck_assert_int_eq(s.value[i], (uint8_t)ask[i]);
	}
	world_close(&w);
}
END_TEST

static void damaged_world(struct world *w)
{
	world_init(w);
	add_int(w, 10);
	add_int(w, 11)->nowhere = true;
	world_object(w, "o2", PKL("\x80\x02K."), NULL, 0); /* the pickle ends inside an opcode */
	struct world_key *k = add_int(w, 13);
	w->data.len -= 30; /* the archive lost its end */
	k->len -= 30;
	add_int(w, 14);
}

START_TEST(an_object_that_is_not_whole_is_told_in_its_turn_and_the_rest_comes)
{
	const uint32_t ask[] = { 0, 1, 2, 3, 4 };
	struct sf_error err = SF_ERROR_INIT;
	static struct seen s;
	struct world w;

	damaged_world(&w);
	world_open(&w);
	s = (struct seen){ .w = &w };
	ck_assert_msg(sf_objects_load_whole(w.reader, ask, 5, take, failed, &s, &err) == 0, "%s",
	              err.msg);
	ck_assert_uint_eq(s.n, 5);
	for (size_t i = 0; i < s.n; i++)
		ck_assert_uint_eq(s.object[i], i);
	ck_assert(s.value[0] == 10 && s.value[4] == 14);
	ck_assert(s.code[1] == -ENODATA && s.code[2] == -EBADMSG && s.code[3] == -EBADMSG);
	world_close(&w);
}
END_TEST

START_TEST(a_load_that_wants_all_ends_at_the_first_and_names_its_key)
{
	const uint32_t ask[] = { 0, 2, 4 };
	struct sf_error err = SF_ERROR_INIT;
	static struct seen s;
	struct world w;

	damaged_world(&w);
	world_open(&w);
	s = (struct seen){ .w = &w };
	ck_assert_int_eq(sf_objects_load(w.reader, ask, 3, take, &s, &err), -EBADMSG);
	ck_assert_uint_eq(s.n, 1);
	ck_assert_ptr_nonnull(strstr(err.msg, "'o2'"));
	world_close(&w);
}
END_TEST

static int check_storages(void *arg, uint32_t object, struct sf_object_value *v,
                          struct sf_error *err)
{
	const struct world *w = arg;
	static const char *const keys[] = { "0", "1", "10", "2" };

	ck_assert_uint_eq(v->nstorages, 4);
	for (unsigned i = 0; i < 4; i++) {
		const struct sf_torch_record *s =
			sf_object_storage_find(v, keys[i], strlen(keys[i]));
		ck_assert_ptr_nonnull(s);
		ck_assert_str_eq(s->key, keys[i]);
		ck_assert_mem_eq(w->data.at + w->key[object].off + s->off, keys[i], s->len);
	}
	ck_assert_ptr_null(sf_object_storage_find(v, "3", 1));
	ck_assert_ptr_null(sf_object_storage_find(v, "1", 0));
	ck_assert_ptr_null(sf_object_storage_find(v, "10", 3));
	return 0;
}

/* The second one is so large that only its pickle and directory are fetched. */
START_TEST(storages_are_found_in_small_and_large_items)
{
	const struct world_storage s[] = { { "archive/data/2", "2", 1 },
		                           { "archive/data/10", "10", 2 },
		                           { "archive/data/0", "0", 1 },
		                           { "archive/data/1", "1", 1 } };
	struct sf_error err = SF_ERROR_INIT;
	struct world w;
	size_t big = 3 << 20;
	char *pad = calloc(1, big);

	world_init(&w);
	world_object(&w, "small", PKL("\x80\x02N."), s, 4);
	struct world_storage more[5];
	memcpy(more, s, sizeof(s));
	more[4] = (struct world_storage){ "archive/padding", pad, big };
	world_object(&w, "large", PKL("\x80\x02N."), more, 5);
	world_open(&w);
	ck_assert_msg(sf_objects_load(w.reader, (const uint32_t[]){ 0, 1 }, 2, check_storages, &w,
	                              &err) == 0,
	              "%s", err.msg);
	ck_assert_uint_lt(atomic_load(&w.io.counters.fetched_bytes[SF_FETCH_OBJECT]), big);
	free(pad);
	world_close(&w);
}
END_TEST

static int check_raw(void *arg, uint32_t object, struct sf_object_value *v, struct sf_error *err)
{
	ck_assert(v->raw);
	ck_assert_int_eq(v->root->kind, SF_PV_BYTES);
	ck_assert_uint_eq(v->root->str.len, strlen(arg));
	ck_assert_mem_eq(v->root->str.at, arg, strlen(arg));
	return 0;
}

START_TEST(an_item_that_is_no_archive_is_its_bytes)
{
	struct sf_error err = SF_ERROR_INIT;
	char text[] = "P", longer[] = "not an archive";
	struct world w;

	world_init(&w);
	struct world_key *k = world_add(&w, "short");
	sf_buf_str(&w.data, text);
	k->len = strlen(text);
	k = world_add(&w, "longer");
	sf_buf_str(&w.data, longer);
	k->len = strlen(longer);
	world_open(&w);
	ck_assert_msg(sf_objects_load(w.reader, &(const uint32_t){ 0 }, 1, check_raw, text, &err) ==
	                      0,
	              "%s", err.msg);
	ck_assert_msg(
		sf_objects_load(w.reader, &(const uint32_t){ 1 }, 1, check_raw, longer, &err) == 0,
		"%s", err.msg);
	world_close(&w);
}
END_TEST

/* A list of @n empty lists: a byte each here, a hundred in memory. */
static void add_lists(struct world *w, const char *path, size_t n)
{
	struct sf_buf pkl = { 0 };

	sf_buf_str(&pkl, "\x80\x02](");
	memset(sf_buf_extend(&pkl, n), ']', n);
	sf_buf_str(&pkl, "e.");
	world_object(w, path, pkl.at, pkl.len, NULL, 0);
	sf_buf_release(&pkl);
}

static int check_memory(void *arg, uint32_t object, struct sf_object_value *v, struct sf_error *err)
{
	struct mallinfo2 m = mallinfo2();
	size_t *most = arg, now = m.uordblks + m.hblkhd;

	*most = SF_MAX(*most, now);
	return v->root->kind == SF_PV_LIST ? 0 : sf_fail(err, -EBADMSG, "no list");
}

/* Small items, and large ones that are read by ranges: what is held is the items and one's values. */
START_TEST(values_of_one_object_are_there_at_a_time)
{
	struct sf_error err = SF_ERROR_INIT;
	size_t small = 0, large = 0, before;
	uint32_t ask[18];
	struct world w;
	char path[16];

	world_init(&w);
	for (uint32_t i = 0; i < SF_ARRAY_LEN(ask); i++) {
		snprintf(path, sizeof(path), "o%u", i);
		add_lists(&w, path, i < 12 ? 200000 : 1100000);
		ask[i] = i;
	}
	world_open(&w);
	before = mallinfo2().uordblks + mallinfo2().hblkhd;
	ck_assert_msg(sf_objects_load(w.reader, ask, 12, check_memory, &small, &err) == 0, "%s",
	              err.msg);
	ck_assert_msg(sf_objects_load(w.reader, ask + 12, 6, check_memory, &large, &err) == 0, "%s",
	              err.msg);
	ck_assert_uint_lt(small - before, (size_t)64 << 20);
	ck_assert_uint_lt(large - before, (size_t)256 << 20);
	world_close(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("object");
	TCase *tc = tcase_create("object");

	tcase_add_test(tc, values_come_in_the_order_that_was_asked_for);
	tcase_add_test(tc, an_object_that_is_not_whole_is_told_in_its_turn_and_the_rest_comes);
	tcase_add_test(tc, a_load_that_wants_all_ends_at_the_first_and_names_its_key);
	tcase_add_test(tc, storages_are_found_in_small_and_large_items);
	tcase_add_test(tc, an_item_that_is_no_archive_is_its_bytes);
	tcase_add_test(tc, values_of_one_object_are_there_at_a_time);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
