#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "parse/zip_write.h"
#include "view/pt/pt.h"

#define PREFIX "archive/"
#define NAME_PKL PREFIX "data.pkl"
#define NAME_BYTEORDER PREFIX "byteorder"
#define NAME_VERSION PREFIX "version"
#define BYTEORDER "little"
#define VERSION "3\n"

#define REC_TAIL(pt) ((pt)->nleaf + 1)
#define REC_DATA(pt) ((pt)->nleaf + 2)
#define REC_VERSION(pt) ((pt)->nleaf + 2 + (pt)->nstorage)
#define REC_DIR(pt) ((pt)->nleaf + 3 + (pt)->nstorage)
#define REC_END(pt) ((pt)->nleaf + 4 + 2 * (pt)->nstorage)

/* The part of a record that is asked for: pieces are offered in order, what is outside is passed
 * over. */
struct cut {
	struct sf_parts *parts;
	uint64_t skip, left;
	int r;
};

/* How much of the next @len bytes is wanted; *ret_off of them come first. */
static uint64_t cut_take(struct cut *c, uint64_t len, uint64_t *ret_off)
{
	if (c->r < 0 || c->left == 0)
		return 0;
	if (c->skip >= len) {
		c->skip -= len;
		return 0;
	}
	*ret_off = c->skip;
	uint64_t n = SF_MIN(len - c->skip, c->left);
	c->skip = 0;
	c->left -= n;
	return n;
}

static void cut_bytes(struct cut *c, const void *at, uint64_t len)
{
	uint64_t off, n = cut_take(c, len, &off);
	if (n > 0)
		c->r = sf_parts_bytes(c->parts, (const uint8_t *)at + off, n);
}

static void cut_storage(struct cut *c, const struct sf_pt *pt, uint32_t storage, uint64_t len)
{
	uint64_t off, n = cut_take(c, len, &off);
	if (n > 0)
		c->r = sf_pt_payload_parts(pt, storage, off, n, c->parts);
}

static uint64_t storage_len(const struct sf_pt *pt, uint32_t storage)
{
	uint32_t s = pt->storage[storage];
	return s & SF_PT_INNER ? pt->inner[s & ~SF_PT_INNER].len
	                       : sf_pt_bytes(pt, sf_pt_entry(pt, &pt->leaf[s]));
}

int sf_pt_payload_parts(const struct sf_pt *pt, uint32_t storage, uint64_t off, uint64_t len,
                        struct sf_parts *parts)
{
	uint32_t s = pt->storage[storage];

	if (s & SF_PT_INNER) {
		const struct sf_pt_inner *in = &pt->inner[s & ~SF_PT_INNER];
		return sf_parts_object(parts, in->object, in->off + off, len);
	}
	const struct sf_entry *e = sf_pt_entry(pt, &pt->leaf[s]);
	enum sf_dtype dtype = sf_pt_dtype(pt, e);
	return sf_parts_tensor(parts, e->tensor, off, len,
	                       dtype == pt->c->ckpt->tensor[e->tensor].dtype ? SF_DTYPE_NONE
	                                                                     : dtype);
}

static void cut_object(struct cut *c, const struct sf_pt *pt, uint32_t span)
{
	uint64_t off, n = cut_take(c, pt->span[span + 1] - pt->span[span], &off);
	if (n > 0) /* the reader keeps what it needs of it, and no constness */
		c->r = sf_parts_made(c->parts, (struct sf_made *)&pt->objects, pt->span[span] + off,
		                     n);
}

/* Name and place of storage @s's record; the header begins where its vfile record does. */
struct name {
	char text[sizeof(PREFIX "data/") + 10];
};
static struct sf_zip_entry data_entry(const struct sf_pt *pt, uint32_t s, uint64_t off,
                                      struct name *name)
{
	uint32_t *crc = atomic_load_explicit(&pt->crc, memory_order_acquire);
	return (struct sf_zip_entry){ .name = name->text,
		                      .name_len = (size_t)snprintf(name->text, sizeof(name->text),
		                                                   PREFIX "data/%" PRIu32, s),
		                      .header_off = off,
		                      .size = storage_len(pt, s),
		                      .crc = crc ? crc[s] : 0 };
}

