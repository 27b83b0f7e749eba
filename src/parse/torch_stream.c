#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "parse/torch_archive_priv.h"
#include "parse/torch_tensor.h"

/*
 * Four pickles: a magic number, the protocol 1001, sys_info, the value; then a list of storage
 * keys, and in its order each storage: its count of elements in 8 bytes, and they. Counts and
 * elements are little-endian whatever sys_info says (torch/csrc/serialization.cpp, writeFileRaw).
 */

#define PROTOCOL 1001
#define COUNTS_AT_ONCE 1024

#define WHOLE UINT32_MAX

/* What persistent ids say of a storage, or of a view: so many elements of another one. */
struct known {
	const char *key;
	size_t len;
	uint64_t count, bytes;
	unsigned elem; /* bytes of an element */
	uint32_t of;   /* a view: of which; WHOLE: it is none */
	uint64_t skip; /* a view: bytes of that storage in front of it */
	uint64_t off;  /* of its bytes, once it was found in the list; else 0 */
};
SF_VEC(knowns, struct known);

struct stream {
	struct sf_torch_open_op *o;
	struct knowns known;
	struct sf_map map; /* key -> known */
};

static int same_key(void *arg, uint32_t value, const char *key, size_t len)
{
	const struct stream *s = arg;
	const struct known *k = &s->known.at[value];

	return k->len == len && memcmp(k->key, key, len) == 0;
}

static bool is_key(const struct sf_pv *v)
{
	return v->kind == SF_PV_STR && v->str.len && !memchr(v->str.at, '\0', v->str.len);
}

/* The one of that key: @k, or what was there before. */
static int add(struct stream *s, const struct known *k, uint32_t *ret, struct sf_error *err)
{
	int failed = 0;

	if (s->known.n >= SF_MAP_NONE - 1 || knowns_reserve(&s->known, s->known.n + 1) < 0)
		return sf_fail(err, -ENOMEM, "no memory for %zu storages", s->known.n);
	uint32_t there =
		sf_map_add(&s->map, k->key, k->len, (uint32_t)s->known.n, same_key, s, &failed);
	if (failed)
		return sf_fail(err, failed, "no memory for %zu storages", s->known.n);
	*ret = there == SF_MAP_NONE ? (uint32_t)s->known.n : there;
	if (there == SF_MAP_NONE)
		s->known.at[s->known.n++] = *k;
	return 0;
}

static int add_storage(struct stream *s, const struct sf_pv *key, const struct sf_pv *cls,
                       uint64_t count, uint32_t *ret, struct sf_error *err)
{
	const struct sf_pv *module = cls->global.module, *name = cls->global.name;
	struct known k = { .key = key->str.at, .len = key->str.len, .count = count, .of = WHOLE };
	enum sf_dtype dtype = sf_torch_storage_class(module->str.at, module->str.len, name->str.at,
	                                             name->str.len);

	if (!dtype)
		return sf_fail(err, -ENOTSUP, "storage '%.100s' of class %.100s.%.100s", k.key,
		               module->str.at, name->str.at);
	k.elem = sf_dtype_info(dtype)->bytes;
	if (!sf_mul(count, k.elem, &k.bytes))
		return sf_fail(err, -EBADMSG, "storage '%.100s' of %" PRIu64 " elements", k.key,
		               count);
	int r = add(s, &k, ret, err);
	/* one storage may be tensors of several dtypes; its count is that of the first */
	if (r >= 0 && s->known.at[*ret].bytes != k.bytes)
		r = sf_fail(err, -EBADMSG,
		            "storage '%.100s' has %" PRIu64 " bytes here and %" PRIu64 " elsewhere",
		            k.key, k.bytes, s->known.at[*ret].bytes);
	return r;
}

/* A view becomes a storage of its own key: tensors of it count from its begin. */
static int add_view(struct stream *s, const struct sf_pv *meta, uint32_t of, uint32_t *ret,
                    struct sf_error *err)
{
	const struct known *root = &s->known.at[of];
	struct known v = { .of = of, .elem = root->elem };
	uint64_t off;

	if (root->of != WHOLE || meta->kind != SF_PV_TUPLE || meta->seq.n != 3 ||
	    !is_key(meta->seq.at[0]) || !sf_pv_u64(meta->seq.at[1], &off) ||
	    !sf_pv_u64(meta->seq.at[2], &v.count) || off > root->count ||
	    v.count > root->count - off)
		return sf_fail(err, -EBADMSG, "a view that is not inside its storage '%.100s'",
		               root->key);
	v.key = meta->seq.at[0]->str.at;
	v.len = meta->seq.at[0]->str.len;
	v.bytes = v.count * v.elem;
	v.skip = off * v.elem;
	return add(s, &v, ret, err);
}

static int take_persid(void *arg, struct sf_pv *v, struct sf_error *err)
{
	struct stream *s = arg;
	struct sf_pv *id = v->persid, *const *a = id->seq.at;
	uint64_t count;
	uint32_t at;

	if (id->kind != SF_PV_TUPLE || id->seq.n < 2 || a[0]->kind != SF_PV_STR)
		return sf_fail(err, -EBADMSG,
		               "a persistent id that is no storage's nor a module's");
	if (sf_pv_is_str(a[0], "module")) { /* with its source text: the class is meant */
		if (a[1]->kind != SF_PV_GLOBAL)
			return sf_fail(err, -EBADMSG, "a module without a class");
		*v = *a[1];
		v->mark = 1; /* the walk's: it has been here */
		return 0;
	}
	if (!sf_pv_is_str(a[0], "storage") || id->seq.n < 5 || a[1]->kind != SF_PV_GLOBAL ||
	    !is_key(a[2]) || !sf_pv_u64(a[4], &count))
		return sf_fail(err, -EBADMSG,
		               "a persistent id that is no storage's nor a module's");
	int r = add_storage(s, a[2], a[1], count, &at, err);
	if (r >= 0 && id->seq.n > 5 && a[5]->kind != SF_PV_NONE) {
		r = add_view(s, a[5], at, &at, err);
		count = r < 0 ? 0 : s->known.at[at].count;
	}
	if (r < 0)
		return r;
	v->persid = sf_torch_new_storage_id(s->o->arena, a[1], s->known.at[at].key, count);
	return v->persid ? 0 : sf_fail(err, -ENOMEM, "no memory for a storage's id");
}

