#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "parse/zip_read.h"

#define END_LEN 22
#define LOCATOR_LEN 20
#define END64_LEN 56
#define CENTRAL_LEN 46
#define SIG_LOCAL 0x04034b50u
#define SIG_CENTRAL 0x02014b50u
#define SIG_END 0x06054b50u
#define SIG_END64 0x06064b50u
#define SIG_LOCATOR 0x07064b50u

/* The zip64 end, when a locator in front of the end names one. @end_off: the end's offset in the
 * archive. */
static int zip64_end(const uint8_t *tail, uint64_t tail_off, uint64_t end_off, struct sf_zip_end *e,
                     uint64_t *limit, struct sf_error *err)
{
	const uint8_t *p;
	uint64_t off;

	if (end_off - tail_off < LOCATOR_LEN ||
	    sf_le32(tail + (end_off - tail_off) - LOCATOR_LEN) != SIG_LOCATOR)
		return 0;
	off = sf_le64(tail + (end_off - tail_off) - LOCATOR_LEN + 8);
	/* torch and zipfile put it right in front of the locator; one farther away would cost
	 * another read */
	if (off < tail_off || off > end_off - LOCATOR_LEN ||
	    end_off - LOCATOR_LEN - off < END64_LEN)
		return sf_fail(err, -EBADMSG,
		               "zip: zip64 end at %" PRIu64
		               ", expected in front of the locator at %" PRIu64,
		               off, end_off - LOCATOR_LEN);
	p = tail + (off - tail_off);
	if (sf_le32(p) != SIG_END64)
		return sf_fail(err, -EBADMSG,
		               "zip: offset %" PRIu64 ": 0x%08x instead of a zip64 end", off,
		               sf_le32(p));
	e->entries = sf_le64(p + 32);
	e->dir_len = sf_le64(p + 40);
	e->dir_off = sf_le64(p + 48);
	*limit = off;
	return 0;
}

int sf_zip_find_end(const uint8_t *tail, size_t tail_len, uint64_t archive_len,
                    struct sf_zip_end *ret, struct sf_error *err)
{
	struct sf_zip_end e;
	uint64_t tail_off, end_off, limit, dir_end;
	size_t at;
	int r;

	if (tail_len > archive_len)
		return sf_fail(err, -EINVAL, "zip: a tail of %zu bytes of an archive of %" PRIu64,
		               tail_len, archive_len);
	if (tail_len < END_LEN)
		return sf_fail(err, -EBADMSG, "zip: %zu bytes are not an archive", tail_len);
	/* the last signature wins, as in torch's reader; a comment that holds one is not worth a
	 * guess */
	for (at = tail_len - END_LEN; sf_le32(tail + at) != SIG_END; at--)
		if (!at || tail_len - at >= 65535 + END_LEN)
			return sf_fail(err, -EBADMSG,
			               "zip: no end of central directory in the last %zu bytes",
			               tail_len);
	tail_off = archive_len - tail_len;
	end_off = limit = tail_off + at;
	if (sf_le16(tail + at + 4) || sf_le16(tail + at + 6))
		return sf_fail(err, -ENOTSUP, "zip: archive in several parts");
	e.entries = sf_le16(tail + at + 10);
	e.dir_len = sf_le32(tail + at + 12);
	e.dir_off = sf_le32(tail + at + 16);
	r = zip64_end(tail, tail_off, end_off, &e, &limit, err);
	if (r < 0)
		return r;
	if (!sf_add(e.dir_off, e.dir_len, &dir_end) || dir_end > limit)
		return sf_fail(err, -EBADMSG,
		               "zip: directory of %" PRIu64 " bytes at %" PRIu64
		               ", but it must end by %" PRIu64,
		               e.dir_len, e.dir_off, limit);
	if (e.entries > e.dir_len / CENTRAL_LEN)
		return sf_fail(err, -EBADMSG,
		               "zip: %" PRIu64 " entries in a directory of %" PRIu64 " bytes",
		               e.entries, e.dir_len);
	*ret = e;
	return 0;
}

/* Sizes and offset that did not fit into 32 bits: 8 bytes each, only those, in this order. */
static int zip64_extra(const uint8_t *x, size_t len, struct sf_zip_record *rec)
{
	uint64_t *const field[] = { &rec->size, &rec->comp_size, &rec->header_off };

	if (rec->size != UINT32_MAX && rec->comp_size != UINT32_MAX &&
	    rec->header_off != UINT32_MAX)
		return 0;
	while (len >= 4) {
		size_t id = sf_le16(x), n = sf_le16(x + 2);
		x += 4;
		len -= 4;
		if (n > len)
			return -1;
		if (id != 1) {
			x += n;
			len -= n;
			continue;
		}
		for (size_t i = 0; i < SF_ARRAY_LEN(field); i++) {
			if (*field[i] != UINT32_MAX)
				continue;
			if (n < 8)
				return -1;
			*field[i] = sf_le64(x);
			x += 8;
			n -= 8;
		}
		return 0;
	}
	return 0; /* without the extra, 2^32 - 1 is a size like others */
}

static int compare(const char *a, size_t alen, const char *b, size_t blen)
{
	int c = memcmp(a, b, SF_MIN(alen, blen));

	return c ? c : alen < blen ? -1 : alen > blen;
}

static int by_name(const void *a, const void *b, void *records)
{
	uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
	const struct sf_zip_record *x = (const struct sf_zip_record *)records + i,
				   *y = (const struct sf_zip_record *)records + j;
	int c = compare(x->name, x->name_len, y->name, y->name_len);

	return c ? c : i < j ? -1 : i > j;
}

