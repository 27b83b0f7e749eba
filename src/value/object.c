#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "ckpt/ckpt_check.h"
#include "parse/zip_read.h"
#include "parse/zip_write.h" /* sf_crc32 */
#include "value/object.h"

#define ITEM_WHOLE                                                                               \
	(1u << 20) /* items up to this are fetched whole; of others the pickle and the directory \
	            */
#define BATCH_BYTES \
	(32u << 20) /* items that are fetched and held at a time; values are made one by one */
#define BATCH_OBJECTS 4096
#define PART_MAX (UINT64_C(1) << 30) /* data.pkl, directory, value: more is refused */
#define TIMES \
	3 /* what an item of a byte takes, as a first guess: more is taken when it is needed */
#define GUESS_LEAST (UINT64_C(64) << 10)
#define HEADERS_AT_ONCE 1024

/* An item's bytes: in memory, or ranges read through the reader. */
struct item {
	struct sf_reader *r;
	uint32_t object;
	const uint8_t *at; /* NULL: by ranges */
	uint64_t len;
	struct sf_charge *charge;
};

/* Bytes of our own, charged. */
struct own {
	struct sf_charge *charge;
	void *at;
	uint64_t len;
};

static int own_make(struct own *o, struct sf_charge *charge, uint64_t len, struct sf_error *err)
{
	if (!sf_charge_use(charge, len))
		return sf_fail(err, -ENOMEM, "%" PRIu64 " bytes of an object", len);
	*o = (struct own){ charge, malloc(len ? len : 1), len };
	if (!o->at) {
		sf_charge_unuse(charge, len);
		return sf_fail(err, -ENOMEM, "%" PRIu64 " bytes of an object", len);
	}
	return 0;
}

static void own_release(struct own *o)
{
	if (o->at)
		sf_charge_unuse(o->charge, o->len);
	free(o->at);
	*o = (struct own){ 0 };
}

/* What one object's parts may take, of the budget or of our own limit. */
static uint64_t most(struct sf_reader *r)
{
	return SF_MIN(sf_budget_limit(sf_reader_io(r)->budget), PART_MAX);
}

static const struct sf_key *key_of(struct sf_reader *r, uint32_t object)
{
	const struct sf_ckpt *ckpt = sf_reader_ckpt(r);
	return &ckpt->key[ckpt->object[object].key];
}

/* [off, off+len) of the item: borrowed, or read into *ret_own. */
static int item_get(const struct item *it, uint64_t off, uint64_t len, const uint8_t **ret,
                    struct own *ret_own, struct sf_error *err)
{
	int r;

	if (off > it->len || len > it->len - off)
		return sf_fail(err, -EBADMSG,
		               "bytes %" PRIu64 " + %" PRIu64 " of an item of %" PRIu64, off, len,
		               it->len);
	if (it->at) {
		*ret = it->at + off;
		return 0;
	}
	if (len > most(it->r))
		return sf_fail(err, -E2BIG,
		               "a part of %" PRIu64 " bytes; --memory is %" PRIu64
		               ", and the limit of a part %" PRIu64,
		               len, sf_budget_limit(sf_reader_io(it->r)->budget), PART_MAX);
	r = own_make(ret_own, it->charge, len, err);
	if (r >= 0 && len)
		r = sf_read_object_range(it->r, it->object, off, ret_own->at, len, err);
	*ret = ret_own->at;
	return r;
}

/* Local headers of many records in one read: the parts are one small range each. */
struct headers {
	const struct item *it;
	const struct sf_zip_record *const *rec;
	size_t n;
};

static int emit_headers(void *arg, uint64_t off, uint64_t len, struct sf_parts *p,
                        struct sf_error *err)
{
	const struct headers *h = arg;
	uint64_t end = off + len;

