#include "config.h"

#include "tests/lib/save_plan_world.h"

static void refused(struct world *w, int code, const char *message)
{
	struct sf_global_plan g = { .nkeys = 77 };
	struct sf_error err = SF_ERROR_INIT;

	ck_assert_int_eq(plan(w, SHARDFUSE_DEDUP_LOWEST, &g, &err), code);
	ck_assert_str_eq(err.msg, message);
	ck_assert_uint_eq(g.nkeys, 77);
	release(w);
}

START_TEST(rows_of_ranks_are_one_tensor_and_the_lowest_writes_what_all_have)
{
	struct world w = { .nranks = 4 };
	struct sf_global_plan g;
	struct sf_error err = SF_ERROR_INIT;
	const uint64_t shape[2] = { 8, 4 }, zero[2] = { 0, 0 };

	for (uint32_t r = 0; r < 4; r++) {
		const uint64_t origin[2] = { 2 * r, 0 }, extent[2] = { 2, 4 };
		add(&w, r, "model.w", 2, shape, origin, extent);
		add(&w, r, "model.norm", 2, shape, zero, shape)->requires_grad = true;
		add_object(&w, r, "step", 300, 5);
	}
	ck_assert_msg(plan(&w, SHARDFUSE_DEDUP_LOWEST, &g, &err) == 0, "%s", err.msg);
	ck_assert_uint_eq(g.nkeys, 3);
	ck_assert_uint_eq(g.nchunks, 6);
	ck_assert_str_eq(g.key[0].key, "model.w");
	ck_assert_uint_eq(g.key[0].nchunks, 4);
	for (uint32_t r = 0; r < 4; r++) {
		const uint64_t *box = g.coords + g.key[0].coord + 4 * r;
		ck_assert_uint_eq(g.rank[g.key[0].first + r], r);
		ck_assert_uint_eq(g.item[g.key[0].first + r], 0);
		ck_assert_uint_eq(box[0], 2 * r);
		ck_assert_uint_eq(box[1], 0);
		ck_assert_uint_eq(box[2], 2);
		ck_assert_uint_eq(box[3], 4);
		ck_assert_uint_eq(g.bits[g.bits_at[r]], r ? 1 : 7);
	}
	ck_assert(g.key[1].requires_grad && !g.key[0].requires_grad);
	ck_assert_uint_eq(g.key[2].kind, SF_SAVE_OBJECT);

	ck_assert_int_eq(sf_global_plan_layout(&g, 1, &err), 0);
	ck_assert_uint_eq(g.off[0], 0);
	ck_assert_uint_eq(g.off[4], 1088); /* 32 + 1000 bytes, to the next 64 */
	ck_assert_uint_eq(g.off[5], 1088 + 1152);
	ck_assert_uint_eq(g.off[1], 0);
	sf_global_plan_release(&g);
	release(&w);
}
END_TEST

START_TEST(a_hole_is_refused_with_its_place)
{
	struct world w = { .nranks = 3 };
	const uint64_t shape[2] = { 8, 4 }, extent[2] = { 2, 4 };

	for (uint32_t r = 0; r < 3; r++) {
		const uint64_t origin[2] = { r == 2 ? 6 : 2 * r, 0 };
		add(&w, r, "w", 2, shape, origin, extent);
	}
	refused(&w, -EINVAL,
	        "tensor 'w': no rank has element [4, 0] of [8, 4]; rank 1's box [2:4, 0:4] ends "
	        "before it, ranks 0 to 2 have boxes of it");
}
END_TEST

START_TEST(boxes_that_overlap_are_refused_with_both)
{
	struct world w = { .nranks = 3 };
	const uint64_t shape[1] = { 9 };

	for (uint64_t r = 0; r < 3; r++) {
		const uint64_t origin[1] = { 3 * r }, extent[1] = { r == 1 ? 4 : 3 };
		add(&w, (uint32_t)r, "w", 1, shape, origin, extent);
	}
	refused(&w, -EINVAL,
	        "tensor 'w': rank 1's box [3:7] and rank 2's [6:9] overlap at element [6]");
}
END_TEST

