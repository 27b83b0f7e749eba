#include "config.h"

#include <errno.h>
#include <inttypes.h>

#include "base/mem.h"
#include "format/deepspeed/ds_flat.h"
#include "parse/torch_item.h"

void ds_space_release(struct ds_space *s)
{
	ds_segments_release(&s->seg);
}

static bool is_dense(const struct sf_torch_tensor *t)
{
	uint64_t step = 1;

	for (unsigned d = t->ndim; d-- > 0; step *= t->shape[d])
		if (t->shape[d] != 1 && (uint64_t)t->stride[d] != step)
			return false;
	return !t->conj && !t->neg;
}

static int add(struct ds_space *s, struct sf_ckpt_builder *b, struct sf_torch_part *part,
               const struct sf_torch_tensor *t, struct sf_error *err)
{
	const uint64_t elem = sf_dtype_info((enum sf_dtype)t->dtype)->bytes;
	const struct sf_torch_record *rec;
	uint64_t off, len, numel = 1;
	int r;

	if (!s->dtype)
		s->dtype = t->dtype;
	if (s->dtype != t->dtype)
		return sf_fail(err, -EBADMSG, "'%s': a partition of %s, others of %s",
		               part->file->name, sf_dtype_info((enum sf_dtype)t->dtype)->torch,
		               sf_dtype_info((enum sf_dtype)s->dtype)->torch);
	for (unsigned d = 0; d < t->ndim; d++) /* inside the storage: it was looked at */
		numel *= t->shape[d];
	if (!numel)
		return 0;
	rec = sf_torch_record_find(part->archive.storage, part->archive.nstorages,
	                           t->storage_key->str.at, t->storage_key->str.len);
	if (!rec || !sf_mul(t->storage_off, elem, &off) || !sf_mul(numel, elem, &len) ||
	    off > rec->len || len > rec->len - off)
		return sf_fail(err, -EBADMSG,
		               "'%s': a partition of %" PRIu64 " elements at %" PRIu64
		               " of a storage of %" PRIu64 " bytes",
		               part->file->name, numel, t->storage_off, rec ? rec->len : 0);
	r = sf_torch_part_place(part, b, err);
	if (r < 0)
		return r;
	const struct ds_segment seg = { s->len, numel, rec->off + off, part->place };
	if (!sf_add(s->len, numel, &s->len) || s->len > UINT64_MAX / 16)
		return sf_fail(err, -EBADMSG, "'%s': partitions of over 2^60 elements",
		               part->file->name);
	if (ds_segments_push(&s->seg, seg) < 0)
		return sf_fail(err, -ENOMEM, "no memory for %zu partitions", s->seg.n);
	return 0;
}

int ds_space_add_dense(struct ds_space *s, struct sf_ckpt_builder *b, struct sf_torch_part *part,
                       const struct sf_pv *v, struct sf_torch_tensor *ret, struct sf_error *err)
{
	int r = sf_torch_tensor_from_pv(v, ret, err);

	if (r < 0)
		return sf_fail_ctx(err, r, "'%s'", part->file->name);
	if (r == 0 || !is_dense(ret))
		return sf_fail(err, -EBADMSG, "'%s': no dense tensor", part->file->name);
	return add(s, b, part, ret, err);
}

int ds_space_add(struct ds_space *s, struct sf_ckpt_builder *b, struct sf_torch_part *part,
                 const struct sf_pv *v, struct sf_error *err)
{
	struct sf_torch_tensor t;
	int r = sf_torch_tensor_from_pv(v, &t, err);

	if (r < 0)
		return sf_fail_ctx(err, r, "'%s'", part->file->name);
	if (r == 0 || t.ndim != 1 || !is_dense(&t))
		return sf_fail(err, -EBADMSG, "'%s': a partition that is no flat tensor",
		               part->file->name);
	return add(s, b, part, &t, err);
}

int ds_space_chunks(const struct ds_space *s, uint64_t off, uint64_t len, uint64_t at,
                    struct sf_ckpt_builder *b, uint32_t tensor, const uint64_t *shape,
                    uint32_t *chunks, struct sf_error *err)
{
	static const uint64_t zero[SF_DIMS_MAX];
	uint64_t elem;
	size_t i;
	int r = 0;

	if (off >= s->len || !len)
		return 0;
	len = SF_MIN(len, s->len - off);
	elem = sf_dtype_info((enum sf_dtype)s->dtype)->bytes;
	i = SF_LAST_THAT(k, s->seg.n, s->seg.at[k].start <= off);
	for (; len && r >= 0; i++) {
		const struct ds_segment *g = &s->seg.at[i];
		const uint64_t skip = off - g->start, n = SF_MIN(len, g->len - skip);
		r = sf_ckpt_builder_chunk(b, zero, shape, err);
		if (r >= 0)
			r = sf_ckpt_builder_part(b, at, n, err);
		if (r < 0)
			break;
		sf_ckpt_builder_set_item(b, tensor, (*chunks)++, g->place, g->off + skip * elem,
		                         n * elem);
		off += n;
		at += n;
		len -= n;
	}
	return r < 0 ? r : 0;
}
