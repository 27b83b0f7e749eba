#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "format/deepspeed/ds_lower.h"

#define AT_ONCE 256

/* A file's leaves, and under which names. */
struct other {
	struct sf_ckpt_builder *b;
	struct sf_torch_part *part;
	struct sf_error *err;
	char layer[16]; /* "03.": in front of a pipeline layer's names */
	char rank[32];  /* "model_01": of several; "" else */
	struct sf_torch_ties ties;
};

/* A layer's own names do not say which layer it is: the pipeline has it under its number. */
static int lower_layer_leaf(void *arg, struct sf_value_walk *w, enum sf_walk_what what,
                            struct sf_pv *v)
{
	struct other *o = arg;
	SF_CLEANUP(sf_buf_release) struct sf_buf name = { .limit = 64 << 10 };
	struct sf_path_elem path[4];
	size_t n = 0, begin;
	int r;

	if (what != SF_WALK_TENSOR && what != SF_WALK_VALUE)
		return 0;
	if (*o->rank) {
		path[n++] = (struct sf_path_elem){ "rank", 4, SF_PATH_TEXT };
		path[n++] =
			(struct sf_path_elem){ o->rank, (uint32_t)strlen(o->rank), SF_PATH_TEXT };
		sf_buf_printf(&name, "rank.%s.", o->rank);
	}
	path[n++] = (struct sf_path_elem){ "module", 6, SF_PATH_TEXT };
	sf_buf_str(&name, "module.");
	begin = name.len;
	sf_buf_str(&name, o->layer);
	sf_buf_add(&name, w->name.at, w->name.len);
	sf_buf_cstr(&name);
	if (sf_buf_check(&name) < 0)
		return sf_buf_check(&name);
	path[n++] = (struct sf_path_elem){ (const char *)name.at + begin,
		                           (uint32_t)(name.len - begin), SF_PATH_TEXT };
	if (what == SF_WALK_TENSOR)
		r = sf_torch_lower_tensor(o->b, o->part, (const char *)name.at, name.len, &w->t,
		                          &o->ties, NULL, o->err);
	else
		r = sf_torch_lower_value(o->b, o->part, (const char *)name.at, name.len, v, o->err);
	if (r >= 0)
		r = sf_ckpt_builder_path(o->b, (const char *)name.at, name.len, path, n, o->err);
	return r < 0 ? r : 1;
}

static int lower_layer(struct other *o, const struct ds_name *name, bool several)
{
	const struct sf_torch_lower lower = {
		.b = o->b, .part = o->part, .leaf = lower_layer_leaf, .arg = o
	};

	snprintf(o->layer, sizeof(o->layer), "%" PRIu32 ".", name->layer);
	if (several)
		snprintf(o->rank, sizeof(o->rank), "model_%02" PRIu32, name->mp);
	return sf_torch_lower(&lower, o->part->archive.root, o->err);
}

/* An expert's weights have the names that they have in the model, by their global numbers. */
static int lower_plain(struct other *o, const char *group)
{
	const struct sf_path_elem prefix = { group, group ? (uint32_t)strlen(group) : 0,
		                             SF_PATH_TEXT };
	const struct sf_torch_lower lower = { .b = o->b,
		                              .part = o->part,
		                              .prefix = &prefix,
		                              .nprefix = group ? 1 : 0,
		                              .ties = &o->ties };

	return sf_torch_lower(&lower, o->part->archive.root, o->err);
}

static int lower_file(struct sf_ckpt_builder *b, struct sf_torch_part *part,
                      const struct ds_name *name, bool several, struct sf_error *err)
{
	struct other o = { .b = b, .part = part, .err = err };
	int r;

	if (part->r == -EBADMSG || part->r == -ENOTSUP || part->r == -E2BIG)
		return sf_ckpt_builder_warn(b, NULL, "unreadable-file", "left out: %s",
		                            part->err.msg);
	if (part->r < 0)
		return sf_fail(err, part->r, "%s", part->err.msg);
	r = sf_torch_part_place(part, b, err);
	if (r < 0)
		return r;
	switch (name->kind) {
	case DS_LAYER:
		r = lower_layer(&o, name, several);
		break;
	case DS_EXPERT:
		r = lower_plain(&o, "module");
		break;
	case DS_EXPERT_OPTIM:
		snprintf(o.rank, sizeof(o.rank), "expp_rank_%" PRIu32, name->rank);
		r = lower_plain(&o, o.rank);
		break;
	default:
		r = lower_plain(&o, NULL);
	}
	sf_torch_ties_release(&o.ties);
	return r;
}

static int lower_kind(struct sf_ckpt_builder *b, struct sf_store *store, const struct ds_file *at,
                      size_t n, struct sf_error *err)
{
	SF_FREE struct sf_torch_part *part = sf_alloc_array(AT_ONCE, sizeof(*part));
	bool several = false;
	int r = part ? 0 : sf_fail(err, -ENOMEM, "no memory for %d files", AT_ONCE);

	for (size_t i = 1; i < n; i++)
		several = several || at[i].name.mp != at[0].name.mp;
	for (size_t i = 0; i < n && r >= 0; i += AT_ONCE) {
		const size_t some = SF_MIN(n - i, (size_t)AT_ONCE);
		for (size_t k = 0; k < some; k++)
			part[k] = (struct sf_torch_part){ .file = at[i + k].file };
		r = sf_torch_parts_open(store, part, some, 0, err);
		if (r < 0)
			return r;
		for (size_t k = 0; k < some && r >= 0; k++)
			r = lower_file(b, &part[k], &at[i + k].name, several, err);
		sf_torch_parts_release(part, some);
	}
	return r;
}

int ds_lower_others(struct sf_ckpt_builder *b, struct sf_store *store, const struct ds_set *set,
                    struct sf_error *err)
{
	static const enum ds_kind kinds[] = { DS_LAYER, DS_EXPERT, DS_EXPERT_OPTIM, DS_COMPOSER };
	int r = 0;

	for (size_t i = 0; i < SF_ARRAY_LEN(kinds) && r >= 0; i++) {
		size_t n;
		const struct ds_file *at = ds_set_kind(set, kinds[i], &n);
		if (n)
			r = lower_kind(b, store, at, n, err);
	}
	return r;
}