START_TEST(what_differs_between_ranks_is_refused)
{
	const uint64_t shape[1] = { 9 }, other[1] = { 8 }, zero[1] = { 0 };
	struct world w = { .nranks = 2 };

	add(&w, 0, "a.w", 1, shape, zero, shape);
	add(&w, 1, "a.w", 1, other, zero, other);
	refused(&w, -EINVAL, "tensor 'a.w': rank 0 has it with shape [9], rank 1 with [8]");

	w = (struct world){ .nranks = 2 };
	add(&w, 0, "w", 1, shape, zero, shape);
	add(&w, 1, "w", 1, shape, zero, shape)->dtype = SF_INT64;
	refused(&w, -EINVAL, "tensor 'w': rank 0 has it as float32, rank 1 as int64");

	w = (struct world){ .nranks = 2 };
	add(&w, 0, "w", 1, shape, zero, shape);
	add_object(&w, 1, "w", 9, 9);
	refused(&w, -EINVAL, "'w': rank 0 has a tensor of that key, rank 1 an object");

	w = (struct world){ .nranks = 2 };
	add_object(&w, 0, "step", 9, 9);
	add_object(&w, 1, "step", 9, 10);
	refused(&w, -EINVAL,
	        "object 'step': rank 0 has 9 bytes with hash 0000000000000009, rank 1 9 bytes with "
	        "000000000000000a");

	w = (struct world){ .nranks = 2 };
	refused(&w, -EINVAL, "nothing to save: none of 2 ranks has an item");
}
END_TEST

/* ---- against a slow reference ---- */

#define BOXES_MAX 64
#define ELEMENTS_MAX 512 /* 8 cubed */

struct box {
	uint64_t origin[DIMS_MAX], extent[DIMS_MAX];
	uint32_t ranks; /* bit r: rank r has it */
};
struct boxes {
	char key[32];
	unsigned ndim, n;
	uint64_t shape[DIMS_MAX], volume;
	struct box box[BOXES_MAX];
};

/* Cuts a box in two at random places, again and again. */
static void cut_at_random(uint64_t *seed, struct boxes *t, unsigned times)
{
	for (unsigned i = 0; i < times && t->n < BOXES_MAX - 4; i++) {
		struct box *b = &t->box[sf_test_below(seed, t->n)], *c = &t->box[t->n];
		unsigned d = t->ndim ? (unsigned)sf_test_below(seed, t->ndim) : 0;
		uint64_t at;

		if (!t->ndim || b->extent[d] < 2)
			continue;
		at = 1 + sf_test_below(seed, b->extent[d] - 1);
		*c = *b;
		c->origin[d] += at;
		c->extent[d] -= at;
		b->extent[d] = at;
		t->n++;
	}
}

/* Five boxes that no straight cut tells apart. */
static void pinwheel(struct boxes *t)
{
	static const uint64_t b[5][4] = {
		{ 0, 0, 1, 4 }, { 0, 4, 4, 1 }, { 4, 1, 1, 4 }, { 1, 0, 4, 1 }, { 1, 1, 3, 3 }
	};

	t->ndim = 2;
	t->shape[0] = t->shape[1] = 5;
	t->n = 5;
	for (unsigned i = 0; i < 5; i++) {
		memcpy(t->box[i].origin, b[i], 16);
		memcpy(t->box[i].extent, b[i] + 2, 16);
	}
}

static void grid(uint64_t *seed, struct boxes *t)
{
	uint64_t parts[DIMS_MAX], n = 1;

	for (unsigned d = 0; d < t->ndim; d++) {
		uint64_t most = SF_MIN(t->shape[d], 60 / n);
		n *= parts[d] = 1 + sf_test_below(seed, most ? most : 1);
	}
	for (t->n = 0; t->n < n; t->n++) {
		uint64_t left = t->n;
		for (unsigned d = 0; d < t->ndim; left /= parts[d++]) {
			uint64_t p = left % parts[d], *o = &t->box[t->n].origin[d];
			*o = t->shape[d] * p / parts[d];
			t->box[t->n].extent[d] = t->shape[d] * (p + 1) / parts[d] - *o;
		}
	}
}

