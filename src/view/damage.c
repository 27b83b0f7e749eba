#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/vec.h"
#include "ckpt/ckpt_check.h"
#include "ckpt/ckpt_pick.h"
#include "view/damage.h"

SF_VEC(damages, struct sf_damage);

/* What the damage of an item is called: these are looked for in the items, not in the warnings. */
static const char *const item_codes[SF_BAD_KINDS] = { "missing-file", "truncated-file",
	                                              "outside-member", "short-item",
	                                              "missing-item" };

struct fold {
	const struct sf_catalog *c;
	struct damages list;
	uint32_t *entry_of; /* ckpt key -> entry */
	uint32_t *of_item;  /* (file + 1) * kinds + kind -> list, SF_NONE; file 0: no file */
	uint32_t *last;     /* by list: the entry counted last, so that each counts once */
	size_t last_cap;
};

static int item_kind(const char *code)
{
	for (int k = 0; k < SF_BAD_KINDS; k++)
		if (strcmp(code, item_codes[k]) == 0)
			return k;
	return -1;
}

static uint32_t *map_entries(const struct sf_catalog *c)
{
	uint32_t *at = sf_alloc_array(c->ckpt->nkeys, sizeof(*at));

	for (uint32_t i = 0; at && i < c->ckpt->nkeys; i++)
		at[i] = SF_NONE;
	for (uint32_t i = 0; at && i < c->n; i++)
		at[c->entry[i].key] = i;
	return at;
}

/* Of a key's item: told by looking at the items, where every one is. */
static bool of_item(const struct sf_warning *w)
{
	return w->key != SF_NONE && item_kind(w->code) >= 0;
}

static uint64_t group_bit(uint32_t group)
{
	return UINT64_C(1) << SF_MIN(group, SF_DAMAGE_GROUPS - 1u);
}

static int add(struct fold *f, struct sf_damage d, uint32_t *ret)
{
	if (f->list.n == f->last_cap) {
		size_t cap = f->last_cap ? f->last_cap * 2 : 16;
		uint32_t *last = realloc(f->last, cap * sizeof(*last));
		if (!last)
			return -ENOMEM;
		f->last = last;
		f->last_cap = cap;
	}
	f->last[f->list.n] = SF_NONE;
	*ret = (uint32_t)f->list.n;
	return damages_push(&f->list, d) < 0 ? -ENOMEM : 0;
}

static void count(struct fold *f, uint32_t i, uint32_t entry)
{
	struct sf_damage *d = &f->list.at[i];
	const struct sf_entry *e = &f->c->entry[entry];

	if (f->last[i] == entry)
		return;
	f->last[i] = entry;
	if (e->tensor != SF_NONE)
		d->ntensors++;
	else
		d->nobjects++;
	d->groups |= group_bit(e->group);
}

static int fold_item(struct fold *f, const struct sf_item_check *c, uint32_t entry)
{
	int kind = item_kind(c->code);
	size_t file = c->file ? (size_t)(c->file - f->c->ckpt->file) + 1 : 0;
	uint32_t *at = &f->of_item[file * SF_BAD_KINDS + (size_t)kind];
	struct sf_damage d = { .code = item_codes[kind], .file = c->file, .entry = SF_NONE };
	int r = *at == SF_NONE ? add(f, d, at) : 0;

	if (r >= 0 && entry != SF_NONE)
		count(f, *at, entry);
	if (r >= 0 && strcmp(c->code, "truncated-file") == 0)
		f->list.at[*at].need = SF_MAX(f->list.at[*at].need, c->end);
	return r;
}

