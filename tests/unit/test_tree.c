#include "config.h"

#include <string.h>

#include "tests/lib/test_stores.h"
#include "base/path.h"
#include "tree_world.h"

static const uint64_t two[2] = { 2, 2 };

START_TEST(the_root_has_a_file_pair_per_group_and_the_views)
{
	struct vw w;

	ordinary(&w);
	struct sf_tree *t = tree_of(&w);
	ck_list(t, "",
	        "README|info.json|tensors.json|checkpoint.pt|checkpoint.safetensors|model.pt|model."
	        "safetensors|optim.pt|"
	        "optim.safetensors|optimizer.pt@|optimizer.safetensors@|train.pt|hf/|state/|npy/"
	        "|pt/|safetensors/|shards/|.shardfuse/");
	ck_list(t, ".shardfuse", "counters.json|metrics");
	ck_list(t, "hf", "model.safetensors");
	ck_list(t, "npy", "model.a.npy|model.a.b.npy|model.c%2Fd.npy|optimizer.x.npy");
	ck_list(t, "pt", "model.a.pt|model.a.b.pt|model.c%2Fd.pt|optimizer.x.pt");
	ck_list(t, "safetensors",
	        "model.a.safetensors|model.a.b.safetensors|optimizer.x.safetensors");
	sf_tree_free(t);
	vw_close(&w);
}
END_TEST

START_TEST(the_whole_is_as_large_as_its_tensors)
{
	uint64_t bytes, files;
	struct sf_tree *t;
	struct vw w;

	vw_init(&w);
	vw_tensor(&w, "model.a", SF_FLOAT32, 2, two);
	vw_tensor(&w, "model.b", SF_BFLOAT16, 2, two);
	vw_object(&w, "step");
	t = tree_of(&w);
	sf_tree_totals(t, &bytes, &files);
	ck_assert_uint_eq(bytes, 4 * 4 + 4 * 2);
	ck_assert_uint_gt(files, 3);
	sf_tree_free(t);
	vw_close(&w);
}
END_TEST

START_TEST(views_picks)
{
	const char *views[] = { "npy", "groups" }, *wrong[] = { "npy", "numpy" };
	struct sf_error err = SF_ERROR_INIT;
	struct vw w;

	ordinary(&w);
	w.opt.views = (struct sf_strs){ views, 2 };
	struct sf_tree *t = tree_of(&w), *none;
	ck_list(t, "/",
	        "README|info.json|tensors.json|model.pt|model.safetensors|optim.pt|optim."
	        "safetensors|optimizer.pt@|"
	        "optimizer.safetensors@|train.pt|npy/|.shardfuse/");
	sf_tree_free(t);
	w.opt.views.at = wrong;
	ck_assert_int_eq(sf_tree_new(w.cat, w.reader, &none, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.msg, "'numpy'"));
	vw_close(&w);
}
END_TEST

START_TEST(a_key_may_be_a_leaf_and_a_prefix)
{
	struct vw w;

	ordinary(&w);
	struct sf_tree *t = tree_of(&w);
	ck_list(t, "state", "model/|optimizer/|train/");
	ck_list(t, "state/model", "a/|c%2Fd/");
	ck_list(t, "state/model/a",
	        "tensor.npy|tensor.safetensors|tensor.pt|tensor.raw|info.json|b/");
	ck_list(t, "state/model/c%2Fd", "tensor.npy|tensor.pt|tensor.raw|info.json");
	ck_list(t, "state/train/step", "value.json|value.pt");
	sf_tree_free(t);
	vw_close(&w);
}
END_TEST

START_TEST(stored_files_are_a_tree_without_latest)
{
	struct sf_attr a;
	struct vw w;
	sf_node n;

	ordinary(&w);
	struct sf_tree *t = tree_of(&w);
	ck_list(t, "shards", ".metadata|data|sub-y|sub/");
	ck_list(t, "shards/sub", "deep/|x");
	ck_list(t, "shards/sub/deep", "z");
	vw_ok(sf_tree_walk(t, "shards/sub/x", true, &n, &err));
	ck_assert(sf_tree_is_listed(n));
	ck_assert_int_eq(sf_tree_attr(t, n, &a), 0);
	ck_assert_uint_eq(a.size, 2);
	ck_assert_str_eq(w.ckpt->listing[a.listed].name, "sub/x");
	ck_assert_int_eq(sf_tree_walk(t, "shards/latest", true, &n, NULL), -ENOENT);
	ck_assert_int_eq(sf_tree_walk(t, "shards/su", true, &n, NULL), -ENOENT);
	ck_assert_int_eq(sf_tree_walk(t, "shards/sub/", true, &n, NULL), 0);
	sf_tree_free(t);
	vw_close(&w);
}
END_TEST

