#include "config.h"

#include "tests/lib/builder_world.h"

START_TEST(random_tensors_come_out_as_they_went_in)
{
	uint64_t seed = sf_test_seed("round_trip");
	static struct tc_tensor t;
	struct sf_chunk c;

	for (int round = 0; round < 200; round++) {
		tc_random(&t, &seed, (enum tc_kind)(round % TC_NKINDS), 300, true);
		struct sf_ckpt *ckpt = tc_ckpt(&t);
		const struct sf_tensor *st = &ckpt->tensor[0];

		ck_assert_uint_eq(ckpt->ntensors, 1);
		ck_assert_uint_eq(st->nchunks, t.n);
		ck_assert_uint_eq(ckpt->nchunks, t.n);
		ck_assert_uint_eq(st->bytes, t.numel * t.elem);
		ck_assert_mem_eq(st->shape, t.shape, t.ndim * sizeof(*t.shape));
		for (uint32_t i = 0; i < t.n; i++) {
			sf_tensor_chunk(st, i, &c);
			ck_assert_mem_eq(c.origin, t.chunk[i].origin, t.ndim * sizeof(*c.origin));
			ck_assert_mem_eq(c.extent, t.chunk[i].extent, t.ndim * sizeof(*c.extent));
			ck_assert_uint_eq(c.part_off, t.chunk[i].part_off);
			ck_assert_uint_eq(c.part_len, t.chunk[i].part_len);
			ck_assert_uint_eq(c.place, 0);
			ck_assert_uint_eq(c.off, 1000u * i);
		}
		/* order: every non-empty chunk once, by the first element it holds, then by number */
		uint32_t nonempty = 0;
		for (uint32_t i = 0; i < t.n; i++)
			nonempty += t.chunk[i].part_len > 0;
		ck_assert_uint_eq(st->norder, nonempty);
		for (uint32_t i = 0; i < st->nchunks; i++)
			ck_assert_int_eq(t.chunk[st->order[i]].part_len > 0, i < nonempty);
		for (uint32_t i = 1; i < nonempty; i++) {
			uint64_t a = 0, b = 0;
			while (tc_item_index(&t, &t.chunk[st->order[i - 1]], a) < 0)
				a++;
			while (tc_item_index(&t, &t.chunk[st->order[i]], b) < 0)
				b++;
			ck_assert(a < b || (a == b && st->order[i - 1] < st->order[i]));
		}
		sf_ckpt_free(ckpt);
	}
}
END_TEST

START_TEST(of_two_items_of_a_chunk_the_first_stays)
{
	const uint64_t shape[1] = { 4 }, zero[1] = { 0 };
	struct sf_ckpt_builder *b = new_builder();
	uint32_t id = add_tensor(b, "w", shape, 1), place = add_place(b, "f");

	ck_assert_int_eq(sf_ckpt_builder_chunk(b, zero, shape, &err), 0);
	sf_ckpt_builder_set_item(b, id, 0, place, 5, 6);
	sf_ckpt_builder_set_item(b, id, 0, place, 7, 8); /* a replica */
	struct sf_ckpt *ckpt = finish(b);
	ck_assert_uint_eq(ckpt->tensor[0].off[0], 5);
	ck_assert_uint_eq(ckpt->tensor[0].len[0], 6);
	sf_ckpt_free(ckpt);
}
END_TEST

