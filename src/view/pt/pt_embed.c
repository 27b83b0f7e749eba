#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/vec.h"
#include "parse/pickle_write.h"
#include "value/object.h"
#include "view/pt/pt.h"

SF_VEC(pt_u32s, uint32_t);
SF_VEC(pt_u64s, uint64_t);
SF_VEC(pt_inners, struct sf_pt_inner);

/* Objects come in the order of the leaves, so that one walk over both numbers all storages as they
 * appear in the pickle. */
struct embed {
	struct sf_pt *pt;
	struct sf_buf *out;
	struct pt_u32s storage;
	struct pt_inners inner;
	struct pt_u64s span;
	uint32_t at; /* leaf */
	/* by sf_tensor_storage(): the storage's number here, SF_NONE; NULL: no two tensors of the
	 * checkpoint have one storage */
	uint32_t *shared;
	/* the object being written */
	uint32_t object;
	struct sf_object_value *v;
	uint32_t *number; /* by storage of the value, SF_NONE: not used yet */
};

#define DROPPED SF_NONE /* ref of an object's leaf until it has a span */

/* The number of the storage that a tensor before this one has brought in, when it is shown alike. */
static uint32_t shared_number(const struct embed *em, const struct sf_pt_leaf *l)
{
	const struct sf_pt *pt = em->pt;
	const struct sf_entry *e = sf_pt_entry(pt, l);
	const uint32_t number =
		em->shared ? em->shared[sf_tensor_storage(pt->c->ckpt, e->tensor)] : SF_NONE;

	if (number == SF_NONE)
		return SF_NONE;
	const struct sf_entry *owner = sf_pt_entry(pt, &pt->leaf[em->storage.at[number]]);
	return sf_pt_dtype(pt, owner) == sf_pt_dtype(pt, e) ? number : SF_NONE;
}

/* Numbers the tensors before leaf @until, which becomes the current one. */
static int advance(struct embed *em, uint32_t until)
{
	for (; em->at < until; em->at++) {
		struct sf_pt_leaf *l = &em->pt->leaf[em->at];
		if (l->object)
			continue;
		l->ref = shared_number(em, l);
		if (l->ref != SF_NONE)
			continue;
		if (em->storage.n >= SF_PT_INNER)
			return -E2BIG;
		l->ref = (uint32_t)em->storage.n;
		if (pt_u32s_push(&em->storage, em->at) < 0)
			return -ENOMEM;
		if (em->shared)
			em->shared[sf_tensor_storage(em->pt->c->ckpt,
			                             sf_pt_entry(em->pt, l)->tensor)] = l->ref;
	}
	return 0;
}

/* sf_pickle_writer's question: the number of the storage that this object calls @key. */
static int number_storage(void *arg, const char *key, size_t len, uint64_t *ret,
                          struct sf_error *err)
{
	struct embed *em = arg;
	const struct sf_torch_record *s = sf_object_storage_find(em->v, key, len);

	if (!s)
		return sf_fail(err, -EBADMSG, "its archive has no record 'data/%.*s'",
		               (int)SF_MIN(len, (size_t)64), key);
	uint32_t *number = &em->number[s - em->v->storage];
	if (*number == SF_NONE) {
		struct sf_pt_inner in = { .object = em->object, .off = s->off, .len = s->len };
		if (em->storage.n >= SF_PT_INNER)
			return sf_fail(err, -E2BIG, "more than %u storages", SF_PT_INNER);
		*number = (uint32_t)em->storage.n;
		if (pt_u32s_push(&em->storage, SF_PT_INNER | (uint32_t)em->inner.n) < 0 ||
		    pt_inners_push(&em->inner, in) < 0)
			return sf_fail(err, -ENOMEM, "storages of an object");
	}
	*ret = *number;
	return 0;
}

/* A file of its own has the object's value, one of several keys what is stored. */
static struct sf_pv *value_of(const struct sf_pt *pt, const struct sf_object_value *v)
{
	return pt->sel.bare ? v->root : v->stored;
}

/* @v's pickle code behind what is there already. */
static int put_object(struct embed *em, struct sf_object_value *v, struct sf_error *err)
{
	struct sf_buf *out = em->out;
	struct sf_pickle_writer w;

	em->v = v;
	em->number = sf_arena_alloc(&v->arena, ((size_t)v->nstorages + 1) * sizeof(*em->number));
	if (!em->number)
		return sf_fail(err, -ENOMEM, "%" PRIu32 " storages", v->nstorages);
	for (uint32_t i = 0; i < v->nstorages; i++)
		em->number[i] = SF_NONE;
	int r = sf_pickle_writer_init(&w, out, &v->arena);
	if (r < 0)
		return sf_fail(err, r, "writing a pickle");
	/* The same numbers for each object (a put replaces what was there), so that its bytes do
	 * not depend on its place. */
	w.next_memo = SF_PW_MEMO_FREE;
	w.storage = number_storage;
	w.storage_arg = em;
	if (v->raw) /* dcp stores an io.BytesIO's content as it is */
		sf_buf_str(out, "c_io\nBytesIO\n");
	r = sf_pw_value(&w, value_of(em->pt, v), err);
	if (v->raw)
		sf_buf_str(out, "\x85R");
	sf_pickle_writer_release(&w);
	if (r >= 0 && sf_buf_check(out) < 0)
		r = sf_fail(err, sf_buf_check(out), "objects of one file are limited to %u bytes",
		            SF_PT_OBJECTS_MAX);
	return r;
}