static void random_tensor(uint64_t *seed, struct boxes *t, uint32_t nranks, unsigned number)
{
	*t = (struct boxes){ .n = 1 };
	snprintf(t->key, sizeof(t->key), "layers.%u.w", number);
	t->ndim = (unsigned)sf_test_below(seed, DIMS_MAX);
	for (unsigned d = 0; d < t->ndim; d++)
		t->box[0].extent[d] = t->shape[d] = 1 + sf_test_below(seed, 8);
	switch (sf_test_below(seed, 3)) {
	case 0:
		pinwheel(t);
		cut_at_random(seed, t, (unsigned)sf_test_below(seed, 20));
		break;
	case 1:
		grid(seed, t);
		break;
	default:
		cut_at_random(seed, t, (unsigned)sf_test_below(seed, 60));
	}
	t->volume = 1;
	for (unsigned d = 0; d < t->ndim; d++)
		t->volume *= t->shape[d];
	for (unsigned i = 0; i < t->n; i++) {
		t->box[i].ranks = 1u << sf_test_below(seed, nranks);
		if (sf_test_below(seed, 3) == 0)
			t->box[i].ranks |= (uint32_t)sf_test_below(seed, 1u << nranks);
	}
	if (t->ndim && sf_test_below(seed, 2)) { /* somebody has nothing of it */
		struct box *b = &t->box[t->n++];
		b->origin[0] = sf_test_below(seed, t->shape[0] + 1);
		b->ranks = 1u << sf_test_below(seed, nranks);
	}
}

/* Of the tensor's dimensions: a box may have been made with more. */
static bool is_same(const struct boxes *t, const struct box *a, const struct box *b)
{
	const size_t n = t->ndim * sizeof(*a->origin);

	return memcmp(a->origin, b->origin, n) == 0 && memcmp(a->extent, b->extent, n) == 0;
}

/* How many boxes is each element in? Equal ones count once. */
static void count_boxes(const struct boxes *t, unsigned *count)
{
	memset(count, 0, ELEMENTS_MAX * sizeof(*count));
	for (uint64_t e = 0; e < t->volume; e++)
		for (unsigned i = 0; i < t->n; i++) {
			uint64_t left = e;
			bool inside = true;
			for (unsigned d = t->ndim; d-- > 0; left /= t->shape[d]) {
				uint64_t x = left % t->shape[d];
				inside &= x >= t->box[i].origin[d] &&
				          x < t->box[i].origin[d] + t->box[i].extent[d];
			}
			for (unsigned k = 0; k < i && inside; k++)
				inside = !is_same(t, &t->box[k], &t->box[i]);
			count[e] += inside;
		}
}

static void add_boxes(struct world *w, const struct boxes *t, uint32_t rank)
{
	for (unsigned i = 0; i < t->n; i++)
		if (t->box[i].ranks >> rank & 1)
			add(w, rank, t->key, t->ndim, t->shape, t->box[i].origin, t->box[i].extent);
}

static const struct sf_global_key *find(const struct sf_global_plan *g, const char *key)
{
	for (uint64_t k = 0; k < g->nkeys; k++)
		if (strcmp(g->key[k].key, key) == 0)
			return &g->key[k];
	ck_abort_msg("%s is not there", key);
}

/* Each box that is not empty is a chunk, once, written by a rank that has it. */
static void check_chunks(const struct world *w, const struct sf_global_plan *g,
                         const struct boxes *t, int dedup)
{
	const struct sf_global_key *k = find(g, t->key);
	size_t bytes = t->ndim * sizeof(uint64_t);
	unsigned seen = 0;

	for (uint64_t c = k->first; c < k->first + k->nchunks; c++) {
		const uint64_t *box = g->coords + k->coord + 2 * t->ndim * (c - k->first);
		const struct sf_save_item *item = &w->rank[g->rank[c]].item.at[g->item[c]];
		unsigned i = 0;

		ck_assert_str_eq(item->key, t->key);
		ck_assert(memcmp(item->origin, box, bytes) == 0);
		ck_assert(memcmp(item->extent, box + t->ndim, bytes) == 0);
		ck_assert_uint_eq(item->stored, g->len[c]);
		if (c > k->first)
			ck_assert_uint_le(g->rank[c - 1], g->rank[c]);
		while (i < t->n && (memcmp(t->box[i].origin, box, bytes) != 0 ||
		                    memcmp(t->box[i].extent, box + t->ndim, bytes) != 0))
			i++;
		ck_assert_uint_lt(i, t->n);
		ck_assert(t->box[i].ranks >> g->rank[c] & 1);
		if (dedup == SHARDFUSE_DEDUP_LOWEST)
			ck_assert_uint_eq(g->rank[c], (unsigned)__builtin_ctz(t->box[i].ranks));
		ck_assert(g->bits[g->bits_at[g->rank[c]] + g->item[c] / 8] >> g->item[c] % 8 & 1);
		seen++;
	}
	for (unsigned i = 0; i < t->n; i++) {
		uint64_t n = 1;
		for (unsigned d = 0; d < t->ndim; d++)
			n *= t->box[i].extent[d];
		seen -= n != 0;
	}
	ck_assert_uint_eq(seen, 0);
}

