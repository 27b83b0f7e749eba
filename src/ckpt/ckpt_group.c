#include "config.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/vec.h"
#include "ckpt/ckpt_group.h"

SF_VEC(sf_groups, struct sf_group);

struct grouping {
	const struct sf_ckpt *ckpt;
	struct sf_groups groups;
	struct sf_map names;
	unsigned strip; /* of the name that is looked up */
	uint32_t last;  /* keys of one group mostly follow each other */
	bool nested;    /* groups are children of one root container */
	const struct sf_path_elem *root;
};

/* The role that a container of this name has. */
static enum sf_role role_by_name(const char *name, size_t len)
{
	static const struct {
		const char *name;
		enum sf_role role;
	} known[] = {
		{ "model", SF_ROLE_MODEL },
		{ "module", SF_ROLE_MODEL },
		{ "model_state_dict", SF_ROLE_MODEL },
		{ "state_dict", SF_ROLE_MODEL },
		{ "optim", SF_ROLE_OPTIM },
		{ "optimizer", SF_ROLE_OPTIM },
		{ "optimizers", SF_ROLE_OPTIM },
		{ "optimizer_state_dict", SF_ROLE_OPTIM },
		{ "optimizer_states", SF_ROLE_OPTIM }, /* Lightning's list of them */
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(known); i++)
		if (strlen(known[i].name) == len && memcmp(known[i].name, name, len) == 0)
			return known[i].role;
	return SF_ROLE_OTHER;
}

static enum sf_role elem_role(const struct sf_path_elem *e)
{
	return e->kind != SF_PATH_TEXT ? SF_ROLE_OTHER : role_by_name(e->s, e->len);
}

static bool same_elem(const struct sf_path_elem *a, const struct sf_path_elem *b)
{
	return a->len == b->len && a->kind == b->kind && memcmp(a->s, b->s, a->len) == 0;
}

/* States of random number generators, which Composer puts beside the container of everything else. */
static bool is_rng(const struct sf_path_elem *e)
{
	return e->kind == SF_PATH_TEXT && e->len == 3 && memcmp(e->s, "rng", 3) == 0;
}

/* Does one root container hold all tensors (but those of `rng`), with a model or an optimizer right
 * below it? What lies beside the checkpoint does not count. */
static void look_for_root(struct grouping *g, const struct sf_key *key, const uint32_t *chosen)
{
	const uint32_t n = SF_MIN(g->ckpt->nmain, g->ckpt->nkeys);
	const struct sf_path_elem *root = NULL;

	for (uint32_t i = 0; i < n; i++) {
		if (key[i].tensor == SF_NONE || (chosen && chosen[i] != SF_NONE))
			continue;
		if (key[i].npath < 2)
			return;
		if (is_rng(key[i].path))
			continue;
		if (root && !same_elem(root, key[i].path))
			return;
		root = key[i].path;
	}
	if (!root)
		return;
	g->root = root;
	for (uint32_t i = 0; i < n && !g->nested; i++)
		g->nested = key[i].npath > 2 && same_elem(root, key[i].path) &&
		            elem_role(&key[i].path[1]) != SF_ROLE_OTHER &&
		            !(chosen && chosen[i] != SF_NONE);
}

static bool is_group(const struct grouping *g, uint32_t i, const char *name, size_t len)
{
	const struct sf_group *of = &g->groups.at[i];

	return of->len == len && of->strip == g->strip &&
	       (len == 0 || memcmp(of->name, name, len) == 0);
}

static int same_group(void *arg, uint32_t value, const char *name, size_t len)
{
	return is_group(arg, value, name, len);
}

static int find_group(struct grouping *g, const struct sf_group *want, uint32_t *ret)
{
	uint32_t n = (uint32_t)g->groups.n, found;
	int failed;

	g->strip = want->strip;
	if (g->last < n && is_group(g, g->last, want->name, want->len)) {
		*ret = g->last;
		return 0;
	}
	found = sf_map_add(&g->names, want->name, want->len, n, same_group, g, &failed);
	if (failed)
		return failed;
	if (found == SF_MAP_NONE) {
		if (sf_groups_push(&g->groups, *want) < 0)
			return -ENOMEM;
		found = n;
	}
	*ret = g->last = found;
	return 0;
}

