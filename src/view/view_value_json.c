#include "config.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/mem.h"
#include "read/item_cache.h"
#include "read/made.h"
#include "value/object.h"
#include "value/value_json.h"
#include "view/view.h"

/* The file: one record, its text made when it is sized, and again when it was let go since. */
struct value_file {
	struct sf_vfile f;
	struct sf_made made;
	uint32_t object;
	uint64_t start[2];
};

static struct value_file *of_made(struct sf_made *m)
{
	return sf_container_of(m, struct value_file, made);
}

static int take(void *arg, uint32_t object, struct sf_object_value *v, struct sf_error *err)
{
	struct sf_buf *out = arg;
	int r = sf_value_json(out, v->root, err);

	if (r >= 0) {
		sf_buf_byte(out, '\n');
		r = sf_buf_check(out);
	}
	return r;
}

static int fail_object(const struct value_file *vf, int r, struct sf_error *err)
{
	const struct sf_ckpt *ckpt = sf_reader_ckpt(vf->f.reader);

	return sf_fail_ctx(err, r, "object '%.300s'", ckpt->key[ckpt->object[vf->object].key].name);
}

static int make_text(struct sf_made *m, struct sf_buf *out, struct sf_error *err)
{
	struct value_file *vf = of_made(m);
	struct sf_charge *charge = out->charge;
	int r;

	out->limit = SF_VJ_BYTES;
	r = sf_objects_make(vf->f.reader, &vf->object, 1, take, NULL, out, charge, err);
	/* that an item cannot be read is said with its object's name */
	return r < 0 && sf_buf_check(out) < 0 ? fail_object(vf, r, err) : r;
}

static void ref_made(struct sf_made *m)
{
	sf_vfile_ref(&of_made(m)->f);
}

static void unref_made(struct sf_made *m)
{
	sf_vfile_unref(&of_made(m)->f);
}

static int prepare(struct sf_vfile *f, struct sf_error *err)
{
	struct value_file *vf = (struct value_file *)f;
	const struct sf_cached *text;
	int r = sf_made_hold(f->reader, &vf->made, &text, err);

	if (r < 0)
		return r;
	vf->start[1] = text->len;
	sf_made_let_go(f->reader, text);
	f->start = vf->start;
	f->nrec = 1;
	f->size = vf->start[1];
	return 0;
}

static int emit(struct sf_vfile *f, uint32_t rec, uint64_t off, uint64_t len,
                struct sf_parts *parts, struct sf_error *err)
{
	struct value_file *vf = (struct value_file *)f;
	int r = sf_parts_made(parts, &vf->made, off, len);
	return r < 0 ? sf_fail(err, r, "value.json") : 0;
}

static void free_file(struct sf_vfile *f)
{
	struct value_file *vf = (struct value_file *)f;
	sf_made_release(f->reader, &vf->made);
	free(vf);
}

int sf_view_value_json(const struct sf_catalog *c, struct sf_reader *r, uint32_t entry,
                       struct sf_vfile **ret, struct sf_error *err)
{
	static const struct sf_vfile_ops ops = { .prepare = prepare,
		                                 .emit = emit,
		                                 .free = free_file };
	static const struct sf_made_ops made_ops = { .make = make_text,
		                                     .ref = ref_made,
		                                     .unref = unref_made };

	if (c->entry[entry].object == SF_NONE)
		return sf_fail(err, -EINVAL, "'%.300s' is a tensor: it has no value.json",
		               c->entry[entry].name);
	struct value_file *vf = calloc(1, sizeof(*vf));
	if (!vf)
		return sf_fail(err, -ENOMEM, "value.json of '%.300s'", c->entry[entry].name);
	sf_vfile_init(&vf->f, &ops, r);
	vf->object = c->entry[entry].object;
	sf_made_init(r, &vf->made, &made_ops, "value.json", sf_objects_guess(r, &vf->object, 1));
	*ret = &vf->f;
	return 0;
}