static uint64_t bits_set(const struct sf_global_plan *g)
{
	uint64_t n = 0;

	for (uint64_t i = 0; i < g->nbits_bytes; i++)
		n += (unsigned)__builtin_popcount(g->bits[i]);
	return n;
}

START_TEST(boxes_that_tile_are_accepted_however_they_are_cut)
{
	uint64_t seed = sf_test_seed("boxes_that_tile_are_accepted_however_they_are_cut");

	for (int round = 0; round < 200; round++) {
		struct world w = { .nranks = 1 + (uint32_t)sf_test_below(&seed, RANKS_MAX) };
		unsigned n = 1 + (unsigned)sf_test_below(&seed, 4);
		int dedup = round & 1 ? SHARDFUSE_DEDUP_BALANCED : SHARDFUSE_DEDUP_LOWEST;
		struct sf_error err = SF_ERROR_INIT;
		struct sf_global_plan g;
		struct boxes t[4];

		for (unsigned i = 0; i < n; i++)
			random_tensor(&seed, &t[i], w.nranks, i);
		for (uint32_t r = 0; r < w.nranks; r++) {
			unsigned from = (unsigned)sf_test_below(&seed, n); /* any order */
			for (unsigned i = 0; i < n; i++)
				add_boxes(&w, &t[(from + i) % n], r);
			add_object(&w, r, "step", 10, 10);
		}
		ck_assert_msg(plan(&w, dedup, &g, &err) == 0, "%s", err.msg);
		ck_assert_uint_eq(g.nkeys, n + 1);
		for (unsigned i = 0; i < n; i++)
			check_chunks(&w, &g, &t[i], dedup);
		ck_assert_uint_eq(bits_set(&g), g.nchunks);
		sf_global_plan_release(&g);
		release(&w);
	}
}
END_TEST

/* One thing about one box is another than it was: the plan is refused if and only if an element is in
 * no box or in two, and the message has the first such element. */
static void spoil(uint64_t *seed, struct boxes *t)
{
	unsigned i = (unsigned)sf_test_below(seed, t->n);
	unsigned d = t->ndim ? (unsigned)sf_test_below(seed, t->ndim) : 0;
	struct box *b = &t->box[i];

	switch (t->ndim ? sf_test_below(seed, 4) : 0) {
	case 0: /* nobody has it */
		b->ranks = 0;
		*b = (struct box){ .ranks = 0 };
		break;
	case 1: /* the ends move */
		b->extent[d] = sf_test_below(seed, t->shape[d] - b->origin[d] + 1);
		break;
	case 2: /* it moves */
		b->origin[d] = sf_test_below(seed, t->shape[d] - b->extent[d] + 1);
		break;
	default: /* another is in its place */
		*b = t->box[sf_test_below(seed, t->n)];
	}
}

START_TEST(a_hole_or_an_overlap_is_found_wherever_it_is)
{
	uint64_t seed = sf_test_seed("a_hole_or_an_overlap_is_found_wherever_it_is");
	unsigned nrefused = 0;

	for (int round = 0; round < 600; round++) {
		struct world w = { .nranks = 1 + (uint32_t)sf_test_below(&seed, RANKS_MAX) };
		struct sf_error err = SF_ERROR_INIT;
		unsigned count[ELEMENTS_MAX];
		struct sf_global_plan g;
		uint64_t e = 0;
		struct boxes t;
		char at[100] = "element [", *end = at + strlen(at);
		int r;

		random_tensor(&seed, &t, w.nranks, 0);
		spoil(&seed, &t);
		count_boxes(&t, count);
		for (uint32_t rank = 0; rank < w.nranks; rank++) {
			add_object(&w, rank, "step", 10, 10);
			add_boxes(&w, &t, rank);
		}
		while (e < t.volume && count[e] == 1)
			e++;
		for (unsigned d = 0; d < t.ndim; d++) {
			uint64_t below = 1;
			for (unsigned k = d + 1; k < t.ndim; k++)
				below *= t.shape[k];
			end += sprintf(end, "%s%llu", d ? ", " : "",
			               (unsigned long long)(e / below % t.shape[d]));
		}
		strcpy(end, "]");
		r = plan(&w, round & 1, &g, &err);
		if (e == t.volume || (t.n == 1 && !t.box[0].ranks)) {
			/* all right after all, or nobody speaks of the tensor */
			ck_assert_msg(r == 0, "%s", err.msg);
			sf_global_plan_release(&g);
		} else {
			nrefused++;
			ck_assert_int_eq(r, -EINVAL);
			ck_assert_ptr_nonnull(strstr(err.msg, "tensor 'layers.0.w': "));
			ck_assert_msg(strstr(err.msg, at), "%s: %s", at, err.msg);
			ck_assert_msg(strstr(err.msg, count[e] ? "overlap" : "no rank"), "%s",
			              err.msg);
			ck_assert_ptr_nonnull(strstr(err.msg, "rank"));
		}
		release(&w);
	}
	ck_assert_uint_gt(nrefused, 100);
}
END_TEST

