#include "config.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/log_limit.h"
#include "base/map.h"
#include "base/mem.h"
#include "read/item_cache.h"
#include "value/object.h"
#include "view/pt/pt.h"

/* Half-made files too: everything but the selection and the vfile itself goes. */
static void clear(struct sf_pt *pt)
{
	free(pt->leaf);
	free(pt->storage);
	free(pt->inner);
	free(pt->span);
	free(pt->start);
	free(atomic_load(&pt->crc));
	pt->leaf = NULL;
	pt->storage = NULL;
	pt->inner = NULL;
	pt->span = NULL;
	pt->start = NULL;
	atomic_store(&pt->crc, NULL);
	pt->nleaf = pt->nstorage = pt->ninner = pt->nspan = 0;
	pt->f.start = NULL;
	pt->f.nrec = 0;
	pt->f.size = 0;
}

static void free_pt(struct sf_vfile *f)
{
	struct sf_pt *pt = (struct sf_pt *)f;
	if (pt->has_objects)
		sf_made_release(f->reader, &pt->objects);
	clear(pt);
	free(pt);
}

/* ---- the objects' code ---- */

static struct sf_pt *of_objects(struct sf_made *m)
{
	return sf_container_of(m, struct sf_pt, objects);
}

/*
 * Made when the file is sized, and its storages are numbered with it. Again when it was let go
 * since: then by a second file of the same selection, which must come to the same places.
 */
static int make_objects(struct sf_made *m, struct sf_buf *out, struct sf_error *err)
{
	struct sf_pt *pt = of_objects(m);
	struct sf_pt second = { .c = pt->c, .sel = pt->sel, .again = true };
	int r;

	if (!pt->span)
		return sf_pt_embed(pt, out, err);
	second.f.reader = pt->f.reader;
	r = sf_pt_tree(&second, err);
	if (r >= 0)
		r = sf_pt_embed(&second, out, err);
	if (r >= 0 && (second.nspan != pt->nspan || second.nstorage != pt->nstorage ||
	               memcmp(second.span, pt->span, (pt->nspan + 1) * sizeof(*pt->span)) != 0))
		r = sf_fail(err, -ESTALE, "the objects are others than when the file was sized");
	clear(&second);
	return r;
}

static void ref_objects(struct sf_made *m)
{
	sf_vfile_ref(&of_objects(m)->f);
}

static void unref_objects(struct sf_made *m)
{
	sf_vfile_unref(&of_objects(m)->f);
}

/* @ret_held: to be let go when the file is laid out; NULL when it has no objects. */
static int embed(struct sf_pt *pt, const struct sf_cached **ret_held, struct sf_error *err)
{
	static const struct sf_made_ops ops = { .make = make_objects,
		                                .ref = ref_objects,
		                                .unref = unref_objects };
	uint32_t n = sf_pt_objects(pt, NULL);
	SF_FREE uint32_t *objects = NULL;
	struct sf_buf none = { 0 };
	int r;

	if (!n) {
		r = sf_pt_embed(pt, &none, err);
		sf_buf_release(&none);
		return r;
	}
	objects = sf_alloc_array(n, sizeof(*objects));
	if (!objects)
		return sf_fail(err, -ENOMEM, "%" PRIu32 " objects", n);
	sf_pt_objects(pt, objects);
	/* by another number than in an earlier try: what was made then is of other places */
	sf_made_init(pt->f.reader, &pt->objects, &ops, "the objects of a .pt file",
	             sf_objects_guess(pt->f.reader, objects, n));
	pt->has_objects = true;
	r = sf_made_hold(pt->f.reader, &pt->objects, ret_held, err);
	if (r >= 0)
		pt->objects_at = (*ret_held)->at;
	return r;
}

static int make(struct sf_pt *pt, struct sf_error *err)
{
	const struct sf_cached *held = NULL;
	int r = sf_pt_tree(pt, err);

	if (r >= 0)
		r = embed(pt, &held, err);
	if (r >= 0)
		r = sf_pt_layout(pt, err);
	pt->objects_at = NULL;
	if (held)
		sf_made_let_go(pt->f.reader, held);
	if (r < 0 && pt->has_objects)
		sf_made_release(pt->f.reader, &pt->objects);
	if (r < 0)
		clear(pt); /* the next try begins anew */
	return r;
}

static int prepare(struct sf_vfile *f, struct sf_error *err)
{
	return make((struct sf_pt *)f, err);
}

/* Files without objects are sized when made: nothing has to be read for it. */
static const struct sf_vfile_ops ops_waits = { .prepare = prepare,
	                                       .emit = sf_pt_emit,
	                                       .free = free_pt };
static const struct sf_vfile_ops ops_sized = { .emit = sf_pt_emit, .free = free_pt };

static bool must_read(const struct sf_catalog *c, const struct sf_selection *sel)
{
	for (uint32_t i = 0; i < sel->n; i++)
		if (c->entry[sel->entry[i]].tensor == SF_NONE)
			return sel->bare || c->opt->objects != SF_OBJECTS_NONE;
	return false;
}

int sf_view_pt(const struct sf_catalog *c, struct sf_reader *r, const struct sf_selection *sel,
               struct sf_vfile **ret, struct sf_error *err)
{
	if (sel->bare && sel->n != 1)
		return sf_fail(err, -EINVAL, "a bare .pt file of %" PRIu32 " keys", sel->n);
	if (sel->n >= SF_PT_INNER)
		return sf_fail(err, -E2BIG, "a .pt file of %" PRIu32 " keys", sel->n);
	struct sf_pt *pt = calloc(1, sizeof(*pt));
	if (!pt)
		return sf_fail(err, -ENOMEM, "a .pt view");
	pt->c = c;
	pt->sel = *sel;
	pt->f.reader = r; /* make() may run before the init below */
	bool waits = must_read(c, sel);
	int res = waits ? 0 : make(pt, err);
	if (res < 0) {
		clear(pt);
		free(pt);
		return res;
	}
	const uint64_t *start = pt->f.start, size = pt->f.size;
	uint32_t nrec = pt->f.nrec;
	sf_vfile_init(&pt->f, waits ? &ops_waits : &ops_sized, r);
	pt->f.start = start;
	pt->f.size = size;
	pt->f.nrec = nrec;
	*ret = &pt->f;
	return 0;
}

static struct sf_pt *as_pt(struct sf_vfile *f)
{
	return f->ops == &ops_waits || f->ops == &ops_sized ? (struct sf_pt *)f : NULL;
}

int sf_view_pt_payloads(struct sf_vfile *f,
                        int (*each)(void *arg, uint32_t rec, uint64_t off, uint64_t len), void *arg)
{
	const struct sf_pt *pt = as_pt(f);

	if (!pt || !pt->start)
		return -EINVAL;
	for (uint32_t s = 0; s < pt->nstorage; s++) {
		uint64_t len, off = sf_torch_file_payload(&pt->archive, s, &len);
		int r = each(arg, s, off, len);
		if (r < 0)
			return r;
	}
	return 0;
}

int sf_view_pt_set_crcs(struct sf_vfile *f, const uint32_t *crc, uint32_t n)
{
	struct sf_pt *pt = as_pt(f);

	if (!pt || !pt->start || n != pt->nstorage)
		return -EINVAL;
	uint32_t *copy = sf_alloc_array(n, sizeof(*copy));
	if (!copy)
		return -ENOMEM;
	if (n > 0)
		memcpy(copy, crc, n * sizeof(*copy));
	uint32_t *old = atomic_exchange_explicit(&pt->crc, copy, memory_order_acq_rel);
	free(old); /* export's own file: nobody reads it while its CRCs change */
	return 0;
}
