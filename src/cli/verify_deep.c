#include "config.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/buf.h"
#include "base/mem.h"
#include "ckpt/ckpt_check.h"
#include "ckpt/ckpt_pick.h"
#include "ckpt/place.h"
#include "cli/verify_deep.h"
#include "parse/torch_archive.h"
#include "parse/zip_write.h"
#include "store/source_ahead.h"
#include "value/object.h"

enum { SLICE = 4 << 20, DIR_MAX = 64 << 20 }; /* bytes */

static void defect(struct sf_deep *d, uint32_t entry, int r, const struct sf_error *err)
{
	const struct sf_entry *e = &d->s->catalog->entry[entry];
	const char *text = err->msg;
	SF_FREE char *key = NULL;
	int n = asprintf(&key, "%s '%s'", e->tensor != SF_NONE ? "tensor" : "object", e->name);

	/* the line begins with the key */
	if (n < 0)
		key = NULL;
	else if (strncmp(text, key, (size_t)n) == 0 && (text[n] == ':' || text[n] == ','))
		text += n + 2;
	d->defect(d->arg, entry, r == -ESTALE ? "changed" : "unreadable", text);
}

/* All values by way of the views' own read path: layouts, strides, transforms, dtypes. */
static int read_tensor(struct sf_deep *d, uint32_t entry, uint8_t *buf)
{
	const struct sf_tensor *t = &d->s->ckpt->tensor[d->s->catalog->entry[entry].tensor];
	struct sf_error err = SF_ERROR_INIT;

	for (uint64_t off = 0; off < t->bytes; off += SLICE) {
		uint64_t len = SF_MIN(t->bytes - off, (uint64_t)SLICE);
		int r = sf_read_tensor(d->s->reader, d->s->catalog->entry[entry].tensor, off, buf,
		                       len, &err);
		if (r < 0) {
			defect(d, entry, r, &err);
			return 1; /* the rest of this tensor says the same */
		}
		d->bytes += len;
		sf_progress_add(d->progress, len);
	}
	d->tensors++;
	return 0;
}

/* One record's bytes against the directory's CRC. Writers may leave it 0 (torch's
 * set_crc32_options): nothing to check then. */
static int check_record(struct sf_deep *d, uint32_t entry, struct sf_source_ahead *src,
                        uint64_t base, const char *where, const struct sf_zip_record *rec,
                        uint8_t *buf, struct sf_error *err)
{
	uint8_t header[30];
	uint64_t data;
	uint32_t crc = 0;
	int r = sf_source_ahead_read(src, base + rec->header_off, header, sizeof(header),
	                             SF_FETCH_HEADER, err);

	if (r >= 0)
		r = sf_zip_local_data(header, rec->header_off, &data, err);
	for (uint64_t off = 0; r >= 0 && off < rec->comp_size; off += SLICE) {
		uint64_t len = SF_MIN(rec->comp_size - off, (uint64_t)SLICE);
		r = sf_source_ahead_read(src, base + data + off, buf, len, SF_FETCH_TENSOR, err);
		if (r >= 0)
			crc = sf_crc32(crc, buf, len);
	}
	if (r >= 0 && rec->method == 0 && rec->crc) {
		d->checked_crcs++;
		if (crc != rec->crc) {
			char text[512];
			snprintf(text, sizeof(text),
			         "%s: record %.*s has CRC %08" PRIx32
			         ", the directory says %08" PRIx32,
			         where, (int)SF_MIN(rec->name_len, (size_t)100), rec->name, crc,
			         rec->crc);
			d->defect(d->arg, entry, "crc", text);
		}
	}
	return r;
}

/* sf_torch_input's read */
static int read_archive(void *arg, const struct sf_torch_range *range, size_t n, uint8_t *buf,
                        struct sf_error *err)
{
	struct sf_source_ahead *src = arg;
	int r = 0;

	for (size_t i = 0; i < n && r >= 0; buf += range[i++].len)
		if (range[i].len)
			r = sf_source_ahead_read(src, src->begin + range[i].off, buf, range[i].len,
			                         SF_FETCH_HEADER, err);
	return r;
}