int sf_zip_parse_dir(const uint8_t *dir, const struct sf_zip_end *end, uint64_t archive_len,
                     struct sf_arena *arena, struct sf_zip_dir *ret, struct sf_error *err)
{
	struct sf_zip_dir d = { 0 };
	uint64_t at = 0;

	if (end->entries > end->dir_len / CENTRAL_LEN || end->entries > SIZE_MAX / sizeof(*d.at))
		return sf_fail(err, -EBADMSG,
		               "zip: %" PRIu64 " entries in a directory of %" PRIu64 " bytes",
		               end->entries, end->dir_len);
	if (end->entries > UINT32_MAX)
		return sf_fail(err, -E2BIG, "zip: %" PRIu64 " entries, limit %u", end->entries,
		               UINT32_MAX);
	d.at = sf_arena_calloc(arena, (size_t)end->entries, sizeof(*d.at));
	if (!d.at)
		return sf_fail(err, -ENOMEM, "zip: directory of %" PRIu64 " entries", end->entries);
	for (; d.n < end->entries; d.n++) {
		struct sf_zip_record *rec = &d.at[d.n];
		const uint8_t *p = dir + at;
		uint64_t left = end->dir_len - at, last;
		size_t nextra, ncomment;
		if (left < CENTRAL_LEN || sf_le32(p) != SIG_CENTRAL)
			return sf_fail(err, -EBADMSG,
			               "zip: directory entry %zu of %" PRIu64
			               " is truncated or malformed, offset %" PRIu64,
			               d.n, end->entries, end->dir_off + at);
		rec->method = sf_le16(p + 10);
		rec->crc = sf_le32(p + 16);
		rec->comp_size = sf_le32(p + 20);
		rec->size = sf_le32(p + 24);
		rec->name_len = sf_le16(p + 28);
		nextra = sf_le16(p + 30);
		ncomment = sf_le16(p + 32);
		rec->header_off = sf_le32(p + 42);
		if (left - CENTRAL_LEN < rec->name_len + nextra + ncomment)
			return sf_fail(err, -EBADMSG,
			               "zip: directory entry %zu needs %zu bytes, %" PRIu64 " left",
			               d.n, rec->name_len + nextra + ncomment, left - CENTRAL_LEN);
		p += CENTRAL_LEN;
		rec->name = sf_arena_strdup(arena, (const char *)p, rec->name_len);
		if (!rec->name)
			return sf_fail(err, -ENOMEM, "zip: name of directory entry %zu", d.n);
		if (sf_le16(dir + at + 8) & 1)
			return sf_fail(err, -ENOTSUP, "zip: record '%s' is encrypted", rec->name);
		if (zip64_extra(p + rec->name_len, nextra, rec) < 0)
			return sf_fail(err, -EBADMSG, "zip: record '%s': zip64 field is truncated",
			               rec->name);
		if (rec->method == 0 && rec->comp_size != rec->size)
			return sf_fail(err, -EBADMSG,
			               "zip: record '%s' is stored, but its sizes are %" PRIu64
			               " and %" PRIu64,
			               rec->name, rec->comp_size, rec->size);
		if (!sf_add(rec->header_off, rec->comp_size, &last) || !sf_add(last, 30, &last) ||
		    last > archive_len)
			return sf_fail(err, -EBADMSG,
			               "zip: record '%s' of %" PRIu64 " bytes at %" PRIu64
			               " passes the archive's end %" PRIu64,
			               rec->name, rec->comp_size, rec->header_off, archive_len);
		at += CENTRAL_LEN + rec->name_len + nextra + ncomment;
	}
	d.by_name = sf_arena_calloc(arena, d.n, sizeof(*d.by_name));
	if (!d.by_name)
		return sf_fail(err, -ENOMEM, "zip: directory of %zu entries", d.n);
	for (size_t i = 0; i < d.n; i++)
		d.by_name[i] = (uint32_t)i;
	qsort_r(d.by_name, d.n, sizeof(*d.by_name), by_name, d.at);
	if (d.n) {
		const char *slash = memchr(d.at[0].name, '/', d.at[0].name_len);
		d.prefix = d.at[0].name;
		d.prefix_len = slash ? (size_t)(slash - d.at[0].name) : 0;
	}
	*ret = d;
	return 0;
}

int sf_zip_local_data(const uint8_t header[30], uint64_t header_off, uint64_t *ret_data_off,
                      struct sf_error *err)
{
	uint64_t off;

	if (sf_le32(header) != SIG_LOCAL)
		return sf_fail(err, -EBADMSG,
		               "zip: offset %" PRIu64 ": 0x%08x instead of a local header",
		               header_off, sf_le32(header));
	if (!sf_add(header_off, 30u + sf_le16(header + 26) + sf_le16(header + 28), &off))
		return sf_fail(err, -EBADMSG, "zip: local header at %" PRIu64, header_off);
	*ret_data_off = off;
	return 0;
}

/* The record's name against the prefix with its slash and @name. */
static int compare_record(const struct sf_zip_dir *dir, const struct sf_zip_record *r,
                          const char *name)
{
	size_t skip = dir->prefix_len ? dir->prefix_len + 1 : 0;
	int c = compare(r->name, SF_MIN(r->name_len, skip), dir->prefix, skip);

	return c ? c : compare(r->name + skip, r->name_len - skip, name, strlen(name));
}

const struct sf_zip_record *sf_zip_find(const struct sf_zip_dir *dir, const char *name)
{
	size_t lo = 0, hi = dir->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (compare_record(dir, &dir->at[dir->by_name[mid]], name) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < dir->n && compare_record(dir, &dir->at[dir->by_name[lo]], name) == 0
	               ? &dir->at[dir->by_name[lo]]
	               : NULL;
}
