#include "config.h"

#include <inttypes.h>

#include "base/mem.h"
#include "parse/npy.h"
#include "view/view_size.h"

struct npy {
	struct sf_vfile f;
	uint32_t tensor;
	enum sf_dtype cast; /* SF_DTYPE_NONE: as stored */
	struct sf_buf head;
	uint64_t start[3];
};

uint64_t sf_tensor_bytes_as(const struct sf_tensor *t, enum sf_dtype dtype)
{
	unsigned from = sf_dtype_info(t->dtype)->bytes, to = sf_dtype_info(dtype)->bytes;

	uint64_t bytes = t->bytes;

	if (from != to && !sf_mul(t->bytes / from, to, &bytes))
		bytes = UINT64_MAX; /* no file can have that: whoever adds it up finds out */
	return bytes;
}

/* How the file's elements are spelt, and what the tensor is cast to for it. NULL: .npy has no such
 * elements. */
static const char *descr_of(const struct sf_catalog *c, uint32_t entry, enum sf_dtype *ret_shown)
{
	const struct sf_entry *e = &c->entry[entry];
	enum sf_dtype shown = (enum sf_dtype)e->dtype;
	const char *descr;

	if (e->tensor == SF_NONE)
		return NULL;
	if (shown == SF_BFLOAT16 && c->opt->npy_bf16 == SF_NPY_F4)
		shown = SF_FLOAT32;
	descr = sf_dtype_info(shown)->npy;
	if (shown == SF_BFLOAT16 && c->opt->npy_bf16 == SF_NPY_U2)
		descr = "<u2";
	*ret_shown = shown;
	return descr;
}

const char *sf_view_npy_refuses(const struct sf_catalog *c, uint32_t entry)
{
	static const char *const why[SF_NDTYPES] = {
		[SF_QUINT4X2] = ".npy has no quint4x2",
		[SF_QUINT2X4] = ".npy has no quint2x4",
	};
	enum sf_dtype shown;

	if (c->entry[entry].tensor == SF_NONE)
		return sf_entry_subclass(c, entry)
		               ? "an instance of a tensor subclass: its elements are known to the "
		                 "class alone"
		               : "not a tensor";
	if (descr_of(c, entry, &shown))
		return NULL;
	return why[shown] ? why[shown] : ".npy has no such dtype";
}

static void put_head(const struct sf_catalog *c, uint32_t entry, const char *descr,
                     struct sf_buf *out)
{
	const struct sf_tensor *t = &c->ckpt->tensor[c->entry[entry].tensor];

	sf_npy_put_header(out, descr, t->shape, t->ndim);
}

int sf_view_npy_size(const struct sf_catalog *c, uint32_t entry, uint64_t *ret)
{
	struct sf_buf head = { 0 };
	enum sf_dtype shown;
	const char *descr = descr_of(c, entry, &shown);
	int r;

	if (!descr)
		return -ENOENT;
	put_head(c, entry, descr, &head);
	r = sf_buf_check(&head);
	if (r >= 0 &&
	    !sf_file_end(head.len,
	                 sf_tensor_bytes_as(&c->ckpt->tensor[c->entry[entry].tensor], shown), ret))
		r = -E2BIG;
	sf_buf_release(&head);
	return r;
}

static int emit(struct sf_vfile *f, uint32_t rec, uint64_t off, uint64_t len,
                struct sf_parts *parts, struct sf_error *err)
{
	const struct npy *n = (struct npy *)f;
	int r = rec == 0 ? sf_parts_bytes(parts, n->head.at + off, len)
	                 : sf_parts_tensor(parts, n->tensor, off, len, n->cast);

	return r < 0 ? sf_fail(err, r, "bytes %" PRIu64 " + %" PRIu64 " of an .npy view", off, len)
	             : 0;
}

static void free_npy(struct sf_vfile *f)
{
	sf_buf_release(&((struct npy *)f)->head);
	free(f);
}

int sf_view_npy(const struct sf_catalog *c, struct sf_reader *r, uint32_t entry,
                struct sf_vfile **ret, struct sf_error *err)
{
	static const struct sf_vfile_ops ops = { .emit = emit, .free = free_npy };
	const struct sf_entry *e = &c->entry[entry];
	enum sf_dtype shown;
	const char *descr = descr_of(c, entry, &shown);

	if (!descr)
		return sf_fail(err, -ENOTSUP, "'%.300s' as .npy: %s", e->name,
		               sf_view_npy_refuses(c, entry));
	const struct sf_tensor *t = &c->ckpt->tensor[e->tensor];
	struct npy *n = calloc(1, sizeof(*n));
	if (n)
		put_head(c, entry, descr, &n->head);
	if (!n || sf_buf_check(&n->head) < 0) {
		if (n)
			sf_buf_release(&n->head);
		free(n);
		return sf_fail(err, -ENOMEM, ".npy view of '%.300s'", e->name);
	}
	if (!sf_file_end(n->head.len, sf_tensor_bytes_as(t, shown), &n->start[2])) {
		sf_buf_release(&n->head);
		free(n);
		return sf_fail(err, -E2BIG, "'%.300s' as .npy: the file would pass 2^63 bytes",
		               e->name);
	}
	sf_vfile_init(&n->f, &ops, r);
	n->tensor = e->tensor;
	n->cast = shown == (enum sf_dtype)t->dtype ? SF_DTYPE_NONE : shown;
	n->start[1] = n->head.len;
	n->f.start = n->start;
	n->f.nrec = 2;
	n->f.size = n->start[2];
	*ret = &n->f;
	return 0;
}
