#include "config.h"

#include <string.h>

#include "base/crc32.h"
#include "base/mem.h"
#include "save/save_write_priv.h"

/* A payload of so many bytes is written from where it lies; smaller ones go together with what is around them
 * in one call. */
#define DIRECT_MIN ((uint64_t)256 << 10)
/* Bytes that are read for the CRC and then, while the cache has them, by the kernel. */
#define DIRECT_PART ((size_t)1 << 20)

int sf_write_plan(struct sf_write_file *f, uint64_t k, struct sf_save_tensor_item *ret,
                  struct sf_error *err)
{
	const struct sf_save_item *item = sf_write_item(f, k);
	uint64_t whole;

	*ret = (struct sf_save_tensor_item){ .bytes = item->bytes };
	if (item->kind == SF_SAVE_TENSOR) {
		ret->dtype = item->dtype;
		ret->ndim = item->ndim;
		ret->extent = item->extent;
		int r = sf_save_tensor_item_plan(ret, err);
		if (r < 0)
			return sf_fail_ctx(err, r, "tensor '%s'", item->key);
	}
	if (!sf_add(ret->head_len, ret->bytes, &whole) || !sf_add(whole, ret->tail_len, &whole) ||
	    whole != item->stored)
		return sf_fail(err, -EINVAL, "'%s': %llu bytes were planned, not %llu", item->key,
		               (unsigned long long)item->stored, (unsigned long long)whole);
	return 0;
}

static int begin_item(struct sf_write_file *f, struct sf_write_walk *w, struct sf_error *err)
{
	int r;

	if (w->k == f->n)
		return 0;
	r = sf_write_plan(f, w->k, &w->plan, err);
	if (r < 0)
		return r;
	if (f->at[w->k].off < w->pos)
		return sf_fail(err, -EINVAL, "'%s': '%s' at %llu, not behind %llu", f->name,
		               sf_write_item(f, w->k)->key, (unsigned long long)f->at[w->k].off,
		               (unsigned long long)w->pos);
	w->part = SF_PART_GAP;
	w->in = 0;
	w->len = f->at[w->k].off - w->pos;
	return 0;
}

int sf_write_walk_begin(struct sf_write_file *f, struct sf_write_walk *w, struct sf_error *err)
{
	*w = (struct sf_write_walk){ 0 };
	return begin_item(f, w, err);
}

/* @n bytes more of the part; its end is the next one's begin. */
static int walk_on(struct sf_write_file *f, struct sf_write_walk *w, uint64_t n,
                   struct sf_error *err)
{
	w->in += n;
	w->pos += n;
	if (w->in < w->len)
		return 0;
	w->in = 0;
	switch (w->part) {
	case SF_PART_GAP:
		w->part = SF_PART_HEAD;
		w->len = w->plan.head_len;
		return 0;
	case SF_PART_HEAD:
		w->part = SF_PART_PAYLOAD;
		w->len = w->plan.bytes;
		return 0;
	case SF_PART_PAYLOAD:
		w->part = SF_PART_TAIL;
		w->len = w->plan.tail_len;
		return 0;
	case SF_PART_TAIL:
		break;
	}
	w->k++;
	return begin_item(f, w, err);
}

static bool goes_direct(const struct sf_write_file *f, const struct sf_write_walk *w)
{
	return !f->w->snapshot && w->part == SF_PART_PAYLOAD && w->in == 0 &&
	       w->len >= DIRECT_MIN && sf_stage_direct(sf_write_item(f, w->k));
}

/* The next @n bytes of the file to @to; heads and tails are made when they are written, and zeros so long. */
static int stage_part(struct sf_write_file *f, const struct sf_write_walk *w, uint8_t *to, size_t n,
                      struct sf_stage_copies *copies, struct sf_error *err)
{
	if (w->part != SF_PART_PAYLOAD) {
		memset(to, 0, n);
		return 0;
	}
	return sf_stage_fill_begin(sf_write_item(f, w->k), w->in, to, n, copies, err);
}

int sf_write_stage(struct sf_write_file *f, struct sf_write_slab *slab, struct sf_error *err)
{
	struct sf_write_walk *w = &f->staged;
	const size_t room = slab->buf->len;
	int r = sf_shard_check(f, err);

	slab->first = *w;
	slab->len = 0;
	slab->direct = false;
	while (r >= 0 && !sf_write_walk_ended(f, w) && slab->len < room) {
		size_t n = SF_MIN(w->len - w->in, room - slab->len);
		if (goes_direct(f, w)) {
			slab->direct = true;
			return walk_on(f, w, w->len, err);
		}
		if (n < w->len && (w->part == SF_PART_HEAD || w->part == SF_PART_TAIL)) {
			if (slab->len > 0)
				break; /* it is made in one piece */
			return sf_fail(err, -E2BIG, "'%s': %llu bytes of header for '%s'", f->name,
			               (unsigned long long)w->len, sf_write_item(f, w->k)->key);
		}
		r = stage_part(f, w, slab->buf->at + slab->len, n, &slab->copies, err);
		slab->len += n;
		if (r >= 0)
			r = walk_on(f, w, n, err);
	}
	return r;
}

int sf_write_make(const struct sf_save_tensor_item *plan, bool head, uint32_t crc,
                  struct sf_buf *out, struct sf_error *err)
{
	uint64_t want = head ? plan->head_len : plan->tail_len;
	int r = head ? sf_save_tensor_item_head(plan, crc, out)
	             : sf_save_tensor_item_tail(plan, crc, out);

