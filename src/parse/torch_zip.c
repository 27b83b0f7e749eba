#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "parse/torch_archive_priv.h"
#include "parse/zip_write.h" /* sf_crc32 */

#define LOCAL_LEN 30
#define HEADERS_AT_ONCE 1024

/*
 * A zip is opened in rounds, so that who must not wait can do it as well: each says which ranges
 * the next one looks at. Its end, its directory, local headers, byteorder, data.pkl.
 */
struct record { /* whose data is wanted, and where it begins */
	const struct sf_zip_record *z;
	uint64_t off;
};

struct sf_torch_zip {
	uint64_t len; /* of the container */
	bool dir_only;
	/* the round: 1 it wants more, 0 the archive is open */
	int (*take)(struct sf_torch_zip *z, const uint8_t *bytes);
	const char *what; /* it wants, for messages */
	struct sf_torch_range *want;
	struct sf_torch_range one; /* what @want is, where that is a single range */
	size_t nwant;
	struct sf_zip_end end;
	struct sf_zip_dir dir;
	struct sf_arena *dir_arena;
	struct record *rec; /* data.pkl, byteorder if there is one, then the storages */
	size_t nrec, nfixed, at;
	struct sf_torch_open_op *o;
	struct sf_torch_open_op own; /* of who does not wait: what o points to */
};

/* 1 for the round: [off, off + len) comes next, one that was checked. */
static int want_one(struct sf_torch_zip *z, uint64_t off, uint64_t len, const char *what,
                    int (*take)(struct sf_torch_zip *z, const uint8_t *bytes))
{
	z->one = (struct sf_torch_range){ off, len };
	z->want = &z->one;
	z->nwant = len > 0;
	z->what = what;
	z->take = take;
	return 1;
}

static int take_header_batch(struct sf_torch_zip *z, const uint8_t *bytes);

static int want_header_batch(struct sf_torch_zip *z)
{
	size_t n = SF_MIN(z->nrec - z->at, (size_t)HEADERS_AT_ONCE);

	for (size_t i = 0; i < n; i++) {
		const struct sf_zip_record *r = z->rec[z->at + i].z;
		if (r->header_off > z->len || z->len - r->header_off < LOCAL_LEN)
			return sf_fail(z->o->err, -EBADMSG,
			               "record '%.200s' at %" PRIu64 " of %" PRIu64, r->name,
			               r->header_off, z->len);
		z->want[i] = (struct sf_torch_range){ r->header_off, LOCAL_LEN };
	}
	z->nwant = n;
	z->what = "local headers";
	z->take = take_header_batch;
	return 1;
}

static int check(const struct sf_torch_zip *z, struct record *rec, const uint8_t *header)
{
	const struct sf_zip_record *r = rec->z;
	int e = sf_zip_local_data(header, r->header_off, &rec->off, z->o->err);

	if (e < 0)
		return sf_fail_ctx(z->o->err, e, "record '%.200s'", r->name);
	if (r->method != 0)
		return sf_fail(z->o->err, -ENOTSUP, "record '%.200s' is compressed (method %u)",
		               r->name, (unsigned)r->method);
	if (rec->off > z->len || r->size > z->len - rec->off)
		return sf_fail(z->o->err, -EBADMSG,
		               "record '%.200s': bytes %" PRIu64 " + %" PRIu64 " of %" PRIu64,
		               r->name, rec->off, r->size, z->len);
	return 0;
}

static bool is_storage(const struct sf_zip_dir *dir, const struct sf_zip_record *z)
{
	return z->name_len > dir->prefix_len + 6 &&
	       memcmp(z->name, dir->prefix, dir->prefix_len) == 0 &&
	       memcmp(z->name + dir->prefix_len, "/data/", 6) == 0 &&
	       strlen(z->name) == z->name_len;
}

