#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "catalog/catalog_group.h"
#include "catalog/entry_name.h"

static bool stem_taken(const struct sf_catalog *c, const struct sf_cat_group *group,
                       const char *stem)
{
	if (strcmp(stem, "checkpoint") == 0 ||
	    (c->model_group >= 0 && strcmp(stem, "model") == 0) ||
	    (c->optim_group >= 0 && strcmp(stem, "optim") == 0))
		return true;
	for (uint32_t g = 0; g < c->ngroups; g++)
		if (group[g].stem && strcmp(group[g].stem, stem) == 0)
			return true;
	return false;
}

/* The group's own name as a file stem, with as many '_' behind it as it needs to be the only one. */
static int own_stem(struct sf_catalog *c, const struct sf_cat_group *group, uint32_t g,
                    const char **ret)
{
	const struct sf_group *of = group[g].of;
	struct sf_buf b = { 0 };
	int r;

	sf_name_encode(&b, of->name, of->len, of->name, of->len, strlen(SF_FLAT_SUFFIX));
	while (sf_buf_check(&b) == 0 && stem_taken(c, group, sf_buf_cstr(&b)))
		sf_buf_byte(&b, '_');
	r = sf_buf_check(&b);
	*ret = r < 0 ? NULL : sf_arena_strdup(&c->arena, (const char *)b.at, b.len);
	sf_buf_release(&b);
	return *ret ? 0 : -ENOMEM;
}

static bool is_called(const struct sf_group *of, const char *name)
{
	return of->len == strlen(name) && memcmp(of->name, name, of->len) == 0;
}

/* The file is model.pt or optim.pt; a stored name that differs becomes a symlink. */
static int role_stem(struct sf_catalog *c, struct sf_cat_group *group, int32_t g, const char *role)
{
	if (g < 0)
		return 0;
	const struct sf_group *of = group[g].of;
	if (of->len == 0 || is_called(of, role)) {
		group[g].stem = role;
		return 0;
	}
	group[g].link = role;
	return own_stem(c, group, (uint32_t)g, &group[g].stem);
}

static int name_files(struct sf_catalog *c, struct sf_cat_group *group)
{
	uint32_t files = (c->model_group >= 0) + (c->optim_group >= 0);
	int r = role_stem(c, group, c->model_group, "model");

	if (r >= 0)
		r = role_stem(c, group, c->optim_group, "optim");
	for (uint32_t g = 0; g < c->ngroups && r >= 0; g++) {
		if ((int32_t)g == c->model_group || (int32_t)g == c->optim_group ||
		    (group[g].of->len == 0 && group[g].of->strip == 0)) /* "" is a name too: % */
			continue;
		if (files++ >= SF_ROOT_GROUPS)
			break;
		r = own_stem(c, group, g, &group[g].stem);
	}
	return r;
}

/* Entries by group, each group's in stored order. */
static int sort_entries(struct sf_catalog *c, struct sf_cat_group *group)
{
	uint32_t *by_group = sf_arena_calloc(&c->arena, (size_t)c->n + 1, sizeof(*by_group));
	uint32_t at = 0;

	if (!by_group)
		return -ENOMEM;
	for (uint32_t g = 0; g < c->ngroups; g++) {
		group[g].first = at;
		at += group[g].n;
		group[g].n = 0;
	}
	for (uint32_t i = 0; i < c->n; i++) {
		struct sf_cat_group *g = &group[c->entry[i].group];
		by_group[g->first + g->n++] = i;
	}
	c->by_group = by_group;
	return 0;
}

/*
 * Which of the groups with one role is its file? One with tensors before one without (a "model"
 * that holds a few settings beside the weights' "state_dict"), then the one that is called like the
 * file, then the first.
 */
static void take_role(const struct sf_cat_group *group, const uint32_t *tensors, uint32_t g,
                      const char *name, int32_t *ret)
{
	if (*ret >= 0) {
		bool mine = tensors[g] > 0, theirs = tensors[*ret] > 0;
		if (mine != theirs ? theirs : !is_called(group[g].of, name))
			return;
	}
	*ret = (int32_t)g;
}

int sf_catalog_groups(struct sf_catalog *c, struct sf_entry *entry)
{
	const struct sf_ckpt *ckpt = c->ckpt;
	SF_FREE uint32_t *count = calloc((size_t)ckpt->ngroups + 1, sizeof(*count));
	SF_FREE uint32_t *tensors = calloc((size_t)ckpt->ngroups + 1, sizeof(*tensors));
	SF_FREE uint32_t *number = calloc((size_t)ckpt->ngroups + 1, sizeof(*number));
	struct sf_cat_group *group =
		sf_arena_calloc(&c->arena, (size_t)ckpt->ngroups + 1, sizeof(*group));
	int r;

	c->model_group = c->optim_group = -1;
	if (!count || !tensors || !number || !group)
		return -ENOMEM;
	for (uint32_t i = 0; i < c->n; i++)
		count[entry[i].group]++;
	for (uint32_t g = 0; g < ckpt->ngroups; g++) {
		if (!count[g])
			continue;
		number[g] = c->ngroups;
		group[c->ngroups++] = (struct sf_cat_group){ .of = &ckpt->group[g], .n = count[g] };
	}
	for (uint32_t i = 0; i < c->n; i++) {
		entry[i].group = number[entry[i].group];
		tensors[entry[i].group] += entry[i].tensor != SF_NONE;
	}
	for (uint32_t g = 0; g < c->ngroups; g++) {
		if (group[g].of->role == SF_ROLE_MODEL)
			take_role(group, tensors, g, "model", &c->model_group);
		else if (group[g].of->role == SF_ROLE_OPTIM)
			take_role(group, tensors, g, "optim", &c->optim_group);
	}
	c->group = group;
	r = sort_entries(c, group);
	return r < 0 ? r : name_files(c, group);
}