/* ---- records ---- */

static uint64_t hash_of(struct world *w, uint32_t rank)
{
	uint64_t hash;

	sf_buf_reset(&w->record[rank]);
	ck_assert_int_eq(sf_save_plan_encode(&w->rank[rank], &w->record[rank], &hash, NULL), 0);
	return hash;
}

START_TEST(a_hash_tells_structures_apart_and_not_steps)
{
	struct world w = { .nranks = 1 };
	const uint64_t shape[2] = { 8, 4 }, zero[2] = { 0, 0 }, more[2] = { 9, 4 };
	struct sf_save_item *item;
	uint64_t hash;

	add(&w, 0, "model.w", 2, shape, zero, shape);
	add_object(&w, 0, "step", 300, 5);
	hash = hash_of(&w, 0);
	ck_assert_uint_eq(hash_of(&w, 0), hash);
	item = w.rank[0].item.at;
	item[1].stored = 301;
	item[1].hash = 6;
	ck_assert_uint_eq(hash_of(&w, 0), hash);
	item[1].stored = UINT64_C(1) << 40; /* a longer number */
	ck_assert_uint_eq(hash_of(&w, 0), hash);
	item[0].stored++;
	ck_assert_uint_ne(hash_of(&w, 0), hash);
	item[0].stored--;
	item[0].dtype = SF_INT32;
	ck_assert_uint_ne(hash_of(&w, 0), hash);
	item[0].dtype = SF_FLOAT32;
	item[0].shape = more;
	ck_assert_uint_ne(hash_of(&w, 0), hash);
	item[0].shape = shape;
	item[0].requires_grad = true;
	ck_assert_uint_ne(hash_of(&w, 0), hash);
	item[0].requires_grad = false;
	item[0].key = "model.v";
	ck_assert_uint_ne(hash_of(&w, 0), hash);
	item[0].key = "model.w";
	ck_assert_uint_eq(hash_of(&w, 0), hash);
	add_object(&w, 0, "epoch", 1, 1);
	ck_assert_uint_ne(hash_of(&w, 0), hash);
	release(&w);
}
END_TEST

