#include "config.h"

#include <stddef.h>
#include <string.h>

#include "base/mem.h"
#include "catalog/map_shipped.h"

/*
 * Names of OLMo-core's Transformer below its group, to those of transformers' models. Only what is
 * renamed: mixtures of experts are transposed and cut as well, and are in none of them.
 * Source: allenai/OLMo-core src/olmo_core/nn/hf/convert.py (HF_TO_OLMO_CORE_WEIGHT_MAPPINGS and
 * MODEL_TYPE_SPECIFIC_…), 2.x.
 */
#define OLMO_CORE                                                                   \
	"embeddings.weight\tmodel.embed_tokens.weight\n"                            \
	"lm_head.norm.weight\tmodel.norm.weight\n"                                  \
	"lm_head.w_out.weight\tlm_head.weight\n"                                    \
	"blocks.*.attention.w_q.weight\tmodel.layers.*.self_attn.q_proj.weight\n"   \
	"blocks.*.attention.w_k.weight\tmodel.layers.*.self_attn.k_proj.weight\n"   \
	"blocks.*.attention.w_v.weight\tmodel.layers.*.self_attn.v_proj.weight\n"   \
	"blocks.*.attention.w_out.weight\tmodel.layers.*.self_attn.o_proj.weight\n" \
	"blocks.*.feed_forward.w1.weight\tmodel.layers.*.mlp.gate_proj.weight\n"    \
	"blocks.*.feed_forward.w2.weight\tmodel.layers.*.mlp.down_proj.weight\n"    \
	"blocks.*.feed_forward.w3.weight\tmodel.layers.*.mlp.up_proj.weight\n"

static const struct {
	const char *name, *lines;
} shipped[] = {
	{ "olmo-core-llama", OLMO_CORE
	  "blocks.*.attention_norm.weight\tmodel.layers.*.input_layernorm.weight\n"
	  "blocks.*.feed_forward_norm.weight\tmodel.layers.*.post_attention_layernorm.weight\n" },
	{ "olmo-core-olmo2", OLMO_CORE
	  "blocks.*.attention.q_norm.weight\tmodel.layers.*.self_attn.q_norm.weight\n"
	  "blocks.*.attention.k_norm.weight\tmodel.layers.*.self_attn.k_norm.weight\n"
	  "blocks.*.attention_norm.weight\tmodel.layers.*.post_attention_layernorm.weight\n"
	  "blocks.*.feed_forward_norm.weight\tmodel.layers.*.post_feedforward_layernorm.weight\n" },
};

const char *sf_map_shipped(const char *name)
{
	for (size_t i = 0; i < SF_ARRAY_LEN(shipped); i++)
		if (strcmp(shipped[i].name, name) == 0)
			return shipped[i].lines;
	return NULL;
}
