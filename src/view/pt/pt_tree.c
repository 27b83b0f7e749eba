#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "view/pt/pt.h"

/* None fills lists up to a position that is saved; past these a container with int keys is a dict
 * (nobody's real lists). */
#define FILL_A_LIST 4096
#define FILL_A_FILE (1u << 24)

struct node {
	uint32_t parent, first, last, next; /* children in order of appearance */
	uint32_t leaf;                      /* leaf[] of a value, SF_NONE: a container */
	uint32_t nchildren;
	struct sf_pt_elem elem;
	uint8_t container; /* enum sf_pt_container */
};
struct tree {
	struct sf_pt *pt;
	struct node *node;
	size_t n, cap;
	struct sf_map map; /* (parent, kind, text) -> node */
	struct sf_buf key;
	uint64_t filled;
};

/* Path elements that are left out in front. */
static unsigned strip_of(const struct sf_pt *pt, const struct sf_entry *e)
{
	return e->moved ? 0 : pt->sel.strip;
}

/* The name without the text of the stripped elements, where it begins with them. */
static struct sf_pt_elem flat_name(const struct sf_pt *pt, const struct sf_pt_leaf *l)
{
	const struct sf_entry *e = sf_pt_entry(pt, l);
	struct sf_pt_elem name = { e->name, e->len, SF_PATH_TEXT };

	if (pt->sel.names) {
		name.s = pt->sel.names[l->pos];
		name.len = pt->sel.name_lens[l->pos];
		return name;
	}
	unsigned strip = strip_of(pt, e);
	if (e->npath <= strip)
		return name;
	for (unsigned d = 0; d < strip; d++) {
		const struct sf_path_elem *p = &e->path[d];
		if (name.len <= p->len || memcmp(name.s, p->s, p->len) != 0 ||
		    name.s[p->len] != '.')
			return (struct sf_pt_elem){ e->name, e->len, SF_PATH_TEXT };
		name.s += p->len + 1;
		name.len -= p->len + 1;
	}
	return name;
}

struct sf_pt_elem sf_pt_elem(const struct sf_pt *pt, const struct sf_pt_leaf *l, unsigned d)
{
	if (l->flat)
		return flat_name(pt, l);
	const struct sf_entry *e = sf_pt_entry(pt, l);
	const struct sf_path_elem *p = &e->path[strip_of(pt, e) + d];
	return (struct sf_pt_elem){ p->s, p->len, (uint8_t)p->kind };
}

bool sf_pt_index(const struct sf_pt_elem *e, uint64_t *ret)
{
	uint64_t v = 0;

	if ((e->kind != SF_PATH_LIST && e->kind != SF_PATH_TUPLE) || e->len == 0 || e->len > 10 ||
	    (e->s[0] == '0' && e->len > 1))
		return false;
	for (size_t i = 0; i < e->len; i++) {
		if (e->s[i] < '0' || e->s[i] > '9')
			return false;
		v = v * 10 + (uint64_t)(e->s[i] - '0');
	}
	if (v > INT32_MAX)
		return false;
	*ret = v;
	return true;
}

/* The map's key of a child: kept in a buffer that is made anew for each question. A text is another
 * key than the number of the same digits; of numbers there is one, whatever holds them. */
static int child_key(struct tree *t, uint32_t parent, const struct sf_pt_elem *e)
{
	uint8_t head[5];

	sf_buf_reset(&t->key);
	sf_put_le32(head, parent);
	head[4] = e->kind != SF_PATH_TEXT;
	sf_buf_add(&t->key, head, sizeof(head));
	sf_buf_add(&t->key, e->s, e->len);
	return sf_buf_check(&t->key);
}

static int same_child(void *arg, uint32_t value, const char *key, size_t len)
{
	const struct tree *t = arg;
	const struct node *n = &t->node[value];

	return n->parent == sf_le32(key) && (n->elem.kind != SF_PATH_TEXT) == (key[4] != 0) &&
	       n->elem.len == len - 5 && memcmp(n->elem.s, key + 5, len - 5) == 0;
}

static int new_node(struct tree *t, uint32_t parent, const struct sf_pt_elem *e)
{
	if (t->n >= INT32_MAX || (t->n == t->cap && sf_vec_grow((void **)&t->node, &t->cap,
	                                                        t->n + 1, sizeof(*t->node)) < 0))
		return -ENOMEM;
	t->node[t->n++] = (struct node){ .parent = parent,
		                         .first = SF_NONE,
		                         .last = SF_NONE,
		                         .next = SF_NONE,
		                         .leaf = SF_NONE };
	if (e)
		t->node[t->n - 1].elem = *e;
	return 0;
}

