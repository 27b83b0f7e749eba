#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "catalog/catalog_group.h"
#include "catalog/catalog_map.h"
#include "catalog/catalog_slice.h"
#include "catalog/entry_name.h"
#include "catalog/key_near.h"
#include "catalog/view_wanted.h"

#define CUT_DIGITS 16 /* hex digits that end a name which was cut */

void sf_catalog_free(struct sf_catalog *c)
{
	if (!c)
		return;
	sf_map_release(&c->names);
	sf_map_release(&c->long_names);
	sf_arena_release(&c->arena);
	free(c);
}

static int same_name(void *arg, uint32_t value, const char *name, size_t len)
{
	const struct sf_entry *e = &((const struct sf_catalog *)arg)->entry[value];

	return e->len == len && (len == 0 || memcmp(e->name, name, len) == 0);
}

uint32_t sf_catalog_find(const struct sf_catalog *c, const char *name, size_t len)
{
	uint32_t i = sf_map_get(&c->names, name, len, same_name, (void *)c);

	return i == SF_MAP_NONE ? SF_NONE : i;
}

/* Patterns, and which of them met a key. */
struct patterns {
	const char *option;
	const struct sf_strs *list;
	bool *met;
};

static bool match_any(struct patterns *p, const struct sf_key *k)
{
	bool hit = false;

	for (size_t i = 0; i < p->list->n; i++)
		if ((!hit || !p->met[i]) && sf_key_match(p->list->at[i], k->name, k->len))
			hit = p->met[i] = true;
	return hit;
}

static const char *stored_name(const void *arg, uint32_t i, size_t *ret_len)
{
	const struct sf_key *k = &((const struct sf_ckpt *)arg)->key[i];

	*ret_len = k->len;
	return k->name;
}

/* "--key 'modle' matches no key: did you mean 'model'?" */
static int matches_none(const struct sf_ckpt *ckpt, const char *option, const char *given,
                        const char *key, struct sf_error *err)
{
	struct sf_buf hint = { 0 };

	sf_key_hint(&hint, key, strlen(key), stored_name, ckpt, ckpt->nkeys);
	sf_fail(err, -EINVAL, "--%s '%.200s' matches no key%s", option, given, sf_buf_cstr(&hint));
	sf_buf_release(&hint);
	return -EINVAL;
}

static int check_met(const struct sf_ckpt *ckpt, const struct patterns *p, struct sf_error *err)
{
	for (size_t i = 0; i < p->list->n; i++)
		if (!p->met[i])
			return matches_none(ckpt, p->option, p->list->at[i], p->list->at[i], err);
	return 0;
}

static bool wants(const struct sf_catalog *c, struct patterns *key, struct patterns *ignore,
                  const struct sf_key *k)
{
	bool in = match_any(key, k) || !key->list->n;
	bool out = match_any(ignore, k);

	return in && !out && sf_role_wanted(c->opt, c->ckpt->group[k->group].role);
}

/* Which keys are shown: their numbers into @chosen. */
static int choose(struct sf_catalog *c, uint32_t *chosen, uint32_t *ret_n, struct sf_error *err)
{
	SF_FREE bool *key_met = calloc(c->opt->key.n + 1, sizeof(bool));
	SF_FREE bool *ignore_met = calloc(c->opt->ignore.n + 1, sizeof(bool));
	struct patterns key = { "key", &c->opt->key, key_met },
			ignore = { "ignore", &c->opt->ignore, ignore_met };
	uint32_t n = 0;
	int r;

	if (!key_met || !ignore_met)
		return sf_fail(err, -ENOMEM, "no memory for %zu patterns",
		               key.list->n + ignore.list->n);
	for (uint32_t i = 0; i < c->ckpt->nkeys; i++)
		if (!c->ckpt->key[i].picked && wants(c, &key, &ignore, &c->ckpt->key[i]))
			chosen[n++] = i;
	r = check_met(c->ckpt, &key, err);
	if (r >= 0)
		r = check_met(c->ckpt, &ignore, err);
	*ret_n = n;
	return r;
}

static bool casts(const struct sf_catalog *c, const struct sf_key *k)
{
	return c->opt->dtype != SF_DTYPE_NONE && c->ckpt->group[k->group].role == SF_ROLE_MODEL &&
	       sf_dtype_info(c->ckpt->tensor[k->tensor].dtype)->is_float;
}