START_TEST(links_lead_to_the_roles_file)
{
	sf_node link, file, n;
	struct sf_attr a;
	char text[64];
	struct vw w;

	ordinary(&w);
	struct sf_tree *t = tree_of(&w);
	vw_ok(sf_tree_walk(t, "optimizer.pt", false, &link, &err));
	ck_assert_int_eq(sf_tree_attr(t, link, &a), 0);
	ck_assert_int_eq(a.type, SF_NODE_LINK);
	ck_assert_uint_eq(a.size, 8);
	ck_assert_int_eq(sf_tree_readlink(t, link, text, sizeof(text)), 8);
	ck_assert_mem_eq(text, "optim.pt", 8);
	memset(text, '#', sizeof(text)); /* no byte behind the name, or behind the room for it */
	ck_assert_int_eq(sf_tree_readlink(t, link, text, 5), 5);
	ck_assert_mem_eq(text, "optim###", 8);
	ck_assert_int_eq(sf_tree_readlink(t, link, text, sizeof(text)), 8);
	ck_assert_mem_eq(text, "optim.pt###", 11);
	vw_ok(sf_tree_walk(t, "optim.pt", false, &file, &err));
	vw_ok(sf_tree_walk(t, "optimizer.pt", true, &n, &err));
	ck_assert_uint_eq(n, file);
	ck_assert_int_eq(sf_tree_readlink(t, file, text, sizeof(text)), -EINVAL);
	sf_tree_free(t);
	vw_close(&w);
}
END_TEST

START_TEST(wrong_paths_are_named)
{
	struct sf_error err = SF_ERROR_INIT;
	struct vw w;
	sf_node n;

	ordinary(&w);
	struct sf_tree *t = tree_of(&w);
	ck_assert_int_eq(sf_tree_walk(t, "state/model/nope/x", true, &n, &err), -ENOENT);
	ck_assert_ptr_nonnull(strstr(err.msg, "'state/model/nope'"));
	ck_assert_int_eq(sf_tree_walk(t, "README/x", true, &n, &err), -ENOTDIR);
	ck_assert_int_eq(sf_tree_walk(t, "..", true, &n, &err), -ENOENT);
	ck_assert_int_eq(sf_tree_walk(t, "npy/model.c/d.npy", true, &n, &err), -ENOENT);
	ck_assert_int_eq(sf_tree_walk(t, "npy/model.c%2fd.npy", true, &n, &err),
	                 -ENOENT); /* one spelling only */
	ck_assert_int_eq(sf_tree_walk(t, "safetensors/model.c%2Fd.safetensors", true, &n, &err),
	                 -ENOENT);
	ck_assert_int_eq(sf_tree_walk(t, "npy/train.step.npy", true, &n, &err), -ENOENT);
	sf_tree_free(t);
	vw_close(&w);
}
END_TEST

START_TEST(what_is_no_file_does_not_open)
{
	struct sf_vfile *f;
	struct vw w;
	sf_node n;

	ordinary(&w);
	struct sf_tree *t = tree_of(&w);
	vw_ok(sf_tree_walk(t, "state", true, &n, &err));
	ck_assert_int_eq(sf_tree_open(t, n, &f, NULL), -EISDIR);
	ck_assert_int_eq(sf_tree_open(t, UINT64_C(1) << 47, &f, NULL), -ENOENT);
	ck_assert_int_eq(sf_tree_open(t, 0, &f, NULL), -ENOENT);
	sf_tree_free(t);
	vw_close(&w);
}
END_TEST

/* A name of more components than a node can count: the directories end there, and the key is still
 * under its full name. */
START_TEST(state_ends_at_the_depth_a_node_can_count)
{
	enum { DEPTH = 1000 }; /* SF_T_DEPTH_MAX */
	char name[2 * DEPTH + 32 + 1];
	struct names l = { 0 };
	struct vw w;
	sf_node n, deeper;

	vw_init(&w);
	for (size_t i = 0; i < sizeof(name); i++)
		name[i] = i % 2 ? '.' : 'a';
	vw_flat(&w, name, sizeof(name));
	struct sf_tree *t = l.t = tree_of(&w);
	vw_ok(sf_tree_walk(t, "state", true, &n, &err));
	for (unsigned depth = 0; depth < DEPTH; depth++, n = deeper)
		ck_assert_int_eq(sf_tree_lookup(t, n, "a", 1, &deeper), 0);
	ck_assert_int_eq(sf_tree_lookup(t, n, "a", 1, &deeper), -ENOENT);
	ck_assert_int_eq(sf_tree_readdir(t, n, 0, add_name, &l), 0);
	ck_assert_uint_eq(l.n, 0);
	sf_buf_release(&l.text);
	vw_ok(sf_tree_walk(t, "npy", true, &n, &err));
	l.dir = n;
	ck_assert_int_eq(sf_tree_readdir(t, n, 0, add_name, &l), 0);
	ck_assert_uint_eq(l.n, 1);
	sf_buf_release(&l.text);
	sf_tree_free(t);
	vw_close(&w);
}
END_TEST

