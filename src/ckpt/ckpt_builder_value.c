#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "ckpt/builder_priv.h"
#include "parse/pickle_write.h"

SF_VEC(records, struct sf_torch_record);
SF_VEC(indices, uint32_t);

/* Storages of one value, numbered as they come. */
struct numbering {
	struct sf_ckpt_builder *b;
	const struct sf_torch_archive *a;
	uint64_t len; /* of the container */
	struct records used;
	struct indices of; /* which of the archive's */
	struct sf_map map; /* that -> number */
};

static int same_index(void *arg, uint32_t value, const char *key, size_t len)
{
	const struct numbering *n = arg;

	return len == 4 && sf_le32(key) == n->of.at[value];
}

static int number_storage(void *arg, const char *key, size_t len, uint64_t *ret,
                          struct sf_error *err)
{
	struct numbering *n = arg;
	const struct sf_torch_record *s =
		sf_torch_record_find(n->a->storage, n->a->nstorages, key, len);
	const uint32_t next = (uint32_t)n->used.n;
	uint8_t index[4];
	char text[16];
	int failed;

	if (!s)
		return sf_fail(err, -EBADMSG, "no storage '%.*s'", (int)SF_MIN(len, (size_t)64),
		               key);
	if (n->a->big_endian)
		return sf_fail(err, -ENOTSUP, "its tensors were written on a big-endian machine");
	if (s->off > n->len || s->len > n->len - s->off)
		return sf_fail(err, -EBADMSG,
		               "storage '%.100s': %" PRIu64 " bytes at %" PRIu64 " of %" PRIu64,
		               s->key, s->len, s->off, n->len);
	sf_put_le32(index, (uint32_t)(s - n->a->storage));
	if (indices_push(&n->of, sf_le32(index)) < 0)
		return sf_fail(err, -ENOMEM, "no memory for %zu storages", n->used.n);
	const uint32_t there =
		sf_map_add(&n->map, (const char *)index, 4, next, same_index, n, &failed);
	if (there != SF_MAP_NONE) {
		n->of.n--;
		*ret = there;
		return 0;
	}
	const size_t digits = (size_t)snprintf(text, sizeof(text), "%" PRIu32, next);
	struct sf_torch_record used = { sf_arena_strdup(&n->b->ckpt->arena, text, digits), s->off,
		                        s->len };
	if (failed || !used.key || records_push(&n->used, used) < 0)
		return sf_fail(err, -ENOMEM, "no memory for %zu storages", n->used.n);
	*ret = next;
	return 0;
}

static int by_key(const void *a, const void *b)
{
	return strcmp(((const struct sf_torch_record *)a)->key,
	              ((const struct sf_torch_record *)b)->key);
}

/* What was written becomes the object's. */
static int keep(struct numbering *n, uint32_t object, const struct sf_buf *out)
{
	struct sf_arena *arena = &n->b->ckpt->arena;
	struct sf_inline *in = sf_arena_calloc(arena, 1, sizeof(*in));
	struct sf_torch_record *at = sf_arena_calloc(arena, n->used.n + 1, sizeof(*at));
	char *pickle = sf_arena_strdup(arena, (const char *)out->at, out->len);

	if (!in || !at || !pickle)
		return -ENOMEM;
	if (n->used.n) {
		memcpy(at, n->used.at, n->used.n * sizeof(*at));
		qsort(at, n->used.n, sizeof(*at), by_key);
	}
	*in = (struct sf_inline){ (const uint8_t *)pickle, out->len, at, (uint32_t)n->used.n };
	n->b->objects.at[object].inlined = in;
	n->b->inline_bytes += out->len;
	return 0;
}

static int write_value(struct numbering *n, uint32_t object, struct sf_pv *v, struct sf_error *err)
{
	struct sf_buf out = { .limit = SF_MAX(SF_INLINE_MAX - n->b->inline_bytes, 1u) };
	struct sf_arena words = { 0 };
	struct sf_pickle_writer w;
	int r = sf_pickle_writer_init(&w, &out, &words);

	if (r >= 0) {
		w.storage = number_storage;
		w.storage_arg = n;
		sf_pw_proto(&w);
		r = sf_pw_value(&w, v, err);
		sf_pw_stop(&w);
		sf_pickle_writer_release(&w);
		if (r >= 0 && sf_buf_check(&out) < 0)
			r = sf_fail(err, sf_buf_check(&out),
			            "values of one checkpoint are limited to %" PRIu64 " bytes",
			            SF_INLINE_MAX);
		if (r >= 0 && keep(n, object, &out) < 0)
			r = sf_builder_no_memory(err, n->b);
	} else {
		sf_builder_no_memory(err, n->b);
	}
	sf_arena_release(&words);
	sf_buf_release(&out);
	return r;
}

int sf_ckpt_builder_set_value(struct sf_ckpt_builder *b, uint32_t object, struct sf_pv *v,
                              const struct sf_torch_archive *a, uint32_t place, uint64_t off,
                              uint64_t len, struct sf_error *err)
{
	struct numbering n = { .b = b, .a = a, .len = len };
	struct sf_object *o;
	int r;

	if (object >= b->objects.n || place >= b->places.n)
		return sf_fail(err, -EBADMSG, "object %" PRIu32 " at place %" PRIu32 " of %zu",
		               object, place, b->places.n);
	o = &b->objects.at[object];
	if (b->places.at[place].form != SF_ITEM_RAW)
		return sf_fail(err, -EBADMSG, "a value's storages are bytes as they are");
	r = write_value(&n, object, v, err);
	if (r >= 0) {
		o->place = place;
		o->off = off;
		o->len = len;
	} else {
		sf_fail_ctx(err, r, "object '%.300s'", b->keys.at[o->key].name);
	}
	sf_map_release(&n.map);
	records_release(&n.used);
	indices_release(&n.of);
	return r < 0 ? r : 0;
}