static struct sf_zip_entry small_entry(const char *name, uint64_t off, uint64_t size, uint32_t crc)
{
	return (struct sf_zip_entry){
		.name = name, .name_len = strlen(name), .header_off = off, .size = size, .crc = crc
	};
}

static struct sf_zip_entry pkl_entry(const struct sf_pt *pt)
{
	return small_entry(NAME_PKL, 0, pt->pkl_len, pt->pkl_crc);
}

static uint64_t header_len(const struct sf_zip_entry *e)
{
	return sf_zip_header_len(e->name_len, e->header_off, e->size);
}

static uint64_t central_len(const struct sf_zip_entry *e)
{
	return sf_zip_central_len(e->name_len, e->header_off, e->size);
}

/* byteorder's header follows the pickle's end. */
static struct sf_zip_entry byteorder_entry(const struct sf_pt *pt)
{
	struct sf_zip_entry pkl = pkl_entry(pt);
	return small_entry(NAME_BYTEORDER, header_len(&pkl) + pt->pkl_len, strlen(BYTEORDER),
	                   sf_crc32(0, BYTEORDER, strlen(BYTEORDER)));
}

static struct sf_zip_entry version_entry(const struct sf_pt *pt)
{
	return small_entry(NAME_VERSION, pt->start[REC_VERSION(pt)], strlen(VERSION),
	                   sf_crc32(0, VERSION, strlen(VERSION)));
}

void sf_pt_payload(const struct sf_pt *pt, uint32_t storage, uint64_t *ret_off, uint64_t *ret_len)
{
	uint32_t rec = REC_DATA(pt) + storage;
	*ret_len = storage_len(pt, storage);
	*ret_off = pt->start[rec + 1] - *ret_len;
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
	pt->pkl_len = len + out.len;
	pt->pkl_crc = sf_crc32(crc, out.at, out.len);
	sf_buf_release(&out);
	return r < 0 ? sf_fail(err, r, "data.pkl of %" PRIu32 " values", pt->nleaf) : 0;
}

int sf_pt_layout(struct sf_pt *pt, struct sf_error *err)
{
	uint64_t nrec = 5 + (uint64_t)pt->nleaf + 2 * (uint64_t)pt->nstorage, at;
	struct name name;

	if (nrec >= UINT32_MAX)
		return sf_fail(err, -E2BIG, ".pt file of %" PRIu64 " records", nrec);
	pt->start = sf_alloc_array(nrec + 1, sizeof(*pt->start));
	if (!pt->start)
		return sf_fail(err, -ENOMEM, "offsets of %" PRIu64 " records", nrec);
	sf_pt_memo(pt);
	int r = measure_pickle(pt, err);
	if (r < 0)
		return r;

	struct sf_zip_entry e = pkl_entry(pt);
	uint64_t shift = header_len(&e);
	pt->start[0] = 0;
	for (uint32_t i = 0; i <= pt->nleaf; i++)
		pt->start[1 + i] += shift;
	e = byteorder_entry(pt);
	at = e.header_off + header_len(&e) + e.size;
	for (uint32_t s = 0; s < pt->nstorage; s++) {
		pt->start[REC_DATA(pt) + s] = at;
		e = data_entry(pt, s, at, &name);
		/* offsets of files are signed 64 bits; every size below adds much less than the
		 * other half */
		if (!sf_add(at, e.size, &at) || !sf_add(at, header_len(&e), &at) ||
		    at > INT64_MAX / 2)
			return sf_fail(err, -E2BIG,
			               "the .pt file passes 2^62 bytes at storage %" PRIu32, s);
	}
	pt->start[REC_VERSION(pt)] = at;
	e = version_entry(pt);
	at += header_len(&e) + e.size;
	pt->start[REC_DIR(pt)] = at;
	struct sf_zip_entry pkl = pkl_entry(pt);
	e = byteorder_entry(pt);
	at += central_len(&pkl) + central_len(&e);
	for (uint32_t s = 0; s < pt->nstorage; s++) {
		pt->start[REC_DIR(pt) + 1 + s] = at;
		e = data_entry(pt, s, pt->start[REC_DATA(pt) + s], &name);
		at += central_len(&e);
	}
	pt->start[REC_END(pt)] = at;
	e = version_entry(pt);
	at += central_len(&e) + SF_ZIP_END_LEN;
	pt->start[REC_END(pt) + 1] = at;
	pt->f.nrec = (uint32_t)nrec;
	pt->f.start = pt->start;
	pt->f.size = at;
	return 0;
}