/* The child of @parent for @e, made when it is new (*ret_new). */
static int child(struct tree *t, uint32_t parent, const struct sf_pt_elem *e, uint32_t *ret,
                 bool *ret_new)
{
	int r = child_key(t, parent, e), failed = 0;
	if (r < 0)
		return r;
	uint32_t made = (uint32_t)t->n;
	r = new_node(t, parent, e);
	if (r < 0)
		return r;
	uint32_t there = sf_map_add(&t->map, (const char *)t->key.at, t->key.len, made, same_child,
	                            t, &failed);
	*ret_new = there == SF_MAP_NONE;
	if (!*ret_new || failed)
		t->n--;
	if (failed)
		return failed;
	if (!*ret_new) {
		*ret = there;
		return 0;
	}
	struct node *p = &t->node[parent];
	if (p->last == SF_NONE)
		p->first = made;
	else
		t->node[p->last].next = made;
	p->last = made;
	p->nchildren++;
	*ret = made;
	return 0;
}

/* 1 when the leaf has its place, 0 when that is taken (a value where a container must be, or the
 * other way round). */
static int insert(struct tree *t, uint32_t leaf)
{
	const struct sf_pt_leaf *l = &t->pt->leaf[leaf];
	uint32_t at = 0, there;
	bool made;

	/* Look first: a path that clashes must not leave empty containers behind. */
	for (unsigned d = 0; d < l->depth; d++) {
		struct sf_pt_elem e = sf_pt_elem(t->pt, l, d);
		int r = child_key(t, at, &e);
		if (r < 0)
			return r;
		there = sf_map_get(&t->map, (const char *)t->key.at, t->key.len, same_child, t);
		if (there == SF_MAP_NONE)
			break;
		at = there;
		if (t->node[at].leaf != SF_NONE || d + 1 == l->depth)
			return 0;
	}
	at = 0;
	for (unsigned d = 0; d < l->depth; d++) {
		struct sf_pt_elem e = sf_pt_elem(t->pt, l, d);
		int r = child(t, at, &e, &at, &made);
		if (r < 0)
			return r;
	}
	t->node[at].leaf = leaf;
	return 1;
}

/* A container is a list, or a tuple, when all its keys are positions of one and not too far apart,
 * as dcp's set_element would make a list. */
static enum sf_pt_container container_of(struct tree *t, const struct node *n)
{
	const uint8_t kind = t->node[n->first].elem.kind;
	uint64_t max = 0, index;

	for (uint32_t c = n->first; c != SF_NONE; c = t->node[c].next) {
		if (t->node[c].elem.kind != kind || !sf_pt_index(&t->node[c].elem, &index))
			return SF_PT_DICT;
		max = SF_MAX(max, index);
	}
	uint64_t holes = max + 1 > n->nchildren ? max + 1 - n->nchildren : 0;
	if (holes > FILL_A_LIST || t->filled + holes > FILL_A_FILE)
		return SF_PT_DICT;
	t->filled += holes;
	return kind == SF_PATH_TUPLE ? SF_PT_TUPLE : SF_PT_LIST;
}

struct position {
	uint64_t index;
	uint32_t node;
};

static int by_index(const void *a, const void *b)
{
	const struct position *x = a, *y = b;
	return (x->index > y->index) - (x->index < y->index);
}

static int sort_children(struct tree *t, struct node *n)
{
	SF_FREE struct position *p = sf_alloc_array(n->nchildren, sizeof(*p));
	uint32_t k = 0;

	if (!p)
		return -ENOMEM;
	for (uint32_t c = n->first; c != SF_NONE; c = t->node[c].next, k++) {
		p[k].node = c;
		sf_pt_index(&t->node[c].elem, &p[k].index);
	}
	qsort(p, k, sizeof(*p), by_index);
	for (uint32_t i = 0; i < k; i++)
		t->node[p[i].node].next = i + 1 < k ? p[i + 1].node : SF_NONE;
	n->first = p[0].node;
	return 0;
}

/* Bit @depth of @bits, and none above it. */
static uint64_t with_bit(uint64_t bits, unsigned depth, bool set)
{
	return (bits & ((UINT64_C(1) << depth) - 1)) | (uint64_t)set << depth;
}

