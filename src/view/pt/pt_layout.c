#include "config.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "parse/zip_write.h"
#include "view/pt/pt.h"
#include "view/pt/pt_blocks.h"

#define REC_TAIL(pt) ((pt)->nleaf + 1)
#define REC_PIECES(pt) ((pt)->nleaf + 2) /* from here on those of parse/torch_file_plan.h */

static struct sf_torch_storage storage(const void *arg, uint32_t i)
{
	const struct sf_pt *pt = arg;
	uint32_t s = pt->storage[i];
	const uint32_t *crc = atomic_load_explicit(&pt->crc, memory_order_acquire);

	return (struct sf_torch_storage){
		.len = s & SF_PT_INNER ? pt->inner[s & ~SF_PT_INNER].len
		                       : sf_pt_bytes(pt, sf_pt_entry(pt, &pt->leaf[s])),
		.crc = crc ? crc[i] : 0
	};
}

/* The parts of [off, off+len) of a storage's bytes. */
static int payload_parts(const struct sf_pt *pt, uint32_t storage, uint64_t off, uint64_t len,
                         struct sf_parts *parts)
{
	uint32_t s = pt->storage[storage];

	if (s & SF_PT_INNER) {
		const struct sf_pt_inner *in = &pt->inner[s & ~SF_PT_INNER];
		return sf_parts_object(parts, in->object, in->off + off, len);
	}
	const struct sf_entry *e = sf_pt_entry(pt, &pt->leaf[s]);
	const struct sf_tensor *t = &pt->c->ckpt->tensor[e->tensor];
	enum sf_dtype dtype = sf_pt_dtype(pt, e);
	if (dtype == (enum sf_dtype)t->dtype)
		dtype = SF_DTYPE_NONE;
	return sf_pt_in_blocks(pt, t) ? sf_pt_block_parts(parts, e->tensor, t, off, len, dtype)
	                              : sf_parts_tensor(parts, e->tensor, off, len, dtype);
}

/*
 * One pass makes every piece of data.pkl once, for lengths and CRC at the same time: what is
 * computed cannot differ from what is generated later. start[1 … L+1] get lengths counted from the
 * pickle's begin.
 */
static int measure_pickle(struct sf_pt *pt, struct sf_error *err)
{
	struct sf_buf out = { 0 };
	uint64_t len;
	uint32_t crc;

	sf_pt_put_head(pt, &out);
	int r = sf_buf_check(&out);
	crc = sf_crc32(0, out.at, out.len);
	len = out.len;
	for (uint32_t i = 0; i < pt->nleaf && r == 0; i++) {
		const struct sf_pt_leaf *l = &pt->leaf[i];
		pt->start[1 + i] = len;
		sf_buf_reset(&out);
		sf_pt_put_leaf(pt, i, &out);
		r = sf_buf_check(&out);
		crc = sf_crc32(crc, out.at, out.len);
		len += out.len;
		if (l->object) {
			uint64_t at = pt->span[l->ref], n = pt->span[l->ref + 1] - at;
			crc = sf_crc32(crc, pt->objects_at + at, n);
			len += n;
		}
	}
	pt->start[1 + pt->nleaf] = len;
	sf_buf_reset(&out);
	sf_pt_put_tail(pt, &out);
	if (r == 0)
		r = sf_buf_check(&out);
	pt->archive.pkl_len = len + out.len;
	pt->archive.pkl_crc = sf_crc32(crc, out.at, out.len);
	sf_buf_release(&out);
	return r < 0 ? sf_fail(err, r, "data.pkl of %" PRIu32 " values", pt->nleaf) : 0;
}

int sf_pt_layout(struct sf_pt *pt, struct sf_error *err)
{
	uint64_t nrec = REC_PIECES(pt) + (uint64_t)SF_TORCH_FILE_PIECES(pt->nstorage);

	if (nrec >= UINT32_MAX)
		return sf_fail(err, -E2BIG, ".pt file of %" PRIu64 " records", nrec);
	pt->start = sf_alloc_array(nrec + 1, sizeof(*pt->start));
	if (!pt->start)
		return sf_fail(err, -ENOMEM, "offsets of %" PRIu64 " records", nrec);
	pt->archive = (struct sf_torch_file){ .nstorage = pt->nstorage,
		                              .storage = storage,
		                              .arg = pt,
		                              .start = pt->start + REC_PIECES(pt) };
	sf_pt_memo(pt);
	int r = measure_pickle(pt, err);
	if (r >= 0)
		r = sf_torch_file_plan(&pt->archive, err);
	if (r < 0)
		return r;
	uint64_t shift = sf_torch_file_pickle_off(&pt->archive);
	pt->start[0] = 0;
	for (uint32_t i = 0; i <= pt->nleaf; i++)
		pt->start[1 + i] += shift;
	pt->f.nrec = (uint32_t)nrec;
	pt->f.start = pt->start;
	pt->f.size = sf_torch_file_size(&pt->archive);
	return 0;
}

/* ---- bytes ---- */

struct target {
	const struct sf_pt *pt;
	struct sf_parts *parts;
};

static int take_bytes(void *arg, const void *at, size_t len)
{
	const struct target *t = arg;

	return sf_parts_bytes(t->parts, at, len);
}

static int take_payload(void *arg, uint32_t storage, uint64_t off, uint64_t len)
{
	const struct target *t = arg;

	return payload_parts(t->pt, storage, off, len, t->parts);
}

/* Of the pickle and what is around it: what is put into a buffer, and behind that a leaf's object. */
static int emit_pickle(const struct sf_pt *pt, uint32_t rec, uint64_t off, uint64_t len,
                       struct sf_parts *parts)
{
	const struct sf_pt_leaf *l = NULL;
	struct sf_buf out = { 0 };

	if (rec == 0) {
		sf_torch_file_put_head(&pt->archive, &out);
		sf_pt_put_head(pt, &out);
	} else if (rec < REC_TAIL(pt)) {
		l = &pt->leaf[rec - 1];
		sf_pt_put_leaf(pt, rec - 1, &out);
	} else {
		sf_pt_put_tail(pt, &out);
		sf_torch_file_put_byteorder(&pt->archive, &out);
	}
	int r = sf_buf_check(&out);
	uint64_t made = out.len, n = off < made ? SF_MIN(made - off, len) : 0;
	if (r >= 0 && n > 0)
		r = sf_parts_bytes(parts, out.at + off, n);
	sf_buf_release(&out);
	if (r < 0 || n == len)
		return r;
	/* the reader keeps what it needs of it, and no constness */
	return sf_parts_made(parts, (struct sf_made *)&pt->objects,
	                     pt->span[l->ref] + off + n - made, len - n);
}

int sf_pt_emit(struct sf_vfile *f, uint32_t rec, uint64_t off, uint64_t len, struct sf_parts *parts,
               struct sf_error *err)
{
	const struct sf_pt *pt = (const struct sf_pt *)f;
	struct target t = { pt, parts };
	const struct sf_torch_file_sink to = { .bytes = take_bytes,
		                               .payload = take_payload,
		                               .arg = &t };
	int r;

	if (rec < REC_PIECES(pt))
		r = emit_pickle(pt, rec, off, len, parts);
	else
		r = sf_torch_file_piece(&pt->archive, rec - REC_PIECES(pt), off, len, &to);
	return r < 0 ? sf_fail(err, r, ".pt record %" PRIu32 " of %" PRIu32, rec, pt->f.nrec) : 0;
}
