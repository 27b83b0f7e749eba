#include "config.h"

#include <string.h>

#include "save/save_item.h"
#include "tests/lib/sf_test.h"

static struct sf_save_items items;
static struct sf_error err;

START_TEST(the_same_value_has_the_same_hash)
{
	struct shardfuse_save_object o = SHARDFUSE_INIT(o);

	ck_assert_int_eq(sf_save_items_init(&items, &err), 0);
	o.key = "a";
	o.json = "{\"lr\": 0.5, \"betas\": [0.9, 0.99]}";
	ck_assert_msg(sf_save_items_object(&items, &o, &err) == 0, "%s", err.msg);
	o.key = "b";
	ck_assert_int_eq(sf_save_items_object(&items, &o, &err), 0);
	o.key = "c";
	o.json = "{\"lr\": 0.25, \"betas\": [0.9, 0.99]}";
	ck_assert_int_eq(sf_save_items_object(&items, &o, &err), 0);
	ck_assert_uint_eq(items.item.at[0].hash, items.item.at[1].hash);
	ck_assert_uint_ne(items.item.at[0].hash, items.item.at[2].hash);
	ck_assert_uint_eq(items.item.at[0].stored, items.item.at[0].bytes);

	o = (struct shardfuse_save_object){ .struct_size = sizeof(o), .key = "d" };
	o.at = items.item.at[0].archive;
	o.len = items.item.at[0].bytes;
	ck_assert_msg(sf_save_items_object(&items, &o, &err) == 0, "%s", err.msg);
	ck_assert_uint_eq(items.item.at[3].hash, items.item.at[0].hash);
	ck_assert_int_eq(sf_save_items_object(&items, &o, &err), -EINVAL);
	ck_assert_str_eq(err.msg, "object 'd' is added twice");
	sf_save_items_release(&items);
}
END_TEST

START_TEST(what_is_no_object_is_refused)
{
	struct shardfuse_save_object o = SHARDFUSE_INIT(o);

	ck_assert_int_eq(sf_save_items_init(&items, &err), 0);
	o.key = "a";
	ck_assert_int_eq(sf_save_items_object(&items, &o, &err), -EINVAL);
	ck_assert_str_eq(err.msg, "object 'a': one of value, json and at is to be given, not 0");
	o.json = "{";
	ck_assert_int_eq(sf_save_items_object(&items, &o, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.msg, "object 'a': "));
	o.json = NULL;
	o.at = "PK";
	o.len = 2;
	ck_assert_int_eq(sf_save_items_object(&items, &o, &err), -EBADMSG);
	ck_assert_uint_eq(items.item.n, 0);
	sf_save_items_release(&items);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("save_item_object");
	TCase *t = tcase_create("save_item_object");

	tcase_add_test(t, the_same_value_has_the_same_hash);
	tcase_add_test(t, what_is_no_object_is_refused);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return sf_test_main(suite());
}