static struct sf_pt_leaf *leaf_of(struct embed *em, uint32_t object, int *ret_r)
{
	uint32_t i = em->at;

	while (i < em->pt->nleaf && sf_pt_entry(em->pt, &em->pt->leaf[i])->object != object)
		i++;
	*ret_r = i < em->pt->nleaf ? advance(em, i)
	                           : -EINVAL; /* every object that is asked for has its leaf */
	return *ret_r < 0 ? NULL : &em->pt->leaf[em->at++];
}

static void failed(void *arg, uint32_t object, int code, const struct sf_error *why)
{
	struct embed *em = arg;
	int r;
	const struct sf_pt_leaf *l = leaf_of(em, object, &r);

	if (l)
		sf_pt_left_out(em->pt, l, why->msg);
}

static int embed(void *arg, uint32_t object, struct sf_object_value *v, struct sf_error *err)
{
	struct embed *em = arg;
	struct sf_pt *pt = em->pt;
	int r;

	struct sf_pt_leaf *l = leaf_of(em, object, &r);
	if (!l)
		return sf_fail(err, r, "numbering storages");
	if (!pt->sel.bare && pt->c->opt->objects == SF_OBJECTS_PLAIN &&
	    (v->raw || sf_pv_weights_only(value_of(pt, v), &v->arena)))
		return 0;
	size_t len = em->out->len, nstorage = em->storage.n, ninner = em->inner.n;
	em->object = object;
	r = put_object(em, v, err);
	if (r >= 0) {
		l->ref = (uint32_t)em->span.n;
		if (pt_u64s_push(&em->span, len) < 0)
			r = sf_fail(err, -ENOMEM, "an object's place");
		return r;
	}
	sf_fail_ctx(err, r, "object '%.300s'", sf_pt_entry(pt, l)->name);
	if (pt->sel.bare || (r != -EBADMSG && r != -E2BIG) || sf_buf_check(em->out) < 0)
		return r;
	sf_pt_left_out(em->pt, l, err->msg);
	em->out->len = len;
	em->storage.n = nstorage;
	em->inner.n = ninner;
	return 0;
}

/* Takes the leaves without a value out; storages find their leaves again. */
static void compact(struct embed *em)
{
	struct sf_pt *pt = em->pt;
	uint32_t n = 0;

	for (uint32_t i = 0; i < pt->nleaf; i++) {
		struct sf_pt_leaf l = pt->leaf[i];
		if (l.object && l.ref == DROPPED)
			continue;
		if (!l.object && em->storage.at[l.ref] == i) /* the others of it come later */
			em->storage.at[l.ref] = n;
		pt->leaf[n++] = l;
	}
	pt->nleaf = n;
}

uint32_t sf_pt_objects(const struct sf_pt *pt, uint32_t *objects)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < pt->nleaf; i++) {
		const struct sf_pt_leaf *l = &pt->leaf[i];
		if (!l->object || (!pt->sel.bare && pt->c->opt->objects == SF_OBJECTS_NONE))
			continue;
		if (objects)
			objects[n] = sf_pt_entry(pt, l)->object;
		n++;
	}
	return n;
}

int sf_pt_embed(struct sf_pt *pt, struct sf_buf *out, struct sf_error *err)
{
	struct embed em = { .pt = pt, .out = out };
	const struct sf_ckpt *ckpt = pt->c->ckpt;
	SF_FREE uint32_t *objects = NULL, *shared = NULL;
	uint32_t n = 0;
	int r = 0;

	out->limit = SF_PT_OBJECTS_MAX;
	objects = sf_alloc_array(pt->nleaf, sizeof(*objects));
	if (ckpt->tied) {
		em.shared = shared = sf_alloc_array(ckpt->ntensors, sizeof(*shared));
		if (shared)
			memset(shared, 0xff, ckpt->ntensors * sizeof(*shared)); /* SF_NONE */
	}
	if (!objects || (ckpt->tied && !shared))
		r = sf_fail(err, -ENOMEM, "%" PRIu32 " objects", pt->nleaf);
	else
		n = sf_pt_objects(pt, objects);
	for (uint32_t i = 0; i < pt->nleaf && r >= 0; i++)
		if (pt->leaf[i].object)
			pt->leaf[i].ref = DROPPED;
	if (r >= 0 && n > 0)
		r = sf_objects_make(pt->f.reader, objects, n, embed, pt->sel.bare ? NULL : failed,
		                    &em, out->charge, err);
	if (r >= 0) {
		r = advance(&em, pt->nleaf);
		if (r >= 0 && pt_u64s_push(&em.span, out->len) < 0)
			r = -ENOMEM;
		if (r < 0)
			r = sf_fail(err, r, "numbering %zu storages", em.storage.n);
	}
	if (r < 0) {
		pt_u32s_release(&em.storage);
		pt_inners_release(&em.inner);
		pt_u64s_release(&em.span);
		return r;
	}
	compact(&em);
	pt->storage = em.storage.at;
	pt->nstorage = (uint32_t)em.storage.n;
	pt->inner = em.inner.at;
	pt->ninner = (uint32_t)em.inner.n;
	pt->span = em.span.at;
	pt->nspan = (uint32_t)em.span.n - 1;
	return 0;
}
