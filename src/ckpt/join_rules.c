#include "config.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "base/vec.h"
#include "ckpt/join_rules.h"

#define RULES_MAX 4096 /* of a file */
#define AXIS_MAX 7

SF_VEC(rule_vec, struct sf_join_rule);

/*
 * Source: NVIDIA/Megatron-LM megatron/core/tensor_parallel/layers.py (ColumnParallelLinear is cut
 * along axis 0 of its weight and bias, RowParallelLinear along axis 1 of its weight; its bias is
 * whole), megatron/core/transformer/ and megatron/legacy/model/ for the names.
 */
static const struct sf_join_rule built_in[] = {
	{ "*word_embeddings.weight", SF_JOIN_ALONG, 0, 2, false },
	{ "*output_layer.weight", SF_JOIN_ALONG, 0, 2, false },
	{ "*output_layer.bias", SF_JOIN_ALONG, 0, 1, false },
	{ "*lm_head.bias", SF_JOIN_ALONG, 0, 1, false },
	{ "*linear_qkv.weight", SF_JOIN_ALONG, 0, 2, false },
	{ "*linear_qkv.bias", SF_JOIN_ALONG, 0, 1, false },
	{ "*linear_q.weight", SF_JOIN_ALONG, 0, 2, false },
	{ "*linear_q.bias", SF_JOIN_ALONG, 0, 1, false },
	{ "*linear_kv.weight", SF_JOIN_ALONG, 0, 2, false },
	{ "*linear_kv.bias", SF_JOIN_ALONG, 0, 1, false },
	{ "*query_key_value.weight", SF_JOIN_ALONG, 0, 2, false },
	{ "*query_key_value.bias", SF_JOIN_ALONG, 0, 1, false },
	{ "*attention.query.weight", SF_JOIN_ALONG, 0, 2, false },
	{ "*attention.query.bias", SF_JOIN_ALONG, 0, 1, false },
	{ "*attention.key_value.weight", SF_JOIN_ALONG, 0, 2, false },
	{ "*attention.key_value.bias", SF_JOIN_ALONG, 0, 1, false },
	{ "*linear_fc1.weight", SF_JOIN_ALONG, 0, 2, true },
	{ "*linear_fc1.bias", SF_JOIN_ALONG, 0, 1, true },
	{ "*linear_fc1.weight[0-9]*", SF_JOIN_ALONG, 0, 2, true },
	{ "*linear_fc1.bias[0-9]*", SF_JOIN_ALONG, 0, 1, true },
	{ "*dense_h_to_4h.weight", SF_JOIN_ALONG, 0, 2, true },
	{ "*dense_h_to_4h.bias", SF_JOIN_ALONG, 0, 1, true },
	{ "*linear_proj.weight", SF_JOIN_ALONG, 1, 2, false },
	{ "*attention.dense.weight", SF_JOIN_ALONG, 1, 2, false },
	{ "*linear_fc2.weight", SF_JOIN_ALONG, 1, 2, false },
	{ "*linear_fc2.weight[0-9]*", SF_JOIN_ALONG, 1, 2, false },
	{ "*dense_4h_to_h.weight", SF_JOIN_ALONG, 1, 2, false },
	{ "*linear_proj.bias", SF_JOIN_COPY, 0, 1, false },
	{ "*attention.dense.bias", SF_JOIN_COPY, 0, 1, false },
	{ "*linear_fc2.bias", SF_JOIN_COPY, 0, 1, false },
	{ "*linear_fc2.bias[0-9]*", SF_JOIN_COPY, 0, 1, false },
	{ "*dense_4h_to_h.bias", SF_JOIN_COPY, 0, 1, false },
	{ "*layer_norm_weight", SF_JOIN_COPY, 0, 1, false },
	{ "*layer_norm_bias", SF_JOIN_COPY, 0, 1, false },
	{ "*norm.weight", SF_JOIN_COPY, 0, 1, false },
	{ "*norm.bias", SF_JOIN_COPY, 0, 1, false },
	{ "*position_embeddings.weight", SF_JOIN_COPY, 0, 2, false },
	{ "*tokentype_embeddings.weight", SF_JOIN_COPY, 0, 2, false },
	{ "*router.weight", SF_JOIN_COPY, 0, 2, false },
	{ "*router.bias", SF_JOIN_COPY, 0, 1, false },
	{ "*router.expert_bias", SF_JOIN_COPY, 0, 1, false },
	{ "*shared_experts.gate_weight", SF_JOIN_COPY, 0, 2, false },
	{ "*rotary_pos_emb.inv_freq", SF_JOIN_COPY, 0, 1, false },
	/* transformers' names of the same layers: nothing joins those, slice= cuts them */
	{ "*.q_proj.weight", SF_JOIN_ALONG, 0, 2, false },
	{ "*.q_proj.bias", SF_JOIN_ALONG, 0, 1, false },
	{ "*.k_proj.weight", SF_JOIN_ALONG, 0, 2, false },
	{ "*.k_proj.bias", SF_JOIN_ALONG, 0, 1, false },
	{ "*.v_proj.weight", SF_JOIN_ALONG, 0, 2, false },
	{ "*.v_proj.bias", SF_JOIN_ALONG, 0, 1, false },
	{ "*.gate_proj.weight", SF_JOIN_ALONG, 0, 2, false },
	{ "*.gate_proj.bias", SF_JOIN_ALONG, 0, 1, false },
	{ "*.up_proj.weight", SF_JOIN_ALONG, 0, 2, false },
	{ "*.up_proj.bias", SF_JOIN_ALONG, 0, 1, false },
	{ "*.o_proj.weight", SF_JOIN_ALONG, 1, 2, false },
	{ "*.down_proj.weight", SF_JOIN_ALONG, 1, 2, false },
	{ "*embed_tokens.weight", SF_JOIN_ALONG, 0, 2, false },
	{ "*lm_head.weight", SF_JOIN_ALONG, 0, 2, false },
};

