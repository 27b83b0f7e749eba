#include "config.h"

#include <string.h>

#include "tree/tree.h"
#include "view_world.h"

/* Every path of a tree to a file, and the bytes of those that hold many tensors. */
#define PATHS 4096
struct paths {
	struct sf_tree *t;
	sf_node node[PATHS];
	char *name[PATHS];
	size_t n, nsymlinks;
	struct {
		char at[256];
		sf_node dir;
	} below;
};

static int visit(void *arg, const char *name, size_t len, sf_node node, enum sf_node_type type,
                 uint64_t next)
{
	struct paths *p = arg;
	char path[256];
	(void)next;

	ck_assert_int_lt(snprintf(path, sizeof(path), "%s/%.*s", p->below.at, (int)len, name),
	                 (int)sizeof(path));
	if (type == SF_NODE_FILE) {
		ck_assert_uint_lt(p->n, PATHS);
		p->name[p->n] = strdup(path);
		p->node[p->n++] = node;
	} else if (type == SF_NODE_LINK) {
		p->nsymlinks++;
	} else if (type == SF_NODE_DIR) {
		char kept[256];
		strcpy(kept, p->below.at);
		strcpy(p->below.at, path);
		ck_assert_int_eq(sf_tree_readdir(p->t, node, 0, visit, p), 0);
		strcpy(p->below.at, kept);
	}
	return 0;
}

static void collect(struct sf_tree *t, struct paths *p)
{
	memset(p, 0, sizeof(*p));
	p->t = t;
	ck_assert_int_eq(sf_tree_readdir(t, SF_NODE_ROOT, 0, visit, p), 0);
}

static void release(struct paths *p)
{
	for (size_t i = 0; i < p->n; i++)
		free(p->name[i]);
}

static size_t links_of(const struct paths *p, sf_node node)
{
	size_t n = 0;

	for (size_t i = 0; i < p->n; i++)
		n += p->node[i] == node;
	return n;
}

static bool ends(const char *s, const char *end)
{
	return strlen(s) >= strlen(end) && strcmp(s + strlen(s) - strlen(end), end) == 0;
}

/* In the root or in hf/: a file of many tensors. */
static bool holds_many(const char *path)
{
	bool st = ends(path, ".safetensors");

	return (!strchr(path + 1, '/') && (st || ends(path, ".pt"))) ||
	       (strncmp(path, "/hf/", 4) == 0 && st);
}

/* What a path shows, from a tree of one view, in which nothing is another path's. */
static uint8_t *content(struct vw *w, const char *path, uint64_t *ret_len)
{
	const char *view = strncmp(path, "/hf/", 4) == 0            ? "hf"
	                   : strncmp(path, "/checkpoint.", 12) == 0 ? "checkpoint"
	                                                            : "groups";
	struct sf_strs all = w->opt.views;
	struct sf_tree *t = NULL;
	struct sf_vfile *f;
	sf_node n;

	w->opt.views = (struct sf_strs){ &view, 1 };
	vw_ok(sf_tree_new(w->cat, w->reader, &t, &err));
	vw_ok(sf_tree_walk(t, path + 1, true, &n, &err));
	vw_ok(sf_tree_open(t, n, &f, &err));
	uint8_t *at = vw_read(f, ret_len);
	sf_tree_free(t);
	w->opt.views = all;
	return at;
}

