#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "format/deepspeed/ds_places.h"
#include "parse/torch_item.h"

/*
 * ZeRO-1 and 2: a group's parameters stand one behind the other in a vector, of which rank r has the
 * r-th part; padding is behind the last one. ZeRO-3: each parameter is cut into as many equal parts as
 * there are ranks, the last padded; rank r has the r-th part of each, one behind the other.
 * Source: deepspeedai/DeepSpeed runtime/zero/stage_1_and_2.py, stage3.py, utils/zero_to_fp32.py, 0.3 to 0.19.
 */

#define GROUPS_MAX (1u << 20)

/* ---- flat tensors ---- */

static const char *const flat_names[] = { "single_partition_of_fp32_groups", "fp32_flat_groups",
	                                  "fp32_groups" };

/* A rank's parameters: a list, one tensor a group. */
static const struct sf_pv *flat_of(const struct sf_torch_part *part)
{
	const struct sf_pv *v = NULL, *o = ds_optim_of(part);

	for (size_t i = 0; i < SF_ARRAY_LEN(flat_names) && !v; i++)
		v = ds_get(o, flat_names[i]);
	return v && v->kind == SF_PV_LIST ? v : NULL;
}

/* Is it as long as the parameters? Then it is a state of theirs, as exp_avg is. */
static bool is_moment(const struct sf_pv *v, const struct sf_pv *flat)
{
	struct sf_torch_tensor t, p;

	return sf_torch_tensor_from_pv(v, &t, NULL) == 1 && t.ndim == 1 &&
	       sf_torch_tensor_from_pv(flat, &p, NULL) == 1 && t.shape[0] >= p.shape[0];
}

int ds_add_moment(struct ds_slice *s, const char *name, struct sf_error *err)
{
	for (unsigned i = 0; i < s->nmoments; i++)
		if (strcmp(s->moment[i].name, name) == 0)
			return 0;
	if (s->nmoments == DS_MOMENTS_MAX)
		return sf_fail(err, -E2BIG, "an optimizer with more than %d states",
		               DS_MOMENTS_MAX);
	s->moment[s->nmoments].name = name;
	s->moment[s->nmoments].space = calloc(s->nspaces, sizeof(struct ds_space));
	return s->moment[s->nmoments++].space ? 0
	                                      : sf_fail(err, -ENOMEM, "no memory for '%s'", name);
}

/* Which states are as long as the parameters, in any group of the first rank. */
static int name_moments(struct ds_slice *s, const struct sf_pv *flat, struct sf_error *err)
{
	int r = ds_add_moment(s, "", err);

	for (uint32_t g = 0; g < s->groups && r >= 0; g++) {
		const struct sf_pv *state = ds_dict(ds_state_of(s, &s->optim[0], g));
		for (size_t i = 0; state && i + 1 < state->seq.n && r >= 0; i += 2)
			if (state->seq.at[i]->kind == SF_PV_STR &&
			    is_moment(state->seq.at[i + 1], flat->seq.at[g]))
				r = ds_add_moment(s, state->seq.at[i]->str.at, err);
	}
	return r;
}

static int add_rank(struct ds_slice *s, uint32_t rank, struct sf_error *err)
{
	struct sf_torch_part *part = &s->optim[rank];
	const struct sf_pv *flat = flat_of(part);
	int r = 0;

	if (!flat || flat->seq.n != s->groups)
		return sf_fail(err, -EBADMSG, "'%s': %zu groups of parameters, '%s' has %" PRIu32,
		               part->file->name, flat ? flat->seq.n : 0, s->optim[0].file->name,
		               s->groups);
	for (uint32_t g = 0; g < s->groups && r >= 0; g++) {
		const uint32_t space = s->stage == 3 ? rank : s->first[g] + rank % s->experts[g];
		const struct sf_pv *state = ds_state_of(s, part, g);
		r = ds_space_add(&s->moment[0].space[space], s->b, part, flat->seq.at[g], err);
		for (unsigned m = 1; m < s->nmoments && r >= 0; m++) {
			const struct sf_pv *v = ds_get(state, s->moment[m].name);
			if (v)
				r = ds_space_add(&s->moment[m].space[space], s->b, part, v, err);
		}
	}
	return r;
}

/*
 * Experts are on as many ranks as make an expert-parallel group, 0, 1, … of each; those with the same ones are
 * fewer than all, which is what the group's partition_count says.
 */