	for (uint64_t i = off / 30; i < h->n && i * 30 < end; i++) {
		uint64_t from = SF_MAX(off, i * 30), to = SF_MIN(end, i * 30 + 30);
		int r = sf_parts_object(p, h->it->object, h->rec[i]->header_off + (from - i * 30),
		                        to - from);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Data offsets of @n records into @off. */
static int data_offsets(const struct item *it, const struct sf_zip_record *const *rec, size_t n,
                        uint64_t *off, struct sf_error *err)
{
	uint8_t buf[HEADERS_AT_ONCE * 30];

	for (size_t i = 0; i < n; i++)
		if (rec[i]->header_off > it->len || it->len - rec[i]->header_off < 30)
			return sf_fail(err, -EBADMSG,
			               "record '%s' at %" PRIu64 " of an item of %" PRIu64,
			               rec[i]->name, rec[i]->header_off, it->len);
	for (size_t i = 0; i < n; i += HEADERS_AT_ONCE) {
		size_t k = SF_MIN(n - i, (size_t)HEADERS_AT_ONCE);
		if (!it->at) {
			struct headers h = { it, rec + i, k };
			struct sf_read rd = { .emit = emit_headers,
				              .arg = &h,
				              .inner = true,
				              .len = k * 30,
				              .buf = buf };
			int r = sf_read_wait(it->r, &rd);
			sf_read_release(&rd);
			if (r < 0)
				return sf_fail(err, r, "%s", rd.err.msg);
		}
		for (size_t j = 0; j < k; j++) {
			const struct sf_zip_record *z = rec[i + j];
			const uint8_t *head = it->at ? it->at + z->header_off : buf + j * 30;
			int r = sf_zip_local_data(head, z->header_off, &off[i + j], err);
			if (r < 0)
				return sf_fail_ctx(err, r, "record '%s'", z->name);
			if (z->method != 0)
				return sf_fail(err, -ENOTSUP,
				               "record '%s' is compressed (method %u)", z->name,
				               (unsigned)z->method);
			if (off[i + j] > it->len || z->size > it->len - off[i + j])
				return sf_fail(err, -EBADMSG,
				               "record '%s': bytes %" PRIu64 " + %" PRIu64
				               " of an item of %" PRIu64,
				               z->name, off[i + j], z->size, it->len);
		}
	}
	return 0;
}

static int by_key(const void *a, const void *b)
{
	return strcmp(((const struct sf_object_storage *)a)->key,
	              ((const struct sf_object_storage *)b)->key);
}

const struct sf_object_storage *sf_object_storage_find(const struct sf_object_value *v,
                                                       const char *key, size_t len)
{
	size_t lo = 0, hi = v->nstorages;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		const char *k = v->storage[mid].key;
		size_t klen = strlen(k);
		int c = memcmp(k, key, SF_MIN(klen, len));
		if (c == 0 && klen == len)
			return &v->storage[mid];
		if (c < 0 || (c == 0 && klen < len))
			lo = mid + 1;
		else
			hi = mid;
	}
	return NULL;
}

/* Records data/<key> of the archive: name, place, size. */
static int find_storages(const struct item *it, const struct sf_zip_dir *dir,
                         struct sf_object_value *v, struct sf_error *err)
{
	SF_FREE const struct sf_zip_record **rec = sf_alloc_array(dir->n, sizeof(*rec));
	SF_FREE uint64_t *off = sf_alloc_array(dir->n, sizeof(*off));
	size_t n = 0, skip = dir->prefix_len + 1 + strlen("data/");