static int keep_storages(struct sf_torch_zip *z)
{
	const struct record *rec = z->rec + z->nfixed;
	struct sf_torch_open_op *o = z->o;
	struct sf_torch_records s = { 0 };
	size_t skip = z->dir.prefix_len + strlen("/data/"), n = z->nrec - z->nfixed;
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

static int take_value(struct sf_torch_zip *z, const uint8_t *bytes)
{
	const struct sf_zip_record *r = z->rec[0].z;
	int e;

	/* torch.load does not look, but what it trips over here would break the whole file around
	 * it. 0: not computed. */
	if (r->crc != 0 && sf_crc32(0, bytes, r->size) != r->crc)
		return sf_fail(z->o->err, -EBADMSG,
		               "data.pkl: CRC-32 %08" PRIx32 ", the directory says %08" PRIx32,
		               sf_crc32(0, bytes, r->size), r->crc);
	e = sf_torch_parse(z->o, bytes, r->size, &z->o->a.root);
	return e < 0 ? e : keep_storages(z);
}

static int want_value(struct sf_torch_zip *z)
{
	const struct record *pkl = &z->rec[0];
	int r = sf_torch_fits(z->len, pkl->off, pkl->z->size, z->o->opt.part_max, "data.pkl",
	                      z->o->err);

	return r < 0 ? r : want_one(z, pkl->off, pkl->z->size, "data.pkl", take_value);
}

static int take_byteorder(struct sf_torch_zip *z, const uint8_t *bytes)
{
	z->o->a.big_endian = memcmp(bytes, "big", 3) == 0;
	return want_value(z);
}

static int take_header_batch(struct sf_torch_zip *z, const uint8_t *bytes)
{
	for (size_t i = 0; i < z->nwant; i++) {
		int r = check(z, &z->rec[z->at + i], bytes + i * LOCAL_LEN);
		if (r < 0)
			return r;
	}
	z->at += z->nwant;
	if (z->at < z->nrec)
		return want_header_batch(z);
	if (z->nfixed > 1 && z->rec[1].z->size == 3)
		return want_one(z, z->rec[1].off, 3, "byteorder", take_byteorder);
	return want_value(z);
}

static int take_dir(struct sf_torch_zip *z, const uint8_t *bytes)
{
	struct sf_torch_open_op *o = z->o;
	const struct sf_zip_record *pkl, *order;
	int r = sf_zip_parse_dir(bytes, &z->end, z->len, z->dir_arena, &z->dir, o->err);

	if (r < 0 || z->dir_only)
		return r;
	z->rec = sf_arena_calloc(&o->scratch, z->dir.n + 2, sizeof(*z->rec));
	if (!z->rec)
		return sf_fail(o->err, -ENOMEM, "no memory for %zu records", z->dir.n);
	pkl = sf_zip_find(&z->dir, "data.pkl");
	order = o->opt.value_only ? NULL : sf_zip_find(&z->dir, "byteorder");
	if (sf_zip_find(&z->dir, "constants.pkl")) /* what torch.load tells it by, too */
		return sf_fail(o->err, -ENOTSUP,
		               "a TorchScript archive (it has constants.pkl), a program and no "
		               "state dict: torch.save its state_dict()");
	if (!pkl)
		return sf_fail(o->err, -EBADMSG, "the archive has no data.pkl");
	if (pkl->method == 0 && pkl->size > o->opt.part_max)
		return sf_fail(o->err, -E2BIG,
		               "data.pkl has %" PRIu64 " bytes, the limit is %" PRIu64, pkl->size,
		               o->opt.part_max);
	z->rec[z->nrec++].z = pkl;
	if (order && order->method == 0)
		z->rec[z->nrec++].z = order;
	z->nfixed = z->nrec;
	for (size_t i = 0; i < z->dir.n && !o->opt.value_only; i++)
		if (is_storage(&z->dir, &z->dir.at[i]))
			z->rec[z->nrec++].z = &z->dir.at[i];
	z->want = sf_arena_calloc(&o->scratch, SF_MIN(z->nrec, (size_t)HEADERS_AT_ONCE),
	                          sizeof(*z->want));
	if (!z->want)
		return sf_fail(o->err, -ENOMEM, "no memory for %zu records", z->nrec);
	return want_header_batch(z);
}

static int take_end(struct sf_torch_zip *z, const uint8_t *bytes)
{
	int r = sf_zip_find_end(bytes, (size_t)z->one.len, z->len, &z->end, z->o->err);

	if (r >= 0)
		r = sf_torch_fits(z->len, z->end.dir_off, z->end.dir_len, z->o->opt.part_max,
		                  "its directory", z->o->err);
	return r < 0 ? r : want_one(z, z->end.dir_off, z->end.dir_len, "its directory", take_dir);
}

static void begin(struct sf_torch_zip *z, uint64_t len, struct sf_torch_open_op *o)
{
	uint64_t tail = SF_MIN(len, (uint64_t)SF_ZIP_TAIL);

	*z = (struct sf_torch_zip){ .len = len, .dir_arena = &o->scratch, .o = o };
	want_one(z, len - tail, tail, "its end", take_end);
}

/* ---- for who may wait ---- */

static int fetch(const struct sf_torch_zip *z, const struct sf_torch_input *in,
                 struct sf_arena *arena, const uint8_t **ret)
{
	uint64_t bytes = 0;
	uint8_t *own;

	if (in->at && z->nwant <= 1) {
		*ret = in->at + z->want->off;
		return 0;
	}
	for (size_t i = 0; i < z->nwant; i++)
		bytes += z->want[i].len;
	*ret = own = sf_arena_alloc(arena, bytes);
	if (!own)
		return sf_fail(z->o->err, -ENOMEM, "%s: no memory for %" PRIu64 " bytes", z->what,
		               bytes);
	if (!in->at)
		return z->nwant ? in->read(in->arg, z->want, z->nwant, own, z->o->err) : 0;
	for (size_t i = 0; i < z->nwant; own += z->want[i++].len)
		memcpy(own, in->at + z->want[i].off, z->want[i].len);
	return 0;
}

static int run(struct sf_torch_zip *z, const struct sf_torch_input *in)
{
	int r;

	do {
		struct sf_arena got = { .charge = z->o->scratch.charge };
		const uint8_t *bytes;
		r = fetch(z, in, &got, &bytes);
		if (r >= 0)
			r = z->take(z, bytes);
		sf_arena_release(&got);
	} while (r > 0);
	return r;
}

int sf_torch_open_zip(struct sf_torch_open_op *o)
{
	struct sf_torch_zip z;

	begin(&z, o->in->len, o);
	return run(&z, o->in);
}

int sf_torch_zip_dir(const struct sf_torch_input *in, uint64_t part_max, struct sf_arena *arena,
                     struct sf_zip_dir *ret, struct sf_error *err)
{
	struct sf_torch_open_op o = { .opt = { .part_max = part_max },
		                      .scratch = { .charge = arena->charge },
		                      .err = err };
	struct sf_torch_zip z;
	int r;

	begin(&z, in->len, &o);
	z.dir_only = true;
	z.dir_arena = arena;
	r = run(&z, in);
	if (r >= 0)
		*ret = z.dir;
	return r;
}

/* ---- for who may not ---- */

int sf_torch_zip_begin(uint64_t len, const uint8_t *head, size_t head_len,
                       const struct sf_torch_options *opt, struct sf_arena *arena,
                       struct sf_torch_zip **ret, struct sf_error *err)
{
	struct sf_torch_zip *z;

	if (sf_torch_container(head, head_len) != SF_TORCH_ZIP)
		return sf_fail(err, -ENOTSUP, SF_TORCH_NOT_READ);
	z = malloc(sizeof(*z));
	if (!z)
		return sf_fail(err, -ENOMEM, "no memory for an archive");
	begin(z, len, &z->own);
	z->own = (struct sf_torch_open_op){
		.opt = *opt,
		.arena = arena,
		.scratch = { .charge = arena->charge },
		.a.container = SF_TORCH_ZIP,
	};
	if (!z->own.opt.part_max)
		z->own.opt.part_max = SF_TORCH_PART_MAX;
	*ret = z;
	return 0;
}

const struct sf_torch_range *sf_torch_zip_wants(const struct sf_torch_zip *z, size_t *ret_n)
{
	*ret_n = z->nwant;
	return z->want;
}

int sf_torch_zip_take(struct sf_torch_zip *z, const uint8_t *bytes, struct sf_torch_archive *ret,
                      struct sf_error *err)
{
	int r;

	z->own.err = err;
	r = z->take(z, bytes);
	if (r == 0)
		*ret = z->own.a;
	return r;
}

uint64_t sf_torch_zip_holds(const struct sf_torch_zip *z)
{
	return z->own.scratch.used + z->own.arena->used;
}

void sf_torch_zip_free(struct sf_torch_zip *z)
{
	if (z)
		sf_arena_release(&z->own.scratch);
	free(z);
}