static int find_experts(struct ds_slice *s, struct sf_error *err)
{
	const struct sf_pv *count = ds_get(ds_optim_of(&s->optim[0]), "partition_count");
	uint64_t n;

	s->experts = sf_arena_calloc(&s->arena, s->groups + 1, sizeof(*s->experts));
	s->first = sf_arena_calloc(&s->arena, s->groups + 1, sizeof(*s->first));
	if (!s->experts || !s->first)
		return sf_fail(err, -ENOMEM, "no memory for %" PRIu32 " groups", s->groups);
	s->nspaces = 0;
	for (uint32_t g = 0; g < s->groups; g++) {
		s->experts[g] = 1;
		if (s->stage < 3 && count && count->kind == SF_PV_LIST && g < count->seq.n &&
		    sf_pv_u64(count->seq.at[g], &n) && n && n < s->world) {
			if (s->world % n)
				return sf_fail(err, -EBADMSG,
				               "'%s': group %" PRIu32 " has %" PRIu64
				               " partitions on %" PRIu32 " ranks",
				               s->optim[0].file->name, g, n, s->world);
			s->experts[g] = s->world / (uint32_t)n;
		}
		s->first[g] = s->nspaces;
		if (s->nspaces > GROUPS_MAX)
			return sf_fail(err, -E2BIG, "over a million groups of partitions");
		s->nspaces += s->experts[g];
	}
	return 0;
}

int ds_find_moments(struct ds_slice *s, struct sf_error *err)
{
	const struct sf_pv *flat = flat_of(&s->optim[0]);
	int r;

	if (!flat || flat->seq.n > GROUPS_MAX)
		return sf_fail(
			err, -EBADMSG, "'%s': it has no flat partitions%s", s->optim[0].file->name,
			flat ? " but over a million" : " (NVMe offload keeps them elsewhere)");
	s->groups = (uint32_t)flat->seq.n;
	r = find_experts(s, err);
	s->nspaces = SF_MAX(s->stage == 3 ? s->world : s->nspaces, 1u);
	if (r >= 0)
		r = name_moments(s, flat, err);
	for (uint32_t i = 0; i < s->world && r >= 0; i++)
		r = add_rank(s, i, err);
	return r;
}

/* ---- places ---- */

static uint64_t align(uint64_t n, uint64_t to)
{
	return n + (to - n % to) % to;
}

/* Of each group what zero_to_fp32 checks, too: paddings apart, all of it is somebody's. */
static int check_group(const struct ds_slice *s, uint32_t g, uint64_t end, struct sf_error *err)
{
	const uint64_t to = 2 * (uint64_t)s->world;
	uint64_t have = 0;
	bool good = true;

	for (uint32_t e = 0; e < s->experts[g] && good; e++) {
		have = s->moment[0].space[s->first[g] + e].len;
		good = align(end, to) == align(have, to);
	}
	if (good)
		return 0;
	return sf_fail(err, -EBADMSG,
	               "'%s': group %" PRIu32 ": its parameters have %" PRIu64
	               " elements, and the partitions of %" PRIu32 " ranks %" PRIu64,
	               s->optim[0].file->name, g, end, s->world, have);
}

/* Padding behind parameter @at of group @g; newer files say it. */
static uint64_t padding_behind(const struct sf_pv *paddings, uint32_t g, size_t at)
{
	const struct sf_pv *v = paddings;
	uint64_t n = 0;

	if (!v || v->kind != SF_PV_LIST || g >= v->seq.n)
		return 0;
	v = v->seq.at[g];
	if (v->kind != SF_PV_LIST || at >= v->seq.n || !sf_pv_u64(v->seq.at[at], &n))
		return 0;
	return n <= UINT32_MAX ? n : 0;
}

/* Shapes of up to 0.5.3 do not say where a group ends: where the next parameter does not fit, and no
 * more than padding is left. */
static void next_group(const struct ds_slice *s, const struct ds_param *p, uint32_t *g,
                       uint64_t *off)
{
	while (*g + 1 < s->groups) {
		const uint64_t have = s->moment[0].space[s->first[*g]].len,
			       left = have - SF_MIN(*off, have);
		if (left >= p->numel || left >= 2 * (uint64_t)s->world)
			break;
		++*g;
		*off = 0;
	}
}

static int find_in_groups(struct ds_slice *s, bool one, struct sf_error *err)
{
	const struct sf_pv *paddings =
		ds_get(ds_optim_of(&s->optim[0]), "param_alignment_paddings");
	uint32_t g = 0;
	size_t first = 0;
	uint64_t off = 0;
	int r = 0;

	for (size_t i = 0; i < s->params.n && r >= 0; i++) {
		struct ds_param *p = &s->params.at[i];
		const uint32_t was = g;
		uint64_t end = off;
		if (one)
			next_group(s, p, &g, &off);
		else if (p->group != g)
			g = p->group;
		if (g != was) {
			for (uint32_t k = was; k < g && k < s->groups && r >= 0; k++)
				r = check_group(s, k, k == was ? end : 0, err);
			off = 0;
			first = i;
		}
		if (r >= 0 && g >= s->groups)
			return sf_fail(err, -EBADMSG,
			               "'%s': %" PRIu32 " groups of partitions, and parameters of "
			               "group %" PRIu32,
			               s->optim[0].file->name, s->groups, g);
		p->group = p->sub = g;
		p->space = s->first[g];
		p->off = off;
		off += p->numel + padding_behind(paddings, g, i - first);
		if (off > UINT64_MAX / 4)
			return sf_fail(err, -EBADMSG, "parameters of over 2^62 elements");
	}
	for (uint32_t k = g; k < s->groups && r >= 0; k++)
		r = check_group(s, k, k == g ? off : 0, err);
	return r;
}

