#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/deepspeed/ds_set.h"

/* ---- names ---- */

/* Behind @word, which the text begins with; NULL: it does not. */
static const char *behind(const char *s, const char *word)
{
	size_t n = strlen(word);

	return s && strncmp(s, word, n) == 0 ? s + n : NULL;
}

/* Behind a number of at most nine digits. */
static const char *number(const char *s, uint32_t *ret)
{
	size_t n = s ? strspn(s, "0123456789") : 0;

	if (!n || n > 9)
		return NULL;
	*ret = (uint32_t)strtoul(s, NULL, 10);
	return s + n;
}

static bool ends(const char *s, const char *word)
{
	return s && strcmp(s, word) == 0;
}

static bool zero_rank(const char *s, struct ds_name *ret)
{
	const char *p = behind(s, "bf16_");

	p = p ? p : behind(s, "fp16_");
	p = number(behind(p ? p : s, "zero_pp_rank_"), &ret->rank);
	p = number(behind(p, "_mp_rank_"), &ret->mp);
	/* before 0.3 there was no underscore */
	ret->kind = ends(p, "_optim_states.pt") || ends(p, "optim_states.pt") ? DS_OPTIM
	            : ends(p, "_model_states.pt") && *s == 'z'                ? DS_ZERO_MODEL
	                                                                      : DS_NONE;
	return ret->kind != DS_NONE;
}

static bool layer_or_expert(const char *s, struct ds_name *ret)
{
	uint32_t layer = UINT32_MAX;
	const char *p = number(behind(s, "layer_"), &layer), *q;

	if (p && ends(p, "-model_states.pt")) {
		*ret = (struct ds_name){ DS_LAYER, layer, 0, layer };
		return true;
	}
	q = number(behind(p, "-model_"), &ret->mp);
	if (ends(q, "-model_states.pt")) {
		*ret = (struct ds_name){ DS_LAYER, layer, ret->mp, layer };
		return true;
	}
	ret->layer = p ? layer : UINT32_MAX;
	q = number(behind(p ? p : s, p ? "_expert_" : "expert_"), &ret->rank);
	q = number(behind(q, "_mp_rank_"), &ret->mp);
	ret->kind = ends(q, "_model_states.pt") ? DS_EXPERT : DS_NONE;
	return ret->kind != DS_NONE;
}

struct ds_name ds_name_of(const char *name)
{
	struct ds_name n = { .layer = UINT32_MAX };
	const char *p = behind(name, "zero/"), *slash;
	size_t len = strlen(name);

	if (p) {
		slash = strrchr(p, '/');
		n.kind = ends(p, "optimizer_state.pt") ? DS_REST
		         : slash && slash > p && len > 3 && ends(name + len - 3, ".pt")
		                 ? DS_UNIVERSAL
		                 : DS_NONE;
		return n;
	}
	if (zero_rank(name, &n) || layer_or_expert(name, &n))
		return n;
	n = (struct ds_name){ .layer = UINT32_MAX };
	if (ends(number(behind(name, "mp_rank_"), &n.mp), "_model_states.pt")) {
		n.kind = DS_MODEL;
		return n;
	}
	p = number(behind(name, "expp_rank_"), &n.rank);
	if (ends(number(behind(p, "_mp_rank_"), &n.mp), "_optim_states.pt"))
		n.kind = DS_EXPERT_OPTIM;
	return n;
}

/* ---- sets ---- */

void ds_set_release(struct ds_set *s)
{
	ds_files_release(&s->files);
}

static int by_rank(const void *a, const void *b)
{
	const struct ds_name *x = &((const struct ds_file *)a)->name,
			     *y = &((const struct ds_file *)b)->name;
	const uint32_t k[2][4] = { { x->kind, x->mp, x->layer, x->rank },
		                   { y->kind, y->mp, y->layer, y->rank } };

	for (int i = 0; i < 4; i++)
		if (k[0][i] != k[1][i])
			return k[0][i] < k[1][i] ? -1 : 1;
	return strcmp(((const struct ds_file *)a)->file->name,
	              ((const struct ds_file *)b)->file->name);
}

static int take(struct ds_set *s, struct ds_name name, const struct sf_objinfo *file)
{
	return name.kind == DS_NONE ? 0 : ds_files_push(&s->files, (struct ds_file){ name, file });
}

/* The name below the last directory called deepspeed; NULL: it lies in none. */
static const char *below_deepspeed(const char *name)
{
	const char *found = behind(name, "deepspeed/"), *p = name;

	while ((p = strstr(p, "/deepspeed/"))) {
		found = p + 11;
		p++;
	}
	return found;
}

/* Of directories called deepspeed, and Composer's own state beside them. */
static int find_below(const struct sf_objinfo *files, size_t n, struct ds_set *ret)
{
	int r = 0;

	for (size_t i = 0; i < n && r >= 0; i++) {
		const char *name = files[i].name;
		const char *in = below_deepspeed(name);
		if (in && !strchr(in, '/'))
			r = take(ret, ds_name_of(in), &files[i]);
	}
	for (size_t i = 0; i < n && r >= 0 && ret->files.n; i++) {
		const char *base = strrchr(files[i].name, '/');
		if (strcmp(base ? base + 1 : files[i].name, "composer_states.pt") == 0)
			r = take(ret, (struct ds_name){ .kind = DS_COMPOSER, .layer = UINT32_MAX },
			         &files[i]);
	}
	return r;
}

/* Tars that overlap: which of the two is meant nobody knows. Composer's own state is in the first. */
static int check_once(struct ds_set *s, struct sf_error *err)
{
	for (size_t i = 1; i < s->files.n; i++) {
		const struct ds_name *a = &s->files.at[i - 1].name, *b = &s->files.at[i].name;
		if (a->kind == b->kind && a->kind != DS_UNIVERSAL && a->kind != DS_COMPOSER &&
		    a->mp == b->mp && a->layer == b->layer && a->rank == b->rank)
			return sf_fail(err, -EBADMSG, "'%s' and '%s': two files of one rank",
			               s->files.at[i - 1].file->name, s->files.at[i].file->name);
	}
	return 0;
}

int ds_set_find(const struct sf_objinfo *files, size_t n, struct ds_set *ret, struct sf_error *err)
{
	int r = 0;

	*ret = (struct ds_set){ .dir = "" };
	for (size_t i = 0; i < n && r >= 0; i++)
		r = take(ret, ds_name_of(files[i].name), &files[i]);
	if (r >= 0 && !ret->files.n)
		r = find_below(files, n, ret);
	if (r < 0)
		return sf_fail(err, r, "no memory for the names of %zu files", n);
	if (ret->files.n)
		qsort(ret->files.at, ret->files.n, sizeof(*ret->files.at), by_rank);
	return check_once(ret, err);
}

const struct ds_file *ds_set_kind(const struct ds_set *s, enum ds_kind kind, size_t *ret_n)
{
	size_t first = 0, end;

	while (first < s->files.n && s->files.at[first].name.kind < kind)
		first++;
	for (end = first; end < s->files.n && s->files.at[end].name.kind == kind; end++)
		;
	*ret_n = end - first;
	return end > first ? &s->files.at[first] : NULL;
}

const struct ds_file *ds_set_of(const struct ds_set *s, enum ds_kind kind, uint32_t mp,
                                size_t *ret_n)
{
	size_t n, first = 0, end;
	const struct ds_file *at = ds_set_kind(s, kind, &n);

	while (first < n && at[first].name.mp < mp)
		first++;
	for (end = first; end < n && at[end].name.mp == mp; end++)
		;
	*ret_n = end - first;
	return end > first ? at + first : NULL;
}
