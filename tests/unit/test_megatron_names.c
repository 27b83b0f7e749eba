#include "config.h"

#include "base/mem.h"
#include "format/megatron/megatron_names.h"
#include "tests/lib/sf_test.h"

/* Numbers of layers and experts in names. */

static const struct {
	const char *name;
	int layer, expert; /* -1: none */
} names[] = {
	{ "decoder.layers.3.mlp.linear_fc1.weight", 3, -1 },
	{ "layers.12.x", 12, -1 },
	{ "decoder.final_layernorm.weight", -1, -1 },
	{ "decoder.layers.x.weight", -1, -1 },
	{ "decoder.layers", -1, -1 },
	{ "decoder.layers.", -1, -1 },
	{ "decoder.layers.7", 7, -1 },
	{ "mylayers.7.x", -1, -1 },
	{ "decoder.layers.12345678.x", -1, -1 },
	{ "decoder.layers.1.mlp.experts.local_experts.5.linear_fc1.weight", 1, 5 },
	{ "decoder.layers.1.mlp.experts.linear_fc1.weight5", 1, 5 },
	{ "decoder.layers.1.mlp.experts.linear_fc2.bias11", 1, 11 },
	{ "decoder.layers.1.mlp.linear_fc1.weight5", 1, -1 },
	{ "decoder.layers.1.mlp.experts.weight1", 1, -1 },
	{ "", -1, -1 },
	{ "layers", -1, -1 },
	{ "encoder.layers.0.layers.4.x", 0, -1 },
};

START_TEST(numbers_are_found_where_they_are_components)
{
	for (size_t i = 0; i < SF_ARRAY_LEN(names); i++) {
		const char *name = names[i].name;
		const struct megatron_name n = megatron_name_parse(name, strlen(name));
		ck_assert_msg((n.layer.len ? (int)n.layer.n : -1) == names[i].layer, "%s", name);
		ck_assert_msg((n.expert.len ? (int)n.expert.n : -1) == names[i].expert, "%s", name);
	}
}
END_TEST

static void add(struct megatron_stacks *s, const char *name, uint32_t pipe, uint32_t chunk)
{
	ck_assert_int_eq(megatron_stacks_add(s, name, strlen(name), pipe, chunk), 0);
}

static void check(const struct megatron_stacks *s, const char *name, uint32_t pipe, uint32_t chunk,
                  uint32_t expert, const char *want)
{
	struct sf_buf out = { .limit = 4096 };

	megatron_stacks_name(s, name, strlen(name), pipe, chunk, expert, &out);
	ck_assert_str_eq(sf_buf_cstr(&out), want);
	sf_buf_release(&out);
}

/* Two stages of two chunks: chunk 0 of both comes first. The first stage has a layer less. */
START_TEST(chunks_of_all_stages_follow_each_other)
{
	struct megatron_stacks s = { .npipe = 2, .nchunk = 2 };

	add(&s, "decoder.layers.0.w", 0, 0);
	add(&s, "decoder.layers.1.w", 1, 0);
	add(&s, "decoder.layers.0.w", 1, 0);
	add(&s, "decoder.layers.1.w", 0, 1);
	add(&s, "decoder.layers.0.w", 1, 1);
	add(&s, "encoder.layers.4.w", 1, 0);
	megatron_stacks_end(&s);
	ck_assert_uint_eq(megatron_stacks_layers(&s, "decoder.layers."), 6);
	ck_assert_uint_eq(megatron_stacks_layers(&s, "encoder.layers."), 5);
	ck_assert_uint_eq(megatron_stacks_layers(&s, "x.layers."), 0);
	check(&s, "decoder.layers.0.w", 0, 0, 0, "decoder.layers.0.w");
	check(&s, "decoder.layers.0.w", 1, 0, 0, "decoder.layers.1.w");
	check(&s, "decoder.layers.1.w", 1, 0, 0, "decoder.layers.2.w");
	check(&s, "decoder.layers.1.w", 0, 1, 0, "decoder.layers.4.w");
	check(&s, "decoder.layers.0.w", 1, 1, 0, "decoder.layers.5.w");
	check(&s, "encoder.layers.4.w", 1, 0, 0, "encoder.layers.4.w");
	check(&s, "decoder.norm.w", 1, 1, 0, "decoder.norm.w");
	check(&s, "", 1, 1, 0, "");
	megatron_stacks_release(&s);
}
END_TEST

START_TEST(experts_are_numbered_rank_behind_rank)
{
	struct megatron_stacks s = { .npipe = 2, .nchunk = 1 };

	add(&s, "decoder.layers.0.mlp.experts.local_experts.1.linear_fc1.weight", 0, 0);
	add(&s, "decoder.layers.0.mlp.experts.local_experts.0.linear_fc1.weight", 1, 0);
	megatron_stacks_end(&s);
	check(&s, "decoder.layers.0.mlp.experts.local_experts.1.linear_fc1.weight", 1, 0, 3,
	      "decoder.layers.1.mlp.experts.local_experts.7.linear_fc1.weight");
	check(&s, "decoder.layers.0.mlp.experts.linear_fc2.weight0", 0, 0, 1,
	      "decoder.layers.0.mlp.experts.linear_fc2.weight2");
	megatron_stacks_release(&s);
}
END_TEST

START_TEST(more_stacks_than_there_are_is_an_error)
{
	struct megatron_stacks s = { .npipe = 1, .nchunk = 1 };
	char name[32];
	int r = 0;

	for (int i = 0; i < 100 && r >= 0; i++) {
		snprintf(name, sizeof(name), "a%d.layers.0.w", i);
		r = megatron_stacks_add(&s, name, strlen(name), 0, 0);
	}
	ck_assert_int_eq(r, -E2BIG);
	megatron_stacks_release(&s);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("megatron_names");
	TCase *tc = tcase_create("names");

	tcase_add_test(tc, numbers_are_found_where_they_are_components);
	tcase_add_test(tc, chunks_of_all_stages_follow_each_other);
	tcase_add_test(tc, experts_are_numbered_rank_behind_rank);
	tcase_add_test(tc, more_stacks_than_there_are_is_an_error);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
