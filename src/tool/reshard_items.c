#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/path.h"
#include "format/megatron/megatron.h"
#include "tool/claims.h"
#include "tool/reshard_items.h"
#include "view/view_size.h"

static int same_key(void *arg, uint32_t value, const char *key, size_t len)
{
	const struct sf_entry *e =
		sf_reshard_entry(&((const struct sf_reshard_items *)arg)->item[value]);

	return e->len == len && memcmp(e->name, key, len) == 0;
}

static int key_twice(const struct sf_reshard_item *a, const struct sf_reshard_item *b,
                     struct sf_error *err)
{
	struct sf_buf name = { .limit = 300 };
	int r;

	sf_escape_text(&name, sf_reshard_entry(a)->name, SF_MIN(sf_reshard_entry(a)->len, 250u));
	r = sf_fail(err, -EINVAL, "key '%s' is in '%.300s' and in '%.300s'", sf_buf_cstr(&name),
	            a->s->store->source, b->s->store->source);
	sf_buf_release(&name);
	return r;
}

static int take_entry(struct sf_reshard_items *x, struct sf_session *s, uint32_t entry,
                      struct sf_map *keys, struct sf_error *err)
{
	const struct sf_entry *e = &s->catalog->entry[entry];
	struct sf_reshard_item *it = &x->item[x->n];
	const struct sf_tensor *t;
	uint32_t was;
	int failed;

	*it = (struct sf_reshard_item){ s, entry };
	was = sf_map_add(keys, e->name, e->len, (uint32_t)x->n, same_key, x, &failed);
	if (failed < 0)
		return sf_fail(err, failed, "no memory for %zu keys", x->n);
	if (was != SF_MAP_NONE)
		return key_twice(&x->item[was], it, err);
	t = sf_reshard_tensor(it);
	x->cut[x->n] = (struct sf_reshard_cut){
		.bytes = t ? sf_tensor_bytes_as(t, (enum sf_dtype)e->dtype)
		           : sf_object_bytes(&s->ckpt->object[e->object]),
		.rows = t && t->ndim ? t->shape[0] : 0,
	};
	x->bytes += x->cut[x->n].bytes;
	x->nsteps = SF_MAX(x->nsteps, (size_t)e->npath);
	x->n++;
	return 0;
}

/* Megatron's common state: its values are keys of their own, of the group common; a DCP that has it as one
 * item besides is one of Megatron's that was not committed. */
static bool is_common_state(const struct sf_catalog *c, const struct sf_entry *e)
{
	const struct sf_key *key = &c->ckpt->key[e->key];

	return strcmp(c->ckpt->format, "megatron") == 0 &&
	       key->len == strlen(MEGATRON_COMMON_KEY) &&
	       memcmp(key->name, MEGATRON_COMMON_KEY, key->len) == 0;
}

static bool is_left_out(bool no_optim, const struct sf_catalog *c, const struct sf_entry *e)
{
	return (e->tensor == SF_NONE && c->opt->objects == SF_OBJECTS_NONE) ||
	       is_common_state(c, e) || (no_optim && c->group[e->group].of->role == SF_ROLE_OPTIM);
}

/* Its keys, also those that lie beside the checkpoint; tensors that are there. */
static int take_session(struct sf_reshard_items *x, struct sf_session *s, bool no_optim,
                        struct sf_map *keys, struct sf_error *err)
{
	const struct sf_catalog *c = s->catalog;
	SF_FREE uint32_t *entry = sf_alloc_array(c->n, sizeof(*entry));
	int r = 0;
	size_t n = 0;

	if (!entry)
		return sf_fail(err, -ENOMEM, "no memory for %u keys", c->n);
	for (uint32_t i = 0; i < c->n && r >= 0; i++) {
		if (is_left_out(no_optim, c, &c->entry[i]))
			continue;
		entry[n++] = i;
		r = take_entry(x, s, i, keys, err);
	}
	return r < 0 ? r : sf_claims_check(s, entry, n, err);
}

int sf_reshard_items_take(struct sf_reshard_items *x, struct sf_session *const *source, size_t n,
                          bool no_optim, struct sf_error *err)
{
	struct sf_map keys = { 0 };
	size_t all = 0;
	int r = 0;

	for (size_t i = 0; i < n; i++)
		all += source[i]->catalog->n;
	x->item = sf_alloc_array(all, sizeof(*x->item));
	x->cut = sf_alloc_array(all, sizeof(*x->cut));
	if (!x->item || !x->cut || sf_map_reserve(&keys, all) < 0)
		r = sf_fail(err, -ENOMEM, "no memory for %zu keys", all);
	for (size_t i = 0; i < n && r >= 0; i++)
		r = take_session(x, source[i], no_optim, &keys, err);
	sf_map_release(&keys);
	if (r >= 0 && !x->n)
		r = sf_fail(err, -EINVAL, "nothing to write: no key of this selection");
	return r;
}

void sf_reshard_items_release(struct sf_reshard_items *x)
{
	free(x->item);
	free(x->cut);
	*x = (struct sf_reshard_items){ 0 };
}