/* What stands behind the pattern. */
static bool parse_how(const char *word, size_t len, struct sf_join_rule *rule)
{
	static const struct {
		const char *word;
		uint8_t how;
	} known[] = { { "gated", SF_JOIN_GATED },
		      { "copy", SF_JOIN_COPY },
		      { "rank", SF_JOIN_PER_RANK } };

	if (len == 1 && *word >= '0' && *word <= '0' + AXIS_MAX) {
		rule->how = SF_JOIN_ALONG;
		rule->axis = (uint8_t)(*word - '0');
		return true;
	}
	for (size_t i = 0; i < SF_ARRAY_LEN(known); i++)
		if (strlen(known[i].word) == len && memcmp(word, known[i].word, len) == 0) {
			rule->how = known[i].how;
			return true;
		}
	return false;
}

static const char *blanks(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\t' || *p == '\r'))
		p++;
	return p;
}

static const char *word_end(const char *p, const char *end)
{
	while (p < end && *p != ' ' && *p != '\t' && *p != '\r')
		p++;
	return p;
}

/* 1: a rule; 0: an empty line, or a comment. */
static int parse_line(const char *p, const char *end, struct sf_join_rules *rules,
                      struct sf_join_rule *ret)
{
	const char *pattern = blanks(p, end), *pattern_end, *how, *how_end;

	if (pattern == end || *pattern == '#')
		return 0;
	pattern_end = word_end(pattern, end);
	how = blanks(pattern_end, end);
	how_end = word_end(how, end);
	p = blanks(how_end, end);
	if (how == how_end || (p < end && *p != '#') ||
	    !parse_how(how, (size_t)(how_end - how), ret))
		return -EINVAL;
	ret->pattern = sf_arena_strdup(&rules->arena, pattern, (size_t)(pattern_end - pattern));
	return ret->pattern ? 1 : -ENOMEM;
}

int sf_join_rules_parse(const char *text, size_t len, struct sf_join_rules *ret,
                        struct sf_error *err)
{
	SF_CLEANUP(rule_vec_release) struct rule_vec rules = { 0 };
	const char *end = text + len;
	unsigned line = 1;

	for (const char *p = text, *next; p < end; p = next + 1, line++) {
		struct sf_join_rule rule = { .axis = 0 };
		next = memchr(p, '\n', (size_t)(end - p));
		next = next ? next : end;
		int r = parse_line(p, next, ret, &rule);
		if (r == -EINVAL)
			return sf_fail(err, r,
			               "line %u of the rules: expected PATTERN and one of 0 to %d, "
			               "gated, copy, rank",
			               line, AXIS_MAX);
		if (rules.n == RULES_MAX)
			return sf_fail(err, -EINVAL, "more than %d rules", RULES_MAX);
		if (r < 0 || (r && rule_vec_push(&rules, rule) < 0))
			return sf_fail(err, -ENOMEM, "no memory for %zu rules", rules.n);
		if (next == end)
			break;
	}
	ret->at = sf_arena_calloc(&ret->arena, rules.n + 1, sizeof(*ret->at));
	if (!ret->at)
		return sf_fail(err, -ENOMEM, "no memory for %zu rules", rules.n);
	if (rules.n)
		memcpy(ret->at, rules.at, rules.n * sizeof(*ret->at));
	ret->n = rules.n;
	return 0;
}

void sf_join_rules_release(struct sf_join_rules *rules)
{
	sf_arena_release(&rules->arena);
	*rules = (struct sf_join_rules){ .n = 0 };
}

static bool has(const struct sf_join_rule *rule, const char *name, size_t len)
{
	return sf_glob_match(rule->pattern, strlen(rule->pattern), name, len);
}

struct sf_join_rule sf_join_rules_find(const struct sf_join_rules *rules, const char *name,
                                       size_t len, bool *ret_known)
{
	struct sf_join_rule none = { .how = SF_JOIN_PER_RANK };

	*ret_known = true;
	for (size_t i = 0; i < rules->n; i++)
		if (has(&rules->at[i], name, len))
			return rules->at[i];
	for (size_t i = 0; i < SF_ARRAY_LEN(built_in); i++) {
		struct sf_join_rule rule = built_in[i];
		if (!has(&rule, name, len))
			continue;
		if (rule.if_gated && rules->gated)
			rule.how = SF_JOIN_GATED;
		return rule;
	}
	*ret_known = false;
	return none;
}