static int check_archive(struct sf_deep *d, uint32_t entry, struct sf_source *src, uint64_t off,
                         const char *where, uint64_t len, uint8_t *buf, struct sf_error *err)
{
	struct sf_source_ahead from = { .src = src, .begin = off, .end = off + len };
	const struct sf_torch_input in = { len, NULL, read_archive, &from };
	struct sf_arena arena = { .limit = DIR_MAX * 2 };
	struct sf_zip_dir dir = { 0 };
	int r = sf_torch_zip_dir(&in, DIR_MAX, &arena, &dir, err);

	for (size_t i = 0; r >= 0 && i < dir.n; i++)
		r = check_record(d, entry, &from, off, where, &dir.at[i], buf, err);
	sf_arena_release(&arena);
	sf_source_ahead_release(&from);
	return r < 0 ? sf_fail_ctx(err, r, "%s", where) : 0;
}

/* The item's own checksums. Items of the other forms have none. */
static void check_item(struct sf_deep *d, uint32_t entry, uint32_t place, uint64_t off,
                       uint64_t len, uint8_t *buf)
{
	const struct sf_ckpt *k = d->s->ckpt;
	char name[SF_PLACE_NAME], where[SF_PLACE_NAME + 32];
	struct sf_error err = SF_ERROR_INIT;
	struct sf_where at;
	struct sf_source *src;

	/* No bytes: an empty tensor of the SAFETENSORS mode, which nothing beside it in its file
	 * gives away, or an empty io.BytesIO. */
	if (place == SF_NONE || len == 0 || k->place[place].form != SF_ITEM_TORCH ||
	    k->place[place].codec != SF_CODEC_NONE || k->place[place].unreadable)
		return;
	if (sf_place_file(k, place)->missing || sf_place_find(k, place, off, len, &at, NULL) < 0)
		return; /* among the warnings already */
	if (at.stream)  /* it was read; nothing of it lies in the file as it is */
		return;
	snprintf(where, sizeof(where), "%s at %" PRIu64, sf_place_name(k, place, name), off);
	int r = sf_file_open(d->s->store, sf_place_file(k, place), &src, &err);
	if (r >= 0) {
		r = check_archive(d, entry, src, at.off, where, len, buf, &err);
		sf_source_unref(src);
	}
	if (r < 0)
		defect(d, entry, r, &err);
}

static int count_object(void *arg, uint32_t object, struct sf_object_value *v, struct sf_error *err)
{
	(void)object, (void)v, (void)err;
	((struct sf_deep *)arg)->objects++;
	return 0;
}

int sf_verify_deep(struct sf_deep *d, struct sf_error *err)
{
	const struct sf_catalog *c = d->s->catalog;
	const struct sf_ckpt *k = d->s->ckpt;
	SF_FREE uint8_t *buf = malloc(SLICE);

	if (!buf)
		return sf_fail(err, -ENOMEM, "a buffer of %d bytes", SLICE);
	sf_progress_start(d->progress);
	for (uint32_t i = d->part ? d->first : 0; i < (d->part ? d->end : c->n); i++) {
		const struct sf_entry *e = &c->entry[i];
		struct sf_error why = SF_ERROR_INIT;
		if (e->tensor != SF_NONE) {
			const struct sf_tensor *t = sf_tensor_whole(k, &k->tensor[e->tensor]);
			if ((t->flags & (SF_TENSOR_DAMAGED | SF_TENSOR_HOLE)) ||
			    read_tensor(d, i, buf))
				continue;
			for (uint32_t n = 0; n < t->nchunks; n++)
				check_item(d, i, t->place[n], t->off[n], t->len[n], buf);
		} else {
			const struct sf_object *o = &k->object[e->object];
			struct sf_item_check item;
			if (!sf_check_item(k, o->place, o->off, o->len, 0, &item))
				continue; /* told already */
			int r = o->place == SF_NONE ? 0
			                            : sf_objects_load(d->s->reader, &e->object, 1,
			                                              count_object, d, &why);
			if (r < 0)
				defect(d, i, r, &why);
			else
				check_item(d, i, o->place, o->off, o->len, buf);
		}
	}
	return 0;
}
