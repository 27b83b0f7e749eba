#include "config.h"

#include <inttypes.h>

#include "base/mem.h"
#include "view/view.h"

/* Files of one record: a tensor's bytes as stored, a stored file, or bytes of our own. */
struct plain {
	struct sf_vfile f;
	uint32_t index; /* tensor, or listing */
	uint64_t start[2];
	uint8_t bytes[];
};

static void free_plain(struct sf_vfile *f)
{
	free(f);
}

static int emit_tensor(struct sf_vfile *f, uint32_t rec, uint64_t off, uint64_t len,
                       struct sf_parts *parts, struct sf_error *err)
{
	int r = sf_parts_tensor(parts, ((struct plain *)f)->index, off, len, SF_DTYPE_NONE);
	(void)rec;

	return r < 0 ? sf_fail(err, r, "bytes %" PRIu64 " + %" PRIu64 " of a tensor", off, len) : 0;
}

static int emit_listed(struct sf_vfile *f, uint32_t rec, uint64_t off, uint64_t len,
                       struct sf_parts *parts, struct sf_error *err)
{
	int r = sf_parts_listed(parts, ((struct plain *)f)->index, off, len);
	(void)rec;

	return r < 0 ? sf_fail(err, r, "bytes %" PRIu64 " + %" PRIu64 " of a stored file", off, len)
	             : 0;
}

static int emit_bytes(struct sf_vfile *f, uint32_t rec, uint64_t off, uint64_t len,
                      struct sf_parts *parts, struct sf_error *err)
{
	int r = sf_parts_bytes(parts, ((struct plain *)f)->bytes + off, len);
	(void)rec;

	return r < 0 ? sf_fail(err, r, "%" PRIu64 " bytes of text", len) : 0;
}

static const struct sf_vfile_ops tensor_ops = { .emit = emit_tensor, .free = free_plain };
static const struct sf_vfile_ops listed_ops = { .emit = emit_listed, .free = free_plain };
static const struct sf_vfile_ops bytes_ops = { .emit = emit_bytes, .free = free_plain };

static struct plain *make(const struct sf_vfile_ops *ops, struct sf_reader *r, uint32_t index,
                          uint64_t size, size_t room)
{
	struct plain *p = malloc(sizeof(*p) + room);

	if (!p)
		return NULL;
	sf_vfile_init(&p->f, ops, r);
	p->index = index;
	p->start[0] = 0;
	p->start[1] = size;
	p->f.start = p->start;
	p->f.nrec = 1;
	p->f.size = size;
	return p;
}

int sf_view_raw(const struct sf_catalog *c, struct sf_reader *r, uint32_t entry,
                struct sf_vfile **ret, struct sf_error *err)
{
	const struct sf_entry *e = &c->entry[entry];
	struct plain *p;

	if (e->tensor == SF_NONE)
		return sf_fail(err, -EINVAL, "'%.300s' is not a tensor: it has no raw bytes",
		               e->name);
	p = make(&tensor_ops, r, e->tensor, c->ckpt->tensor[e->tensor].bytes, 0);
	if (!p)
		return sf_fail(err, -ENOMEM, "raw view of '%.300s'", e->name);
	*ret = &p->f;
	return 0;
}

int sf_view_listed(const struct sf_catalog *c, struct sf_reader *r, uint32_t listed,
                   struct sf_vfile **ret, struct sf_error *err)
{
	const struct sf_file *file = &c->ckpt->listing[listed];
	struct plain *p = make(&listed_ops, r, listed, file->info.size, 0);

	if (!p)
		return sf_fail(err, -ENOMEM, "view of stored file '%.300s'", file->name);
	*ret = &p->f;
	return 0;
}

int sf_view_bytes(struct sf_reader *r, const void *bytes, uint64_t len, struct sf_vfile **ret,
                  struct sf_error *err)
{
	struct plain *p = len < SIZE_MAX / 2 ? make(&bytes_ops, r, 0, len, (size_t)len) : NULL;

	if (!p)
		return sf_fail(err, -ENOMEM, "a text of %" PRIu64 " bytes", len);
	if (len)
		memcpy(p->bytes, bytes, (size_t)len);
	*ret = &p->f;
	return 0;
}
