#include "config.h"

#include "base/mem.h"
#include "ckpt/join_rules.h"
#include "tests/lib/sf_test.h"

/* Which rule a name has, and what a file of rules may say. */

static void check(const struct sf_join_rules *rules, const char *name, int how, unsigned axis)
{
	bool known;
	const struct sf_join_rule rule = sf_join_rules_find(rules, name, strlen(name), &known);

	ck_assert_msg(known == (how >= 0), "%s", name);
	if (how < 0)
		ck_assert_int_eq(rule.how, SF_JOIN_PER_RANK);
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
		{ "embedding.word_embeddings.weight", SF_JOIN_ALONG, 0 },
		{ "embedding.position_embeddings.weight", SF_JOIN_COPY, 0 },
		{ "output_layer.weight", SF_JOIN_ALONG, 0 },
		{ "decoder.layers.0.self_attention.linear_qkv.weight", SF_JOIN_ALONG, 0 },
		{ "decoder.layers.0.self_attention.linear_qkv.layer_norm_weight", SF_JOIN_COPY, 0 },
		{ "decoder.layers.0.self_attention.linear_proj.weight", SF_JOIN_ALONG, 1 },
		{ "decoder.layers.0.self_attention.linear_proj.bias", SF_JOIN_COPY, 0 },
		{ "decoder.layers.0.self_attention.q_layernorm.weight", SF_JOIN_COPY, 0 },
		{ "decoder.layers.0.mlp.linear_fc1.weight", SF_JOIN_GATED, 0 },
		{ "decoder.layers.0.mlp.linear_fc1.bias", SF_JOIN_GATED, 0 },
		{ "decoder.layers.0.mlp.linear_fc1.layer_norm_bias", SF_JOIN_COPY, 0 },
		{ "decoder.layers.0.mlp.linear_fc2.weight", SF_JOIN_ALONG, 1 },
		{ "decoder.layers.0.mlp.linear_fc2.bias", SF_JOIN_COPY, 0 },
		{ "decoder.layers.0.mlp.experts.linear_fc1.weight13", SF_JOIN_GATED, 0 },
		{ "decoder.layers.0.mlp.experts.linear_fc2.weight13", SF_JOIN_ALONG, 1 },
		{ "decoder.layers.0.mlp.experts.local_experts.3.linear_fc2.weight", SF_JOIN_ALONG,
		  1 },
		{ "decoder.layers.0.mlp.router.weight", SF_JOIN_COPY, 0 },
		{ "decoder.final_layernorm.weight", SF_JOIN_COPY, 0 },
		{ "language_model.encoder.layers.0.self_attention.query_key_value.weight",
		  SF_JOIN_ALONG, 0 },
		{ "language_model.encoder.layers.0.self_attention.dense.weight", SF_JOIN_ALONG, 1 },
		{ "language_model.encoder.layers.0.mlp.dense_4h_to_h.weight", SF_JOIN_ALONG, 1 },
		{ "language_model.encoder.layers.0.mlp.dense_4h_to_h.bias", SF_JOIN_COPY, 0 },
		{ "decoder.layers.0.mlp.experts.weight1", -1, 0 },
		{ "decoder.layers.0.mixer.in_proj.weight", -1, 0 },
		{ "decoder.layers.0.self_attention.linear_kv_down_proj.weight", -1, 0 },
	};
	struct sf_join_rules rules = { .gated = true };

	for (size_t i = 0; i < SF_ARRAY_LEN(cases); i++)
		check(&rules, cases[i].name, cases[i].how, cases[i].axis);
	rules.gated = false;
	check(&rules, "decoder.layers.0.mlp.linear_fc1.weight", SF_JOIN_ALONG, 0);
	check(&rules, "decoder.layers.0.mlp.experts.linear_fc1.weight0", SF_JOIN_ALONG, 0);
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
	struct sf_join_rules rules = { .gated = true };

	ck_assert_int_eq(sf_join_rules_parse(text, strlen(text), &rules, NULL), 0);
	ck_assert_uint_eq(rules.n, 5);
	check(&rules, "x.linear_proj.weight", SF_JOIN_ALONG, 0);
	check(&rules, "x.in_proj.weight", SF_JOIN_GATED, 0);
	check(&rules, "x.conv1d.weight", SF_JOIN_ALONG, 2);
	check(&rules, "x.linear_fc2.weight", SF_JOIN_PER_RANK, 0);
	check(&rules, "x.A_log", SF_JOIN_COPY, 0);
	check(&rules, "x.linear_fc1.weight", SF_JOIN_GATED, 0);
	sf_join_rules_release(&rules);
}
END_TEST

START_TEST(what_is_no_rule_is_named_by_its_line)
{
	static const char *const bad[] = { "a 0\nb",      "a 0\nb 8",   "a 0\nb 10",
		                           "a 0\nb join", "a 0\nb 0 0", "a 0\nb copy gated" };

	for (size_t i = 0; i < SF_ARRAY_LEN(bad); i++) {
		struct sf_join_rules rules = { .n = 0 };
		struct sf_error err = SF_ERROR_INIT;
		ck_assert_int_eq(sf_join_rules_parse(bad[i], strlen(bad[i]), &rules, &err),
		                 -EINVAL);
		ck_assert_msg(strstr(err.msg, "line 2"), "%s", err.msg);
		sf_join_rules_release(&rules);
	}
}
END_TEST

START_TEST(a_file_of_no_rules_is_fine)
{
	struct sf_join_rules rules = { .n = 0 };

	ck_assert_int_eq(sf_join_rules_parse("", 0, &rules, NULL), 0);
	ck_assert_uint_eq(rules.n, 0);
	sf_join_rules_release(&rules);
	ck_assert_int_eq(sf_join_rules_parse("#\n\n", 3, &rules, NULL), 0);
	ck_assert_uint_eq(rules.n, 0);
	sf_join_rules_release(&rules);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("sf_join_rules");
	TCase *tc = tcase_create("rules");

	tcase_add_test(tc, names_of_megatron_have_the_rules_of_its_layers);
	tcase_add_test(tc, the_users_rules_are_asked_first);
	tcase_add_test(tc, what_is_no_rule_is_named_by_its_line);
	tcase_add_test(tc, a_file_of_no_rules_is_fine);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
