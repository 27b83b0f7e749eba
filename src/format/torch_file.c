#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "format/torch_file.h"
#include "parse/zip_read.h"
#include "store/source.h"

/* An archive: bytes [off, off + len) of a source. */
struct range {
	struct sf_source *src;
	uint64_t off, len;
};

static int read_at(const struct range *a, uint64_t off, void *buf, uint64_t len,
                   struct sf_error *err)
{
	return len ? sf_source_read(a->src, a->off + off, buf, len, SF_FETCH_METADATA, err) : 0;
}

/* @len bytes at @off, malloc'ed. */
static int get(const struct range *a, uint64_t off, uint64_t len, uint64_t limit, uint8_t **ret,
               struct sf_error *err)
{
	SF_FREE uint8_t *at = NULL;
	int r;

	if (len > limit)
		return sf_fail(err, -E2BIG, "a part of %" PRIu64 " bytes, %" PRIu64 " are read",
		               len, limit);
	at = malloc(len ? len : 1);
	if (!at)
		return sf_fail(err, -ENOMEM, "no memory for %" PRIu64 " bytes", len);
	r = read_at(a, off, at, len, err);
	if (r >= 0)
		*ret = SF_STEAL(at);
	return r;
}

static int read_directory(const struct range *a, uint64_t limit, struct sf_arena *arena,
                          struct sf_zip_dir *ret, struct sf_error *err)
{
	SF_FREE uint8_t *tail = NULL, *dir = NULL;
	uint64_t n = SF_MIN(a->len, (uint64_t)SF_ZIP_TAIL);
	struct sf_zip_end end;
	uint8_t magic[4] = { 0 };
	int r;

	if (a->len >= sizeof(magic)) {
		r = read_at(a, 0, magic, sizeof(magic), err);
		if (r < 0)
			return r;
	}
	if (memcmp(magic, "PK\3\4", sizeof(magic)) != 0)
		return sf_fail(err, -ENOTSUP, "not a zip archive as torch.save writes it");
	r = get(a, a->len - n, n, SF_ZIP_TAIL, &tail, err);
	if (r >= 0)
		r = sf_zip_find_end(tail, (size_t)n, a->len, &end, err);
	if (r < 0)
		return r;
	if (end.dir_off > a->len || end.dir_len > a->len - end.dir_off)
		return sf_fail(err, -EBADMSG,
		               "a directory of %" PRIu64 " bytes at %" PRIu64 " of %" PRIu64,
		               end.dir_len, end.dir_off, a->len);
	r = get(a, end.dir_off, end.dir_len, limit, &dir, err);
	return r < 0 ? r : sf_zip_parse_dir(dir, &end, a->len, arena, ret, err);
}

static int read_value(const struct range *a, uint64_t limit, struct sf_arena *arena,
                      struct sf_pv **ret, struct sf_error *err)
{
	const struct sf_pickle_limits limits = { .memory = (size_t)limit };
	SF_CLEANUP(sf_arena_release) struct sf_arena names = { .limit = limit };
	const struct sf_zip_record *rec;
	SF_FREE uint8_t *pkl = NULL;
	struct sf_zip_dir zip;
	uint8_t local[30];
	uint64_t data;
	int r = read_directory(a, limit, &names, &zip, err);

	if (r < 0)
		return r;
	rec = sf_zip_find(&zip, "data.pkl");
	if (!rec || rec->method != 0)
		return sf_fail(err, -ENOTSUP, "%s",
		               rec ? "its data.pkl is compressed" : "no data.pkl");
	if (rec->header_off > a->len || a->len - rec->header_off < sizeof(local))
		return sf_fail(err, -EBADMSG, "data.pkl at %" PRIu64 " of %" PRIu64,
		               rec->header_off, a->len);
	r = read_at(a, rec->header_off, local, sizeof(local), err);
	if (r >= 0)
		r = sf_zip_local_data(local, rec->header_off, &data, err);
	if (r < 0)
		return r;
	if (data > a->len || rec->size > a->len - data)
		return sf_fail(err, -EBADMSG,
		               "data.pkl: %" PRIu64 " bytes at %" PRIu64 " of %" PRIu64, rec->size,
		               data, a->len);
	r = get(a, data, rec->size, limit, &pkl, err);
	return r < 0 ? r : sf_pickle_parse(pkl, (size_t)rec->size, &limits, arena, ret, NULL, err);
}

int sf_torch_value(struct sf_source *src, uint64_t off, uint64_t len, uint64_t limit,
                   struct sf_arena *arena, struct sf_pv **ret, struct sf_error *err)
{
	const struct range a = { src, off, len };

	if (off > src->size || len > src->size - off)
		return sf_fail(err, -EBADMSG, "'%s': %" PRIu64 " bytes at %" PRIu64 " of %" PRIu64,
		               src->name, len, off, src->size);
	return read_value(&a, limit, arena, ret, err);
}

int sf_torch_file_value(struct sf_store *store, const struct sf_objinfo *want, uint64_t limit,
                        struct sf_arena *arena, struct sf_pv **ret, struct sf_error *err)
{
	SF_CLEANUP(sf_source_unrefp) struct sf_source *src = NULL;
	int r = store->ops->open(store, want->name, want, &src, err);

	if (r < 0)
		return r;
	r = sf_torch_value(src, 0, src->size, limit, arena, ret, err);
	return r < 0 ? sf_fail_ctx(err, r, "'%s'", want->name) : 0;
}