static int map_entry(struct sf_catalog *c, struct sf_key_map *rules, const struct sf_key *k,
                     struct sf_entry *e, struct sf_buf *scratch)
{
	const char *name;
	int r;

	sf_buf_reset(scratch);
	r = sf_map_name(rules, k->name, k->len, scratch);
	if (r <= 0)
		return r;
	if (sf_buf_check(scratch) < 0)
		return -ENOMEM;
	name = sf_arena_strdup(&c->arena, (const char *)scratch->at, scratch->len);
	if (!name)
		return -ENOMEM;
	e->name = name;
	e->len = (uint32_t)scratch->len;
	return sf_map_path(k, c->ckpt->group[k->group].strip, name, e->len, &c->arena, &e->path,
	                   &e->npath, &e->moved);
}

static int make_entries(struct sf_catalog *c, const uint32_t *chosen, struct sf_entry *entry,
                        struct sf_error *err)
{
	struct sf_buf scratch = { 0 };
	struct sf_key_map rules;
	int r = sf_key_map_init(&rules, c->opt->map, c->opt->nmap);

	for (uint32_t i = 0; i < c->n && r >= 0; i++) {
		const struct sf_key *k = &c->ckpt->key[chosen[i]];
		struct sf_entry *e = &entry[i];
		*e = (struct sf_entry){ .key = chosen[i],
			                .group = k->group,
			                .tensor = k->tensor,
			                .object = k->object,
			                .name = k->name,
			                .len = k->len,
			                .npath = k->npath,
			                .path = k->path };
		c->nmain += chosen[i] < c->ckpt->nmain;
		if (k->tensor != SF_NONE) {
			e->dtype = casts(c, k) ? (uint8_t)c->opt->dtype
			                       : c->ckpt->tensor[k->tensor].dtype;
			c->ntensors++;
		} else {
			c->nobjects++;
		}
		if (c->opt->nmap)
			r = map_entry(c, &rules, k, e, &scratch);
	}
	if (r < 0)
		sf_fail(err, r, "no memory for %" PRIu32 " keys", c->n);
	else
		r = sf_map_check(&rules, "map", c->opt->map_arg, c->opt->nmap_arg, stored_name,
		                 c->ckpt, c->ckpt->nkeys, err);
	sf_buf_release(&scratch);
	sf_key_map_release(&rules);
	return r;
}

static int clash(const struct sf_catalog *c, uint32_t a, uint32_t b, struct sf_error *err)
{
	const struct sf_entry *e = &c->entry[a];
	const struct sf_key *x = &c->ckpt->key[e->key], *y = &c->ckpt->key[c->entry[b].key];

	return sf_fail(err, -EINVAL, "--map: keys '%.200s' and '%.200s' both become '%.200s'",
	               x->name, y->name, e->name);
}

static int index_names(struct sf_catalog *c, struct sf_error *err)
{
	int failed = sf_map_reserve(&c->names, c->n);

	for (uint32_t i = 0; i < c->n && !failed; i++) {
		uint32_t other = sf_map_add(&c->names, c->entry[i].name, c->entry[i].len, i,
		                            same_name, c, &failed);
		if (other != SF_MAP_NONE)
			return clash(c, other, i, err);
	}
	return failed ? sf_fail(err, failed, "no memory for %" PRIu32 " names", c->n) : 0;
}

/* The digits that a cut name of this entry ends in. */
static int cut_digits(const struct sf_entry *e, char digits[CUT_DIGITS + 1])
{
	uint8_t digest[SF_SHA256_BYTES];
	int r = sf_sha256(e->name, e->len, digest);

	for (int i = 0; i < CUT_DIGITS && r >= 0; i++)
		digits[i] = "0123456789abcdef"[i % 2 ? digest[i / 2] & 15 : digest[i / 2] >> 4];
	digits[CUT_DIGITS] = '\0';
	return r;
}

struct cut {
	const struct sf_catalog *c;
	int failed; /* no memory for a hash: "not the same" may be wrong */
};