/* The kernel's sizes are signed. */
START_TEST(stored_files_past_2_63_bytes_are_not_shown)
{
	struct vw w;

	ordinary(&w);
	w.file[w.nfiles++] = (struct sf_mem_object){ "huge", "", UINT64_C(1) << 63 };
	w.file[w.nfiles++] = (struct sf_mem_object){ "large", "", INT64_MAX };
	struct sf_tree *t = tree_of(&w);
	ck_list(t, "shards", ".metadata|data|large|sub-y|sub/");
	sf_tree_free(t);
	vw_close(&w);
}
END_TEST

/* As with --map: the user's rule made two names one, so the user hears of it. */
START_TEST(two_keys_that_hf_map_makes_one_fail_the_tree)
{
	static struct sf_map_rule rule[] = { { "a", "same" }, { "b", "same" } };
	struct sf_tree *t = NULL;
	struct vw w;

	vw_init(&w);
	vw_tensor(&w, "model.a", SF_FLOAT32, 2, two);
	vw_tensor(&w, "model.b", SF_FLOAT32, 2, two);
	w.opt.hf_map = rule;
	w.opt.nhf_map = SF_ARRAY_LEN(rule);
	vw_open(&w);
	struct sf_error why = SF_ERROR_INIT;
	ck_assert_int_eq(sf_tree_new(w.cat, w.reader, &t, &why), -EINVAL);
	ck_assert_msg(strstr(why.msg, "same") != NULL, "%s", why.msg);
	w.opt.nhf_map = 1;
	vw_open(&w);
	vw_ok(sf_tree_new(w.cat, w.reader, &t, &err));
	sf_tree_free(t);
	vw_close(&w);
}
END_TEST

START_TEST(attributes_of_a_key_are_readable)
{
	char text[256];
	struct vw w;
	sf_node n;

	ordinary(&w);
	w.opt.dtype = SF_BFLOAT16;
	struct sf_tree *t = tree_of(&w);
	vw_ok(sf_tree_walk(t, "npy/model.a.npy", true, &n, &err));
	ck_assert_int_eq(sf_tree_getxattr(t, n, "user.shardfuse.fqn", text, sizeof(text)), 7);
	ck_assert_mem_eq(text, "model.a", 7);
	ck_assert_int_eq(sf_tree_getxattr(t, n, "user.shardfuse.dtype", text, sizeof(text)), 8);
	ck_assert_mem_eq(text, "bfloat16", 8);
	ck_assert_int_eq(sf_tree_getxattr(t, n, "user.shardfuse.shape", text, 0), 6);
	ck_assert_int_eq(sf_tree_getxattr(t, n, "user.shardfuse.shape", text, sizeof(text)), 6);
	ck_assert_mem_eq(text, "[2, 2]", 6);
	ck_assert_int_eq(sf_tree_getxattr(t, n, "user.other", text, sizeof(text)), -ENODATA);
	ck_assert_int_gt(sf_tree_listxattr(t, n, text, sizeof(text)), 100);
	vw_ok(sf_tree_walk(t, "state/model/a/tensor.raw", true, &n, &err));
	ck_assert_int_eq(sf_tree_getxattr(t, n, "user.shardfuse.dtype", text, sizeof(text)),
	                 7); /* never cast */
	vw_ok(sf_tree_walk(t, "", true, &n, &err));
	ck_assert_int_eq(sf_tree_getxattr(t, n, "user.shardfuse.fqn", text, sizeof(text)),
	                 -ENODATA);
	ck_assert_int_eq(sf_tree_getxattr(t, n, "user.shardfuse.source", text, sizeof(text)), 3);
	sf_tree_free(t);
	vw_close(&w);
}
END_TEST

