#include "config.h"

#include "tree/tree_priv.h"

static const struct sf_kind *const kinds[SF_T_NKINDS] = {
	[SF_T_ROOT] = &sf_kind_root,
	[SF_T_ROOT_FILE] = &sf_kind_root_file,
	[SF_T_HF] = &sf_kind_hf,
	[SF_T_HF_FILE] = &sf_kind_hf_file,
	[SF_T_HF_INDEX] = &sf_kind_hf_index,
	[SF_T_HF_COMPANION] = &sf_kind_hf_companion,
	[SF_T_STATE] = &sf_kind_state,
	[SF_T_LEAF_RAW] = &sf_kind_raw,
	[SF_T_LEAF_INFO] = &sf_kind_info,
	[SF_T_LEAF_VALUE_JSON] = &sf_kind_value_json,
	[SF_T_LEAF_VALUE_PT] = &sf_kind_value_pt,
	[SF_T_NPY] = &sf_kind_npy,
	[SF_T_NPY_FILE] = &sf_kind_npy_file,
	[SF_T_PT] = &sf_kind_pt,
	[SF_T_PT_FILE] = &sf_kind_pt_file,
	[SF_T_SAFETENSORS] = &sf_kind_safetensors,
	[SF_T_SAFETENSORS_FILE] = &sf_kind_safetensors_file,
	[SF_T_SHARDS] = &sf_kind_shards,
	[SF_T_SHARDS_FILE] = &sf_kind_shards_file,
	[SF_T_CONTROL] = &sf_kind_control,
	[SF_T_CONTROL_FILE] = &sf_kind_control_file,
	[SF_T_RUN_FILE] = &sf_kind_run_file,
	[SF_T_RUN_STEP] = &sf_kind_run_step,
	[SF_T_RUN_LATEST] = &sf_kind_run_latest,
	[SF_T_SLICES] = &sf_kind_slices,
	[SF_T_SLICES_FILE] = &sf_kind_slices_file,
};

static bool never(const struct sf_tree *t, sf_node n)
{
	(void)t;
	(void)n;
	return false;
}

const struct sf_kind *sf_kind_of(sf_node n)
{
	static const struct sf_kind none = { .valid = never };
	enum sf_tree_kind kind = sf_node_kind(n);

	return kind < SF_T_NKINDS ? kinds[kind] : &none;
}
