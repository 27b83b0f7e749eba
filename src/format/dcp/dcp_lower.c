#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "format/dcp/dcp_flat.h"
#include "format/dcp/dcp_lower_priv.h"

/* Bytes of names of a subclass's shards, each of which repeats its key's: so many, and for a shard
 * so many more. */
#define SHARD_NAMES_ROOM (UINT64_C(64) << 20)
#define SHARD_NAMES_EACH 256

/* Where and in which form the item lies. *ret_off: its place's, which differs for a blob behind
 * transforms. */
static int item_place(struct dcp_lowering *l, const struct dcp_item *item, uint64_t payload,
                      uint32_t *ret, uint64_t *ret_off)
{
	struct dcp_lower_place *p = &l->place[item->place];
	int r;

	*ret = p->torch;
	*ret_off = item->off;
	if (p->torch == DCP_PLACE_UNSAFE) {
		*ret = SF_NONE;
		return 0;
	}
	if (item->len != payload || !dcp_lower_may_be_blob(l, item->place))
		return 0;
	if (p->form == DCP_FORM_UNKNOWN && payload) {
		r = dcp_lower_forms(l);
		if (r < 0)
			return r;
	}
	if (p->form != DCP_FORM_SAFETENSORS)
		return 0;
	if (l->m->place.at[item->place].transform == DCP_ZSTD)
		*ret_off = p->blob_off;
	if (p->blob == SF_NONE) {
		r = dcp_lower_file(l, item->place);
		if (r >= 0)
			r = dcp_lower_make_place(l, item->place, SF_ITEM_ST_BLOB, &p->blob);
		if (r < 0)
			return r;
	}
	*ret = p->blob;
	return 0;
}

/* A tensor whose chunks are being lowered. */
struct lowered {
	uint32_t index;      /* the builder's */
	uint32_t n, taken;   /* chunks so far, and those of them that the builder has */
	uint32_t last_place; /* of the item before, at last_off */
	uint64_t last_off;
	uint32_t unsafe; /* a chunk whose item lies under a refused name */
	bool told;       /* of one that is not inside the tensor */
	bool in_blob;
	const struct dcp_flat *flat; /* NULL: chunks are boxes */
};

/* Chunk s->taken - 1 has an item, of @payload bytes. */
static int lower_item(struct dcp_lowering *l, struct lowered *s, const struct dcp_item *item,
                      uint64_t payload)
{
	uint32_t place;
	uint64_t off;
	bool blob;
	int r = item_place(l, item, payload, &place, &off);

	if (r < 0)
		return r;
	if (place == SF_NONE)
		s->unsafe = s->n;
	else
		sf_ckpt_builder_set_item(l->b, s->index, s->taken - 1, place, off, item->len);
	blob = place != SF_NONE && place == l->place[item->place].blob;
	/* One name in one blob: several chunks of a rank overwrote each other when it was saved. */
	if (blob && payload && place == s->last_place && off == s->last_off)
		r = sf_ckpt_builder_warn(l->b, (const char *)l->name.at, "overwritten",
		                         "chunks %u and %u of one rank share one place in its "
		                         "safetensors data: only the last was kept",
		                         s->n - 1, s->n);
	s->last_place = place;
	s->last_off = off;
	s->in_blob |= blob;
	return r;
}

/* The builder's box. */
static int add_box(struct dcp_lowering *l, const struct lowered *s, const struct dcp_lower_box *box)
{
	uint64_t origin[SF_DIMS_MAX], off, len;
	int r;

	if (!s->flat)
		return sf_ckpt_builder_chunk(l->b, box->origin, box->extent, l->err);
	dcp_flat_chunk(s->flat, box->origin, box->extent, origin, &off, &len);
	r = sf_ckpt_builder_chunk(l->b, origin, s->flat->block, l->err);
	return r < 0 ? r : sf_ckpt_builder_part(l->b, off, len, l->err);
}

static int lower_chunk(struct dcp_lowering *l, struct lowered *s, const struct dcp_tensor *t,
                       const struct dcp_run *run, uint32_t i)
{
	const struct dcp_item *item = &l->m->item.at[run->chunk0 + i];
	struct dcp_lower_box box;
	bool told = s->told;
	int r;

	dcp_lower_box(l->m, t, run, i, &box);
	if (!box.inside) { /* it costs this tensor: what it would fill is a hole */
		s->told = true;
		return told ? 0
		            : sf_ckpt_builder_warn(
				      l->b, (const char *)l->name.at, "chunk-outside",
				      "chunk %u extends beyond the tensor: it is not read", s->n);
	}
	if (s->flat && box.extent[s->flat->ndim] == 0) /* a rank that had nothing of it */
		return 0;
	s->taken++;
	r = add_box(l, s, &box);
	if (r < 0 || item->place == DCP_NONE || !box.fits)
		return r;
	return lower_item(l, s, item, box.payload);
}