/* Every size told is what a read gives. */
static int check_file(void *arg, const char *name, size_t len, sf_node node, enum sf_node_type type,
                      uint64_t next)
{
	struct names *l = arg;
	struct sf_vfile *f;
	struct sf_attr a;
	uint64_t size;
	(void)next;

	if (type == SF_NODE_DIR) {
		if (len != strlen(".shardfuse") || memcmp(name, ".shardfuse", len) != 0)
			ck_assert_int_eq(sf_tree_readdir(l->t, node, 0, check_file, l), 0);
		return 0;
	}
	if (type == SF_NODE_LINK || memcmp(name, "value.", SF_MIN(len, (size_t)6)) == 0)
		return 0; /* the object of this test cannot be read */
	int r = sf_tree_attr(l->t, node, &a);
	if (r == -EAGAIN) {
		vw_ok(sf_tree_prepare(l->t, node, &err));
		r = sf_tree_attr(l->t, node, &a);
	}
	ck_assert_int_eq(r, 0);
	vw_ok(sf_tree_open(l->t, node, &f, &err));
	free(vw_read(f, &size));
	ck_assert_msg(size == a.size, "%.*s: %llu read, %llu told", (int)len, name,
	              (unsigned long long)size, (unsigned long long)a.size);
	l->n++;
	return 0;
}

START_TEST(sizes_are_exact)
{
	const uint64_t shape[3] = { 3, 0, 5 };

	for (int cast = 0; cast < 3; cast++) {
		struct names l = { 0 };
		struct vw w;
		ordinary(&w);
		vw_tensor(&w, "model.empty", SF_FLOAT16, 3, shape);
		vw_tensor(&w, "model.scalar", SF_FLOAT64, 0, shape);
		vw_tensor(&w, "model.f8", SF_F8_E4M3FN, 2, two);
		w.opt.objects = SF_OBJECTS_NONE; /* this one's object is no archive */
		w.opt.dtype = cast == 1 ? SF_FLOAT32 : cast == 2 ? SF_BFLOAT16 : SF_DTYPE_NONE;
		w.opt.npy_bf16 = cast == 2 ? SF_NPY_F4 : SF_NPY_VOID;
		l.t = tree_of(&w);
		ck_assert_int_eq(sf_tree_readdir(l.t, SF_NODE_ROOT, 0, check_file, &l), 0);
		ck_assert_uint_gt(l.n, 50);
		sf_tree_free(l.t);
		vw_close(&w);
	}
}
END_TEST

START_TEST(live_files_tell_the_counters)
{
	struct sf_counters c = { .read_bytes = 4711, .fetched_bytes[SF_FETCH_TENSOR] = 99 };
	struct sf_attr a;
	char *text;
	size_t len;
	struct vw w;
	sf_node n;

	ordinary(&w);
	struct sf_tree *t = tree_of(&w);
	vw_ok(sf_tree_walk(t, ".shardfuse/counters.json", true, &n, &err));
	ck_assert_int_eq(sf_tree_attr(t, n, &a), 0);
	ck_assert(a.live);
	ck_assert_uint_eq(a.size, 0);
	vw_ok(sf_tree_live_text(t, n, &c, &text, &len, &err));
	ck_assert_ptr_nonnull(strstr(text, "\"read_bytes\": 4711"));
	ck_assert_ptr_nonnull(strstr(text, "\"tensor\": 99"));
	ck_assert_uint_eq(len, strlen(text));
	free(text);
	vw_ok(sf_tree_walk(t, ".shardfuse/metrics", true, &n, &err));
	vw_ok(sf_tree_live_text(t, n, &c, &text, &len, &err));
	ck_assert_ptr_nonnull(
		strstr(text, "\nshardfuse_fetched_bytes_total{kind=\"tensor\"} 99\n"));
	free(text);
	ck_assert_int_eq(sf_tree_live_text(t, SF_NODE_ROOT, &c, &text, &len, NULL), -ENOENT);
	sf_tree_free(t);
	vw_close(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("tree");
	TCase *t = tcase_create("all");

	tcase_add_test(t, the_root_has_a_file_pair_per_group_and_the_views);
	tcase_add_test(t, the_whole_is_as_large_as_its_tensors);
	tcase_add_test(t, views_picks);
	tcase_add_test(t, a_key_may_be_a_leaf_and_a_prefix);
	tcase_add_test(t, stored_files_are_a_tree_without_latest);
	tcase_add_test(t, links_lead_to_the_roles_file);
	tcase_add_test(t, wrong_paths_are_named);
	tcase_add_test(t, what_is_no_file_does_not_open);
	tcase_add_test(t, state_ends_at_the_depth_a_node_can_count);
	tcase_add_test(t, stored_files_past_2_63_bytes_are_not_shown);
	tcase_add_test(t, two_keys_that_hf_map_makes_one_fail_the_tree);
	tcase_add_test(t, attributes_of_a_key_are_readable);
	tcase_add_test(t, sizes_are_exact);
	tcase_add_test(t, live_files_tell_the_counters);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
