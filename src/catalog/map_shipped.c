#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
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

/*
 * Megatron-Core's GPT to transformers' Llama, and what is like it (Qwen 2 and 3). L: how layers are
 * named, with their number, or stacked, which S takes apart. {Q}, {K}, {V}: the rows of linear_qkv lie by query group:
 * its queries, its key, its value.
 * Source: NVIDIA/Megatron-LM megatron/core/transformer/attention.py (get_query_key_value_tensors),
 * mlp.py (the gated halves), models/gpt/gpt_layer_specs.py (which norms are fused), 0.19.
 */
#define MEGATRON_LAYERS(L, S)                                                                      \
	L "self_attention.linear_qkv.weight" S "[{Q}]\tmodel.layers.*.self_attn.q_proj.weight\n" L \
	  "self_attention.linear_qkv.weight" S "[{K}]\tmodel.layers.*.self_attn.k_proj.weight\n" L \
	  "self_attention.linear_qkv.weight" S "[{V}]\tmodel.layers.*.self_attn.v_proj.weight\n" L \
	  "self_attention.linear_qkv.bias" S "[{Q}]\tmodel.layers.*.self_attn.q_proj.bias\n" L     \
	  "self_attention.linear_qkv.bias" S "[{K}]\tmodel.layers.*.self_attn.k_proj.bias\n" L     \
	  "self_attention.linear_qkv.bias" S "[{V}]\tmodel.layers.*.self_attn.v_proj.bias\n" L     \
	  "self_attention.linear_proj.weight" S "\tmodel.layers.*.self_attn.o_proj.weight\n" L     \
	  "self_attention.q_layernorm.weight" S "\tmodel.layers.*.self_attn.q_norm.weight\n" L     \
	  "self_attention.k_layernorm.weight" S "\tmodel.layers.*.self_attn.k_norm.weight\n" L     \
	  "self_attention.linear_qkv.layer_norm_weight" S                                          \
	  "\tmodel.layers.*.input_layernorm.weight\n" L "input_layernorm.weight" S                 \
	  "\tmodel.layers.*.input_layernorm.weight\n" L "mlp.linear_fc1.layer_norm_weight" S       \
	  "\tmodel.layers.*.post_attention_layernorm.weight\n" L "pre_mlp_layernorm.weight" S      \
	  "\tmodel.layers.*.post_attention_layernorm.weight\n" L "mlp.linear_fc1.weight" S         \
	  "[0:1 of 2]\tmodel.layers.*.mlp.gate_proj.weight\n" L "mlp.linear_fc1.weight" S          \
	  "[1:2 of 2]\tmodel.layers.*.mlp.up_proj.weight\n" L "mlp.linear_fc2.weight" S            \
	  "\tmodel.layers.*.mlp.down_proj.weight\n"
#define MEGATRON                                                                          \
	"embedding.word_embeddings.weight\tmodel.embed_tokens.weight\n"                   \
	"decoder.final_layernorm.weight\tmodel.norm.weight\n"                             \
	"output_layer.weight\tlm_head.weight\n" MEGATRON_LAYERS("decoder.layers.", "[*]") \
		MEGATRON_LAYERS("decoder.layers.*.", "")
#define MEGATRON_NAME "megatron-llama"

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

/* ":HEADS:GROUPS" */
static bool take_numbers(const char *s, uint64_t *ret_heads, uint64_t *ret_groups)
{
	char *end;

	if (s[0] != ':' || s[1] < '1' || s[1] > '9')
		return false;
	*ret_heads = strtoull(s + 1, &end, 10);
	if (end[0] != ':' || end[1] < '1' || end[1] > '9')
		return false;
	*ret_groups = strtoull(end + 1, &end, 10);
	return !*end && *ret_heads <= UINT32_MAX && *ret_heads % *ret_groups == 0;
}

/* Of a group's rows: so many heads of queries, one of keys, one of values. */
static void put_rows(struct sf_buf *out, char what, uint64_t heads, uint64_t groups)
{
	const uint64_t q = heads / groups,
		       from = what == 'Q'   ? 0
	                      : what == 'K' ? q
	                                    : q + 1,
		       to = what == 'Q' ? q : from + 1;

	sf_buf_printf(out, "%" PRIu64 ":%" PRIu64 " of %" PRIu64 " in %" PRIu64, from, to, q + 2,
	              groups);
}

static int put_megatron(const char *numbers, struct sf_buf *out, struct sf_error *err)
{
	uint64_t heads, groups;

	if (!take_numbers(numbers, &heads, &groups))
		return sf_fail(
			err, -EINVAL,
			"'@" MEGATRON_NAME "%s': expected @" MEGATRON_NAME
			":HEADS:GROUPS, num_attention_heads and num_query_groups, which divides "
			"it",
			numbers);
	for (const char *p = MEGATRON; *p; p++) {
		if (*p == '{') {
			put_rows(out, p[1], heads, groups);
			p += 2;
		} else {
			sf_buf_byte(out, (uint8_t)*p);
		}
	}
	return 0;
}

int sf_map_shipped(const char *name, struct sf_buf *out, struct sf_error *err)
{
	const size_t n = strlen(MEGATRON_NAME);
	int r = 0;

	if (strncmp(name, MEGATRON_NAME, n) == 0 && (!name[n] || name[n] == ':')) {
		r = put_megatron(name + n, out, err);
	} else {
		const char *lines = NULL;
		for (size_t i = 0; i < SF_ARRAY_LEN(shipped); i++)
			if (strcmp(shipped[i].name, name) == 0)
				lines = shipped[i].lines;
		if (!lines)
			return 0;
		sf_buf_str(out, lines);
	}
	if (r >= 0 && sf_buf_check(out) < 0)
		r = sf_fail(err, -ENOMEM, "'@%s'", name);
	return r < 0 ? r : 1;
}