START_TEST(wide_tensors_keep_64_bit_coordinates)
{
	const uint64_t shape[2] = { 3, UINT64_C(1) << 40 };
	struct sf_ckpt_builder *b = new_builder();
	struct sf_chunk c;

	add_tensor(b, "wide", shape, 2);
	ck_assert_int_eq(sf_ckpt_builder_chunk(b, (uint64_t[]){ 0, 0 },
	                                       (uint64_t[]){ 3, shape[1] - 5 }, &err),
	                 0);
	ck_assert_int_eq(sf_ckpt_builder_chunk(b, (uint64_t[]){ 0, shape[1] - 5 },
	                                       (uint64_t[]){ 3, 5 }, &err),
	                 0);
	struct sf_ckpt *ckpt = finish(b);
	ck_assert(ckpt->tensor[0].wide);
	ck_assert(ckpt->tensor[0].flags & SF_TENSOR_GRID);
	sf_tensor_chunk(&ckpt->tensor[0], 1, &c);
	ck_assert_uint_eq(c.origin[1], shape[1] - 5);
	sf_ckpt_free(ckpt);
}
END_TEST

START_TEST(what_contradicts_itself_is_refused_with_the_name_and_the_numbers)
{
	struct sf_ckpt_builder *b = new_builder();
	uint64_t huge[3] = { UINT64_C(1) << 32, UINT64_C(1) << 31, 3 },
		 many[SF_DIMS_MAX + 1] = { 0 }, ten = 10;
	uint32_t id;

	ck_assert_int_eq(sf_ckpt_builder_chunk(b, &ten, &ten, &err), -EBADMSG);
	ck_assert_int_eq(sf_ckpt_builder_part(b, 0, 0, &err), -EBADMSG);
	ck_assert_int_eq(sf_ckpt_builder_tensor(b, "big", 3, SF_FLOAT32, huge, 3, &id, &err),
	                 -EBADMSG);
	ck_assert_msg(strstr(err.msg, "'big'"), "%s", err.msg);
	ck_assert_int_eq(
		sf_ckpt_builder_tensor(b, "deep", 4, SF_FLOAT32, many, SF_DIMS_MAX + 1, &id, &err),
		-EBADMSG);
	ck_assert_int_eq(sf_ckpt_builder_tensor(b, "odd", 3, SF_DTYPE_NONE, many, 1, &id, &err),
	                 -EBADMSG);
	ck_assert_int_eq(
		sf_ckpt_builder_tensor(b, "odd", 3, (enum sf_dtype)SF_NDTYPES, many, 1, &id, &err),
		-EBADMSG);
	huge[1] = 0;
	ck_assert_int_eq(sf_ckpt_builder_tensor(b, "empty", 5, SF_FLOAT32, huge, 3, &id, &err),
	                 0); /* no element: no size */
	add_tensor(b, "w", &ten, 1);
	ck_assert_int_eq(sf_ckpt_builder_chunk(b, (uint64_t[]){ 8 }, (uint64_t[]){ 3 }, &err),
	                 -EBADMSG);
	ck_assert_msg(strstr(err.msg, "'w'") && strstr(err.msg, " 8,") && strstr(err.msg, " 3 ") &&
	                      strstr(err.msg, " 10"),
	              "%s", err.msg);
	ck_assert_int_eq(sf_ckpt_builder_chunk(b, (uint64_t[]){ 11 }, (uint64_t[]){ 0 }, &err),
	                 -EBADMSG);
	ck_assert_int_eq(
		sf_ckpt_builder_chunk(b, (uint64_t[]){ UINT64_MAX }, (uint64_t[]){ 2 }, &err),
		-EBADMSG);
	add_chunk(b, 0, 10);
	ck_assert_int_eq(sf_ckpt_builder_part(b, 5, 6, &err), -EBADMSG);
	ck_assert_int_eq(sf_ckpt_builder_part(b, UINT64_MAX, 2, &err), -EBADMSG);
	ck_assert_int_eq(sf_ckpt_builder_tensor(b, "w", 1, SF_FLOAT32, &ten, 1, &id, &err),
	                 -EBADMSG);
	ck_assert_int_eq(sf_ckpt_builder_object(b, "w", 1, &id, &err), -EBADMSG);
	ck_assert_msg(strstr(err.msg, "'w'"), "%s", err.msg);
	ck_assert_int_eq(
		sf_ckpt_builder_place(b, "../x", 4, SF_ITEM_TORCH, SF_CODEC_NONE, &id, &err),
		-EBADMSG);
	ck_assert_int_eq(sf_ckpt_builder_group(b, "nobody", 6, "g", SF_ROLE_MODEL, 1, &err),
	                 -EBADMSG);
	struct sf_ckpt *ckpt = finish(b); /* refusals leave it whole */
	ck_assert_uint_eq(ckpt->nkeys, 2);
	ck_assert_uint_eq(ckpt->tensor[1].nchunks, 1);
	ck_assert_uint_eq(ckpt->nwarnings, 1); /* w's item */
	sf_ckpt_free(ckpt);
}
END_TEST

