#include "config.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/torch/torch_priv.h"
#include "parse/value_walk.h"
#include "tests/lib/family_world.h"
#include "tests/lib/load.h"

/* Files of torch.save: Composer's, alone, packed, in a tar; which file of a listing is one. */

static char cache[64];

static void begin(void)
{
	snprintf(cache, sizeof(cache), "/tmp/sf_torch.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(cache));
	family_cache = cache;
}

static void end(void)
{
	char rm[96];

	snprintf(rm, sizeof(rm), "rm -rf %s", cache);
	ck_assert_int_eq(system(rm), 0);
}

START_TEST(composers_file_has_the_keys_that_its_paths_are)
{
	struct family f = { 0 };

	begin();
	family_open(&f, "composer-0.32/mono", "ckpt/ep0-ba2-rank0.pt");
	ck_assert_str_eq(f.s.ckpt->format, "torch");
	ck_assert_str_eq(f.s.ckpt->writer, "composer 0.32.1");
	ck_assert_int_eq(f.s.ckpt->step, 2);
	ck_assert_uint_gt(family_check_all(&f, "tensors", ""), 30);
	ck_assert_uint_gt(family_check_objects(&f), 50);
	ck_assert_uint_eq(f.s.ckpt->nwarnings, 0);
	ck_assert_int_eq(load_group(f.s.ckpt, "model")->role, SF_ROLE_MODEL);
	ck_assert_int_eq(load_group(f.s.ckpt, "optimizers")->role, SF_ROLE_OPTIM);
	ck_assert_int_eq(load_group(f.s.ckpt, "rng")->role, SF_ROLE_OTHER);
	family_close(&f);
	end();
}
END_TEST

static const char *const packed[] = {
	"ppt_gz.pt.gz", "ppt_lz4.pt.lz4",   "ppt_lzma.pt.lzma",   "ppt_zst.pt.zst",
	"ptar.tar",     "ptar_bz2.tar.bz2", "ptar_lzma.tar.lzma", "ptgz.tgz",
};

/* Twice: unpacked, and found in the cache. */
START_TEST(a_packed_file_is_what_is_inside_it)
{
	char path[4096], name[128];

	begin();
	for (int i = 0; i < 2; i++) {
		struct family f = { 0 };
		struct sf_error err = SF_ERROR_INIT;
		struct sf_session s;
		struct sf_session_options opt;

		snprintf(name, sizeof(name), "composer-0.32/packed/files/%s", packed[_i]);
		sf_session_options_init(&opt);
		opt.store.cache_dir = cache;
		if (sf_session_store(&s, &opt, sf_test_data(path, name), &err) < 0) {
			/* the library that it needs is an optional one */
			ck_assert_msg(strstr(err.msg, "built without"), "%s", err.msg);
			break;
		}
		sf_session_close(&s);
		snprintf(name, sizeof(name), "files/%s", packed[_i]);
		family_open(&f, "composer-0.32/packed", name);
		ck_assert_uint_gt(family_check_all(&f, "tensors", ""), 20);
		ck_assert_uint_eq(f.s.ckpt->nwarnings, 0);
		family_close(&f);
	}
	end();
}
END_TEST

/* ---- which file ---- */

#define F(n)                          \
	{                             \
		.name = n, .size = 10 \
	}

START_TEST(the_file_that_a_listing_means)
{
	static const struct {
		struct sf_objinfo file[4];
		enum torch_layout layout;
		const char *name;
	} cases[] = {
		{ { F("pytorch_model-00001-of-00001.bin"), F("pytorch_model.bin.index.json") },
		  TORCH_INDEX,
		  "pytorch_model.bin.index.json" },
		{ { F("optimizer.bin"), F("pytorch_model.bin") }, TORCH_ONE, "pytorch_model.bin" },
		{ { F("._last.ckpt"), F("config.json"), F("last.ckpt") }, TORCH_ONE, "last.ckpt" },
		{ { F("model_config.yaml"), F("model_weights.ckpt"), F("tokenizer.pt") },
		  TORCH_ONE,
		  "model_weights.ckpt" },
		{ { F("anything") }, TORCH_ONE, "anything" },
		{ { F("a.pt"), F("b.pt") }, TORCH_NOTHING, NULL },
		{ { F("a.txt"), F("d/b.pt") }, TORCH_NOTHING, NULL },
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(cases); i++) {
		size_t n = 0;
		while (n < 4 && cases[i].file[n].name)
			n++;
		struct torch_choice c = torch_choose(cases[i].file, n);
		ck_assert_int_eq(c.layout, cases[i].layout);
		if (cases[i].name)
			ck_assert_str_eq(c.file->name, cases[i].name);
	}
}
END_TEST

/* A file and the link to it that a trainer keeps. */
START_TEST(two_names_of_one_file_are_one)
{
	const struct sf_objinfo two[] = {
		{ .name = "ep1-ba1-rank0.pt", .size = 5, .version = { .dev = 1, .ino = 7 } },
		{ .name = "latest-rank0.pt", .size = 5, .version = { .dev = 1, .ino = 7 } },
	};

	ck_assert_int_eq(torch_choose(two, 2).layout, TORCH_ONE);
	ck_assert_str_eq(torch_choose(two, 2).file->name, "ep1-ba1-rank0.pt");
}
END_TEST

/* ---- an index ---- */

static int load_index(const char *text, char msg[SF_ERROR_MAX])
{
	const struct sf_mem_object files[] = {
		{ "pytorch_model.bin.index.json", text, strlen(text) },
		{ "x.bin", "x", 1 },
	};
	struct sf_ckpt *ckpt;

	return load_mem(files, 2, NULL, &ckpt, msg);
}

START_TEST(an_index_that_is_none_is_named)
{
	static const struct {
		const char *text, *said;
		int code;
	} cases[] = {
		{ "{\"weight_map\": {\"a\": \"../x.bin\"}}", "weight_map of 'a'", -EBADMSG },
		{ "{\"weight_map\": {\"a\": 5}}", "weight_map of 'a'", -EBADMSG },
		{ "{\"weight_map\": 5}", "weight_map", -EBADMSG },
		{ "{", "index.json", -EBADMSG },
		{ "{\"weight_map\": {\"a\": \"y.bin\"}}", "none of them is there", -ENOENT },
		{ "{\"weight_map\": {\"a\": \"x.bin\"}}", "none of the 1 files", -EBADMSG },
	};
	char msg[SF_ERROR_MAX];

	for (size_t i = 0; i < SF_ARRAY_LEN(cases); i++) {
		ck_assert_int_eq(load_index(cases[i].text, msg), cases[i].code);
		ck_assert_msg(strstr(msg, cases[i].said), "%s", msg);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("torch");
	TCase *tc = tcase_create("torch");

	tcase_add_test(tc, composers_file_has_the_keys_that_its_paths_are);
	tcase_add_loop_test(tc, a_packed_file_is_what_is_inside_it, 0, SF_ARRAY_LEN(packed));
	tcase_add_test(tc, the_file_that_a_listing_means);
	tcase_add_test(tc, two_names_of_one_file_are_one);
	tcase_add_test(tc, an_index_that_is_none_is_named);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
