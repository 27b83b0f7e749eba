#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "catalog/view_wanted.h"
#include "tree/tree_priv.h"
#include "view/st/st_skipped.h"

/*
 * Paths that show the same bytes lead to one node: one inode with that many links, one page cache,
 * and who adds up sizes counts them once. A tensor's files in state/ and in the flat directories
 * are the same by their making, so both directories give the same number; here are the files of
 * many tensors, which are the same when their selections are.
 */

static enum sf_dtype dtype_in(const struct sf_tree *t, const struct sf_selection *sel,
                              const struct sf_entry *e)
{
	return sel->cast ? (enum sf_dtype)e->dtype
	                 : (enum sf_dtype)t->c->ckpt->tensor[e->tensor].dtype;
}

static bool same_dtype(const struct sf_tree *t, const struct sf_selection *a,
                       const struct sf_selection *b, uint32_t entry)
{
	const struct sf_entry *e = &t->c->entry[entry];

	return e->tensor == SF_NONE || dtype_in(t, a, e) == dtype_in(t, b, e);
}

/* The same entries in the same order, under the same names: whatever is made of them is the same. */
static bool same_selection(const struct sf_tree *t, const struct sf_selection *a,
                           const struct sf_selection *b)
{
	if (a->n != b->n || a->strip != b->strip)
		return false;
	for (uint32_t i = 0; i < a->n; i++)
		if (a->entry[i] != b->entry[i] || !same_dtype(t, a, b, a->entry[i]))
			return false;
	return true;
}

/*
 * A file of hf/ has an order and names of its own, and holds all that was chosen for it. A
 * safetensors file sorts its tensors itself: another is the same if it holds these under these
 * names and there is nothing else it would have to say that it leaves out.
 */
static bool same_tensors(const struct sf_tree *t, const struct sf_selection *a,
                         const struct sf_selection *hf, uint32_t *pos)
{
	if (a->n != hf->n)
		return false;
	memset(pos, 0xff, t->c->n * sizeof(*pos));
	for (uint32_t i = 0; i < a->n; i++)
		pos[a->entry[i]] = i;
	for (uint32_t i = 0; i < hf->n; i++) {
		uint32_t entry = hf->entry[i];
		size_t a_len, hf_len;
		if (pos[entry] == SF_NONE || !same_dtype(t, a, hf, entry))
			return false;
		const char *a_name = sf_st_name(t->c, a, pos[entry], &a_len),
			   *hf_name = sf_st_name(t->c, hf, i, &hf_len);
		if (a_len != hf_len || memcmp(a_name, hf_name, a_len) != 0)
			return false;
	}
	return true;
}

static bool is_pt(const struct sf_root_entry *e)
{
	return e->what == SF_ROOT_CHECKPOINT_PT || e->what == SF_ROOT_GROUP_PT;
}

static bool is_st(const struct sf_root_entry *e)
{
	return e->what == SF_ROOT_CHECKPOINT_ST || e->what == SF_ROOT_GROUP_ST;
}

/* A checkpoint without groups: its model is all of it. */
static void link_root(struct sf_tree *t)
{
	for (uint32_t i = 0; i < t->nroot; i++) {
		struct sf_root_entry *e = &t->root[i];
		const struct sf_selection sel = sf_root_selection(t, e);
		e->same = i;
		for (uint32_t k = 0; k < i && e->same == i; k++) {
			const struct sf_root_entry *of = &t->root[k];
			const struct sf_selection other = sf_root_selection(t, of);
			if (((is_pt(e) && is_pt(of)) || (is_st(e) && is_st(of))) &&
			    same_selection(t, &sel, &other))
				e->same = k;
		}
	}
}

static int link_hf(struct sf_tree *t)
{
	SF_FREE uint32_t *pos = NULL;

	if (!t->hf || t->hf->nfiles != 1)
		return 0;
	pos = sf_alloc_array(t->c->n, sizeof(*pos));
	if (!pos)
		return -ENOMEM;
	for (uint32_t i = 0; i < t->nroot && t->hf_same == SF_NONE; i++) {
		const struct sf_selection sel = sf_root_selection(t, &t->root[i]);
		if (is_st(&t->root[i]) && same_tensors(t, &sel, &t->hf->file[0].sel, pos))
			t->hf_same = i; /* the first: the one whose node it is */
	}
	return 0;
}

int sf_links_make(struct sf_tree *t, struct sf_error *err)
{
	const struct sf_view_options *o = t->c->opt;

	t->shows_state = sf_view_wanted(o, "state");
	t->shows_npy = sf_view_wanted(o, "npy");
	t->shows_pt = sf_view_wanted(o, "pt");
	t->shows_safetensors = sf_view_wanted(o, "safetensors");
	link_root(t);
	return link_hf(t) < 0 ? sf_fail(err, -ENOMEM, "no memory for a tree of %u keys", t->c->n)
	                      : 0;
}

bool sf_links_in_state(const struct sf_tree *t, uint32_t entry)
{
	const struct sf_entry *e = &t->c->entry[entry];
	unsigned parts = 1;

	for (uint32_t i = 0; i < e->len && parts <= SF_T_DEPTH_MAX; i++)
		parts += e->name[i] == '.';
	return t->shows_state && parts <= SF_T_DEPTH_MAX;
}

uint32_t sf_links_of_entry(const struct sf_tree *t, bool flat, uint32_t entry)
{
	return SF_MAX((uint32_t)flat + sf_links_in_state(t, entry), 1u);
}