static const uint64_t *dims_at(const struct dcp_meta *m, uint64_t at, unsigned n)
{
	return n ? m->dims.at + at : NULL;
}

/* One that is stored flattened has the shape it had, where chunks and shape agree. */
static int begin_tensor(struct dcp_lowering *l, const struct dcp_tensor *t, struct dcp_flat *flat,
                        struct lowered *s)
{
	const char *name = (const char *)l->name.at;
	const struct dcp_meta *m = l->m;
	int r = 0;

	if (m->unflatten && t->flat) {
		dcp_flat_init(m, t, flat);
		if (flat->fits) {
			s->flat = flat;
			r = sf_ckpt_builder_tensor(l->b, name, l->name.len, (enum sf_dtype)t->dtype,
			                           dims_at(m, t->flat_shape0, flat->ndim),
			                           flat->ndim, &s->index, l->err);
			return r < 0 ? r
			             : sf_ckpt_builder_grid(l->b, s->index, m->dims.at + t->shape0,
			                                    l->err);
		}
		r = sf_ckpt_builder_warn(l->b, name, "flattened-shape",
		                         "its chunks of %u dimensions do not make up the shape "
		                         "of %u that mcore_data gives it: it has the shape it is "
		                         "stored in",
		                         t->ndim, flat->ndim);
	}
	return r < 0 ? r
	             : sf_ckpt_builder_tensor(l->b, name, l->name.len, (enum sf_dtype)t->dtype,
	                                      dims_at(m, t->shape0, t->ndim), t->ndim, &s->index,
	                                      l->err);
}

static int lower_tensor(struct dcp_lowering *l, const struct dcp_tensor *t)
{
	const struct dcp_meta *m = l->m;
	const size_t front = l->src->prefix ? strlen(l->src->prefix) + 1 : 0;
	struct lowered s = { .last_place = SF_NONE, .unsafe = SF_NONE };
	struct dcp_flat flat;
	int r = begin_tensor(l, t, &flat, &s);

	for (uint32_t k = 0; r >= 0 && k < t->nruns; k++) {
		const struct dcp_run *run = &m->run.at[t->run0 + k];
		for (uint32_t i = 0; r >= 0 && i < run->count; i++, s.n++)
			r = lower_chunk(l, &s, t, run, i);
	}
	/* the child's writer knew nothing of the name that was put in front */
	if (r >= 0 && s.in_blob && front)
		r = sf_ckpt_builder_stored_name(l->b, s.index, (const char *)l->name.at + front,
		                                l->name.len - front, l->err);
	if (r >= 0 && s.unsafe != SF_NONE)
		r = sf_ckpt_builder_warn(l->b, (const char *)l->name.at, "unsafe-name",
		                         "the item of chunk %u lies under a refused name",
		                         s.unsafe);
	return r;
}

/* One item of a tensor that is no dense one: an object under the name that stands in l->name. */
static int lower_instance(struct dcp_lowering *l, const struct dcp_tensor *t,
                          const struct dcp_run *run, uint32_t i, const char *class)
{
	const struct dcp_item *item = &l->m->item.at[run->chunk0 + i];
	uint64_t shape[SF_DIMS_MAX];
	uint32_t object, place = SF_NONE;
	int r = sf_ckpt_builder_object(l->b, (const char *)l->name.at, l->name.len, &object,
	                               l->err);

	for (unsigned d = 0; d < t->ndim; d++)
		shape[d] = dcp_coord(l->m, run, i, t->ndim + d);
	if (r >= 0)
		r = sf_ckpt_builder_set_subclass(l->b, object, class, (enum sf_dtype)t->dtype,
		                                 shape, t->ndim);
	if (r >= 0 && item->place != DCP_NONE)
		place = l->place[item->place].torch; /* an archive, whatever its length */
	if (r >= 0 && place != SF_NONE && place != DCP_PLACE_UNSAFE)
		sf_ckpt_builder_set_object(l->b, object, place, item->off, item->len);
	return r;
}

static int count_shard(struct dcp_lowering *l)
{
	uint64_t limit = SHARD_NAMES_ROOM + ++l->shards * SHARD_NAMES_EACH;

	l->shard_names += l->name.len;
	if (l->shard_names > limit)
		return sf_fail(l->err, -E2BIG,
		               "dcp: the names of %" PRIu64 " shards up to '%.200s' have %" PRIu64
		               " bytes, the limit is %" PRIu64,
		               l->shards, (const char *)l->name.at, l->shard_names, limit);
	return sf_buf_check(&l->name);
}