	if (!rec || !off)
		return sf_fail(err, -ENOMEM, "%zu records", dir->n);
	for (size_t i = 0; i < dir->n; i++) {
		const struct sf_zip_record *z = &dir->at[i];
		if (z->name_len > skip && memcmp(z->name, dir->prefix, dir->prefix_len) == 0 &&
		    memcmp(z->name + dir->prefix_len, "/data/", 6) == 0 &&
		    strlen(z->name) == z->name_len)
			rec[n++] = z;
	}
	int r = data_offsets(it, rec, n, off, err);
	if (r < 0)
		return r;
	v->storage = sf_arena_alloc(&v->arena, n * sizeof(*v->storage));
	if (n > 0 && !v->storage)
		return sf_fail(err, -ENOMEM, "%zu storages", n);
	for (size_t i = 0; i < n; i++)
		v->storage[i] = (struct sf_object_storage){ .key = rec[i]->name + skip,
			                                    .off = off[i],
			                                    .len = rec[i]->size };
	if (n > 1)
		qsort(v->storage, n, sizeof(*v->storage), by_key);
	for (size_t i = 1; i < n; i++)
		if (strcmp(v->storage[i - 1].key, v->storage[i].key) == 0)
			return sf_fail(err, -EBADMSG, "two records 'data/%s'", v->storage[i].key);
	v->nstorages = (uint32_t)n;
	return 0;
}

static int parse_archive(const struct item *it, struct sf_object_value *v, struct sf_error *err)
{
	SF_CLEANUP(own_release) struct own own_tail = { 0 };
	SF_CLEANUP(own_release) struct own own_dir = { 0 };
	SF_CLEANUP(own_release) struct own own_pkl = { 0 };
	const struct sf_pickle_limits limits = { .memory = most(it->r) };
	uint64_t tail = SF_MIN(it->len, (uint64_t)SF_ZIP_TAIL), off;
	const uint8_t *p;
	struct sf_zip_end end;
	struct sf_zip_dir dir;
	size_t used;

	int r = item_get(it, it->len - tail, tail, &p, &own_tail, err);
	if (r >= 0)
		r = sf_zip_find_end(p, tail, it->len, &end, err);
	if (r >= 0)
		r = item_get(it, end.dir_off, end.dir_len, &p, &own_dir, err);
	if (r >= 0)
		r = sf_zip_parse_dir(p, &end, it->len, &v->arena, &dir, err);
	if (r < 0)
		return r;
	const struct sf_zip_record *pkl = sf_zip_find(&dir, "data.pkl");
	if (!pkl)
		return sf_fail(err, -EBADMSG, "the archive has no data.pkl");
	r = data_offsets(it, &pkl, 1, &off, err);
	if (r >= 0)
		r = item_get(it, off, pkl->size, &p, &own_pkl, err);
	/* torch.load does not look, but what it trips over here would break the whole file around
	 * it. 0: not computed. */
	if (r >= 0 && pkl->crc != 0 && sf_crc32(0, p, pkl->size) != pkl->crc)
		r = sf_fail(err, -EBADMSG,
		            "data.pkl: CRC-32 %08" PRIx32 ", the directory says %08" PRIx32,
		            sf_crc32(0, p, pkl->size), pkl->crc);
	if (r >= 0)
		r = sf_pickle_parse(p, pkl->size, &limits, &v->arena, &v->root, &used, err);
	return r < 0 ? r : find_storages(it, &dir, v, err);
}

/* What is no archive is bytes: the item an io.BytesIO in the state dict became. */
static int raw_bytes(const struct item *it, struct sf_object_value *v, struct sf_error *err)
{
	SF_CLEANUP(own_release) struct own own = { 0 };
	const uint8_t *p;

	int r = item_get(it, 0, it->len, &p, &own, err);
	if (r < 0)
		return r;
	v->root = sf_arena_calloc(&v->arena, 1, sizeof(*v->root));
	char *copy = v->root ? sf_arena_strdup(&v->arena, (const char *)p, it->len) : NULL;
	if (!copy)
		return sf_fail(err, -ENOMEM, "%" PRIu64 " bytes of an object", it->len);
	v->root->kind = SF_PV_BYTES;
	v->root->str.at = copy;
	v->root->str.len = it->len;
	v->raw = true;
	return 0;
}

static int parse_item(const struct item *it, struct sf_object_value *v, struct sf_error *err)
{
	SF_CLEANUP(own_release) struct own own = { 0 };
	const uint8_t *p;

	if (it->len < 4)
		return raw_bytes(it, v, err);
	int r = item_get(it, 0, 4, &p, &own, err);
	if (r < 0)
		return r;
	return memcmp(p, "PK\3\4", 4) == 0 ? parse_archive(it, v, err) : raw_bytes(it, v, err);
}

/* One object's turn in a batch. */
struct turn {
	uint32_t object;
	bool there; /* its item was handed over */
	int code;   /* why not, with the text in *why */
	uint64_t len;
	struct own item; /* at NULL: it is read by ranges */
	struct sf_error *why;
};
struct batch {
	struct sf_reader *r;
	struct sf_charge *charge;
	struct turn *turn;
	size_t n;
	struct slot {
		uint32_t object, turn;
	} * slot; /* sorted by object */
};

static int by_object(const void *a, const void *b)
{
	const struct slot *x = a, *y = b;
	return (x->object > y->object) - (x->object < y->object);
}

static struct turn *find_turn(struct batch *b, uint32_t object)
{
	const struct slot want = { .object = object };
	const struct slot *s = bsearch(&want, b->slot, b->n, sizeof(*b->slot), by_object);
	return s ? &b->turn[s->turn] : NULL;
}

static bool lasting(int code)
{
	return code == -ENODATA || code == -ENOENT || code == -EBADMSG || code == -ENOTSUP ||
	       code == -E2BIG;
}

/* Keeps a failure for the object's turn; what may be better next time is given back instead. */
static int keep_failure(struct batch *b, struct turn *t, int code, struct sf_error *err)
{
	const struct sf_key *k = key_of(b->r, t->object);

	sf_fail_ctx(err, code, "object '%.300s'", k->name);
	if (!lasting(code))
		return code;
	t->code = code;
	t->why = malloc(sizeof(*t->why));
	if (!t->why)
		return sf_fail(err, -ENOMEM, "object '%.300s'", k->name);
	*t->why = *err;
	return 0;
}

/* The part of the item's value that is the object's. */
static int take_member(const struct sf_object *o, struct sf_object_value *v, struct sf_error *err)
{
	const struct sf_pv *dict = v->root;

	if (!o->member)
		return 0;
	for (size_t i = 0; dict->kind == SF_PV_DICT && i + 1 < dict->seq.n; i += 2) {
		const struct sf_pv *k = dict->seq.at[i];
		if (k->kind == SF_PV_STR && k->str.len == o->member_len &&
		    memcmp(k->str.at, o->member, o->member_len) == 0) {
			v->root = dict->seq.at[i + 1];
			return 0;
		}
	}
	return sf_fail(err, -EBADMSG, "its item has no member '%.200s'", o->member);
}

/*
 * Values are made when it is the object's turn, one object's at a time: a byte of pickle may take a
 * hundred of memory.
 */
static int parse_turn(struct batch *b, struct turn *t, struct sf_object_value *v,
                      struct sf_error *err)
{
	struct item it = { b->r, t->object, t->item.at, t->len, b->charge };
	uint64_t limit = sf_budget_limit(sf_reader_io(b->r)->budget);
	struct sf_error why = SF_ERROR_INIT;

