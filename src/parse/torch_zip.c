#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "parse/torch_archive_priv.h"
#include "parse/zip_write.h" /* sf_crc32 */

#define LOCAL_LEN 30
#define HEADERS_AT_ONCE 1024

int sf_torch_zip_dir(const struct sf_torch_input *in, uint64_t part_max, struct sf_arena *arena,
                     struct sf_zip_dir *ret, struct sf_error *err)
{
	struct sf_arena scratch = { .charge = arena->charge };
	uint64_t tail = SF_MIN(in->len, (uint64_t)SF_ZIP_TAIL);
	struct sf_zip_end end;
	const uint8_t *p;
	int r = sf_torch_get(in, in->len - tail, tail, tail, "its end", &scratch, &p, err);

	if (r >= 0)
		r = sf_zip_find_end(p, tail, in->len, &end, err);
	if (r >= 0)
		r = sf_torch_get(in, end.dir_off, end.dir_len, part_max, "its directory", &scratch,
		                 &p, err);
	if (r >= 0)
		r = sf_zip_parse_dir(p, &end, in->len, arena, ret, err);
	sf_arena_release(&scratch);
	return r;
}

/* Records whose data is wanted, and where it begins. */
struct record {
	const struct sf_zip_record *z;
	uint64_t off;
};

static int check(const struct sf_torch_input *in, struct record *rec, const uint8_t *header,
                 struct sf_error *err)
{
	const struct sf_zip_record *z = rec->z;
	int r = sf_zip_local_data(header, z->header_off, &rec->off, err);

	if (r < 0)
		return sf_fail_ctx(err, r, "record '%.200s'", z->name);
	if (z->method != 0)
		return sf_fail(err, -ENOTSUP, "record '%.200s' is compressed (method %u)", z->name,
		               (unsigned)z->method);
	if (rec->off > in->len || z->size > in->len - rec->off)
		return sf_fail(err, -EBADMSG,
		               "record '%.200s': bytes %" PRIu64 " + %" PRIu64 " of %" PRIu64,
		               z->name, rec->off, z->size, in->len);
	return 0;
}

static int find_data(const struct sf_torch_input *in, struct record *rec, size_t n,
                     struct sf_error *err)
{
	struct sf_torch_range range[HEADERS_AT_ONCE];
	uint8_t buf[HEADERS_AT_ONCE * LOCAL_LEN];
	int r = 0;

	for (size_t i = 0, k; i < n && r >= 0; i += k) {
		k = SF_MIN(n - i, (size_t)HEADERS_AT_ONCE);
		for (size_t j = 0; j < k; j++) {
			const struct sf_zip_record *z = rec[i + j].z;
			if (z->header_off > in->len || in->len - z->header_off < LOCAL_LEN)
				return sf_fail(err, -EBADMSG,
				               "record '%.200s' at %" PRIu64 " of %" PRIu64,
				               z->name, z->header_off, in->len);
			range[j] = (struct sf_torch_range){ z->header_off, LOCAL_LEN };
		}
		if (!in->at)
			r = in->read(in->arg, range, k, buf, err);
		for (size_t j = 0; j < k && r >= 0; j++)
			r = check(in, &rec[i + j],
			          in->at ? in->at + range[j].off : buf + j * LOCAL_LEN, err);
	}
	return r;
}

static bool is_storage(const struct sf_zip_dir *dir, const struct sf_zip_record *z)
{
	return z->name_len > dir->prefix_len + 6 &&
	       memcmp(z->name, dir->prefix, dir->prefix_len) == 0 &&
	       memcmp(z->name + dir->prefix_len, "/data/", 6) == 0 &&
	       strlen(z->name) == z->name_len;
}

static int take_value(struct sf_torch_open_op *o, const struct record *pkl)
{
	const struct sf_zip_record *z = pkl->z;
	const uint8_t *p;
	int r = sf_torch_get(o->in, pkl->off, z->size, o->opt.part_max, "data.pkl", &o->scratch, &p,
	                     o->err);

	/* torch.load does not look, but what it trips over here would break the whole file around
	 * it. 0: not computed. */
	if (r >= 0 && z->crc != 0 && sf_crc32(0, p, z->size) != z->crc)
		r = sf_fail(o->err, -EBADMSG,
		            "data.pkl: CRC-32 %08" PRIx32 ", the directory says %08" PRIx32,
		            sf_crc32(0, p, z->size), z->crc);
	return r < 0 ? r : sf_torch_parse(o, p, z->size, &o->a.root);
}

static int take_byteorder(struct sf_torch_open_op *o, const struct record *rec)
{
	const uint8_t *p;
	int r;

	if (rec->z->size != 3)
		return 0;
	r = sf_torch_get(o->in, rec->off, 3, 3, "byteorder", &o->scratch, &p, o->err);
	if (r >= 0)
		o->a.big_endian = memcmp(p, "big", 3) == 0;
	return r;
}

static int take_storages(struct sf_torch_open_op *o, const struct sf_zip_dir *dir,
                         const struct record *rec, size_t n)
{
	struct sf_torch_records s = { 0 };
	size_t skip = dir->prefix_len + strlen("/data/");
	int r = 0;

	for (size_t i = 0; i < n && r >= 0; i++) {
		char *key =
			sf_arena_strdup(o->arena, rec[i].z->name + skip, rec[i].z->name_len - skip);
		if (!key ||
		    sf_torch_records_push(
			    &s, (struct sf_torch_record){ key, rec[i].off, rec[i].z->size }) < 0)
			r = sf_fail(o->err, -ENOMEM, "no memory for %zu storages", n);
	}
	if (r >= 0)
		r = sf_torch_keep_storages(o, &s);
	sf_torch_records_release(&s);
	return r;
}

int sf_torch_open_zip(struct sf_torch_open_op *o)
{
	const struct sf_zip_record *pkl, *order;
	struct sf_zip_dir dir;
	struct record *rec;
	size_t n = 0, fixed;
	int r = sf_torch_zip_dir(o->in, o->opt.part_max, &o->scratch, &dir, o->err);

	if (r < 0)
		return r;
	rec = sf_arena_calloc(&o->scratch, dir.n + 2, sizeof(*rec));
	if (!rec)
		return sf_fail(o->err, -ENOMEM, "no memory for %zu records", dir.n);
	pkl = sf_zip_find(&dir, "data.pkl");
	order = o->opt.value_only ? NULL : sf_zip_find(&dir, "byteorder");
	if (!pkl)
		return sf_fail(o->err, -EBADMSG, "the archive has no data.pkl");
	if (pkl->method == 0 && pkl->size > o->opt.part_max)
		return sf_fail(o->err, -E2BIG,
		               "data.pkl has %" PRIu64 " bytes, the limit is %" PRIu64, pkl->size,
		               o->opt.part_max);
	rec[n++].z = pkl;
	if (order && order->method == 0)
		rec[n++].z = order;
	fixed = n;
	for (size_t i = 0; i < dir.n && !o->opt.value_only; i++)
		if (is_storage(&dir, &dir.at[i]))
			rec[n++].z = &dir.at[i];
	r = find_data(o->in, rec, n, o->err);
	if (r >= 0 && fixed > 1)
		r = take_byteorder(o, &rec[1]);
	if (r >= 0)
		r = take_value(o, &rec[0]);
	return r < 0 ? r : take_storages(o, &dir, rec + fixed, n - fixed);
}
