#include "config.h"

#include <string.h>

#include "base/crc32.h"
#include "base/mem.h"
#include "parse/zstd.h"
#include "save/save_write_priv.h"

#define PART \
	((size_t)1 << 20) /* bytes that go in at once, and that come out before they are written */

/* An item whose bytes were copied. */
struct copied {
	uint64_t k;
	struct sf_stage_buf *buf;
	struct sf_stage_copies copies; /* that are still on their way into it */
};
SF_VEC(copied_vec, struct copied);

struct packer {
	struct sf_write_file *f;
	struct sf_zstd *zstd;
	struct sf_buf out; /* at pos of the file */
	uint64_t pos;
	struct copied_vec copied;
	size_t first; /* of them that is not written yet */
};

static int flush(struct packer *p, size_t over, struct sf_error *err)
{
	int r = 0;

	if (p->out.len > over) {
		r = sf_write_out(p->f, p->pos, p->out.at, p->out.len, 0, err);
		p->pos += p->out.len;
		sf_buf_reset(&p->out);
	}
	return r;
}

static int feed(struct packer *p, const uint8_t *at, uint64_t len, bool last, struct sf_error *err)
{
	_Atomic uint64_t *progress = p->f->w->o.progress;
	int r = 0;

	do {
		size_t n = SF_MIN(PART, len);
		r = sf_shard_check(p->f, err);
		if (r >= 0)
			r = sf_zstd_feed(p->zstd, at, n, last && n == len, &p->out, err);
		if (r >= 0)
			r = flush(p, PART, err);
		if (r >= 0 && progress)
			atomic_fetch_add_explicit(progress, n, memory_order_relaxed);
		at += n;
		len -= n;
	} while (r >= 0 && len > 0);
	return r;
}

/* A frame of an item whose payload is at @at. */
static int pack(struct packer *p, uint64_t k, const uint8_t *at, struct sf_error *err)
{
	struct sf_write_at *to = &p->f->at[k];
	struct sf_save_tensor_item plan;
	struct sf_buf head = { 0 }, tail = { 0 };
	uint32_t crc = 0;
	int r = sf_write_plan(p->f, k, &plan, err);

	if (r >= 0 && plan.head_len && p->f->w->o.crc)
		crc = sf_crc32(0, at, plan.bytes);
	if (r >= 0 && plan.head_len)
		r = sf_write_make(&plan, true, crc, &head, err);
	if (r >= 0 && plan.head_len)
		r = sf_write_make(&plan, false, crc, &tail, err);
	if (r >= 0)
		r = flush(p, 0, err);
	to->off = p->pos;
	if (r >= 0)
		r = sf_zstd_begin(p->zstd, sf_write_item(p->f, k)->stored, err);
	if (r >= 0 && head.len)
		r = feed(p, head.at, head.len, false, err);
	if (r >= 0)
		r = feed(p, at, plan.bytes, tail.len == 0, err);
	if (r >= 0 && tail.len)
		r = feed(p, tail.at, tail.len, true, err);
	to->len = p->pos + p->out.len - to->off;
	sf_buf_release(&head);
	sf_buf_release(&tail);
	return r;
}

static void put(struct packer *p, struct copied *c)
{
	(void)sf_stage_fill_wait(&c->copies, NULL); /* nobody writes to it any more */
	sf_stage_copies_release(&c->copies);
	sf_stage_put(p->f->w->o.pool, SF_STEAL(c->buf));
}

/* Into a buffer of its own: all of it, as its head wants its CRC and a provider gives it once. What a device copies
 * by itself is not waited for. */
static int copy(struct packer *p, struct copied *c, bool wait, struct sf_error *err)
{
	const struct sf_save_item *item = sf_write_item(p->f, c->k);
	struct sf_stage_pool *pool = p->f->w->o.pool;
	const struct sf_device *d;
	int r = sf_stage_device(item, &d, err);

	if (r >= 0)
		r = wait ? sf_stage_get(pool, d, item->bytes, &c->buf, err)
		         : sf_stage_try(pool, d, item->bytes, &c->buf, err);
	if (r < 0)
		return r;
	/* in parts, so that a cancelled save ends soon */
	for (uint64_t off = 0, n; r >= 0 && off < item->bytes; off += n) {
		n = SF_MIN(16 * PART, item->bytes - off);
		r = sf_shard_check(p->f, err);
		if (r >= 0)
			r = sf_stage_fill_begin(item, off, c->buf->at + off, n, &c->copies, err);
	}
	if (r < 0)
		put(p, c);
	return r == -EAGAIN ? -EIO : r; /* a provider's: the pool has given its buffer */
}

static int pack_first(struct packer *p, struct sf_error *err)
{
	struct copied *c = &p->copied.at[p->first++];
	int r = sf_stage_fill_wait(&c->copies, err);

	if (r >= 0)
		r = pack(p, c->k, c->buf->at, err);
	put(p, c);
	return r;
}

/* Where there is no room for a copy it is made by writing; only who has none waits for others. */
static int keep(struct packer *p, uint64_t k, struct sf_error *err)
{
	struct copied c = { k, NULL, { 0 } };
	int r;

	while ((r = copy(p, &c, p->first == p->copied.n, err)) == -EAGAIN) {
		r = pack_first(p, err);
		if (r < 0)
			return r;
	}
	if (r >= 0 && copied_vec_push(&p->copied, c) < 0) {
		put(p, &c);
		r = sf_fail(err, -ENOMEM, "'%s': what is staged of it", p->f->name);
	}
	return r;
}

/* Objects are copies already; memory of the caller is not to be touched later when there is a snapshot. */
static bool needs_copy(const struct packer *p, uint64_t k)
{
	const struct sf_save_item *item = sf_write_item(p->f, k);

	return item->kind == SF_SAVE_TENSOR && (p->f->w->snapshot || !sf_stage_direct(item));
}

static int pack_all(struct packer *p, struct sf_error *err)
{
	struct sf_write_file *f = p->f;
	int r = 0;

	for (uint64_t k = 0; r >= 0 && f->w->snapshot && k < f->n; k++)
		if (needs_copy(p, k))
			r = keep(p, k, err);
	for (size_t i = p->first; i < p->copied.n;
	     i++) { /* after a failure too: nobody reads it then */
		int one = sf_stage_fill_wait(&p->copied.at[i].copies, r < 0 ? NULL : err);
		r = r < 0 ? r : one;
	}
	if (f->w->snapshot)
		sf_write_tell_staged(f);
	while (r >= 0 && p->first < p->copied.n)
		r = pack_first(p, err);
	for (uint64_t k = 0; r >= 0 && k < f->n; k++) {
		if (!needs_copy(p, k)) {
			r = pack(p, k, sf_stage_direct(sf_write_item(f, k)), err);
		} else if (!f->w->snapshot) {
			r = keep(p, k, err);
			if (r >= 0)
				r = pack_first(p, err);
		}
	}
	return r >= 0 ? flush(p, 0, err) : r;
}

int sf_write_zstd(struct sf_write_file *f, struct sf_error *err)
{
	struct packer p = { .f = f };
	int r = sf_zstd_new(f->w->o.zstd, &p.zstd, err);

	if (r >= 0)
		r = pack_all(&p, err);
	else if (f->w->snapshot)
		sf_write_tell_staged(f);
	while (p.first < p.copied.n)
		put(&p, &p.copied.at[p.first++]);
	copied_vec_release(&p.copied);
	sf_buf_release(&p.out);
	sf_zstd_free(p.zstd);
	f->size = p.pos;
	return r;
}
