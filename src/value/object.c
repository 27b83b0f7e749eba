#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "ckpt/ckpt_check.h"
#include "value/object.h"

/* items up to this are fetched whole; of others the pickle and the directory */
#define ITEM_WHOLE (1u << 20)
/* items that are fetched and held at a time; values are made one by one */
#define BATCH_BYTES (32u << 20)
#define BATCH_OBJECTS 4096
#define PART_MAX (UINT64_C(1) << 30) /* data.pkl, directory, value: more is refused */
/* what an item of a byte takes, as a first guess: more is taken when it is needed */
#define TIMES 3
#define GUESS_LEAST (UINT64_C(64) << 10)

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

/* Ranges of the item, one behind the other, in one read of the reader's. */
struct ranges {
	uint32_t object;
	const struct sf_torch_range *at;
	size_t n;
};

static int emit_ranges(void *arg, uint64_t off, uint64_t len, struct sf_parts *p,
                       struct sf_error *err)
{
	const struct ranges *g = arg;
	uint64_t at = 0, end = off + len;
	int r = 0;

	for (size_t i = 0; i < g->n && at < end && r >= 0; at += g->at[i++].len) {
		uint64_t from = SF_MAX(off, at), to = SF_MIN(end, at + g->at[i].len);
		if (from < to)
			r = sf_parts_object(p, g->object, g->at[i].off + (from - at), to - from);
	}
	return r;
}

static int read_ranges(void *arg, const struct sf_torch_range *range, size_t n, uint8_t *buf,
                       struct sf_error *err)
{
	const struct item *it = arg;
	struct ranges g = { it->object, range, n };
	struct sf_read rd = { .emit = emit_ranges, .arg = &g, .inner = true, .buf = buf };

	if (n == 1) /* it may be long */
		return sf_read_object_range(it->r, it->object, range->off, buf, range->len, err);
	for (size_t i = 0; i < n; i++)
		rd.len += range[i].len;
	int r = sf_read_wait(it->r, &rd);
	if (r < 0)
		sf_fail(err, r, "%s", rd.err.msg);
	sf_read_release(&rd);
	return r;
}

/* The other containers are bytes to DCP: an io.BytesIO may hold one. */
static int parse_archive(struct item *it, struct sf_object_value *v, struct sf_error *err)
{
	const struct sf_torch_input in = { it->len, it->at, read_ranges, it };
	const struct sf_torch_options opt = { .part_max = most(it->r),
		                              .containers = 1 << SF_TORCH_ZIP };
	struct sf_torch_archive a;
	int r = sf_torch_open(&in, &opt, &v->arena, &a, err);

	if (r < 0)
		return r;
	if (a.big_endian && a.nstorages)
		return sf_fail(err, -ENOTSUP, "its tensors were written on a big-endian machine");
	v->root = a.root;
	v->storage = a.storage;
	v->nstorages = a.nstorages;
	return 0;
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

static int parse_item(struct item *it, struct sf_object_value *v, struct sf_error *err)
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

/* A value that is there already. */
static int parse_inlined(struct sf_reader *r, const struct sf_inline *in, struct sf_object_value *v,
                         struct sf_error *err)
{
	const struct sf_pickle_limits limits = { .memory = most(r) };

	v->storage = in->storage;
	v->nstorages = in->nstorages;
	return sf_pickle_parse(in->pickle, in->len, &limits, &v->arena, &v->root, NULL, err);
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

/* What a list of one holds; of anything else, itself. */
static void take_from_list(const struct sf_object *o, struct sf_object_value *v)
{
	v->stored = v->root;
	if (o->in_list && v->root->kind == SF_PV_LIST && v->root->seq.n == 1)
		v->root = v->root->seq.at[0];
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

	const struct sf_object *o = &sf_reader_ckpt(b->r)->object[t->object];

	v->arena.charge = b->charge;
	int r = o->inlined ? parse_inlined(b->r, o->inlined, v, &why) : parse_item(&it, v, &why);
	if (r >= 0)
		r = take_member(o, v, &why);
	if (r >= 0)
		take_from_list(o, v);
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
		const struct sf_object *o = &sf_reader_ckpt(b->r)->object[t->object];
		r = known_damage(b->r, t->object, &why);
		if (r >= 0 && !o->inlined) {
			ask[n++] = t->object;
			continue;
		}
		t->there = true;
		if (r >= 0) {
			t->len = o->inlined->len;
			continue;
		}
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
		if (!sf_mul(sf_object_bytes(&ckpt->object[objects[i]]), TIMES, &more) ||
		    !sf_add(sum, more, &sum))
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
			uint64_t len = SF_MIN(sf_object_bytes(&ckpt->object[objects[at + k]]),
			                      (uint64_t)ITEM_WHOLE);
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