START_TEST(names_may_be_empty_or_hold_any_byte_and_are_found)
{
	const struct {
		const char *at;
		size_t len;
	} name[] = { { "", 0 }, { "a\0b", 3 }, { "a", 1 }, { "\xff\n", 2 }, { "a.b.c", 5 } };
	struct sf_ckpt_builder *b = new_builder();
	bool is_tensor;
	uint64_t one = 1;
	uint32_t id;

	for (size_t i = 0; i < SF_ARRAY_LEN(name); i++)
		ck_assert_int_eq(
			i % 2 ? sf_ckpt_builder_object(b, name[i].at, name[i].len, &id, &err)
			      : sf_ckpt_builder_tensor(b, name[i].at, name[i].len, SF_INT8, &one, 1,
		                                       &id, &err),
			0);
	ck_assert_uint_eq(sf_ckpt_builder_find(b, "a\0b", 3, &is_tensor), 0);
	ck_assert(!is_tensor);
	ck_assert_uint_eq(sf_ckpt_builder_find(b, "a", 1, &is_tensor), 1);
	ck_assert(is_tensor);
	ck_assert_uint_eq(sf_ckpt_builder_find(b, "b", 1, &is_tensor), SF_NONE);
	struct sf_ckpt *ckpt = finish(b);
	for (uint32_t i = 0; i < SF_ARRAY_LEN(name); i++) {
		ck_assert_uint_eq(ckpt_find(ckpt, name[i].at, name[i].len), i);
		ck_assert_mem_eq(ckpt->key[i].name, name[i].at, name[i].len + 1);
		ck_assert_uint_eq(ckpt->key[i].npath, 1);
		ck_assert_ptr_eq(ckpt->key[i].path[0].s, ckpt->key[i].name);
		ck_assert_uint_eq(ckpt->key[i].path[0].len, name[i].len);
	}
	ck_assert_uint_eq(ckpt_find(ckpt, "a.b", 3), SF_NONE);
	sf_ckpt_free(ckpt);
}
END_TEST

START_TEST(paths_are_kept_whether_they_spell_the_name_or_not)
{
	const struct sf_path_elem same[] = { { "a.b", 3, 0 }, { "0", 1, 1 }, { "", 0, 0 } },
				  other[] = { { "x", 1, 0 }, { "a", 1, 0 } };
	struct sf_ckpt_builder *b = new_builder();
	uint64_t one = 1;
	char text[] = "x.y";
	struct sf_path_elem gone[] = { { text, 1, 0 }, { text + 2, 1, 0 } };

	add_tensor(b, "a.b.0.", &one, 1);
	add_tensor(b, "x.b", &one, 1);
	add_tensor(b, "x.y", &one, 1);
	ck_assert_int_eq(sf_ckpt_builder_path(b, "a.b.0.", 6, same, 3, &err), 0);
	ck_assert_int_eq(sf_ckpt_builder_path(b, "x.b", 3, other, 2, &err), 0);
	ck_assert_int_eq(sf_ckpt_builder_path(b, "x.y", 3, gone, 2, &err), 0);
	ck_assert_int_eq(sf_ckpt_builder_path(b, "none", 4, other, 2, &err), 1);
	memset(text, '?', sizeof(text));
	struct sf_ckpt *ckpt = finish(b);
	ck_assert_uint_eq(ckpt->key[0].npath, 3);
	for (int i = 0; i < 3; i++) {
		ck_assert_uint_eq(ckpt->key[0].path[i].len, same[i].len);
		ck_assert_uint_eq(ckpt->key[0].path[i].kind, same[i].kind);
		ck_assert_mem_eq(ckpt->key[0].path[i].s, same[i].s, same[i].len);
	}
	ck_assert_mem_eq(ckpt->key[1].path[1].s, "a", 1);
	ck_assert_mem_eq(ckpt->key[2].path[1].s, "y", 1);
	sf_ckpt_free(ckpt);
}
END_TEST