/* A few keys, flat or below a model, and what changes a file: wrappers, other dtypes, objects. */
static void random_world(struct vw *w, uint64_t *rnd, bool *ret_objects)
{
	static const char *const roots[] = { "", "model.", "model.module.", "optim." };
	static const enum sf_dtype dtypes[] = { SF_FLOAT32, SF_FLOAT32, SF_INT64, SF_BFLOAT16,
		                                SF_COMPLEX128 };
	const uint64_t shape[2] = { 2, 3 };
	unsigned nroots = 1 + (unsigned)sf_test_below(rnd, 2), plain = sf_test_below(rnd, 3);
	unsigned first = (unsigned)sf_test_below(rnd, SF_ARRAY_LEN(roots));
	char name[64];

	*ret_objects = sf_test_below(rnd, 3) == 0;
	for (unsigned r = 0; r < nroots; r++) {
		const char *root = roots[(first + r) % SF_ARRAY_LEN(roots)];
		unsigned n = 1 + (unsigned)sf_test_below(rnd, 4);
		for (unsigned i = 0; i < n; i++) {
			const char *wrapped = sf_test_below(rnd, 6) ? "" : "_orig_mod.";
			/* the stored order is not that of the names */
			snprintf(name, sizeof(name), "%s%sk%u.w", root, wrapped, (i * 7 + 3) % 10);
			/* the first is in every file: of nothing but what they leave out files
			 * may be alike */
			vw_tensor(w, name, dtypes[!i || plain ? 0 : sf_test_below(rnd, 5)], 2,
			          shape);
		}
		if (*ret_objects && sf_test_below(rnd, 2)) {
			snprintf(name, sizeof(name), "%sobject%u", root, r);
			vw_object(w, name);
		}
	}
}

static void random_options(struct vw *w, uint64_t *rnd, const char **views)
{
	static const char *const all[] = { "checkpoint", "groups", "hf",          "state",
		                           "npy",        "pt",     "safetensors", "shards" };

	w->opt.hf_strip = sf_test_below(rnd, 2);
	if (sf_test_below(rnd, 4) == 0)
		w->opt.dtype = SF_BFLOAT16;
	if (sf_test_below(rnd, 4) == 0)
		w->opt.max_shard_size = 50;
	if (sf_test_below(rnd, 4) == 0)
		w->opt.objects = SF_OBJECTS_NONE;
	w->opt.views = (struct sf_strs){ .at = views };
	if (sf_test_below(rnd, 2))
		for (size_t i = 0; i < SF_ARRAY_LEN(all); i++)
			if (sf_test_below(rnd, 2))
				views[w->opt.views.n++] = all[i];
}

/* Files and symlinks, each once. */
static size_t count_of(const struct paths *p)
{
	size_t n = p->nsymlinks;

	for (size_t i = 0; i < p->n; i++) {
		size_t k = 0;
		while (p->node[k] != p->node[i])
			k++;
		n += k == i;
	}
	return n;
}

/* Property: as many links as paths; one node, one content; of many tensors' files that have the same
 * content, one node; and in all as many files as statfs says, whatever views= hides. */
START_TEST(a_file_has_as_many_links_as_paths)
{
	uint64_t rnd = sf_test_seed("a_file_has_as_many_links_as_paths") + (unsigned)_i;
	static struct paths p;

	for (int round = 0; round < 40; round++) {
		const char *views[8];
		struct sf_tree *t = NULL;
		uint64_t bytes, files;
		bool objects;
		struct vw w;

		vw_init(&w);
		random_world(&w, &rnd, &objects);
		vw_file(&w, ".metadata", "m");
		vw_file(&w, "latest", "not shown");
		vw_file(&w, "sub/x", "x");
		random_options(&w, &rnd, views);
		vw_open(&w);
		vw_ok(sf_tree_new(w.cat, w.reader, &t, &err));
		collect(t, &p);
		for (int again = 0; again < 2; again++) {
			sf_tree_totals(t, &bytes, &files);
			ck_assert_uint_eq(files, count_of(&p));
		}
		for (size_t i = 0; i < p.n; i++) {
			struct sf_attr a = { 0 };
			int r = sf_tree_attr(t, p.node[i], &a);
			ck_assert(r == 0 || r == -EAGAIN);
			ck_assert_msg(a.nlink == links_of(&p, p.node[i]), "%s: %u links, %zu paths",
			              p.name[i], a.nlink, links_of(&p, p.node[i]));
		}
		for (size_t i = 0; i < p.n; i++) {
			uint64_t x_len, y_len;
			SF_FREE uint8_t *x = NULL;
			if (holds_many(p.name[i]))
				x = content(&w, p.name[i], &x_len);
			for (size_t k = 0; x && k < i; k++) {
				if (!holds_many(p.name[k]))
					continue;
				SF_FREE uint8_t *y = content(&w, p.name[k], &y_len);
				bool same = x_len == y_len && memcmp(x, y, x_len) == 0;
				/* of objects that cannot be read, and where all was left out,
				 * nothing tells files apart */
				bool alike = objects || (ends(p.name[i], "safetensors") &&
				                         !memmem(x, x_len, "\"dtype\"", 7));
				if (same != (p.node[i] == p.node[k]) && !(same && alike))
					ck_abort_msg("%s and %s", p.name[i], p.name[k]);
			}
		}
		release(&p);
		sf_tree_free(t);
		vw_close(&w);
	}
}
END_TEST