	v->arena.charge = b->charge;
	int r = parse_item(&it, v, &why);
	if (r >= 0)
		r = take_member(&sf_reader_ckpt(b->r)->object[t->object], v, &why);
	if (r < 0 && b->charge->refused > limit) {
		/* it is the object's own fault: there never will be more */
		r = sf_fail(&why, -E2BIG,
		            "its item of %" PRIu64 " bytes takes %" PRIu64
		            " bytes of memory or more, --memory is %" PRIu64,
		            t->len, b->charge->refused, limit);
		b->charge->refused = 0;
	} else if (r < 0 && b->charge->refused) {
		return sf_fail(err, -ENOMEM, "%s", why.msg); /* anew, with more */
	}
	if (r < 0) {
		r = keep_failure(b, t, r, &why);
		if (r < 0 && err)
			*err = why;
	}
	return r;
}

/* What is more than the batch has memory for is not held: it is read again in its turn. */
static int take_item(void *arg, uint32_t object, const uint8_t *item, uint64_t len,
                     struct sf_error *err)
{
	struct batch *b = arg;
	struct turn *t = find_turn(b, object);

	if (!t || t->there)
		return 0;
	t->there = true;
	t->len = len;
	if (!item || !len || len > b->charge->taken - b->charge->used)
		return 0;
	int r = own_make(&t->item, b->charge, len, err);
	if (r >= 0)
		memcpy(t->item.at, item, len);
	return r;
}

/* Damage that the listing shows needs no request per object. */
static int known_damage(struct sf_reader *r, uint32_t object, struct sf_error *why)
{
	const struct sf_ckpt *ckpt = sf_reader_ckpt(r);
	const struct sf_object *o = &ckpt->object[object];
	struct sf_item_check c;
	char text[SF_ERROR_MAX];

	if (o->place == SF_NONE)
		return sf_fail(why, -ENODATA, "no stored item");
	if (sf_check_item(ckpt, o->place, o->off, o->len, 0, &c))
		return 0;
	sf_check_item_text(&c, o->off, o->len, text);
	return sf_fail(why, c.file->missing ? -ENOENT : -EBADMSG, "%s", text);
}

/* Fetches a batch's items; on success every turn has its item or a reason. */
static int fetch(struct batch *b, struct sf_error *err)
{
	SF_FREE uint32_t *ask = sf_alloc_array(b->n, sizeof(*ask));
	struct sf_error why = SF_ERROR_INIT;
	size_t n = 0;
	int r = 0;

	if (!ask)
		return sf_fail(err, -ENOMEM, "%zu objects", b->n);
	for (size_t i = 0; i < b->n; i++) {
		struct turn *t = &b->turn[i];
		r = known_damage(b->r, t->object, &why);
		if (r >= 0) {
			ask[n++] = t->object;
			continue;
		}
		t->there = true;
		r = keep_failure(b, t, r, &why);
		if (r < 0)
			return sf_fail(err, r, "%s", why.msg);
	}
	r = n > 0 ? sf_read_objects(b->r, ask, n, ITEM_WHOLE, take_item, b, &why) : 0;
	/* One that cannot be read ends the read of all: then each that is not there yet is asked
	 * for alone. */
	for (size_t i = 0; i < b->n && r < 0; i++) {
		struct turn *t = &b->turn[i];
		if (!lasting(r))
			return sf_fail(err, r, "%s", why.msg);
		if (t->there)
			continue;
		int one = sf_read_objects(b->r, &t->object, 1, ITEM_WHOLE, take_item, b, &why);
		if (one < 0) {
			t->there = true;
			one = keep_failure(b, t, one, &why);
		}
		if (one < 0)
			return sf_fail(err, one, "%s", why.msg);
	}
	for (size_t i = 0; i < b->n; i++) {
		if (!b->turn[i].there)
			return sf_fail(err, -EIO, "object '%.300s' was not handed over",
			               key_of(b->r, b->turn[i].object)->name);
	}
	return 0;
}

typedef int each_fn(void *arg, uint32_t object, struct sf_object_value *v, struct sf_error *err);
typedef void failed_fn(void *arg, uint32_t object, int code, const struct sf_error *why);

/* @done: how many had their turn. */
static int load_batch(struct sf_reader *rd, const uint32_t *objects, size_t n, each_fn *each,
                      failed_fn *failed, void *arg, struct sf_charge *charge, size_t *done,
                      struct sf_error *err)
{
	struct batch b = { .r = rd, .n = n, .charge = charge };
	int r = 0;