static void emit_data(const struct sf_pt *pt, uint32_t s, struct sf_buf *out, struct cut *c)
{
	struct name name;
	struct sf_zip_entry e = data_entry(pt, s, pt->start[REC_DATA(pt) + s], &name);

	/* Payloads are what is read most: a read inside one makes no header. */
	uint64_t head = header_len(&e);
	if (c->skip >= head) {
		c->skip -= head;
	} else {
		sf_zip_put_header(out, &e);
		c->r = sf_buf_check(out);
		cut_bytes(c, out->at, out->len);
	}
	cut_storage(c, pt, s, e.size);
}

int sf_pt_emit(struct sf_vfile *f, uint32_t rec, uint64_t off, uint64_t len, struct sf_parts *parts,
               struct sf_error *err)
{
	const struct sf_pt *pt = (const struct sf_pt *)f;
	struct cut c = { .parts = parts, .skip = off, .left = len };
	const struct sf_pt_leaf *l = NULL;
	struct sf_buf out = { 0 };
	struct sf_zip_entry e;
	struct name name;

	if (rec >= REC_DATA(pt) && rec < REC_VERSION(pt)) {
		emit_data(pt, rec - REC_DATA(pt), &out, &c);
	} else {
		if (rec == 0) {
			e = pkl_entry(pt);
			sf_zip_put_header(&out, &e);
			sf_pt_put_head(pt, &out);
		} else if (rec < REC_TAIL(pt)) {
			l = &pt->leaf[rec - 1];
			sf_pt_put_leaf(pt, rec - 1, &out);
		} else if (rec == REC_TAIL(pt)) {
			sf_pt_put_tail(pt, &out);
			e = byteorder_entry(pt);
			sf_zip_put_header(&out, &e);
			sf_buf_str(&out, BYTEORDER);
		} else if (rec == REC_VERSION(pt)) {
			e = version_entry(pt);
			sf_zip_put_header(&out, &e);
			sf_buf_str(&out, VERSION);
		} else if (rec == REC_DIR(pt)) {
			e = pkl_entry(pt);
			sf_zip_put_central(&out, &e);
			e = byteorder_entry(pt);
			sf_zip_put_central(&out, &e);
		} else if (rec < REC_END(pt)) {
			uint32_t s = rec - REC_DIR(pt) - 1;
			e = data_entry(pt, s, pt->start[REC_DATA(pt) + s], &name);
			sf_zip_put_central(&out, &e);
		} else {
			uint64_t dir = pt->start[REC_DIR(pt)];
			e = version_entry(pt);
			sf_zip_put_central(&out, &e);
			sf_zip_put_end(&out, (uint64_t)pt->nstorage + 3, dir,
			               pt->start[REC_END(pt)] + central_len(&e) - dir);
		}
		c.r = sf_buf_check(&out);
		cut_bytes(&c, out.at, out.len);
		if (l && l->object)
			cut_object(&c, pt, l->ref);
	}
	sf_buf_release(&out);
	return c.r < 0 ? sf_fail(err, c.r, ".pt record %" PRIu32 " of %" PRIu32, rec, pt->f.nrec)
	               : 0;
}
