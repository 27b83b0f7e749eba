#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "base/vec.h"
#include "ckpt/ckpt_check.h"
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
			const struct sf_tensor *t = &k->tensor[e->tensor];
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

static bool by_flags(const char *code)
{
	return strcmp(code, "hole") == 0 || strcmp(code, "overlap") == 0;
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
 * 1,000. Holes and overlaps are counted by the tensors' flags: their warnings may be cut off. */
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
		for (int n = 0; n < 2 && r >= 0; n++) {
			const struct sf_damage d = {
				.code = n ? "overlap" : "hole",
				.text = n ? "its chunks overlap; the first one wins"
				          : "its chunks do not cover it",
				.entry = i
			};
			if (!(flags & (n ? SF_TENSOR_OVERLAP : SF_TENSOR_HOLE)))
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
			bool hole = t->flags & SF_TENSOR_HOLE;
			one.code = hole ? "hole" : "overlap";
			one.file = NULL;
			one.text = hole ? "its chunks do not cover it"
			                : "its chunks overlap; the first one wins";
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

/* "361,618,391" */
static void put_number(struct sf_buf *out, uint64_t v)
{
	char digits[24];
	int n = snprintf(digits, sizeof(digits), "%" PRIu64, v);

	for (int i = 0; i < n; i++) {
		if (i && (n - i) % 3 == 0)
			sf_buf_byte(out, ',');
		sf_buf_byte(out, (uint8_t)digits[i]);
	}
}

static void put_count(struct sf_buf *out, uint32_t n, const char *what, const char *state)
{
	put_number(out, n);
	sf_buf_printf(out, " %s%s%s", what, n == 1 ? "" : "s", state);
}

/* ", all in optimizer", ", in model and optimizer", ", in model, optimizer, ema and others" */
static void put_groups(struct sf_buf *out, const struct sf_catalog *c, uint64_t groups)
{
	enum { NAMED = 3 };
	unsigned n = (unsigned)__builtin_popcountll(groups), shown = 0;

	if (!n || c->ngroups < 2)
		return;
	sf_buf_str(out, n == 1 ? ", all in " : ", in ");
	for (uint32_t g = 0; g < SF_MIN(c->ngroups, SF_DAMAGE_GROUPS - 1u) && shown < NAMED; g++) {
		const struct sf_group *of = c->group[g].of;
		if (!(groups >> g & 1))
			continue;
		sf_buf_str(out, !shown ? "" : shown + 1 == n ? " and " : ", ");
		if (of->len)
			sf_buf_add(out, of->name, of->len);
		else
			sf_buf_str(out, "the unnamed group");
		shown++;
	}
	if (shown < n)
		sf_buf_str(out, shown ? " and others" : "other groups");
}

static void put_keys(struct sf_buf *out, const struct sf_catalog *c, const struct sf_damage *d,
                     bool partly)
{
	if (d->ntensors)
		put_count(out, d->ntensors, "tensor", partly ? " incomplete" : "");
	if (d->nobjects) {
		sf_buf_str(out, d->ntensors ? ", " : "");
		put_count(out, d->nobjects, "object", partly ? " unreadable" : "");
	}
	if (!d->ntensors && !d->nobjects && partly)
		sf_buf_str(out, "no key shown here is in it");
	put_groups(out, c, d->groups);
}

void sf_damage_text(struct sf_buf *out, const struct sf_catalog *c, const struct sf_damage *d)
{
	uint32_t n = d->ntensors + d->nobjects;

	if (d->file) {
		sf_buf_add(out, d->file->name, d->file->name_len);
		sf_buf_str(out, ": ");
		if (d->file->missing) {
			sf_buf_str(out, d->file->odd ? "not a regular file" : "missing");
		} else if (d->need) {
			put_number(out, d->file->info.size);
			sf_buf_str(out, " of ");
			put_number(out, d->need);
			sf_buf_str(out, " bytes");
		} else {
			sf_buf_str(out,
			           strcmp(d->code, "outside-member") == 0
			                   ? "items that pass the end of their member or stream"
			                   : "items shorter than their tensors need");
		}
		sf_buf_str(out, "; ");
		put_keys(out, c, d, true);
		return;
	}
	sf_buf_printf(out, "%s: ", d->code);
	if (!d->text) {
		sf_buf_str(out, "metadata names no stored item; ");
		put_keys(out, c, d, true);
	} else if (n + d->nothers > 1) {
		if (d->nothers)
			put_count(out, d->nothers, "warning", n ? ", " : "");
		put_keys(out, c, d, false);
		sf_buf_str(out, "; first ");
	}
	if (d->text && d->entry != SF_NONE) {
		sf_buf_add(out, c->entry[d->entry].name, c->entry[d->entry].len);
		sf_buf_str(out, ": ");
	}
	sf_buf_str(out, d->text ? d->text : "");
}

void sf_damage_lines(struct sf_buf *out, const struct sf_catalog *c, const struct sf_damage_list *l,
                     const char *indent, uint32_t max)
{
	uint32_t n = l->n <= max ? l->n : max - 1;

	for (uint32_t i = 0; i < n; i++) {
		struct sf_buf text = { 0 };
		sf_damage_text(&text, c, &l->at[i]);
		sf_buf_str(out, indent);
		if (sf_buf_check(&text) < 0)
			sf_buf_fail(out, sf_buf_check(&text));
		else
			sf_escape_text(out, (const char *)text.at, text.len);
		sf_buf_byte(out, '\n');
		sf_buf_release(&text);
	}
	if (n < l->n)
		sf_buf_printf(out, "%s%" PRIu32 " more of this kind (shardfuse verify lists all)\n",
		              indent, l->n - n);
}

void sf_damage_json(struct sf_buf *out, const struct sf_catalog *c, const struct sf_damage *d)
{
	struct sf_buf text = { 0 };
	const char *sep = "";

	sf_buf_printf(out, "{\"code\": \"%s\", \"file\": ", d->code);
	if (d->file)
		sf_escape_json(out, d->file->name, d->file->name_len);
	else
		sf_buf_str(out, "null");
	if (d->file && !d->file->missing)
		sf_buf_printf(out, ", \"size\": %" PRIu64, d->file->info.size);
	if (d->need)
		sf_buf_printf(out, ", \"needed\": %" PRIu64, d->need);
	sf_buf_printf(out, ", \"tensors\": %" PRIu32 ", \"objects\": %" PRIu32 ", \"groups\": [",
	              d->ntensors, d->nobjects);
	for (uint32_t g = 0; g < SF_MIN(c->ngroups, SF_DAMAGE_GROUPS - 1u); g++)
		if (d->groups >> g & 1) {
			sf_buf_str(out, sep);
			sf_escape_json(out, c->group[g].of->name, c->group[g].of->len);
			sep = ", ";
		}
	sf_buf_str(out, "], \"text\": ");
	sf_damage_text(&text, c, d);
	sf_escape_json(out, text.len ? (const char *)text.at : "", text.len);
	if (sf_buf_check(&text) < 0) /* what there is of it is not the text */
		sf_buf_fail(out, sf_buf_check(&text));
	sf_buf_release(&text);
	sf_buf_byte(out, '}');
}