/* An expert's name says its number on its own rank: those of later ones are counted on. NULL: no memory. */
static const char *expert_name(struct ds_slice *s, const struct ds_param *p, uint32_t add,
                               uint32_t *ret_len)
{
	static const char word[] = "deepspeed_experts.";
	const char *at = strstr(p->name, word), *end;
	char text[1024];
	unsigned long n;
	int len;

	if (!at || p->len > 900)
		return NULL;
	at += sizeof(word) - 1;
	n = strtoul(at, (char **)&end, 10);
	len = snprintf(text, sizeof(text), "%.*s%lu%s", (int)(at - p->name), p->name, n + add, end);
	*ret_len = (uint32_t)len;
	return sf_arena_strdup(&s->arena, text, (size_t)len);
}

/* Experts that each rank of an expert-parallel group has: the highest number among the first's, and one. */
static uint32_t local_experts(const struct ds_slice *s)
{
	unsigned long most = 0;

	for (size_t i = 0; i < s->params.n; i++) {
		const char *at = strstr(s->params.at[i].name, "deepspeed_experts.");
		if (at)
			most = SF_MAX(most, strtoul(at + 18, NULL, 10) + 1);
	}
	return (uint32_t)SF_MIN(most, (unsigned long)GROUPS_MAX);
}

/* The shapes are the first rank's; the others' experts are alike, and lie in spaces of their own. */
static int add_experts(struct ds_slice *s, struct sf_error *err)
{
	const uint32_t local = local_experts(s);
	const size_t n = s->params.n;

	for (size_t i = 0; i < n; i++)
		for (uint32_t e = 1; e < s->experts[s->params.at[i].group]; e++) {
			struct ds_param p = s->params.at[i];
			p.name = expert_name(s, &s->params.at[i], e * local, &p.len);
			p.space += e;
			p.rank = e;
			if (!p.name || ds_params_push(&s->params, p) < 0)
				return sf_fail(err, -ENOMEM,
				               "'%s': no name for expert %" PRIu32 " of '%.200s'",
				               s->optim[0].file->name, e * local,
				               s->params.at[i].name);
		}
	return 0;
}

static int check_ranks(const struct ds_slice *s, uint64_t end, struct sf_error *err)
{
	for (uint32_t i = 0; i < s->world; i++)
		if (s->moment[0].space[i].len != end)
			return sf_fail(err, -EBADMSG,
			               "'%s': the rank's parts of all parameters are %" PRIu64
			               " elements, and its partitions have %" PRIu64,
			               s->optim[i].file->name, end, s->moment[0].space[i].len);
	return 0;
}

/* Which of rank 0's flat tensors holds each parameter's part. */
static void find_subs(struct ds_slice *s)
{
	const struct sf_pv *flat = flat_of(&s->optim[0]);
	struct sf_torch_tensor t;
	uint64_t end = 0;
	uint32_t g = 0;

	for (size_t i = 0; i < s->params.n; i++) {
		struct ds_param *p = &s->params.at[i];
		while (g < s->groups && p->off >= end) {
			if (sf_torch_tensor_from_pv(flat->seq.at[g], &t, NULL) == 1)
				end += t.shape[0];
			g++;
		}
		p->sub = g ? g - 1 : 0;
	}
}

int ds_find_places(struct ds_slice *s, bool one, struct sf_error *err)
{
	uint64_t off = 0;
	int r;

	if (!s->nmodel) /* nobody says what there is */
		return 0;
	if (s->stage < 3) {
		r = find_in_groups(s, one, err);
		return r < 0 ? r : add_experts(s, err);
	}
	for (size_t i = 0; i < s->params.n; i++) {
		struct ds_param *p = &s->params.at[i];
		p->off = off;
		p->each = p->numel / s->world + (p->numel % s->world != 0);
		if (!sf_add(off, p->each, &off))
			return sf_fail(err, -EBADMSG, "parameters of over 2^64 elements");
	}
	r = check_ranks(s, off, err);
	if (r >= 0)
		find_subs(s);
	return r;
}