static int path_of_depth(struct sf_ckpt_builder *b, size_t n)
{
	static struct sf_path_elem path[1001];

	for (size_t i = 0; i < n; i++)
		path[i] = (struct sf_path_elem){ "e", 1, 0 };
	return sf_ckpt_builder_path(b, "w", 1, path, n, &err);
}

START_TEST(paths_end_at_a_thousand_elements)
{
	struct sf_ckpt_builder *b = new_builder();
	uint64_t one = 1;

	add_tensor(b, "w", &one, 1);
	ck_assert_int_eq(path_of_depth(b, 1001), -EBADMSG);
	ck_assert_msg(strstr(err.msg, "'w'") && strstr(err.msg, " 1001 ") &&
	                      strstr(err.msg, "limit is 1000"),
	              "%s", err.msg);
	ck_assert_int_eq(path_of_depth(b, 1000), 0);
	struct sf_ckpt *ckpt = finish(b);
	ck_assert_uint_eq(ckpt->key[0].npath, 1000);
	sf_ckpt_free(ckpt);
}
END_TEST

/* Two ranks may say where one object is. */
START_TEST(the_first_place_of_an_object_stays)
{
	struct sf_ckpt_builder *b = new_builder();
	uint32_t first = add_place(b, "a"), second = add_place(b, "b"), id;

	ck_assert_int_eq(sf_ckpt_builder_object(b, "o", 1, &id, &err), 0);
	sf_ckpt_builder_set_object(b, id, first, 10, 11);
	sf_ckpt_builder_set_object(b, id, second, 20, 22);
	struct sf_ckpt *ckpt = finish(b);
	ck_assert_uint_eq(ckpt->object[0].place, first);
	ck_assert_uint_eq(ckpt->object[0].off, 10);
	ck_assert_uint_eq(ckpt->object[0].len, 11);
	sf_ckpt_free(ckpt);
}
END_TEST

START_TEST(a_file_that_is_listed_twice_is_one)
{
	const struct sf_objinfo listed[] = { { .name = "b", .size = 2 },
		                             { .name = "a", .size = 1 },
		                             { .name = "b", .size = 2 },
		                             { .name = "bb", .size = 3 } };
	const char *const want[] = { "a", "b", "bb" };
	struct sf_ckpt_builder *b = new_builder();

	ck_assert_int_eq(sf_ckpt_builder_listing(b, listed, 4, &err), 0);
	struct sf_ckpt *ckpt = finish(b);
	ck_assert_uint_eq(ckpt->nlisting, 3);
	for (uint32_t i = 0; i < 3; i++)
		ck_assert_str_eq(ckpt->listing[i].name, want[i]);
	sf_ckpt_free(ckpt);
}
END_TEST

/* First element and chunk number do not fit one word together. */
START_TEST(chunks_past_two_to_the_62_are_put_in_order)
{
	const uint64_t far = UINT64_C(1) << 62, shape = far + 8;
	struct sf_ckpt_builder *b = new_builder();
	uint32_t id;

	ck_assert_msg(sf_ckpt_builder_tensor(b, "w", 1, SF_UINT8, &shape, 1, &id, &err) == 0, "%s",
	              err.msg);
	add_chunk(b, far, 8);
	add_chunk(b, 1, far - 1);
	add_chunk(b, 0, 1);
	struct sf_ckpt *ckpt = finish(b);
	for (uint32_t i = 0; i < 3; i++)
		ck_assert_uint_eq(ckpt->tensor[0].order[i], 2 - i);
	ck_assert(ckpt->tensor[0].flags & SF_TENSOR_GRID);
	sf_ckpt_free(ckpt);
}
END_TEST

