#include "config.h"

#include "tests/lib/plan_world.h"

/* A box of a tensor, and where it goes: bytes from one element to the next, and of the first. */
struct box {
	uint64_t lo[TC_DIMS], hi[TC_DIMS], volume;
	int64_t stride[TC_DIMS], first;
	uint64_t bytes; /* that the places span */
};

/* Dense, or its dimensions in any order, backwards, with gaps. */
static void random_box(const struct tc_tensor *t, uint64_t *seed, struct box *b)
{
	unsigned order[TC_DIMS];
	uint64_t span = t->elem;

	b->volume = 1;
	b->first = 0;
	for (unsigned d = 0; d < t->ndim; d++) {
		b->lo[d] = sf_test_below(seed, t->shape[d]);
		b->hi[d] = b->lo[d] + 1 + sf_test_below(seed, t->shape[d] - b->lo[d]);
		b->volume *= b->hi[d] - b->lo[d];
		size_t k = sf_test_below(seed, d + 1u);
		order[d] = order[k];
		order[k] = d;
	}
	for (unsigned i = 0; i < t->ndim; i++) {
		unsigned d = order[i];
		uint64_t n = b->hi[d] - b->lo[d];
		bool back = sf_test_below(seed, 3) == 0;
		b->stride[d] = back ? -(int64_t)span : (int64_t)span;
		if (back)
			b->first += (int64_t)((n - 1) * span);
		span *= n;
		if (sf_test_below(seed, 4) == 0)
			span += t->elem;
	}
	b->bytes = span;
}

static int64_t place_of(const struct tc_tensor *t, const struct box *b, uint64_t x)
{
	uint64_t at[TC_DIMS];
	int64_t to = b->first;

	tc_coords(t, x, at);
	for (unsigned d = 0; d < t->ndim; d++) {
		if (at[d] < b->lo[d] || at[d] >= b->hi[d])
			return -1;
		to += (int64_t)(at[d] - b->lo[d]) * b->stride[d];
	}
	return to;
}

static size_t npieces; /* of the last box */

static void check_box(const struct tc_tensor *t, const struct sf_ckpt *ckpt, const struct box *b)
{
	static uint8_t got[BYTES_MAX * 4], times[BYTES_MAX * 4];
	const struct sf_tensor *st = &ckpt->tensor[0];
	struct sf_u32s chunks = { 0 };
	struct sf_pieces pieces = { 0 };
	struct sf_error err = SF_ERROR_INIT;
	bool hole = false;
	int r = sf_plan_box_chunks(ckpt, st, b->lo, b->hi, &chunks, &err);

	for (uint64_t x = 0; x < t->numel; x++)
		hole |= place_of(t, b, x) >= 0 && owner(t, tc_holds, x) < 0;
	if (hole) {
		ck_assert_int_eq(r, -EBADMSG);
		ck_assert_msg(strstr(err.msg, "'w'") && strstr(err.msg, "no chunk holds element"),
		              "%s", err.msg);
		ck_assert_uint_eq(chunks.n, 0);
		sf_u32s_release(&chunks);
		return;
	}
	ck_assert_msg(r == 0, "%s", err.msg);
	ck_assert_uint_le(b->bytes, sizeof(got));
	memset(times, 0, b->bytes);
	for (size_t i = 0; i < chunks.n; i++) {
		for (size_t k = 0; k < i; k++)
			ck_assert_uint_ne(chunks.at[i], chunks.at[k]);
		r = sf_plan_box_pieces(ckpt, st, chunks.at[i], &tc_items[chunks.at[i]].layout,
		                       b->lo, b->hi, b->stride, (uint32_t)i, &pieces, &err);
		ck_assert_msg(r == 0, "%s", err.msg);
	}
	for (size_t i = 0; i < pieces.n; i++) {
		const struct sf_piece *p = &pieces.at[i];
		const struct item *item = &tc_items[chunks.at[p->item]];
		for (uint64_t k = 0; k < p->count; k++) {
			uint64_t src = p->src_off + k * (uint64_t)p->src_step,
				 dst = (uint64_t)b->first + p->dst_off + k * (uint64_t)p->dst_step;
			ck_assert_uint_le(src + p->len, item->layout.payload_len);
			ck_assert_uint_le(dst + p->len, b->bytes);
			memcpy(got + dst, item->at + src, p->len);
			for (uint64_t n = 0; n < p->len; n++)
				times[dst + n]++;
		}
	}
	uint64_t given = 0;
	for (uint64_t x = 0; x < t->numel; x++) {
		int64_t to = place_of(t, b, x);
		for (uint64_t n = 0; to >= 0 && n < t->elem; n++) {
			if (times[(uint64_t)to + n] != 1 ||
			    got[(uint64_t)to + n] != byte_of((size_t)owner(t, tc_holds, x), x, n))
				ck_abort_msg("element %llu, byte %llu: given %u times",
				             (unsigned long long)x, (unsigned long long)n,
				             times[(uint64_t)to + n]);
			given++;
		}
	}
	for (uint64_t i = 0, all = 0; i < b->bytes; i++) { /* and nothing beside them */
		all += times[i];
		ck_assert(i + 1 < b->bytes || all == given);
	}
	npieces = pieces.n;
	sf_u32s_release(&chunks);
	sf_pieces_release(&pieces);
}

/* _i: the kind, spoilt or not. */
START_TEST(random_boxes_are_given_byte_for_byte_wherever_they_go)
{
	uint64_t seed = sf_test_seed("random_boxes");
	struct tc_tensor t;
	struct box b;

	for (int round = 0; round < 40; round++) {
		tc_random(&t, &seed, (enum tc_kind)(_i / 2), 400, _i % 2);
		if (!t.ndim || !t.numel)
			continue;
		struct sf_ckpt *ckpt = tc_ckpt(&t);
		prepare(&t, &seed);
		for (int i = 0; i < 20; i++) {
			random_box(&t, &seed, &b);
			check_box(&t, ckpt, &b);
		}
		sf_ckpt_free(ckpt);
	}
}
END_TEST

/* Whatever the destination's strides, a dense chunk gives a piece a row at most. */
START_TEST(a_transposed_destination_takes_a_piece_a_row)
{
	const uint64_t shape[] = { 16, 8 };
	struct box b = {
		.lo = { 2, 1 }, .hi = { 14, 7 }, .volume = 72, .stride = { 2, 24 }, .bytes = 144
	};
	struct tc_tensor t = { .ndim = 2, .elem = 2, .dtype = SF_FLOAT16, .numel = 128 };
	const uint64_t origin[] = { 0, 0 };
	uint64_t seed = 1;
	struct sf_ckpt *ckpt;

	memcpy(t.shape, shape, sizeof(shape));
	tc_add(&t, origin, shape);
	ckpt = tc_ckpt(&t);
	do
		prepare(&t, &seed);
	while (!tc_items[0].layout.row_major);
	check_box(&t, ckpt, &b);
	ck_assert_uint_eq(npieces, 12);
	b.stride[0] = 12;
	b.stride[1] = 2;
	check_box(&t, ckpt, &b); /* dense: one strided piece */
	ck_assert_uint_eq(npieces, 1);
	sf_ckpt_free(ckpt);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("plan_box");
	TCase *tc = tcase_create("plan_box");

	tcase_set_timeout(tc, 30);
	tcase_add_loop_test(tc, random_boxes_are_given_byte_for_byte_wherever_they_go, 0,
	                    2 * TC_NKINDS);
	tcase_add_test(tc, a_transposed_destination_takes_a_piece_a_row);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