/* The counts of @n storages, whose places follow from what the persistent ids say, in one read. */
static int check_counts(struct stream *s, struct known *const *k, size_t n)
{
	const struct sf_torch_input *in = s->o->in;
	struct sf_torch_range range[COUNTS_AT_ONCE];
	uint8_t buf[COUNTS_AT_ONCE * 8];
	int r = 0;

	for (size_t i = 0; i < n; i++)
		range[i] = (struct sf_torch_range){ k[i]->off - 8, 8 };
	if (!in->at)
		r = in->read(in->arg, range, n, buf, s->o->err);
	for (size_t i = 0; i < n && r >= 0; i++) {
		uint64_t count = sf_le64(in->at ? in->at + range[i].off : buf + i * 8);
		if (count != k[i]->count)
			return sf_fail(s->o->err, -EBADMSG,
			               "storage '%.100s' at %" PRIu64 " has %" PRIu64
			               " elements, the value says %" PRIu64,
			               k[i]->key, range[i].off, count, k[i]->count);
	}
	return r;
}

static int take_list(struct stream *s, const struct sf_pv *keys, uint64_t at)
{
	const struct sf_torch_input *in = s->o->in;
	struct known *batch[COUNTS_AT_ONCE];
	size_t n = 0;
	int r = 0;

	if (keys->kind != SF_PV_LIST)
		return sf_fail(s->o->err, -EBADMSG, "no list of storages behind the value");
	for (size_t i = 0; i < keys->seq.n && r >= 0; i++) {
		const struct sf_pv *key = keys->seq.at[i];
		uint32_t found =
			is_key(key) ? sf_map_get(&s->map, key->str.at, key->str.len, same_key, s)
				    : SF_MAP_NONE;
		if (found == SF_MAP_NONE || s->known.at[found].off ||
		    s->known.at[found].of != WHOLE)
			return sf_fail(s->o->err, -EBADMSG,
			               "storage %zu of %zu is one that the value does not use, or "
			               "stands there twice",
			               i, keys->seq.n);
		struct known *k = &s->known.at[found];
		if (in->len - at < 8 || k->bytes > in->len - at - 8)
			return sf_fail(s->o->err, -EBADMSG,
			               "storage '%.100s': %" PRIu64 " bytes at %" PRIu64
			               " of %" PRIu64,
			               k->key, k->bytes, at, in->len);
		k->off = at + 8;
		at = k->off + k->bytes;
		batch[n++] = k;
		if (n == COUNTS_AT_ONCE || i + 1 == keys->seq.n) {
			r = check_counts(s, batch, n);
			n = 0;
		}
	}
	return r;
}

static int keep(struct stream *s)
{
	struct sf_torch_records out = { 0 };
	int r = 0;

	for (size_t i = 0; i < s->known.n && r == 0; i++) {
		const struct known *k = &s->known.at[i];
		uint64_t off = k->of == WHOLE ? k->off : s->known.at[k->of].off;
		if (off) /* else the list lacks it: a tensor of it will find none */
			r = sf_torch_records_push(
				&out, (struct sf_torch_record){ k->key, off + k->skip, k->bytes });
	}
	r = r < 0 ? sf_fail(s->o->err, r, "no memory for %zu storages", s->known.n)
	          : sf_torch_keep_storages(s->o, &out);
	sf_torch_records_release(&out);
	return r;
}

static int read_value(struct stream *s, uint64_t *at)
{
	struct sf_torch_open_op *o = s->o;
	struct sf_pv *v;
	uint64_t protocol;
	int r = sf_torch_pickle_at(o, 0, o->in->len, &v,
	                           at); /* the magic number: looked at before */

	if (r >= 0)
		r = sf_torch_pickle_at(o, *at, o->in->len, &v, at);
	if (r >= 0 && (!sf_pv_u64(v, &protocol) || protocol != PROTOCOL))
		return sf_fail(o->err, -ENOTSUP, "a protocol other than %d", PROTOCOL);
	if (r >= 0)
		r = sf_torch_pickle_at(o, *at, o->in->len, &v, at);
	if (r >= 0 && v->kind != SF_PV_DICT)
		return sf_fail(o->err, -EBADMSG, "its sys_info is no dict");
	if (r >= 0)
		r = sf_torch_pickle_at(o, *at, o->in->len, &o->a.root, at);
	return r;
}

int sf_torch_open_stream(struct sf_torch_open_op *o)
{
	struct stream s = { .o = o };
	struct sf_pv *keys;
	uint64_t at = 0;
	int r = read_value(&s, &at);

	if (r >= 0)
		r = sf_torch_persids(o->a.root, take_persid, &s, o->err);
	if (r >= 0 && !o->opt.value_only) {
		r = sf_torch_pickle_at(o, at, o->in->len, &keys, &at);
		if (r >= 0)
			r = take_list(&s, keys, at);
		if (r >= 0)
			r = keep(&s);
	}
	sf_map_release(&s.map);
	knowns_release(&s.known);
	return r;
}
