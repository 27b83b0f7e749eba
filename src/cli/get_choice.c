#include "config.h"
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "catalog/key_index.h"
#include "catalog/key_near.h"
#include "cli/get_choice.h"

static int push(struct sf_get_choice *ch, struct sf_chosen one)
{
	if (ch->n == ch->cap) {
		uint32_t cap = ch->cap ? ch->cap + ch->cap / 2 : 16;
		struct sf_chosen *at = realloc(ch->at, cap * sizeof(*at));
		if (!at)
			return -ENOMEM;
		ch->at = at;
		ch->cap = cap;
	}
	ch->at[ch->n++] = one;
	return 0;
}

/* Everything at once: what an argument lacks is told before anything is read or written. */
static int check_slice(const struct sf_catalog *c, uint32_t entry, const struct sf_chosen *one,
                       struct sf_error *err)
{
	const struct sf_entry *e = &c->entry[entry];
	struct sf_value_box box;

	if (e->tensor == SF_NONE)
		return sf_fail(err, -EINVAL, "'%.300s%.100s': a slice, but the key is not a tensor",
		               e->name, one->part);
	const struct sf_tensor *t = &c->ckpt->tensor[e->tensor];
	int r = sf_key_slice_box(one->slice, t->shape, t->ndim, &box, err);
	return r < 0 ? sf_fail_ctx(err, r, "'%.300s%.100s'", e->name, one->part) : 0;
}

/* Matches of one argument: the key as it is, else what is before a slice. */
static int match(const struct sf_key_index *ix, const struct sf_catalog *c, const char *text,
                 struct sf_get_choice *ch, uint32_t *entry, uint32_t *ret_n, struct sf_chosen *one,
                 struct sf_error *err)
{
	struct sf_key_slice *slice = &ch->slices[ch->nslices];
	SF_FREE char *key = NULL;
	size_t len = strlen(text);
	int r;

	*one = (struct sf_chosen){ .part = "" };
	/* "w[0]" is a part of the key w, and where there is none the key w0 */
	if (sf_catalog_find(c, text, len) == SF_NONE &&
	    sf_key_slice_parse(text, slice, &len, NULL) > 0) {
		*entry = sf_catalog_find(c, text, len);
		if (*entry != SF_NONE) {
			*one = (struct sf_chosen){ .slice = slice, .part = text + len };
			ch->nslices++;
			*ret_n = 1;
			return 0;
		}
	}
	*ret_n = sf_key_index_match(ix, text, entry);
	if (*ret_n)
		return 0;
	len = strlen(text);
	r = sf_key_slice_parse(text, slice, &len, err);
	if (r < 0)
		return r;
	if (r > 0) {
		key = strndup(text, len);
		if (!key)
			return sf_fail(err, -ENOMEM, "'%.300s'", text);
		*ret_n = sf_key_index_match(ix, key, entry);
		*one = (struct sf_chosen){ .slice = slice, .part = text + len };
		ch->nslices++;
	}
	return *ret_n ? 0 : sf_catalog_no_key(c, text, len, err);
}

int sf_get_choose(const struct sf_catalog *c, int nkeys, char **keys, struct sf_get_choice *ret,
                  struct sf_error *err)
{
	SF_CLEANUP(sf_key_index_release) struct sf_key_index ix = { 0 };
	SF_FREE bool *seen = calloc((size_t)c->n + 1, sizeof(*seen));
	SF_FREE uint32_t *entry = sf_alloc_array(c->n, sizeof(*entry));
	int r = 0;

	*ret = (struct sf_get_choice){ 0 };
	ret->slices = sf_alloc_array((size_t)nkeys, sizeof(*ret->slices));
	if (!seen || !entry || !ret->slices || sf_key_index_init(&ix, c) < 0)
		return sf_fail(err, -ENOMEM, "%u keys", c->n);
	for (int k = 0; k < nkeys && r >= 0; k++) {
		struct sf_chosen one;
		uint32_t n;
		r = match(&ix, c, keys[k], ret, entry, &n, &one, err);
		for (uint32_t i = 0; r >= 0 && i < n; i++) {
			one.entry = entry[i];
			if (one.slice)
				r = check_slice(c, entry[i], &one, err);
			if (r >= 0 && (one.slice || !seen[entry[i]]) && push(ret, one) < 0)
				r = sf_fail(err, -ENOMEM, "%u keys", ret->n);
			if (!one.slice)
				seen[entry[i]] = true;
		}
	}
	return r;
}

void sf_get_choice_release(struct sf_get_choice *ch)
{
	free(ch->at);
	free(ch->slices);
	*ch = (struct sf_get_choice){ 0 };
}