START_TEST(damage_is_flagged_and_told_with_file_and_numbers)
{
	const struct sf_objinfo listed[] = { { .name = "short", .size = 100 },
		                             { .name = "dir", .size = UINT64_MAX },
		                             { .name = "A", .size = 1 } };
	struct sf_ckpt_builder *b = new_builder();
	uint32_t gone = add_place(b, "gone"), cut = add_place(b, "short"),
		 dir = add_place(b, "dir"), object, t;
	uint64_t ten = 10;
	const struct sf_warning *w;

	ck_assert_int_eq(sf_ckpt_builder_listing(b, listed, SF_ARRAY_LEN(listed), &err), 0);
	t = add_tensor(b, "whole", &ten, 1);
	add_chunk(b, 0, 10);
	sf_ckpt_builder_set_item(b, t, 0, cut, 60, 40);
	t = add_tensor(b, "gone", &ten, 1);
	add_chunk(b, 0, 5);
	add_chunk(b, 5, 5);
	sf_ckpt_builder_set_item(b, t, 0, gone, 0, 1);
	sf_ckpt_builder_set_item(b, t, 1, gone, 1, 1);
	t = add_tensor(b, "cut", &ten, 1);
	add_chunk(b, 0, 10);
	sf_ckpt_builder_set_item(b, t, 0, cut, 61, 40);
	t = add_tensor(b, "empty chunk", &ten, 1);
	add_chunk(b, 0, 10);
	add_chunk(b, 10, 0);
	sf_ckpt_builder_set_item(b, t, 0, cut, 0, 40);
	add_tensor(b, "itemless", &ten, 1);
	add_chunk(b, 0, 10);
	add_tensor(b, "chunkless", &ten, 1);
	t = add_tensor(b, "dir", &ten, 1);
	add_chunk(b, 0, 10);
	sf_ckpt_builder_set_item(b, t, 0, dir, 0, 40);
	ck_assert_int_eq(sf_ckpt_builder_object(b, "object", 6, &object, &err), 0);
	sf_ckpt_builder_set_object(b, object, cut, UINT64_MAX, 5);
	ck_assert_int_eq(sf_ckpt_builder_object(b, "lost", 4, &object, &err), 0);
	ck_assert_int_eq(sf_ckpt_builder_warn(b, "lost", "own", "of %d", 5), 0);

	struct sf_ckpt *ckpt = finish(b);
	const unsigned flags[] = { 0,
		                   SF_TENSOR_DAMAGED,
		                   SF_TENSOR_DAMAGED,
		                   0,
		                   SF_TENSOR_DAMAGED,
		                   SF_TENSOR_HOLE,
		                   SF_TENSOR_DAMAGED };
	for (uint32_t i = 0; i < ckpt->ntensors; i++)
		ck_assert_msg((ckpt->tensor[i].flags & ~SF_TENSOR_GRID) == flags[i],
		              "tensor %u: %u", i, ckpt->tensor[i].flags);
	w = warning(ckpt, "missing-file", NULL);
	ck_assert(w && strstr(w->text, "'gone'"));
	w = warning(ckpt, "missing-file", "gone");
	ck_assert(w && strstr(w->text, "'gone'") && strstr(w->text, "1 chunks more"));
	w = warning(ckpt, "truncated-file", "cut");
	ck_assert_msg(w && strstr(w->text, "'short'") && strstr(w->text, "100") &&
	                      strstr(w->text, "101"),
	              "%s", w ? w->text : "none");
	ck_assert(warning(ckpt, "missing-item", "itemless"));
	ck_assert(warning(ckpt, "hole", "chunkless"));
	ck_assert(warning(ckpt, "missing-file", "dir"));
	ck_assert(warning(ckpt, "truncated-file", "object"));
	ck_assert(warning(ckpt, "missing-item", "lost"));
	w = warning(ckpt, "own", "lost");
	ck_assert(w && strcmp(w->text, "of 5") == 0);
	ck_assert_uint_eq(ckpt->nwarnings, 10);
	/* the listing: plain files, sorted */
	ck_assert_uint_eq(ckpt->nlisting, 2);
	ck_assert_str_eq(ckpt->listing[0].name, "A");
	ck_assert(ckpt->file[0].missing && !ckpt->file[1].missing && ckpt->file[2].missing);
	ck_assert_uint_eq(ckpt->file[1].info.size, 100);
	sf_ckpt_free(ckpt);
}
END_TEST