static int fold_items(struct fold *f)
{
	const struct sf_ckpt *k = f->c->ckpt;
	struct sf_item_check c;
	int r = 0;

	for (uint32_t i = 0; i < k->nfiles && r >= 0; i++)
		if (k->file[i].missing) {
			c = (struct sf_item_check){ .code = "missing-file", .file = &k->file[i] };
			r = fold_item(f, &c, SF_NONE);
		}
	for (uint32_t i = 0; i < f->c->n && r >= 0; i++) {
		const struct sf_entry *e = &f->c->entry[i];
		if (e->tensor != SF_NONE) {
			const struct sf_tensor *t = sf_tensor_whole(k, &k->tensor[e->tensor]);
			if (t->flags & SF_TENSOR_DAMAGED)
				for (uint32_t n = 0; n < t->nchunks && r >= 0; n++)
					if (!sf_check_chunk(k, t, n, &c))
						r = fold_item(f, &c, i);
		} else {
			const struct sf_object *o = &k->object[e->object];
			if (!sf_check_item(k, o->place, o->off, o->len, 0, &c))
				r = fold_item(f, &c, i);
		}
	}
	return r;
}

/* Told by a tensor's flags: its warning may have been cut off. */
static const struct {
	unsigned flag;
	const char *code, *text;
} by_flag[] = {
	{ SF_TENSOR_HOLE, "hole", "its chunks do not cover it" },
	{ SF_TENSOR_OVERLAP, "overlap", "its chunks overlap; the first one wins" },
};

static bool by_flags(const char *code)
{
	return strcmp(code, by_flag[0].code) == 0 || strcmp(code, by_flag[1].code) == 0;
}

/* The damage of this code that is of no file, made with these words when it is the first. */
static int find(struct fold *f, size_t from, const struct sf_damage *like, uint32_t *ret)
{
	for (size_t i = from; i < f->list.n; i++)
		if (!f->list.at[i].file && strcmp(f->list.at[i].code, like->code) == 0) {
			*ret = (uint32_t)i;
			return 0;
		}
	return add(f, *like, ret);
}

/* What is told by warnings alone: the kinds are few, a hostile checkpoint's warnings at most
 * 1,000. Holes and overlaps are counted by the tensors' flags. */
static int fold_warnings(struct fold *f)
{
	const struct sf_ckpt *k = f->c->ckpt;
	size_t from = f->list.n;
	uint32_t at;
	int r = 0;

	for (uint32_t i = 0; i < k->nwarnings && r >= 0; i++) {
		const struct sf_warning *w = &k->warning[i];
		uint32_t entry = w->key == SF_NONE ? SF_NONE : f->entry_of[w->key];
		const struct sf_damage d = { .code = w->code, .text = w->text, .entry = entry };
		if (w->file != SF_NONE || of_item(w) || strcmp(w->code, "more") == 0 ||
		    sf_warning_is_note(w->code) || (w->key != SF_NONE && entry == SF_NONE))
			continue;
		r = find(f, from, &d, &at);
		if (r >= 0 && entry == SF_NONE)
			f->list.at[at].nothers++;
		else if (r >= 0 && !by_flags(w->code))
			count(f, at, entry);
	}
	for (uint32_t i = 0; i < f->c->n && r >= 0; i++) {
		uint32_t t = f->c->entry[i].tensor;
		unsigned flags = t == SF_NONE ? 0 : k->tensor[t].flags;
		for (size_t n = 0; n < SF_ARRAY_LEN(by_flag) && r >= 0; n++) {
			const struct sf_damage d = { .code = by_flag[n].code,
				                     .text = by_flag[n].text,
				                     .entry = i };
			if (!(flags & by_flag[n].flag))
				continue;
			r = find(f, from, &d, &at);
			if (r >= 0)
				count(f, at, i);
		}
	}
	return r;
}

static int by_file(const void *a, const void *b)
{
	const struct sf_damage *x = a, *y = b;

	if (!x->file || !y->file)
		return !x->file - !y->file;
	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	return item_kind(x->code) - item_kind(y->code);
}

