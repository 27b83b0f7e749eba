#include "config.h"

#include "tests/lib/pt_read_back.h"

START_TEST(objects_are_embedded_and_their_tensors_keep_sharing)
{
	struct sf_error err = SF_ERROR_INIT;
	struct world w;
	struct sf_vfile *f;
	struct read_back rb;
	struct sf_torch_tensor a, b, c;
	uint64_t size;

	object_world(&w);
	world_open(&w);
	f = make(&w, &(struct sf_selection){ .entry = w.all, .n = w.n });
	ck_assert_int_eq(sf_vfile_size(f, &size),
	                 -EAGAIN); /* objects are read at the first getattr, not when made */
	read_back(f, &rb);
	ck_assert_int_eq(must_walk(rb.root, &w.key[1])->i, 42);
	check_stored(&w, &rb, walk(rb.root, w.key[0].path, 1), &w.key[0]);
	check_stored(&w, &rb, walk(rb.root, w.key[4].path, 1), &w.key[4]);

	const struct sf_pv *three = must_walk(rb.root, &w.key[2]);
	ck_assert_int_eq(three->kind, SF_PV_TUPLE);
	ck_assert_int_eq(sf_torch_tensor_from_pv(three->seq.at[0], &a, &err), 1);
	ck_assert_int_eq(sf_torch_tensor_from_pv(three->seq.at[1], &b, &err), 1);
	ck_assert_int_eq(sf_torch_tensor_from_pv(three->seq.at[2], &c, &err), 1);
	ck_assert(sf_pv_is_str(a.storage_key, "1") && sf_pv_is_str(b.storage_key, "1") &&
	          sf_pv_is_str(c.storage_key, "2"));
	ck_assert_uint_eq(b.storage_off, 1);
	ck_assert_mem_eq(record(&rb, sf_zip_find(&rb.dir, "data/1")),
	                 ((const float[]){ 1, 2, 3, 4 }), 16);
	ck_assert_mem_eq(record(&rb, sf_zip_find(&rb.dir, "data/2")), ((const float[]){ 5, 6 }), 8);

	/* what is not whole is left out, the rest is there: the list's hole is None */
	ck_assert_ptr_null(walk(rb.root, w.key[7].path, 1));
	ck_assert_int_eq(must_walk(rb.root, &w.key[5])->kind, SF_PV_NONE);
	ck_assert_int_eq(must_walk(rb.root, &w.key[6])->i, 42);
	const struct sf_pv *raw = must_walk(rb.root, &w.key[8]);
	ck_assert(raw->kind == SF_PV_CALL && sf_pv_is_global(raw->call.callable, "_io", "BytesIO"));
	ck_assert_uint_eq(atomic_load(&w.io.counters.errors), 2);
	release(&rb);
	sf_vfile_unref(f);
	world_close(&w);
}
END_TEST

START_TEST(the_policy_on_objects_drops_what_it_says)
{
	for (enum sf_objects_policy policy = SF_OBJECTS_PLAIN; policy <= SF_OBJECTS_NONE;
	     policy++) {
		struct world w;
		struct sf_vfile *f;
		struct read_back rb;
		bool plain = policy == SF_OBJECTS_PLAIN;
		object_world(&w);
		w.opt.objects = policy;
		world_open(&w);
		open_all(&w, (struct sf_selection){ 0 }, &f, &rb);
		ck_assert_int_eq(walk(rb.root, w.key[1].path, 1) != NULL, plain); /* o */
		ck_assert_ptr_null(walk(rb.root, w.key[3].path, 1));              /* deque */
		ck_assert_ptr_null(walk(rb.root, w.key[8].path, 1));              /* raw */
		check_stored(&w, &rb, walk(rb.root, w.key[4].path, 1), &w.key[4]);
		ck_assert_uint_eq(rb.dir.n, 3 + (plain ? 4 : 2));
		release(&rb);
		sf_vfile_unref(f);
		world_close(&w);
	}
}
END_TEST

START_TEST(a_bare_file_of_an_object_that_is_not_whole_is_an_error_that_names_it)
{
	struct sf_error err = SF_ERROR_INIT;
	struct world w;
	struct sf_vfile *f;
	struct read_back rb;

	object_world(&w);
	world_open(&w);
	f = make(&w, &(struct sf_selection){ .entry = &(uint32_t){ 7 }, .n = 1, .bare = true });
	ck_assert_int_eq(sf_vfile_prepare(f, &err), -EBADMSG);
	ck_assert_ptr_nonnull(strstr(err.msg, "'bad'"));
	sf_vfile_unref(f);
	f = make(&w, &(struct sf_selection){ .entry = &(uint32_t){ 1 }, .n = 1, .bare = true });
	read_back(f, &rb);
	ck_assert_int_eq(rb.root->i, 42);
	release(&rb);
	sf_vfile_unref(f);
	world_close(&w);
}
END_TEST

/* Bytes of objects at random: an object may go, the file and its tensors stay. */
START_TEST(damaged_objects_never_break_the_file_around_them)
{
	uint64_t seed = sf_test_seed("damaged_objects_never_break_the_file_around_them");

	for (unsigned round = 0; round < 300; round++) {
		struct world w;
		struct sf_vfile *f;
		struct read_back rb;
		object_world(&w);
		for (unsigned i = 0; i <= round % 8; i++) {
			const struct world_key *k = &w.key[1 + sf_test_below(&seed, 3)];
			w.data.at[k->off + sf_test_below(&seed, k->len)] =
				(uint8_t)sf_test_rand(&seed);
		}
		world_open(&w);
		open_all(&w, (struct sf_selection){ 0 }, &f, &rb);
		check_stored(&w, &rb, must_walk(rb.root, &w.key[0]), &w.key[0]);
		check_stored(&w, &rb, must_walk(rb.root, &w.key[4]), &w.key[4]);
		release(&rb);
		sf_vfile_unref(f);
		world_close(&w);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("view_pt_objects");
	TCase *tc = tcase_create("view_pt");

	tcase_add_test(tc, objects_are_embedded_and_their_tensors_keep_sharing);
	tcase_add_test(tc, the_policy_on_objects_drops_what_it_says);
	tcase_add_test(tc, a_bare_file_of_an_object_that_is_not_whole_is_an_error_that_names_it);
	tcase_add_test(tc, damaged_objects_never_break_the_file_around_them);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