START_TEST(keys_and_paths_come_out_as_they_went_in)
{
	static const struct shardfuse_save_step paths[][3] = {
		{ { "a", 0 }, { "b", 0 }, { "c", 0 } },
		{ { "a.b", 0 }, { "d", 0 } },
		{ { "list", 0 }, { NULL, UINT64_MAX } },
		{ { "names", 0 }, { "7", 0 } },
		{ { "e", 0 }, { "", 0 } },
		{ { "nothing of", 0 }, { "the key", 0 } },
		{ { NULL, 3 } },
		{ { "elsewhere", 0 } },
	};
	static const uint32_t npath[] = { 3, 2, 2, 2, 2, 2, 1, 1 };
	static const char *const keys[] = { "a.b.c",   "a.b.d", "list.18446744073709551615",
		                            "names.7", "e.",    "x.y.z",
		                            "3",       "here" };
	struct world w = { .nranks = 2 };
	char longest[3000], like[3000];
	struct sf_error err = SF_ERROR_INIT;
	struct sf_global_plan g;

	memset(longest, 'k', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	memcpy(like, longest, sizeof(like));
	like[2990] = 'z';
	for (uint32_t r = 0; r < 2; r++) {
		add_object(&w, r, "", 7, 7);
		for (size_t i = 0; i < SF_ARRAY_LEN(keys); i++) {
			struct sf_save_item *item = add_object(&w, r, keys[i], 7, 7);
			item->path = paths[i];
			item->npath = npath[i];
		}
		add_object(&w, r, longest, 7, 7);
		add_object(&w, r, like, 7, 7);
	}
	ck_assert_msg(plan(&w, SHARDFUSE_DEDUP_LOWEST, &g, &err) == 0, "%s", err.msg);
	ck_assert_uint_eq(g.nkeys, SF_ARRAY_LEN(keys) + 3);
	ck_assert_str_eq(g.key[0].key, "");
	for (size_t i = 0; i < SF_ARRAY_LEN(keys); i++) {
		const struct sf_global_key *k = &g.key[i + 1];
		ck_assert_str_eq(k->key, keys[i]);
		ck_assert_uint_eq(k->key_len, strlen(keys[i]));
		ck_assert_uint_eq(k->npath, npath[i]);
		for (uint32_t p = 0; p < npath[i]; p++) {
			ck_assert_uint_eq(k->path[p].index, paths[i][p].index);
			ck_assert_pstr_eq(k->path[p].name, paths[i][p].name);
		}
	}
	ck_assert_str_eq(g.key[g.nkeys - 2].key, longest);
	ck_assert_str_eq(g.key[g.nkeys - 1].key, like);
	sf_global_plan_release(&g);

	w.rank[1].item.at[1].path = paths[1];
	w.rank[1].item.at[1].npath = npath[1];
	ck_assert_int_eq(plan(&w, SHARDFUSE_DEDUP_LOWEST, &g, &err), -EINVAL);
	ck_assert_str_eq(err.msg, "'a.b.c': ranks 0 and 1 have it under paths that differ");
	release(&w);
}
END_TEST

static void with_paths(const struct shardfuse_save_step *a, uint32_t na,
                       const struct shardfuse_save_step *b, uint32_t nb, const char *message)
{
	struct world w = { .nranks = 2 };
	struct sf_save_item *x = add_object(&w, 0, "x", 7, 7), *y = add_object(&w, 1, "y", 7, 7);
	struct sf_error err = SF_ERROR_INIT;
	struct sf_global_plan g;

	x->path = a;
	x->npath = na;
	y->path = b;
	y->npath = nb;
	if (message) {
		refused(&w, -EINVAL, message);
		return;
	}
	ck_assert_msg(plan(&w, SHARDFUSE_DEDUP_LOWEST, &g, &err) == 0, "%s", err.msg);
	sf_global_plan_release(&g);
	release(&w);
}

START_TEST(paths_are_those_of_one_nested_dict)
{
	static const struct shardfuse_save_step ab[] = { { "a", 0 }, { "b", 0 } };
	static const struct shardfuse_save_step ac[] = { { "a", 0 }, { "c", 0 } };
	static const struct shardfuse_save_step a0[] = { { "a", 0 }, { NULL, 0 } };
	static const struct shardfuse_save_step a1[] = { { "a", 0 }, { NULL, 1 }, { "c", 0 } };
	static const struct shardfuse_save_step x[] = { { "x", 0 }, { "c", 0 } };

	with_paths(ab, 2, ac, 2, NULL);
	with_paths(a0, 2, a1, 3, NULL);
	with_paths(ab, 2, NULL, 0, NULL);
	with_paths(ab, 2, ab, 2, "'x' of rank 0 and 'y' of rank 1: they have one path");
	with_paths(ab, 1, ac, 2,
	           "'x' of rank 0 and 'y' of rank 1: the path of one goes on behind the other's");
	with_paths(ab, 2, ac, 1,
	           "'x' of rank 0 and 'y' of rank 1: the path of one goes on behind the other's");
	with_paths(NULL, 0, x, 2,
	           "'x' of rank 0 and 'y' of rank 1: the path of one goes on behind the other's");
	with_paths(a0, 2, ab, 2,
	           "'x' of rank 0 and 'y' of rank 1: a list's index and a name in one place");
}
END_TEST

START_TEST(records_that_are_cut_or_longer_are_refused)
{
	struct world w = { .nranks = 2 };
	const uint64_t shape[2] = { 8, 4 }, half[2] = { 4, 4 };
	struct sf_save_record rec[2];
	struct sf_error err = SF_ERROR_INIT;
	struct sf_global_plan g;

	for (uint32_t r = 0; r < 2; r++) {
		const uint64_t origin[2] = { 4 * r, 0 };
		add(&w, r, "model.w", 2, shape, origin, half);
		add_object(&w, r, "step", 300, 5);
	}
	encode(&w);
	rec[0] = (struct sf_save_record){ w.record[0].at, w.record[0].len };
	sf_buf_byte(&w.record[1], 0);
	for (size_t len = 0; len <= w.record[1].len; len++) {
		uint8_t *copy = malloc(len ? len : 1); /* a sanitizer sees its end */
		memcpy(copy, w.record[1].at, len);
		rec[1] = (struct sf_save_record){ copy, len };
		int r = sf_save_plan_make(rec, 2, SHARDFUSE_DEDUP_LOWEST, &g, &err);
		ck_assert_int_eq(r, len == w.record[1].len - 1 ? 0 : -EBADMSG);
		if (r == 0)
			sf_global_plan_release(&g);
		else
			ck_assert_msg(strncmp(err.msg, "rank 1: its plan is malformed: ", 31) == 0,
			              "%s", err.msg);
		free(copy);
	}
	release(&w);
}
END_TEST

START_TEST(what_all_have_is_written_by_who_has_least)
{
	struct world w = { .nranks = 4 };
	const uint64_t shape[1] = { 1000 }, zero[1] = { 0 };
	struct sf_global_plan g;
	struct sf_error err = SF_ERROR_INIT;

	for (uint32_t r = 0; r < 4; r++)
		for (unsigned i = 0; i < 8; i++) {
			char key[20];
			snprintf(key, sizeof(key), "w%u", i);
			add(&w, r, key, 1, shape, zero, shape);
		}
	ck_assert_int_eq(plan(&w, SHARDFUSE_DEDUP_BALANCED, &g, &err), 0);
	for (unsigned i = 0; i < 8; i++)
		ck_assert_uint_eq(g.rank[i], i % 4);
	sf_global_plan_release(&g);
	ck_assert_int_eq(plan(&w, SHARDFUSE_DEDUP_LOWEST, &g, &err), 0);
	for (unsigned i = 0; i < 8; i++)
		ck_assert_uint_eq(g.rank[i], 0);
	sf_global_plan_release(&g);
	release(&w);
}
END_TEST

START_TEST(a_tensor_without_elements_is_one_chunk)
{
	struct world w = { .nranks = 3 };
	const uint64_t shape[2] = { 0, 4 }, zero[2] = { 0, 0 }, two[2] = { 0, 2 };
	struct sf_global_plan g;
	struct sf_error err = SF_ERROR_INIT;

	for (uint32_t r = 0; r < 3; r++)
		add(&w, r, "none", 2, shape, zero, r == 2 ? two : shape);
	ck_assert_int_eq(plan(&w, SHARDFUSE_DEDUP_LOWEST, &g, &err), 0);
	ck_assert_uint_eq(g.nchunks, 1);
	ck_assert_uint_eq(g.coords[3], 4);
	ck_assert_uint_eq(g.rank[0], 0);
	sf_global_plan_release(&g);
	release(&w);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("save_plan");
	TCase *t = tcase_create("save_plan");

	tcase_add_test(t, rows_of_ranks_are_one_tensor_and_the_lowest_writes_what_all_have);
	tcase_add_test(t, a_hole_is_refused_with_its_place);
	tcase_add_test(t, boxes_that_overlap_are_refused_with_both);
	tcase_add_test(t, what_differs_between_ranks_is_refused);
	tcase_add_test(t, boxes_that_tile_are_accepted_however_they_are_cut);
	tcase_add_test(t, a_hole_or_an_overlap_is_found_wherever_it_is);
	tcase_add_test(t, a_hash_tells_structures_apart_and_not_steps);
	tcase_add_test(t, keys_and_paths_come_out_as_they_went_in);
	tcase_add_test(t, paths_are_those_of_one_nested_dict);
	tcase_add_test(t, records_that_are_cut_or_longer_are_refused);
	tcase_add_test(t, what_all_have_is_written_by_who_has_least);
	tcase_add_test(t, a_tensor_without_elements_is_one_chunk);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return sf_test_main(suite());
}