START_TEST(twins_of_a_chunk_share_its_item)
{
	struct sf_ckpt_builder *b = new_builder();
	uint32_t place = add_place(b, "f"), t;
	uint64_t ten = 10;

	t = add_tensor(b, "w", &ten, 1);
	for (int i = 0; i < 4; i++) {
		add_chunk(b, 0, 5);
		add_chunk(b, 5, 5);
	}
	sf_ckpt_builder_set_item(b, t, 4, place, 40, 1);
	sf_ckpt_builder_set_item(b, t, 1, place, 10, 1);
	struct sf_ckpt *ckpt = finish(b);
	for (uint32_t i = 0; i < 8; i++)
		ck_assert_uint_eq(ckpt->tensor[0].off[i], i % 2 ? 10 : 40);
	ck_assert_int_eq(ckpt->tensor[0].flags, SF_TENSOR_OVERLAP);
	ck_assert_uint_eq(ckpt->nwarnings, 1);
	ck_assert_str_eq(ckpt->warning[0].code, "overlap");
	sf_ckpt_free(ckpt);
}
END_TEST

START_TEST(places_are_told_apart_by_file_form_and_transform)
{
	struct sf_ckpt_builder *b = new_builder();
	uint32_t a = add_place(b, "a"), a2 = add_place(b, "a"), c = add_place(b, "c"), z, raw;

	ck_assert_int_eq(sf_ckpt_builder_place(b, "a", 1, SF_ITEM_TORCH, SF_CODEC_ZSTD, &z, &err),
	                 0);
	ck_assert_int_eq(sf_ckpt_builder_place(b, "a", 1, SF_ITEM_RAW, SF_CODEC_NONE, &raw, &err),
	                 0);
	ck_assert(a == a2 && a != c && a != z && a != raw && z != raw);
	ck_assert_uint_eq(add_place(b, "a"), a);
	struct sf_ckpt *ckpt = finish(b);
	ck_assert_uint_eq(ckpt->nfiles, 2);
	ck_assert_uint_eq(ckpt->nplaces, 4);
	ck_assert_uint_eq(ckpt->place[z].codec, SF_CODEC_ZSTD);
	ck_assert_uint_eq(ckpt->place[raw].container, ckpt->place[a].container);
	ck_assert_uint_eq(ckpt->nwarnings, 0); /* nobody gave a listing: nothing is missing */
	sf_ckpt_free(ckpt);
}
END_TEST

START_TEST(warnings_stop_at_a_thousand_and_say_how_many_more)
{
	struct sf_ckpt_builder *b = new_builder();
	uint64_t one = 1;
	char name[32];

	for (int i = 0; i < 3000; i++) {
		snprintf(name, sizeof(name), "w%d", i);
		add_tensor(b, name, &one, 1);
	}
	struct sf_ckpt *ckpt = finish(b);
	ck_assert_uint_eq(ckpt->nwarnings, 1000);
	ck_assert_str_eq(ckpt->warning[998].code, "hole");
	ck_assert_str_eq(ckpt->warning[999].code, "more");
	ck_assert(strstr(ckpt->warning[999].text, "2001 more"));
	sf_ckpt_free(ckpt);
}
END_TEST

