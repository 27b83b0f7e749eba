#include "config.h"

#include <string.h>

#include "save/save_plan_priv.h"

/* A place in the nested state dict. */
struct node {
	const char *name; /* NULL: @index */
	uint64_t index;
	uint32_t parent;
	uint32_t key;   /* that ends here, or the first that goes on below */
	bool is_leaf;   /* it ends here */
	bool has_names; /* of those below: names, or a list's indexes. The root is a dict anyhow */
};
SF_VEC(nodes, struct node);

struct tree {
	const struct sf_plan_make *m;
	struct nodes node; /* 0 is the root */
	struct sf_map map;
	struct sf_buf probe;
	struct sf_error *err;
};

/* What is asked for: the parent's number, then a name behind 'n' or an index behind 'i'. */
static int same_node(void *arg, uint32_t value, const char *at, size_t len)
{
	const struct node *n = &((const struct tree *)arg)->node.at[value];

	if (n->parent != sf_le32(at) || (at[4] == 'n') != (n->name != NULL))
		return 0;
	if (!n->name)
		return sf_le64(at + 5) == n->index;
	return strlen(n->name) == len - 5 && memcmp(n->name, at + 5, len - 5) == 0;
}

static int no_memory(const struct tree *t)
{
	return sf_fail(t->err, -ENOMEM, "no memory for the paths of %zu keys", t->m->key.n);
}

static struct sf_save_shown shown(const struct tree *t, uint32_t key)
{
	return sf_save_shown(t->m->key.at[key].key, t->m->key.at[key].key_len);
}

static int clash(const struct tree *t, uint32_t key, uint32_t other, const char *why)
{
	return sf_fail(t->err, -EINVAL, "'%s' of rank %u and '%s' of rank %u: %s",
	               shown(t, other).at, t->m->more.at[other].rank, shown(t, key).at,
	               t->m->more.at[key].rank, why);
}

/* The place of a step below @parent, made where there is none. */
static int step(struct tree *t, uint32_t parent, const struct shardfuse_save_step *s, uint32_t key,
                uint32_t *ret)
{
	uint32_t next = (uint32_t)t->node.n, found;
	uint8_t head[13];
	int failed = 0;

	sf_put_le32(head, parent);
	head[4] = s->name ? 'n' : 'i';
	sf_put_le64(head + 5, s->index);
	sf_buf_reset(&t->probe);
	sf_buf_add(&t->probe, head, s->name ? 5 : sizeof(head));
	if (s->name)
		sf_buf_str(&t->probe, s->name);
	if (sf_buf_check(&t->probe) < 0 || t->node.n >= SF_MAP_NONE - 1 ||
	    nodes_push(&t->node, (struct node){ .name = s->name,
	                                        .index = s->name ? 0 : s->index,
	                                        .parent = parent,
	                                        .key = key }) < 0)
		return no_memory(t);
	found = sf_map_add(&t->map, (const char *)t->probe.at, t->probe.len, next, same_node, t,
	                   &failed);
	if (failed < 0)
		return no_memory(t);
	if (found != SF_MAP_NONE) {
		t->node.n--;
		*ret = found;
		return 0;
	}
	*ret = next;
	return 0;
}

static int add_path(struct tree *t, uint32_t key)
{
	const struct sf_global_key *k = &t->m->key.at[key];
	const struct shardfuse_save_step whole = { .name = k->key };
	const struct shardfuse_save_step *path = k->npath ? k->path : &whole;
	uint32_t npath = k->npath ? k->npath : 1, at = 0, below = 0;

	for (uint32_t i = 0; i < npath; i++, at = below) {
		size_t known = t->node.n;
		const struct node *n = &t->node.at[at];
		bool is_new = n->key == key;
		int r;

		if (n->is_leaf)
			return clash(t, key, n->key, "the path of one goes on behind the other's");
		if (at && !is_new && n->has_names != (path[i].name != NULL))
			return clash(t, key, n->key, "a list's index and a name in one place");
		t->node.at[at].has_names = path[i].name != NULL;
		r = step(t, at, &path[i], key, &below);
		if (r < 0)
			return r;
		if (i + 1 == npath && t->node.n == known)
			return clash(t, key, t->node.at[below].key,
			             t->node.at[below].is_leaf
			                     ? "they have one path"
			                     : "the path of one goes on behind the other's");
	}
	t->node.at[at].is_leaf = true;
	return 0;
}

int sf_plan_check_paths(const struct sf_plan_make *m, struct sf_error *err)
{
	struct tree t = { .m = m, .err = err };
	bool any = false;
	int r;

	for (size_t k = 0; k < m->key.n && !any; k++)
		any = m->key.at[k].npath != 0;
	if (!any) /* each key is its own path */
		return 0;
	r = nodes_push(&t.node, (struct node){ .key = 0 }) < 0 ? no_memory(&t) : 0;
	for (size_t k = 0; k < m->key.n && r >= 0; k++)
		r = add_path(&t, (uint32_t)k);
	nodes_release(&t.node);
	sf_map_release(&t.map);
	sf_buf_release(&t.probe);
	return r;
}