	if (r >= 0)
		r = sf_buf_check(out);
	if (r >= 0 && out->len != want)
		r = -EINVAL;
	return r < 0 ? sf_fail(err, r, "a header of %llu bytes", (unsigned long long)want) : 0;
}

/* The payload's CRC is known: its head goes to @in, where the slab has it, else to the file. */
static int close_head(struct sf_write_file *f, const struct sf_write_walk *w, uint8_t *in,
                      struct sf_error *err)
{
	struct sf_buf head = { 0 };
	int r = sf_write_make(&w->plan, true, f->crc, &head, err);

	f->head_open = false;
	if (r >= 0 && in)
		memcpy(in, head.at, head.len);
	else if (r >= 0)
		r = sf_write_out(f, f->head_off, head.at, head.len, 0, err);
	sf_buf_release(&head);
	return r;
}

static int put_tail(struct sf_write_file *f, const struct sf_write_walk *w, uint8_t *to,
                    struct sf_error *err)
{
	struct sf_buf tail = { 0 };
	int r = sf_write_make(&w->plan, false, f->crc, &tail, err);

	if (r >= 0)
		memcpy(to, tail.at, tail.len);
	sf_buf_release(&tail);
	return r;
}

/* A payload from where it lies. Its CRC is made piece by piece while the cache has them for the kernel too; for
 * a hash, which wants the head before, all of it is read once more. */
static int write_direct(struct sf_write_file *f, struct sf_write_slab *slab,
                        const struct sf_write_walk *w, uint8_t *head, uint64_t counts,
                        struct sf_error *err)
{
	const uint8_t *at = sf_stage_direct(sf_write_item(f, w->k));
	const bool crc = f->w->o.crc && w->plan.head_len, before = f->sha != NULL;
	int r = 0;

	if (before && crc)
		f->crc = sf_crc32(f->crc, at, w->len);
	if (before && f->head_open)
		r = close_head(f, w, head, err);
	if (before && r >= 0)
		r = sf_write_out(f, slab->first.pos, slab->buf->at, slab->len, counts, err);
	for (uint64_t done = 0, n; r >= 0 && done < w->len; done += n) {
		n = SF_MIN(DIRECT_PART, w->len - done);
		if (!before && crc)
			f->crc = sf_crc32(f->crc, at + done, n);
		r = sf_write_out(f, w->pos + done, at + done, n, n, err);
	}
	if (!before && r >= 0 && f->head_open)
		r = close_head(f, w, head, err);
	if (!before && r >= 0)
		r = sf_write_out(f, slab->first.pos, slab->buf->at, slab->len, counts, err);
	return r;
}

/* Bytes [off, off + n) of a slab, which are the next of the walk. */
static int finish_part(struct sf_write_file *f, const struct sf_write_walk *w, uint8_t *at,
                       size_t n, uint8_t **head, struct sf_error *err)
{
	int r = 0;

	if (w->plan.head_len == 0 || w->part == SF_PART_GAP)
		return 0; /* an object, all there */
	if (w->part == SF_PART_HEAD) {
		*head = at;
		f->head_open = true;
		f->head_off = w->pos;
		f->crc = 0;
	} else if (w->part == SF_PART_PAYLOAD) {
		f->crc = f->w->o.crc ? sf_crc32(f->crc, at, n) : 0;
	} else {
		if (f->head_open)
			r = close_head(f, w, *head, err);
		if (r >= 0)
			r = put_tail(f, w, at, err);
		*head = NULL;
	}
	return r;
}

/* A slab, but for a head in it that waits for its CRC: each byte is written once. */
static int write_around(struct sf_write_file *f, const struct sf_write_slab *slab,
                        uint64_t head_len, uint64_t counts, struct sf_error *err)
{
	uint64_t pos = slab->first.pos, end = pos + slab->len;
	uint64_t from = head_len ? f->head_off : end, to = from + head_len;
	bool behind = to < end;
	int r = sf_write_out(f, pos, slab->buf->at, from - pos, behind ? 0 : counts, err);

	return r < 0 || !behind
	               ? r
	               : sf_write_out(f, to, slab->buf->at + (to - pos), end - to, counts, err);
}

int sf_write_slab(struct sf_write_file *f, struct sf_write_slab *slab, struct sf_error *err)
{
	struct sf_write_walk w = slab->first;
	uint8_t *head = NULL; /* of the item that is in the slab and not yet done */
	uint64_t counts = 0;
	int r = sf_stage_fill_wait(&slab->copies, err);

	for (size_t off = 0, n; r >= 0 && !sf_write_walk_ended(f, &w); off += n) {
		n = SF_MIN(w.len - w.in, slab->len - off);
		if (off == slab->len && (n < w.len - w.in || (slab->direct && goes_direct(f, &w))))
			break; /* parts of no bytes are passed over */
		counts += w.part == SF_PART_GAP ? 0 : n;
		r = finish_part(f, &w, slab->buf->at + off, n, &head, err);
		if (r >= 0)
			r = walk_on(f, &w, n, err);
	}
	if (r < 0)
		return r;
	if (slab->direct)
		return write_direct(f, slab, &w, head, counts, err);
	r = write_around(f, slab, head ? w.plan.head_len : 0, counts, err);
	if (r >= 0 && !f->head_open)
		r = sf_write_hash_to(f, slab->first.pos + slab->len, err);
	return r;
}