/* The shards of such a tensor cannot be put together here: each is an element of a list. */
static int lower_subclass(struct dcp_lowering *l, const struct dcp_tensor *t, const char *class)
{
	size_t len = l->name.len;
	uint32_t n = 0;
	int r;

	if (class == dcp_lost_dtype)
		return sf_ckpt_builder_warn(
			l->b, NULL, "unknown-dtype",
			"'%.200s' is left out: this version does not know its dtype, and "
			"its item is not an archive that can be carried",
			(const char *)l->name.at);
	r = dcp_classes_add(&l->classes, class, (const char *)l->name.at, t->nchunks != 1);
	if (r < 0)
		return sf_fail(l->err, r, "dcp: no memory for a name");
	for (uint32_t k = 0; k < t->nruns && r >= 0; k++) {
		const struct dcp_run *run = &l->m->run.at[t->run0 + k];
		for (uint32_t i = 0; i < run->count && r >= 0; i++, n++) {
			if (t->nchunks != 1) {
				l->name.len = len;
				sf_buf_printf(&l->name, ".%u", n);
				r = count_shard(l);
			}
			if (r >= 0)
				r = lower_instance(l, t, run, i, class);
		}
	}
	return r;
}

static int lower_keys(struct dcp_lowering *l)
{
	const struct dcp_meta *m = l->m;
	int r = 0;

	for (size_t i = 0; i < m->key.n && r >= 0; i++) {
		const struct dcp_key *key = &m->key.at[i];
		l->is_key[key->name] = 1;
		r = dcp_lower_name(l, key->name);
		if (r < 0)
			break;
		if (dcp_lower_class(l, key))
			r = lower_subclass(l, &m->tensor.at[key->tensor], dcp_lower_class(l, key));
		else if (key->tensor != DCP_NONE)
			r = lower_tensor(l, &m->tensor.at[key->tensor]);
		else
			r = sf_ckpt_builder_object(l->b, (const char *)l->name.at, l->name.len,
			                           &l->object[key->name], l->err);
		if (r == -EBADMSG &&
		    sf_surrogates_any(m->str.at[key->name].at, m->str.at[key->name].len))
			sf_fail_ctx(l->err, r,
			            "dcp: a key with lone surrogates, read as the bytes they "
			            "stand for");
	}
	return r;
}

static int lower_objects(struct dcp_lowering *l)
{
	uint64_t stray = l->m->stray;
	int r = 0;

	for (size_t i = 0; i < l->m->bytes.n && r >= 0; i++) {
		const struct dcp_bytes *b = &l->m->bytes.at[i];
		if (l->object[b->name] == SF_NONE) {
			stray++;
		} else if (l->place[b->item.place].torch != DCP_PLACE_UNSAFE) {
			sf_ckpt_builder_set_object(l->b, l->object[b->name],
			                           l->place[b->item.place].torch, b->item.off,
			                           b->item.len);
		} else {
			r = dcp_lower_name(l, b->name);
			if (r >= 0)
				r = sf_ckpt_builder_warn(l->b, (const char *)l->name.at,
				                         "unsafe-name",
				                         "its item lies under a refused name");
		}
	}
	if (r >= 0 && stray)
		r = sf_ckpt_builder_warn(
			l->b, NULL, "stray-item",
			"%llu entries of storage_data belong to no chunk of any key",
			(unsigned long long)stray);
	return r;
}

int dcp_lower(const struct dcp_meta *m, const struct sf_format_dir *src, struct sf_ckpt_builder *b,
              struct sf_error *err)
{
	struct dcp_lowering l = { .m = m,
		                  .src = src,
		                  .b = b,
		                  .err = err,
		                  .name.limit = DCP_NAME_MAX,
		                  .file.limit = DCP_NAME_MAX };
	struct sf_arena classes = { 0 };
	int r = 0;

	l.place = sf_alloc_array(m->place.n, sizeof(*l.place));
	l.object = sf_alloc_array(m->str.n, sizeof(*l.object));
	l.is_key = calloc(m->str.n + 1, 1);
	if (!l.place || !l.object || !l.is_key)
		r = sf_fail(err, -ENOMEM, "dcp: no memory for %zu names", m->str.n);
	for (size_t i = 0; r >= 0 && i < m->str.n; i++)
		l.object[i] = SF_NONE;
	if (r >= 0)
		r = dcp_find_subclasses(m, src, &classes, &l.class, err);
	if (r >= 0)
		r = dcp_lower_places(&l);
	if (r >= 0)
		r = lower_keys(&l);
	if (r >= 0)
		r = dcp_classes_note(&l.classes, b);
	if (r >= 0)
		r = lower_objects(&l);
	if (r >= 0)
		r = dcp_lower_paths(&l);
	free(l.place);
	free(l.object);
	free(l.is_key);
	sf_buf_release(&l.name);
	sf_buf_release(&l.file);
	sf_arena_release(&l.text);
	sf_arena_release(&classes);
	dcp_classes_release(&l.classes);
	return r;
}