/* Depth first: the leaves in the order in which the pickle has them. */
static void walk(struct tree *t, struct sf_pt_leaf *out)
{
	uint64_t lists = t->node[0].container == SF_PT_LIST;
	uint64_t tuples = t->node[0].container == SF_PT_TUPLE;
	unsigned depth = 1; /* containers open */
	uint32_t at = t->node[0].first, n = 0;

	while (at != SF_NONE) {
		const struct node *nd = &t->node[at];
		if (nd->leaf == SF_NONE) {
			lists = with_bit(lists, depth, nd->container == SF_PT_LIST);
			tuples = with_bit(tuples, depth, nd->container == SF_PT_TUPLE);
			depth++;
			at = nd->first; /* a container has a child */
			continue;
		}
		const uint64_t open = depth < 64 ? (UINT64_C(1) << depth) - 1 : UINT64_MAX;
		out[n] = t->pt->leaf[nd->leaf];
		out[n].lists = lists & open;
		out[n++].tuples = tuples & open;
		while (at != SF_NONE && t->node[at].next == SF_NONE) {
			at = t->node[at].parent;
			if (at == 0)
				at = SF_NONE;
			else
				depth--;
		}
		if (at != SF_NONE)
			at = t->node[at].next;
	}
	t->pt->nleaf = n;
}

static int nest(struct tree *t, struct sf_error *err)
{
	struct sf_pt *pt = t->pt;
	uint32_t nleaf = pt->nleaf;

	if (new_node(t, SF_NONE, NULL) < 0)
		return sf_fail(err, -ENOMEM, "nesting %" PRIu32 " keys", nleaf);
	for (uint32_t i = 0; i < nleaf; i++) {
		struct sf_pt_leaf *l = &pt->leaf[i];
		int r = insert(t, i);
		if (r == 0 &&
		    !l->flat) { /* its own place is taken: under its full name at the root */
			l->flat = 1;
			l->depth = 1;
			r = insert(t, i);
		}
		if (r < 0)
			return sf_fail(err, r, "nesting %" PRIu32 " keys", nleaf);
		if (r == 0)
			sf_pt_left_out(pt, l,
			               "another key has its place in the state dict, and its name");
	}
	for (size_t i = 0; i < t->n; i++) {
		struct node *n = &t->node[i];
		if (n->first == SF_NONE ||
		    (i == 0 && pt->sel.strip == 0)) /* the state dict itself is a dict */
			continue;
		n->container = container_of(t, n);
		if (n->container != SF_PT_DICT && sort_children(t, n) < 0)
			return sf_fail(err, -ENOMEM, "nesting a list of %" PRIu32, n->nchildren);
	}
	struct sf_pt_leaf *out = sf_alloc_array(nleaf, sizeof(*out));
	if (!out)
		return sf_fail(err, -ENOMEM, "nesting %" PRIu32 " keys", nleaf);
	pt->root = t->node[0].container;
	walk(t, out);
	free(pt->leaf);
	pt->leaf = out;
	return 0;
}

int sf_pt_tree(struct sf_pt *pt, struct sf_error *err)
{
	const struct sf_selection *sel = &pt->sel;

	pt->leaf = sf_alloc_array(sel->n, sizeof(*pt->leaf));
	if (!pt->leaf)
		return sf_fail(err, -ENOMEM, "leaves of %" PRIu32 " keys", sel->n);
	pt->nleaf = sel->n;
	for (uint32_t i = 0; i < sel->n; i++) {
		struct sf_pt_leaf *l = &pt->leaf[i];
		*l = (struct sf_pt_leaf){ .pos = i };
		const struct sf_entry *e = sf_pt_entry(pt, l);
		l->object = e->tensor == SF_NONE;
		if (sel->bare)
			continue;
		const unsigned strip = strip_of(pt, e);
		l->flat = sel->flat || sel->names || e->npath <= strip ||
		          e->npath - strip > SF_PATH_NESTED;
		l->depth = l->flat ? 1 : (uint8_t)(e->npath - strip);
	}
	if (sel->bare)
		return 0;

	struct tree t = { .pt = pt };
	int r = sf_map_reserve(&t.map, (size_t)sel->n + sel->n / 2);
	r = r < 0 ? sf_fail(err, r, "nesting %" PRIu32 " keys", sel->n) : nest(&t, err);
	free(t.node);
	sf_map_release(&t.map);
	sf_buf_release(&t.key);
	return r;
}
