#include "config.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "format/deepspeed/ds_table.h"

void ds_table_release(struct ds_table *t)
{
	ds_entries_release(&t->at);
	sf_map_release(&t->map);
	free(t->elsewhere);
}

static int same_name(void *arg, uint32_t value, const char *name, size_t len)
{
	const struct ds_entry *e = &((const struct ds_table *)arg)->at.at[value];

	return e->len == len && memcmp(e->name, name, len) == 0;
}

uint32_t ds_table_find(const struct ds_table *t, const char *name, size_t len)
{
	return sf_map_get(&t->map, name, len, same_name, (void *)t);
}

/* The entry of that name, made where there is none; NULL: no memory. */
static struct ds_entry *entry(struct ds_table *t, const char *name, size_t len)
{
	const uint32_t next = (uint32_t)t->at.n;
	uint32_t at = ds_table_find(t, name, len);
	int r;

	if (at != SF_MAP_NONE)
		return &t->at.at[at];
	if (ds_entries_push(&t->at, (struct ds_entry){ .name = name,
	                                               .len = (uint32_t)len,
	                                               .trained = SF_NONE,
	                                               .frozen = SF_NONE,
	                                               .same_as = SF_NONE,
	                                               .fp32 = SF_NONE,
	                                               .weight = SF_NONE }) < 0)
		return NULL;
	sf_map_add(&t->map, name, len, next, same_name, t, &r);
	return r < 0 ? NULL : &t->at.at[next];
}

static int add_buffers(struct ds_table *t, const struct sf_pv *names)
{
	if (!names || names->kind != SF_PV_LIST)
		return 0;
	for (size_t i = 0; i < names->seq.n; i++) {
		const struct sf_pv *v = names->seq.at[i];
		struct ds_entry *e;
		if (v->kind != SF_PV_STR)
			continue;
		e = entry(t, v->str.at, v->str.len);
		if (!e)
			return -ENOMEM;
		e->buffer = true;
	}
	return 0;
}

static int add_params(struct ds_table *t, const struct ds_params *p, bool frozen)
{
	for (size_t i = 0; i < p->n; i++) {
		struct ds_entry *e = entry(t, p->at[i].name, p->at[i].len);
		if (!e)
			return -ENOMEM;
		if (frozen)
			e->frozen = (uint32_t)i;
		else
			e->trained = (uint32_t)i;
	}
	return 0;
}

/* {another name: the stored one}; a list of pairs in some versions. */
static int add_shared(struct ds_table *t, const struct sf_pv *v)
{
	const struct sf_pv *dict = ds_dict(v);

	for (size_t i = 0; dict && i + 1 < dict->seq.n; i += 2) {
		const struct sf_pv *name = dict->seq.at[i], *of = dict->seq.at[i + 1];
		struct ds_entry *e;
		uint32_t at;
		if (name->kind != SF_PV_STR || of->kind != SF_PV_STR)
			continue;
		at = ds_table_find(t, of->str.at, of->str.len);
		if (at == SF_MAP_NONE)
			continue;
		e = entry(t, name->str.at, name->str.len);
		if (!e)
			return -ENOMEM;
		if (e->trained == SF_NONE && e->frozen == SF_NONE && e != &t->at.at[at])
			e->same_as = at;
	}
	return 0;
}

static int add_module(struct ds_table *t, const struct sf_pv *module)
{
	module = ds_dict(module);
	for (size_t i = 0; module && i + 1 < module->seq.n; i += 2) {
		const struct sf_pv *name = module->seq.at[i];
		struct ds_entry *e;
		if (name->kind != SF_PV_STR)
			continue;
		e = entry(t, name->str.at, name->str.len);
		if (!e)
			return -ENOMEM;
		e->module = module->seq.at[i + 1];
	}
	return 0;
}

int ds_table_make(struct ds_table *t, const struct ds_slice *s, struct sf_error *err)
{
	const struct sf_pv *root = s->nmodel ? s->model[0].archive.root : NULL;
	int r = add_buffers(t, ds_get(root, "buffer_names"));

	t->s = s;
	if (r >= 0)
		r = add_params(t, &s->frozen, true);
	if (r >= 0)
		r = add_params(t, &s->params, false);
	if (r >= 0)
		r = add_shared(t, ds_get(root, "shared_params"));
	if (r >= 0)
		r = add_module(t, ds_get(root, "module"));
	return r < 0 ? sf_fail(err, r, "no memory for %zu names", t->at.n) : 0;
}

int ds_tables_compare(struct ds_table *t, size_t n, struct sf_error *err)
{
	for (size_t i = 0; i < n && n > 1; i++) {
		t[i].elsewhere = calloc(t[i].at.n + 1, 1);
		if (!t[i].elsewhere)
			return sf_fail(err, -ENOMEM, "no memory for %zu names", t[i].at.n);
	}
	/* each name of a table in those before it: both are not alone then */
	for (size_t i = 1; i < n; i++)
		for (size_t k = 0; k < i; k++)
			for (size_t e = 0; e < t[i].at.n; e++) {
				uint32_t at =
					ds_table_find(&t[k], t[i].at.at[e].name, t[i].at.at[e].len);
				if (at != SF_MAP_NONE)
					t[i].elsewhere[e] = t[k].elsewhere[at] = 1;
			}
	return 0;
}
