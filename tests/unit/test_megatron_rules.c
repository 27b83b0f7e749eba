#include "config.h"

#include "base/mem.h"
#include "format/megatron/megatron_rules.h"
#include "tests/lib/sf_test.h"

/* Which rule a name has, and what a file of rules may say. */

static void check(const struct megatron_rules *rules, const char *name, int how, unsigned axis)
{
	bool known;
	const struct megatron_rule rule = megatron_rules_find(rules, name, strlen(name), &known);

	ck_assert_msg(known == (how >= 0), "%s", name);
	if (how < 0)
		ck_assert_int_eq(rule.how, MEGATRON_PER_RANK);
	else
		ck_assert_msg(rule.how == how && rule.axis == axis, "%s: %d %u", name, rule.how,
		              rule.axis);
}

START_TEST(names_of_megatron_have_the_rules_of_its_layers)
{
	static const struct {
		const char *name;
		int how;
		unsigned axis;
	} cases[] = {
		{ "embedding.word_embeddings.weight", MEGATRON_JOIN, 0 },
		{ "embedding.position_embeddings.weight", MEGATRON_COPY, 0 },
		{ "output_layer.weight", MEGATRON_JOIN, 0 },
		{ "decoder.layers.0.self_attention.linear_qkv.weight", MEGATRON_JOIN, 0 },
		{ "decoder.layers.0.self_attention.linear_qkv.layer_norm_weight", MEGATRON_COPY,
		  0 },
		{ "decoder.layers.0.self_attention.linear_proj.weight", MEGATRON_JOIN, 1 },
		{ "decoder.layers.0.self_attention.linear_proj.bias", MEGATRON_COPY, 0 },
		{ "decoder.layers.0.self_attention.q_layernorm.weight", MEGATRON_COPY, 0 },
		{ "decoder.layers.0.mlp.linear_fc1.weight", MEGATRON_GATED, 0 },
		{ "decoder.layers.0.mlp.linear_fc1.bias", MEGATRON_GATED, 0 },
		{ "decoder.layers.0.mlp.linear_fc1.layer_norm_bias", MEGATRON_COPY, 0 },
		{ "decoder.layers.0.mlp.linear_fc2.weight", MEGATRON_JOIN, 1 },
		{ "decoder.layers.0.mlp.linear_fc2.bias", MEGATRON_COPY, 0 },
		{ "decoder.layers.0.mlp.experts.linear_fc1.weight13", MEGATRON_GATED, 0 },
		{ "decoder.layers.0.mlp.experts.linear_fc2.weight13", MEGATRON_JOIN, 1 },
		{ "decoder.layers.0.mlp.experts.local_experts.3.linear_fc2.weight", MEGATRON_JOIN,
		  1 },
		{ "decoder.layers.0.mlp.router.weight", MEGATRON_COPY, 0 },
		{ "decoder.final_layernorm.weight", MEGATRON_COPY, 0 },
		{ "language_model.encoder.layers.0.self_attention.query_key_value.weight",
		  MEGATRON_JOIN, 0 },
		{ "language_model.encoder.layers.0.self_attention.dense.weight", MEGATRON_JOIN, 1 },
		{ "language_model.encoder.layers.0.mlp.dense_4h_to_h.weight", MEGATRON_JOIN, 1 },
		{ "language_model.encoder.layers.0.mlp.dense_4h_to_h.bias", MEGATRON_COPY, 0 },
		{ "decoder.layers.0.mlp.experts.weight1", -1, 0 },
		{ "decoder.layers.0.mixer.in_proj.weight", -1, 0 },
		{ "decoder.layers.0.self_attention.linear_kv_down_proj.weight", -1, 0 },
	};
	struct megatron_rules rules = { .gated = true };

	for (size_t i = 0; i < SF_ARRAY_LEN(cases); i++)
		check(&rules, cases[i].name, cases[i].how, cases[i].axis);
	rules.gated = false;
	check(&rules, "decoder.layers.0.mlp.linear_fc1.weight", MEGATRON_JOIN, 0);
	check(&rules, "decoder.layers.0.mlp.experts.linear_fc1.weight0", MEGATRON_JOIN, 0);
}
END_TEST

START_TEST(the_users_rules_are_asked_first)
{
	static const char text[] = "# ours\n"
				   "\n"
				   "*linear_proj.weight 0\n"
				   "  *in_proj.weight\tgated  # halves\r\n"
				   "*conv1d.weight 2\n"
				   "*linear_fc2.weight rank\n"
				   "*.A_log copy";
	struct megatron_rules rules = { .gated = true };

	ck_assert_int_eq(megatron_rules_parse(text, strlen(text), &rules, NULL), 0);
	ck_assert_uint_eq(rules.n, 5);
	check(&rules, "x.linear_proj.weight", MEGATRON_JOIN, 0);
	check(&rules, "x.in_proj.weight", MEGATRON_GATED, 0);
	check(&rules, "x.conv1d.weight", MEGATRON_JOIN, 2);
	check(&rules, "x.linear_fc2.weight", MEGATRON_PER_RANK, 0);
	check(&rules, "x.A_log", MEGATRON_COPY, 0);
	check(&rules, "x.linear_fc1.weight", MEGATRON_GATED, 0);
	megatron_rules_release(&rules);
}
END_TEST

START_TEST(what_is_no_rule_is_named_by_its_line)
{
	static const char *const bad[] = { "a 0\nb",      "a 0\nb 8",   "a 0\nb 10",
		                           "a 0\nb join", "a 0\nb 0 0", "a 0\nb copy gated" };

	for (size_t i = 0; i < SF_ARRAY_LEN(bad); i++) {
		struct megatron_rules rules = { .n = 0 };
		struct sf_error err = SF_ERROR_INIT;
		ck_assert_int_eq(megatron_rules_parse(bad[i], strlen(bad[i]), &rules, &err),
		                 -EINVAL);
		ck_assert_msg(strstr(err.msg, "line 2"), "%s", err.msg);
		megatron_rules_release(&rules);
	}
}
END_TEST

START_TEST(a_file_of_no_rules_is_fine)
{
	struct megatron_rules rules = { .n = 0 };

	ck_assert_int_eq(megatron_rules_parse("", 0, &rules, NULL), 0);
	ck_assert_uint_eq(rules.n, 0);
	megatron_rules_release(&rules);
	ck_assert_int_eq(megatron_rules_parse("#\n\n", 3, &rules, NULL), 0);
	ck_assert_uint_eq(rules.n, 0);
	megatron_rules_release(&rules);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("megatron_rules");
	TCase *tc = tcase_create("rules");

	tcase_add_test(tc, names_of_megatron_have_the_rules_of_its_layers);
	tcase_add_test(tc, the_users_rules_are_asked_first);
	tcase_add_test(tc, what_is_no_rule_is_named_by_its_line);
	tcase_add_test(tc, a_file_of_no_rules_is_fine);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
