#include "config.h"

#include <errno.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "format/dcp/dcp_remove.h"
#include "parse/pickle_read.h"
#include "parse/pickle_write.h"

struct removing {
	bool (*is)(void *arg, const char *key, size_t len);
	void *arg;
	struct sf_pv *root;
	struct dcp_removed *ret;
};

/* The state of the Metadata, a dict; NULL. */
static struct sf_pv *state_of(struct sf_pv *root)
{
	struct sf_pv *s =
		root->kind == SF_PV_OBJECT || root->kind == SF_PV_CALL ? root->call.state : NULL;

	return s && s->kind == SF_PV_DICT && sf_pv_get(s, "state_dict_metadata") ? s : NULL;
}

/* The str that a key of @dict is about: itself, or a MetadataIndex's fqn. */
static const struct sf_pv *name_of(const struct sf_pv *key)
{
	const struct sf_pv *fqn = key->kind == SF_PV_STR ? key : sf_pv_get(key, "fqn");

	return fqn && fqn->kind == SF_PV_STR ? fqn : NULL;
}

/* Takes those out of @dict that are to go; how many. */
static size_t take_out(const struct removing *m, struct sf_pv *dict)
{
	size_t n = 0, was;

	if (!dict || dict->kind != SF_PV_DICT)
		return 0;
	was = dict->seq.n;
	for (size_t i = 0; i + 1 < was; i += 2) {
		const struct sf_pv *name = name_of(dict->seq.at[i]);
		if (name && m->is(m->arg, name->str.at, name->str.len))
			continue;
		dict->seq.at[n++] = dict->seq.at[i];
		dict->seq.at[n++] = dict->seq.at[i + 1];
	}
	dict->seq.n = n;
	return (was - n) / 2;
}

static void drop_member(struct sf_pv *dict, const char *name)
{
	for (size_t i = 0; i + 1 < dict->seq.n; i += 2)
		if (sf_pv_is_str(dict->seq.at[i], name)) {
			memmove(&dict->seq.at[i], &dict->seq.at[i + 2],
			        (dict->seq.n - i - 2) * sizeof(*dict->seq.at));
			dict->seq.n -= 2;
			return;
		}
}

/* ---- files ---- */

struct names {
	struct sf_map map;
	const struct sf_pv **at;
	size_t n;
};

static int same_name(void *arg, uint32_t value, const char *key, size_t len)
{
	const struct sf_pv *v = ((struct names *)arg)->at[value];

	return v->str.len == len && memcmp(v->str.at, key, len) == 0;
}

/* The files that items of @dict name, each once; @at has room for all. */
static int collect(struct names *f, const struct sf_pv *dict)
{
	int r = 0;

	for (size_t i = 0; dict && dict->kind == SF_PV_DICT && i + 1 < dict->seq.n && r >= 0;
	     i += 2) {
		const struct sf_pv *path = sf_pv_get(dict->seq.at[i + 1], "relative_path");
		if (!path || path->kind != SF_PV_STR)
			continue;
		f->at[f->n] = path;
		if (sf_map_add(&f->map, path->str.at, path->str.len, (uint32_t)f->n, same_name, f,
		               &r) == SF_MAP_NONE)
			f->n++;
	}
	return r;
}

/* Of the files before those that are not there after. */
static int unnamed(const struct names *before, struct names *after, struct sf_arena *arena,
                   struct dcp_removed *ret)
{
	ret->file = sf_arena_alloc(arena, (before->n + 1) * sizeof(*ret->file));
	if (!ret->file)
		return -ENOMEM;
	for (size_t i = 0; i < before->n; i++)
		if (sf_map_get(&after->map, before->at[i]->str.at, before->at[i]->str.len,
		               same_name, after) == SF_MAP_NONE)
			ret->file[ret->nfiles++] = before->at[i]->str.at;
	return 0;
}

static int take_items(struct removing *m, struct sf_pv *items, struct sf_arena *arena)
{
	struct names before = { .n = 0 }, after = { .n = 0 };
	size_t n = items && items->kind == SF_PV_DICT ? items->seq.n / 2 : 0;
	int r = 0;

	before.at = sf_alloc_array(n + 1, sizeof(*before.at));
	after.at = sf_alloc_array(n + 1, sizeof(*after.at));
	if (!before.at || !after.at)
		r = -ENOMEM;
	if (r >= 0)
		r = collect(&before, items);
	m->ret->items = r < 0 ? 0 : take_out(m, items);
	if (r >= 0)
		r = collect(&after, items);
	if (r >= 0)
		r = unnamed(&before, &after, arena, m->ret);
	sf_map_release(&before.map);
	sf_map_release(&after.map);
	free(before.at);
	free(after.at);
	return r;
}

static int write_again(struct sf_pv *root, struct sf_arena *arena, struct sf_buf *out,
                       struct sf_error *err)
{
	struct sf_pickle_writer w;
	int r = sf_pickle_writer_init(&w, out, arena);

	if (r < 0)
		return r;
	sf_pw_proto(&w);
	r = sf_pw_value(&w, root, err);
	sf_pw_stop(&w);
	sf_pickle_writer_release(&w);
	return r < 0 ? r : sf_buf_check(out);
}

int dcp_remove(const uint8_t *p, size_t len, bool (*is)(void *arg, const char *key, size_t len),
               void *arg, struct sf_arena *arena, struct sf_buf *out, struct dcp_removed *ret,
               struct sf_error *err)
{
	const struct sf_pickle_limits limits = { 0 };
	struct removing m = { is, arg, NULL, ret };
	struct sf_pv *state, *keys;
	size_t used;
	int r = sf_pickle_parse(p, len, &limits, arena, &m.root, &used, err);

	*ret = (struct dcp_removed){ 0 };
	if (r < 0)
		return r;
	state = state_of(m.root);
	if (!state)
		return sf_fail(err, -EBADMSG, "no Metadata of torch.distributed.checkpoint");
	keys = sf_pv_get(state, "state_dict_metadata");
	ret->keys = take_out(&m, keys);
	ret->left = keys->kind == SF_PV_DICT ? keys->seq.n / 2 : 0;
	take_out(&m, sf_pv_get(state, "planner_data"));
	take_out(&m, sf_pv_get(state, "mcore_data"));
	drop_member(state, "all_local_plans");
	r = take_items(&m, sf_pv_get(state, "storage_data"), arena);
	if (r >= 0)
		r = write_again(m.root, arena, out, err);
	return r == -ENOMEM ? sf_fail(err, r, "no memory for the metadata of %zu keys", ret->left)
	                    : r;
}
