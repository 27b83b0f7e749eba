#include "config.h"

#include <string.h>

#include "base/growing.h"
#include "base/mem.h"
#include "save/save_item_bytes.h"
#include "save/save_item_priv.h"
#include "save/save_values.h"

/* The archive's bytes into @ret. */
static int archive_value(const struct shardfuse_value *v, bool in_list, struct sf_buf *ret,
                         struct sf_error *err)
{
	struct sf_pv *tree = sf_save_value_tree(v);
	const struct sf_pv list = { .kind = SF_PV_LIST, .seq = { &tree, 1 } };

	return sf_save_object_item(in_list ? &list : tree, ret, err);
}

static int archive_json(const char *json, bool in_list, struct sf_buf *ret, struct sf_error *err)
{
	struct shardfuse_values *vs = shardfuse_values_new();
	struct shardfuse_error why = { "" };
	const struct shardfuse_value *v;
	int r;

	if (!vs)
		return sf_fail(err, -ENOMEM, "no memory for a value");
	v = shardfuse_value_json(vs, json, strlen(json), &why);
	r = v ? archive_value(v, in_list, ret, err)
	      : sf_fail(err, -EINVAL, "no JSON that can be saved: %s", why.msg);
	shardfuse_values_free(vs);
	return r;
}

int sf_save_archive(const struct shardfuse_save_object *o, bool in_list, struct sf_buf *ret,
                    struct sf_error *err)
{
	int r;

	if (!!o->value + !!o->json + !!o->at != 1)
		return sf_fail(err, -EINVAL, "one of value, json and at is to be given, not %d",
		               !!o->value + !!o->json + !!o->at);
	if (o->value)
		return archive_value(o->value, in_list, ret, err);
	if (o->json)
		return archive_json(o->json, in_list, ret, err);
	r = sf_save_object_check(o->at, o->len, err);
	if (r >= 0)
		sf_buf_add(ret, o->at, o->len);
	return r;
}

static int push_archive(struct sf_save_items *s, struct sf_save_item *item,
                        const struct sf_buf *bytes, struct sf_error *err)
{
	void *at = sf_buf_check(bytes) < 0 ? NULL : sf_arena_alloc(&s->arena, bytes->len);

	if (!at)
		return sf_fail(err, -ENOMEM, "no memory for object '%s'",
		               sf_save_shown(item->key, item->key_len).at);
	memcpy(at, bytes->at, bytes->len);
	item->archive = at;
	item->bytes = item->stored = bytes->len;
	item->hash = sf_fnv1a(SF_FNV1A, at, bytes->len);
	return sf_item_push(s, item, true, err);
}

int sf_save_items_object(struct sf_save_items *s, const struct shardfuse_save_object *given,
                         struct sf_error *err)
{
	struct sf_save_item item = { .kind = SF_SAVE_OBJECT };
	struct shardfuse_save_object o;
	struct sf_buf bytes = { 0 };
	int r = sf_public_take(given, &o, sizeof(o), err);

	if (r >= 0) {
		const struct sf_item_name name = { o.key, o.key_len, o.path, o.npath };
		r = sf_item_set_name(s, &name, &item, err);
	}
	if (r < 0)
		return r;
	r = sf_save_archive(&o, s->in_lists, &bytes, err);
	if (r < 0)
		sf_fail_ctx(err, r, "object '%s'", sf_save_shown(item.key, item.key_len).at);
	else
		r = push_archive(s, &item, &bytes, err);
	sf_buf_release(&bytes);
	return r;
}