static sf_node node_at(struct sf_tree *t, const char *path)
{
	sf_node n;

	vw_ok(sf_tree_walk(t, path, true, &n, &err));
	return n;
}

#define ck_same(t, a, b) ck_assert_uint_eq(node_at(t, a), node_at(t, b))
#define ck_apart(t, a, b) ck_assert_uint_ne(node_at(t, a), node_at(t, b))

START_TEST(what_is_made_alike_is_one_node)
{
	static const uint64_t two[2] = { 2, 2 };
	struct sf_tree *t = NULL;
	struct vw w;

	vw_init(&w);
	vw_tensor(&w, "model.b", SF_FLOAT32, 2, two);
	vw_tensor(&w, "model.a", SF_INT64, 2, two);
	vw_tensor(&w, "optim.a", SF_FLOAT32, 2, two);
	vw_open(&w);
	vw_ok(sf_tree_new(w.cat, w.reader, &t, &err));
	ck_same(t, "npy/model.a.npy", "state/model/a/tensor.npy");
	ck_same(t, "pt/model.a.pt", "state/model/a/tensor.pt");
	ck_same(t, "safetensors/optim.a.safetensors", "state/optim/a/tensor.safetensors");
	ck_same(t, "model.safetensors", "hf/model.safetensors");
	ck_apart(t, "model.safetensors", "checkpoint.safetensors");
	ck_apart(t, "model.pt", "checkpoint.pt");
	ck_apart(t, "npy/model.a.npy", "npy/optim.a.npy");
	sf_tree_free(t);
	vw_close(&w);

	vw_init(&w); /* no groups: the model is all of it */
	vw_tensor(&w, "b", SF_FLOAT32, 2, two);
	vw_tensor(&w, "a", SF_COMPLEX128, 2, two);
	vw_open(&w);
	vw_ok(sf_tree_new(w.cat, w.reader, &t, &err));
	ck_same(t, "model.pt", "checkpoint.pt");
	ck_same(t, "model.safetensors", "checkpoint.safetensors");
	ck_apart(t, "model.safetensors", "hf/model.safetensors"); /* one says what it leaves out */
	sf_tree_free(t);
	w.opt.dtype = SF_BFLOAT16; /* of the model, never of the checkpoint */
	vw_open(&w);
	vw_ok(sf_tree_new(w.cat, w.reader, &t, &err));
	ck_apart(t, "model.pt", "checkpoint.pt");
	ck_apart(t, "model.safetensors", "checkpoint.safetensors");
	sf_tree_free(t);
	vw_close(&w);

	vw_init(&w);
	vw_tensor(&w, "b", SF_FLOAT32, 2, two);
	vw_tensor(&w, "a", SF_FLOAT32, 2, two);
	w.opt.dtype = SF_BFLOAT16;
	vw_open(&w);
	vw_ok(sf_tree_new(w.cat, w.reader, &t, &err));
	ck_apart(t, "checkpoint.safetensors", "hf/model.safetensors");
	ck_same(t, "model.safetensors", "hf/model.safetensors");
	sf_tree_free(t);
	w.opt.dtype = SF_DTYPE_NONE;
	vw_open(&w);
	vw_ok(sf_tree_new(w.cat, w.reader, &t, &err));
	ck_same(t, "checkpoint.safetensors", "hf/model.safetensors");
	ck_same(t, "model.safetensors", "hf/model.safetensors");
	sf_tree_free(t);
	vw_close(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("tree_links");
	TCase *t = tcase_create("tree_links");
	tcase_add_loop_test(t, a_file_has_as_many_links_as_paths, 0, 4);
	tcase_add_test(t, what_is_made_alike_is_one_node);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
