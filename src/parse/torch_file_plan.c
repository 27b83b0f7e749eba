#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "parse/torch_file_plan.h"
#include "parse/zip_write.h"

#define PREFIX "archive/"
#define BYTEORDER "little"
#define VERSION "3\n"

/* Numbers of pieces. */
static size_t version_piece(const struct sf_torch_file *f)
{
	return f->nstorage;
}

static size_t dir_piece(const struct sf_torch_file *f)
{
	return (size_t)f->nstorage + 1;
}

static size_t end_piece(const struct sf_torch_file *f)
{
	return 2 * (size_t)f->nstorage + 2;
}

/* ---- the records ---- */

struct name {
	char text[sizeof(PREFIX "data/") + 10];
};
static struct sf_zip_entry storage_entry(const struct sf_torch_file *f, uint32_t i,
                                         uint64_t header_off, struct name *name)
{
	const struct sf_torch_storage s = f->storage(f->arg, i);

	return (struct sf_zip_entry){ .name = name->text,
		                      .name_len = (size_t)snprintf(name->text, sizeof(name->text),
		                                                   PREFIX "data/%" PRIu32, i),
		                      .header_off = header_off,
		                      .size = s.len,
		                      .crc = s.crc };
}

static struct sf_zip_entry small_entry(const char *name, uint64_t off, uint64_t size, uint32_t crc)
{
	return (struct sf_zip_entry){
		.name = name, .name_len = strlen(name), .header_off = off, .size = size, .crc = crc
	};
}

static struct sf_zip_entry pkl_entry(const struct sf_torch_file *f)
{
	return small_entry(PREFIX "data.pkl", 0, f->pkl_len, f->pkl_crc);
}

static uint64_t header_len(const struct sf_zip_entry *e)
{
	return sf_zip_header_len(e->name_len, e->header_off, e->size);
}

static uint64_t central_len(const struct sf_zip_entry *e)
{
	return sf_zip_central_len(e->name_len, e->header_off, e->size);
}

uint64_t sf_torch_file_pickle_off(const struct sf_torch_file *f)
{
	const struct sf_zip_entry e = pkl_entry(f);

	return header_len(&e);
}

static struct sf_zip_entry byteorder_entry(const struct sf_torch_file *f)
{
	return small_entry(PREFIX "byteorder", sf_torch_file_pickle_off(f) + f->pkl_len,
	                   strlen(BYTEORDER), sf_crc32(0, BYTEORDER, strlen(BYTEORDER)));
}

static struct sf_zip_entry version_entry(const struct sf_torch_file *f)
{
	return small_entry(PREFIX "version", f->start[version_piece(f)], strlen(VERSION),
	                   sf_crc32(0, VERSION, strlen(VERSION)));
}

/* ---- the plan ---- */

int sf_torch_file_plan(struct sf_torch_file *f, struct sf_error *err)
{
	struct sf_zip_entry pkl = pkl_entry(f), e;
	struct name name;
	uint64_t at;

	if (f->pkl_len > INT64_MAX / 4)
		return sf_fail(err, -E2BIG, "a .pt file with a pickle of %" PRIu64 " bytes",
		               f->pkl_len);
	const struct sf_zip_entry byteorder = byteorder_entry(f);
	at = byteorder.header_off + header_len(&byteorder) + byteorder.size;
	for (uint32_t i = 0; i < f->nstorage; i++) {
		f->start[i] = at;
		e = storage_entry(f, i, at, &name);
		/* offsets of files are signed 64 bits; every size below adds much less than the
		 * other half */
		if (!sf_add(at, e.size, &at) || !sf_add(at, header_len(&e), &at) ||
		    at > INT64_MAX / 2)
			return sf_fail(err, -E2BIG,
			               "the .pt file passes 2^62 bytes at storage %" PRIu32, i);
	}
	f->start[version_piece(f)] = at;
	e = version_entry(f);
	at += header_len(&e) + e.size;
	f->start[dir_piece(f)] = at;
	at += central_len(&pkl) + central_len(&byteorder);
	for (uint32_t i = 0; i < f->nstorage; i++) {
		f->start[dir_piece(f) + 1 + i] = at;
		e = storage_entry(f, i, f->start[i], &name);
		at += central_len(&e);
	}
	f->start[end_piece(f)] = at;
	e = version_entry(f);
	f->start[end_piece(f) + 1] = at + central_len(&e) + SF_ZIP_END_LEN;
	return 0;
}

uint64_t sf_torch_file_payload(const struct sf_torch_file *f, uint32_t i, uint64_t *ret_len)
{
	*ret_len = f->storage(f->arg, i).len;
	return f->start[i + 1] - *ret_len;
}

/* ---- bytes ---- */

void sf_torch_file_put_head(const struct sf_torch_file *f, struct sf_buf *out)
{
	const struct sf_zip_entry e = pkl_entry(f);

	sf_zip_put_header(out, &e);
}

void sf_torch_file_put_byteorder(const struct sf_torch_file *f, struct sf_buf *out)
{
	const struct sf_zip_entry e = byteorder_entry(f);

	sf_zip_put_header(out, &e);
	sf_buf_str(out, BYTEORDER);
}

/* All of a piece but a payload. */
static void put_piece(const struct sf_torch_file *f, size_t piece, struct sf_buf *out)
{
	const uint64_t *start = f->start;
	struct sf_zip_entry e;
	struct name name;

	if (piece < version_piece(f)) {
		e = storage_entry(f, (uint32_t)piece, start[piece], &name);
		sf_zip_put_header(out, &e);
	} else if (piece == version_piece(f)) {
		e = version_entry(f);
		sf_zip_put_header(out, &e);
		sf_buf_str(out, VERSION);
	} else if (piece == dir_piece(f)) {
		e = pkl_entry(f);
		sf_zip_put_central(out, &e);
		e = byteorder_entry(f);
		sf_zip_put_central(out, &e);
	} else if (piece < end_piece(f)) {
		uint32_t i = (uint32_t)(piece - dir_piece(f) - 1);
		e = storage_entry(f, i, start[i], &name);
		sf_zip_put_central(out, &e);
	} else {
		uint64_t dir = start[dir_piece(f)];
		e = version_entry(f);
		sf_zip_put_central(out, &e);
		sf_zip_put_end(out, (uint64_t)f->nstorage + 3, dir,
		               start[end_piece(f)] + central_len(&e) - dir);
	}
}

/* [off, off+len) of what is in @out, which is released. */
static int hand_over(struct sf_buf *out, uint64_t off, uint64_t len,
                     const struct sf_torch_file_sink *to)
{
	int r = sf_buf_check(out);

	if (r >= 0)
		r = to->bytes(to->arg, out->at + off, (size_t)len);
	sf_buf_release(out);
	return r;
}

int sf_torch_file_piece(const struct sf_torch_file *f, size_t piece, uint64_t off, uint64_t len,
                        const struct sf_torch_file_sink *to)
{
	uint64_t made = f->start[piece + 1] - f->start[piece], payload = 0;
	struct sf_buf out = { 0 };
	int r = 0;

	if (piece < version_piece(f)) {
		sf_torch_file_payload(f, (uint32_t)piece, &payload);
		made -= payload;
	}
	/* Payloads are what is read most: a read inside one makes no header. */
	if (off < made && len > 0) {
		uint64_t n = SF_MIN(made - off, len);
		put_piece(f, piece, &out);
		r = hand_over(&out, off, n, to);
		off += n;
		len -= n;
	}
	return r < 0 || len == 0 ? r : to->payload(to->arg, (uint32_t)piece, off - made, len);
}
