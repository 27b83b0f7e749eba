#include "config.h"

#include "catalog/catalog_slice.h"
#include "catalog/view_wanted.h"
#include "tree/tree_priv.h"

static uint64_t nfiles_of_entry(const struct sf_tree *t, uint32_t entry)
{
	const struct sf_entry *e = &t->c->entry[entry];
	bool state = sf_links_in_state(t, entry);

	if (e->tensor == SF_NONE)
		return state ? 2 : 0; /* value.json, value.pt */
	return (state ? 2 : 0) +      /* tensor.raw, info.json */
	       ((state || t->shows_npy) && sf_flat_shows(t, SF_T_NPY_FILE, entry)) +
	       ((state || t->shows_pt) && sf_flat_shows(t, SF_T_PT_FILE, entry)) +
	       ((state || t->shows_safetensors) && sf_flat_shows(t, SF_T_SAFETENSORS_FILE, entry));
}

static uint64_t count_files(const struct sf_tree *t)
{
	uint64_t n = SF_NCONTROL;

	for (uint32_t i = 0; i < t->nroot; i++)
		n += t->root[i].what != SF_ROOT_DIR && t->root[i].same == i;
	if (t->hf)
		n += sf_hf_nfiles(t) - (t->hf_same != SF_NONE);
	if (sf_view_wanted(t->c->opt, "shards"))
		n += t->nshown;
	if (t->c->slices && sf_view_wanted(t->c->opt, "slices"))
		n += t->c->slices->ranks;
	for (uint32_t i = 0; i < t->c->n; i++)
		n += nfiles_of_entry(t, i);
	return n;
}

void sf_tree_totals(struct sf_tree *t, uint64_t *ret_bytes, uint64_t *ret_files)
{
	uint64_t known = atomic_load_explicit(&t->nfiles, memory_order_relaxed);

	if (!known) {
		known = count_files(t) + 1;
		atomic_store_explicit(&t->nfiles, known, memory_order_relaxed);
	}
	*ret_bytes = t->bytes;
	*ret_files = known - 1;
}
