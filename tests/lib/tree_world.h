/* Listings of a tree as text. */
#ifndef SF_TESTS_LIB_TREE_WORLD_H
#define SF_TESTS_LIB_TREE_WORLD_H

#include <stdlib.h>

#include "tree/tree.h"
#include "view_world.h"
static inline struct sf_tree *tree_of(struct vw *w)
{
	struct sf_tree *t = NULL;

	vw_open(w);
	vw_ok(sf_tree_new(w->cat, w->reader, &t, &err));
	return t;
}

/* A listing as text: "name/" for directories, "name@" for links, sorted as listed, '|' between. */
struct names {
	struct sf_buf text;
	struct sf_tree *t;
	sf_node dir;
	unsigned n;
};

static inline int add_name(void *arg, const char *name, size_t len, sf_node node,
                           enum sf_node_type type, uint64_t next)
{
	struct names *l = arg;
	struct sf_attr a;
	sf_node found = 0;
	(void)next;

	if (l->n++)
		sf_buf_byte(&l->text, '|');
	sf_buf_add(&l->text, name, len);
	sf_buf_str(&l->text, type == SF_NODE_DIR ? "/" : type == SF_NODE_LINK ? "@" : "");
	/* what is listed is found, as the same node of the same type */
	ck_assert_int_eq(sf_tree_lookup(l->t, l->dir, name, len, &found), 0);
	ck_assert_uint_eq(found, node);
	int r = sf_tree_attr(l->t, node, &a);
	ck_assert_msg(r == 0 || r == -EAGAIN, "%.*s: %d", (int)len, name, r);
	ck_assert_int_eq(a.type, type);
	return 0;
}

static inline char *list(struct sf_tree *t, const char *path)
{
	struct names l = { .t = t };

	vw_ok(sf_tree_walk(t, path, true, &l.dir, &err));
	ck_assert_int_eq(sf_tree_readdir(t, l.dir, 0, add_name, &l), 0);
	sf_buf_byte(&l.text, 0);
	return (char *)l.text.at;
}

#define ck_list(tree, path, want)              \
	do {                                   \
		char *got_ = list(tree, path); \
		ck_assert_str_eq(got_, want);  \
		free(got_);                    \
	} while (0)

/* A checkpoint of two groups, a step and stored files. */
static inline void ordinary(struct vw *w)
{
	static const uint64_t dims[2] = { 2, 2 };

	vw_init(w);
	vw_tensor(w, "model.a", SF_FLOAT32, 2, dims);
	vw_tensor(w, "model.a.b", SF_BFLOAT16, 2, dims);
	vw_tensor(w, "model.c/d", SF_COMPLEX128, 2, dims);
	vw_tensor(w, "optimizer.x", SF_FLOAT32, 2, dims);
	vw_object(w, "train.step");
	vw_file(w, ".metadata", "m");
	vw_file(w, "latest", "l");
	vw_file(w, "sub/x", "xx");
	vw_file(w, "sub-y", "yyy");
	vw_file(w, "sub/deep/z", "z");
}

#endif