static int same_cut(void *arg, uint32_t value, const char *name, size_t len)
{
	struct cut *cut = arg;
	char digits[CUT_DIGITS + 1];
	int r = cut_digits(&cut->c->entry[value], digits);

	if (r < 0)
		cut->failed = r;
	return r >= 0 && len == CUT_DIGITS && memcmp(digits, name, len) == 0;
}

int sf_catalog_find_cut(const struct sf_catalog *c, const char *name, size_t len, uint32_t *ret)
{
	struct cut cut = { c, 0 };
	uint32_t i;

	if (len <= CUT_DIGITS || name[len - CUT_DIGITS - 1] != '~')
		return -ENOENT;
	i = sf_map_get(&c->long_names, name + len - CUT_DIGITS, CUT_DIGITS, same_cut, &cut);
	if (i == SF_MAP_NONE)
		return cut.failed ? cut.failed : -ENOENT;
	*ret = i;
	return 0;
}

/* Names that are cut in the flat directories; a component of a key can only be cut when the whole
 * is too. */
static int index_long_names(struct sf_catalog *c, struct sf_error *err)
{
	struct cut cut = { c, 0 };
	int failed = 0;

	for (uint32_t i = 0; i < c->n && !failed; i++) {
		const struct sf_entry *e = &c->entry[i];
		char digits[CUT_DIGITS + 1];
		if (!sf_name_is_long(e->name, e->len, strlen(SF_FLAT_SUFFIX)))
			continue;
		failed = cut_digits(e, digits);
		if (failed >= 0)
			sf_map_add(&c->long_names, digits, CUT_DIGITS, i, same_cut, &cut, &failed);
		failed = failed ? failed : cut.failed;
	}
	return failed ? sf_fail(err, failed, "no memory for long names") : 0;
}

static int compare_paths(const void *a, const void *b, void *arg)
{
	const struct sf_entry *entry = arg, *x = &entry[*(const uint32_t *)a],
			      *y = &entry[*(const uint32_t *)b];

	return sf_name_compare(x->name, x->len, y->name, y->len);
}

static int sort_by_path(struct sf_catalog *c)
{
	uint32_t *at = sf_arena_calloc(&c->arena, (size_t)c->n + 1, sizeof(*at));

	if (!at)
		return -ENOMEM;
	for (uint32_t i = 0; i < c->n; i++)
		at[i] = i;
	qsort_r(at, c->n, sizeof(*at), compare_paths, (void *)c->entry);
	c->by_path = at;
	return 0;
}

static int make(struct sf_catalog *c, struct sf_error *err)
{
	SF_FREE uint32_t *chosen = sf_alloc_array(c->ckpt->nkeys, sizeof(*chosen));
	struct sf_entry *entry;
	int r;

	if (!chosen)
		return sf_fail(err, -ENOMEM, "no memory for %" PRIu32 " keys", c->ckpt->nkeys);
	r = choose(c, chosen, &c->n, err);
	if (r < 0)
		return r;
	entry = sf_arena_calloc(&c->arena, (size_t)c->n + 1, sizeof(*entry));
	c->entry = entry;
	if (!entry)
		return sf_fail(err, -ENOMEM, "no memory for %" PRIu32 " keys", c->n);
	r = make_entries(c, chosen, entry, err);
	if (r < 0)
		return r;
	r = index_names(c, err);
	if (r >= 0)
		r = index_long_names(c, err);
	if (r < 0)
		return r;
	r = sf_catalog_groups(c, entry);
	if (r >= 0)
		r = sort_by_path(c);
	if (r < 0)
		return sf_fail(err, r, "no memory for %" PRIu32 " keys", c->n);
	return c->opt->slice_tp ? sf_slices_new(c, err) : 0;
}

int sf_catalog_new(const struct sf_ckpt *ckpt, const struct sf_view_options *opt,
                   struct sf_catalog **ret, struct sf_error *err)
{
	struct sf_catalog *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return sf_fail(err, -ENOMEM, "no memory for a catalog");
	c->ckpt = ckpt;
	c->opt = opt;
	r = sf_roles_check(opt, err);
	if (r >= 0)
		r = make(c, err);
	if (r < 0) {
		sf_catalog_free(c);
		return r;
	}
	*ret = c;
	return 0;
}