	*done = 0;
	b.turn = calloc(n, sizeof(*b.turn));
	b.slot = calloc(n, sizeof(*b.slot));
	if (!b.turn || !b.slot) {
		r = sf_fail(err, -ENOMEM, "%zu objects", n);
		goto out;
	}
	for (size_t i = 0; i < n; i++) {
		b.turn[i].object = objects[i];
		b.slot[i] = (struct slot){ objects[i], (uint32_t)i };
	}
	qsort(b.slot, n, sizeof(*b.slot), by_object);
	r = fetch(&b, err);
	for (size_t i = 0; i < n && r >= 0; i++) {
		struct sf_object_value v = { .root = NULL };
		struct turn *t = &b.turn[i];
		if (!t->why)
			r = parse_turn(&b, t, &v, err);
		if (r >= 0 && !t->why)
			r = each(arg, t->object, &v, err);
		else if (r >= 0 && failed)
			failed(arg, t->object, t->code, t->why);
		else if (r >= 0)
			r = sf_fail(err, t->code, "%s", t->why->msg);
		sf_arena_release(&v.arena);
		own_release(&t->item);
		*done += r >= 0;
	}
out:
	for (size_t i = 0; i < n && b.turn; i++) {
		free(b.turn[i].why);
		own_release(&b.turn[i].item);
	}
	free(b.turn);
	free(b.slot);
	return r < 0 ? r : 0;
}

uint64_t sf_objects_guess(struct sf_reader *r, const uint32_t *objects, size_t n)
{
	const struct sf_ckpt *ckpt = sf_reader_ckpt(r);
	uint64_t sum = GUESS_LEAST, limit = sf_budget_limit(sf_reader_io(r)->budget), more;

	for (size_t i = 0; i < n && sum < limit; i++)
		if (!sf_mul(ckpt->object[objects[i]].len, TIMES, &more) || !sf_add(sum, more, &sum))
			sum = limit;
	return SF_MIN(sum, limit);
}

/*
 * With a charge of its own, batch for batch: where it is refused more the batch ends before the
 * object whose turn it is, and begins anew with more from there.
 */
static int load(struct sf_reader *r, const uint32_t *objects, size_t n, each_fn *each,
                failed_fn *failed, void *arg, struct sf_charge *charge, struct sf_error *err)
{
	const struct sf_ckpt *ckpt = sf_reader_ckpt(r);
	struct sf_budget *budget = sf_reader_io(r)->budget;
	uint64_t most_bytes = SF_MIN((uint64_t)BATCH_BYTES, sf_budget_limit(budget) / 8), want = 0;

	for (size_t at = 0, k, done; at < n; at += done) {
		struct sf_charge own, *c = charge ? charge : &own;
		uint64_t bytes = 0;
		for (k = 0; k < BATCH_OBJECTS && at + k < n; k++) {
			uint64_t len =
				SF_MIN(ckpt->object[objects[at + k]].len, (uint64_t)ITEM_WHOLE);
			if (k > 0 && bytes + len > most_bytes)
				break;
			bytes += len;
		}
		if (!charge)
			sf_charge_begin(&own, budget, SF_BUDGET_MADE,
			                SF_MAX(want, sf_objects_guess(r, objects + at, k)));
		int res = load_batch(r, objects + at, k, each, failed, arg, c, &done, err);
		if (!charge)
			sf_charge_end(&own, 0);
		want = res < 0 && !charge ? sf_charge_next(&own) : 0;
		if (res < 0 && !want)
			return res;
	}
	return 0;
}

int sf_objects_load(struct sf_reader *r, const uint32_t *objects, size_t n, each_fn *each,
                    void *arg, struct sf_error *err)
{
	return load(r, objects, n, each, NULL, arg, NULL, err);
}

int sf_objects_load_whole(struct sf_reader *r, const uint32_t *objects, size_t n, each_fn *each,
                          failed_fn *failed, void *arg, struct sf_error *err)
{
	return load(r, objects, n, each, failed, arg, NULL, err);
}

int sf_objects_make(struct sf_reader *r, const uint32_t *objects, size_t n, each_fn *each,
                    failed_fn *failed, void *arg, struct sf_charge *charge, struct sf_error *err)
{
	return load(r, objects, n, each, failed, arg, charge, err);
}
