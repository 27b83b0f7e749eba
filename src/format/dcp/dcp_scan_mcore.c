#include "config.h"

#include <errno.h>
#include <string.h>

#include "format/dcp/dcp_scan_state.h"

/* What Megatron-Core puts into DCP's metadata beside what torch does. */

/* Megatron's word on tensors that are stored flattened: key -> dict, with their shape in it. */
static int take_flat(struct dcp_scan *s, dcp_value dict)
{
	const struct dcp_cont *c;
	uint64_t shape[SF_DIMS_MAX];
	int r;

	if (dcp_tag(dict) != V_DICT) /* another's attribute of that name, if there is one */
		return 0;
	s->m->facts.mcore_data = true;
	c = &s->cont.at[dcp_num(dict)];
	for (uint32_t i = 0; i + 1 < c->n; i += 2) {
		dcp_value v = dcp_scan_dict_get(s, c->at[i + 1], W_FLAT_SHAPE);
		int n;
		if (dcp_tag(c->at[i]) != V_STR || dcp_tag(c->at[i + 1]) != V_DICT)
			return DCP_UNKNOWN;
		if (v == V_ABSENT)
			continue;
		n = dcp_scan_coords(s, v, shape);
		if (n < 0)
			return DCP_UNKNOWN;
		r = dcp_meta_flat(s->m, (uint32_t)dcp_num(c->at[i]), shape, (unsigned)n);
		if (r < 0)
			return r == -EEXIST ? DCP_UNKNOWN : dcp_scan_no_memory(s);
	}
	return 0;
}

bool dcp_scan_is_enough(const struct dcp_scan *s)
{
	return s->mark.n == 1 && s->mark.at[0] == 2 && s->stack.n % 2 == 1 &&
	       dcp_tag(s->stack.at[0]) == V_OBJ && dcp_tag(s->stack.at[1]) == V_DICT;
}

/*
 * Megatron-Core 0.11 and later put the plans of all ranks behind everything else: most of the file,
 * nothing to read tensors by, and full of values that the columns before have passed over. Source:
 * NVIDIA/Megatron-LM megatron/core/dist_checkpointing/strategies/state_dict_saver.py, 0.11 to 0.19.
 */
int dcp_scan_enough(struct dcp_scan *s)
{
	uint8_t last = 0;
	int r = sf_source_read(s->src, s->size - 1, &last, 1, SF_FETCH_METADATA, s->err);

	if (r < 0)
		return r;
	if (last != '.')
		return dcp_scan_bad(s, "behind all_local_plans the file does not end with STOP");
	s->stack.n--;
	s->mark.n = 0;
	r = dcp_scan_set_items(s, 2, 1);
	return r == 0 ? dcp_scan_build(s) : r;
}

/* What only Megatron's metadata has. */
int dcp_scan_megatron(struct dcp_scan *s)
{
	const struct dcp_obj *root = &s->obj.at[dcp_num(s->stack.at[0])];
	const struct dcp_str *name = &s->m->str.at[s->global.at[root->global].name];

	s->m->facts.mcore_class = name->len == 13 && memcmp(name->at, "MCoreMetadata", 13) == 0;
	return take_flat(s, dcp_made(s, dcp_scan_dict_get(s, root->state, W_MCORE_DATA)));
}