int sf_damage_fold(const struct sf_catalog *c, struct sf_damage_list *ret)
{
	const struct sf_ckpt *k = c->ckpt;
	struct fold f = { .c = c };
	int r = 0;

	*ret = (struct sf_damage_list){ 0 };
	if (!k->nwarnings)
		return 0; /* whatever is damaged has one, if only "more" */
	size_t n = ((size_t)k->nfiles + 1) * SF_BAD_KINDS, files;
	f.entry_of = map_entries(c);
	f.of_item = sf_alloc_array(n, sizeof(*f.of_item));
	if (!f.entry_of || !f.of_item)
		r = -ENOMEM;
	for (size_t i = 0; i < n && r >= 0; i++)
		f.of_item[i] = SF_NONE;
	if (r >= 0)
		r = fold_items(&f);
	files = f.list.n;
	if (r >= 0)
		r = fold_warnings(&f);
	if (r >= 0 && files)
		qsort(f.list.at, files, sizeof(*f.list.at), by_file);
	free(f.entry_of);
	free(f.of_item);
	free(f.last);
	*ret = (struct sf_damage_list){ f.list.at, (uint32_t)f.list.n };
	return r;
}

void sf_damage_release(struct sf_damage_list *l)
{
	free(l->at);
	*l = (struct sf_damage_list){ 0 };
}

/* What the load did not list: items by looking at them, holes and overlaps by the flags of who was not
 * @told of before. */
static int each_hidden(const struct sf_catalog *c, const bool *told,
                       int (*each)(void *arg, const struct sf_damage_one *one), void *arg)
{
	const struct sf_ckpt *k = c->ckpt;
	int r = 0;

	for (uint32_t i = 0; i < c->n && r == 0; i++) {
		const struct sf_entry *e = &c->entry[i];
		struct sf_damage_one one = { .entry = i };
		char text[SF_BAD_TEXT];
		one.text = text;
		if (e->tensor == SF_NONE) {
			const struct sf_object *o = &k->object[e->object];
			struct sf_item_check item;
			if (sf_check_item(k, o->place, o->off, o->len, 0, &item))
				continue;
			sf_check_item_text(&item, o->off, o->len, text);
			one.code = item.code;
			one.file = item.file;
			r = each(arg, &one);
			continue;
		}
		const struct sf_tensor *t = &k->tensor[e->tensor];
		struct sf_bad_items bad[SF_BAD_KINDS];
		unsigned n = t->flags & SF_TENSOR_DAMAGED ? sf_check_items(k, t, bad) : 0;
		for (unsigned b = 0; b < n && r == 0; b++) {
			sf_check_items_text(t, &bad[b], text);
			one.code = bad[b].c.code;
			one.file = bad[b].n == 1 ? bad[b].c.file : NULL;
			r = each(arg, &one);
		}
		if (r == 0 && t->flags & (SF_TENSOR_HOLE | SF_TENSOR_OVERLAP) && !told[e->key]) {
			size_t f = t->flags & SF_TENSOR_HOLE ? 0 : 1;
			one.code = by_flag[f].code;
			one.file = NULL;
			one.text = by_flag[f].text;
			r = each(arg, &one);
		}
	}
	return r;
}

int sf_damage_each(const struct sf_catalog *c,
                   int (*each)(void *arg, const struct sf_damage_one *one), void *arg)
{
	const struct sf_ckpt *k = c->ckpt;
	int r = 0;

	if (!k->nwarnings)
		return 0;
	SF_FREE uint32_t *entry_of = map_entries(c);
	SF_FREE bool *told = calloc((size_t)k->nkeys + 1, sizeof(*told)); /* by a hole's warning */
	if (!entry_of || !told)
		return -ENOMEM;
	for (int keys = 0; keys < 2; keys++)
		for (uint32_t i = 0; i < k->nwarnings && r == 0; i++) {
			const struct sf_warning *w = &k->warning[i];
			struct sf_damage_one one = { .entry = SF_NONE,
				                     .code = w->code,
				                     .text = w->text };
			if (of_item(w) || (w->key != SF_NONE) != keys ||
			    strcmp(w->code, "more") == 0 || sf_warning_is_note(w->code))
				continue;
			if (keys && by_flags(w->code))
				told[w->key] = true;
			if (keys)
				one.entry = entry_of[w->key];
			if (w->file != SF_NONE)
				one.file = &k->file[w->file];
			if (!keys || one.entry != SF_NONE)
				r = each(arg, &one);
		}
	return r ? r : each_hidden(c, told, each, arg);
}