/* 0.2 s with the look-ups; anything quadratic runs into Check's limit for a test. */
START_TEST(a_million_chunks_are_built_quickly_and_take_at_most_64_bytes_each)
{
	struct sf_ckpt_builder *b = new_builder();
	uint32_t place = add_place(b, "f");
	uint64_t shape[2] = { 64, 8000 };
	char name[64];
	bool is_tensor;

	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "model.layers.%d.weight", i);
		add_tensor(b, name, shape, 2);
		for (uint64_t k = 0; k < 1000; k++) /* out of order */
			sf_ckpt_builder_chunk(b, (uint64_t[]){ 0, k * 7 % 1000 * 8 },
			                      (uint64_t[]){ 64, 8 }, NULL);
	}
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "model.layers.%d.weight", i);
		for (uint64_t k = 0; k < 1000; k++) {
			uint32_t t = sf_ckpt_builder_find(b, name, strlen(name), &is_tensor);
			uint32_t c = (uint32_t)(k * 143 % 1000); /* 7 * 143 is 1 again */
			sf_ckpt_builder_set_item(b, t, c, place, (uint64_t)i * 1000 + k, 1);
		}
	}
	struct sf_ckpt *ckpt = finish(b);
	ck_assert_uint_eq(ckpt->nwarnings, 0);
	ck_assert_uint_le(ckpt->arena.used, 64 * ckpt->nchunks);
	for (uint32_t i = 0; i < ckpt->ntensors; i++)
		ck_assert(ckpt->tensor[i].flags == SF_TENSOR_GRID);
	sf_ckpt_free(ckpt);
}
END_TEST

START_TEST(an_unfinished_builder_is_freed_whole)
{
	struct sf_ckpt_builder *b = new_builder();
	uint64_t ten = 10;

	sf_ckpt_builder_free(NULL);
	sf_ckpt_free(NULL);
	add_tensor(b, "w", &ten, 1);
	add_chunk(b, 0, 5);
	ck_assert_int_eq(sf_ckpt_builder_part(b, 1, 2, &err), 0);
	add_place(b, "f");
	sf_ckpt_builder_free(b); /* the leak checker says */
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ckpt_builder");
	TCase *tc = tcase_create("ckpt_builder");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, random_tensors_come_out_as_they_went_in);
	tcase_add_test(tc, of_two_items_of_a_chunk_the_first_stays);
	tcase_add_test(tc, wide_tensors_keep_64_bit_coordinates);
	tcase_add_test(tc, what_contradicts_itself_is_refused_with_the_name_and_the_numbers);
	tcase_add_test(tc, names_may_be_empty_or_hold_any_byte_and_are_found);
	tcase_add_test(tc, paths_are_kept_whether_they_spell_the_name_or_not);
	tcase_add_test(tc, paths_end_at_a_thousand_elements);
	tcase_add_test(tc, the_first_place_of_an_object_stays);
	tcase_add_test(tc, a_file_that_is_listed_twice_is_one);
	tcase_add_test(tc, chunks_past_two_to_the_62_are_put_in_order);
	tcase_add_test(tc, damage_is_flagged_and_told_with_file_and_numbers);
	tcase_add_test(tc, twins_of_a_chunk_share_its_item);
	tcase_add_test(tc, places_are_told_apart_by_file_form_and_transform);
	tcase_add_test(tc, warnings_stop_at_a_thousand_and_say_how_many_more);
	tcase_add_test(tc, a_million_chunks_are_built_quickly_and_take_at_most_64_bytes_each);
	tcase_add_test(tc, an_unfinished_builder_is_freed_whole);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