static struct sf_group group_by_path(const struct grouping *g, const struct sf_key *k)
{
	const struct sf_path_elem *e = k->path;
	unsigned strip = 1;

	if (k->npath < 2)
		return (struct sf_group){ .name = "" }; /* its role is known at the end */
	if (g->nested && same_elem(e, g->root) && k->npath > 2) {
		e++;
		strip = 2;
	} else if (g->nested && same_elem(e, g->root)) {
		return (struct sf_group){ .name = e->s, .len = e->len, .strip = 1 };
	}
	return (struct sf_group){
		.name = e->s, .len = e->len, .strip = (uint8_t)strip, .role = (uint8_t)elem_role(e)
	};
}

static void settle_unnamed(struct sf_group *group, size_t n, bool chosen_one)
{
	struct sf_group *unnamed = NULL;
	bool model = false, tensors = false;

	for (size_t i = 0; i < n; i++) {
		if (group[i].len == 0 && group[i].strip == 0) {
			unnamed = &group[i];
			continue;
		}
		tensors |= group[i].ntensors > 0;
		model |= group[i].role == SF_ROLE_MODEL && group[i].ntensors > 0;
	}
	if (unnamed && !chosen_one && !model && (unnamed->ntensors || !tensors))
		unnamed->role = SF_ROLE_MODEL;
}

static int group_all(struct grouping *g, struct sf_ckpt *ckpt, struct sf_key *key,
                     const struct sf_group_choice *choice, const uint32_t *chosen)
{
	bool chosen_unnamed = false;

	for (uint32_t i = 0; i < ckpt->nkeys; i++) {
		const struct sf_group_choice *c =
			chosen && chosen[i] != SF_NONE ? &choice[chosen[i]] : NULL;
		struct sf_group want, *of;
		int r;

		if (c)
			want = (struct sf_group){
				.name = c->name, .len = c->len, .strip = c->strip, .role = c->role
			};
		else
			want = group_by_path(g, &key[i]);
		r = find_group(g, &want, &key[i].group);
		if (r < 0)
			return r;
		of = &g->groups.at[key[i].group];
		if (c) {
			of->role = c->role;
			chosen_unnamed |= c->len == 0 && c->strip == 0;
		}
		if (key[i].tensor != SF_NONE) {
			of->ntensors++;
			of->bytes += ckpt->tensor[key[i].tensor].bytes;
		} else {
			of->nobjects++;
		}
	}
	settle_unnamed(g->groups.at, g->groups.n, chosen_unnamed);
	return 0;
}

/* Names point into paths, which need no NUL behind them; a group's name has one. */
static int keep_groups(struct grouping *g, struct sf_ckpt *ckpt)
{
	struct sf_group *kept = sf_arena_alloc(&ckpt->arena, g->groups.n * sizeof(*kept));

	if (!kept)
		return -ENOMEM;
	for (size_t i = 0; i < g->groups.n; i++) {
		kept[i] = g->groups.at[i];
		kept[i].name = sf_arena_strdup(&ckpt->arena, kept[i].name, kept[i].len);
		if (!kept[i].name)
			return -ENOMEM;
	}
	ckpt->group = kept;
	ckpt->ngroups = (uint32_t)g->groups.n;
	return 0;
}

int sf_group_keys(struct sf_ckpt *ckpt, struct sf_key *key, const struct sf_group_choice *choice,
                  size_t nchoices, struct sf_error *err)
{
	struct grouping g = { .ckpt = ckpt };
	SF_FREE uint32_t *chosen = NULL;
	int r = 0;

	if (nchoices) {
		chosen = sf_alloc_array(ckpt->nkeys, sizeof(*chosen));
		if (!chosen)
			return sf_fail(err, -ENOMEM, "no memory for the groups of %u keys",
			               ckpt->nkeys);
		memset(chosen, 0xff, ckpt->nkeys * sizeof(*chosen));
		for (size_t i = 0; i < nchoices; i++)
			chosen[choice[i].key] = (uint32_t)i;
	}
	look_for_root(&g, key, chosen);
	r = group_all(&g, ckpt, key, choice, chosen);
	if (r >= 0)
		r = keep_groups(&g, ckpt);
	sf_groups_release(&g.groups);
	sf_map_release(&g.names);
	return r < 0 ? sf_fail(err, r, "no memory for the groups of %u keys", ckpt->nkeys) : 0;
}
