#include "config.h"

#include "tests/lib/plan_world.h"

/*
 * Regions that are a range and a box both: coordinates of some first dimensions, a part of the next
 * one, all of the rest. However they are asked for, the same chunks give the same bytes, those of a
 * map that has the first chunk of each element.
 */

struct both {
	uint64_t lo[TC_DIMS], hi[TC_DIMS];
	uint64_t first, n; /* elements */
	int64_t stride[TC_DIMS];
};

static void random_region(const struct tc_tensor *t, uint64_t *seed, struct both *b)
{
	unsigned along = t->ndim ? (unsigned)sf_test_below(seed, t->ndim) : 0;
	uint64_t inner = 1;

	b->first = 0;
	b->n = 1;
	for (unsigned d = 0; d < t->ndim; d++) {
		uint64_t most = d < along ? 1 : t->shape[d];
		b->lo[d] = d > along ? 0 : sf_test_below(seed, t->shape[d]);
		most = SF_MIN(most, t->shape[d] - b->lo[d]);
		b->hi[d] = b->lo[d] + (d == along ? 1 + sf_test_below(seed, most) : most);
		b->first = b->first * t->shape[d] + b->lo[d];
		b->n *= b->hi[d] - b->lo[d];
	}
	for (unsigned d = t->ndim; d-- > 0; inner *= t->shape[d])
		b->stride[d] = (int64_t)(inner * t->elem);
}

/* What pieces make of @len bytes: the bytes, and whether each came once. */
static void carry_out(const struct sf_pieces *pieces, const struct sf_u32s *chunks, uint64_t len,
                      uint8_t *out)
{
	static uint8_t times[BYTES_MAX];

	memset(times, 0, len);
	for (size_t i = 0; i < pieces->n; i++) {
		const struct sf_piece *p = &pieces->at[i];
		const struct item *item = &tc_items[chunks->at[p->item]];
		for (uint64_t k = 0; k < p->count; k++) {
			uint64_t src = p->src_off + k * (uint64_t)p->src_step,
				 dst = p->dst_off + k * (uint64_t)p->dst_step;
			ck_assert_uint_le(src + p->len, item->layout.payload_len);
			ck_assert_uint_le(dst + p->len, len);
			memcpy(out + dst, item->at + src, p->len);
			for (uint64_t n = 0; n < p->len; n++)
				times[dst + n]++;
		}
	}
	for (uint64_t i = 0; i < len; i++)
		if (times[i] != 1)
			ck_abort_msg("byte %llu of %llu: given %u times", (unsigned long long)i,
			             (unsigned long long)len, times[i]);
}

static void check(const struct tc_tensor *t, const struct sf_ckpt *ckpt, const struct both *b)
{
	static uint8_t range[BYTES_MAX], box[BYTES_MAX];
	const struct sf_tensor *st = &ckpt->tensor[0];
	uint64_t off = b->first * t->elem, len = b->n * t->elem;
	struct sf_u32s of_range = { 0 }, of_box = { 0 };
	struct sf_pieces range_pieces = { 0 }, box_pieces = { 0 };
	struct sf_error err = SF_ERROR_INIT, box_err = SF_ERROR_INIT;
	int r = sf_plan_chunks(ckpt, st, off, len, &of_range, &err);
	bool hole = false;

	for (uint64_t x = b->first; x < b->first + b->n; x++)
		hole |= owner(t, tc_holds, x) < 0;
	ck_assert_int_eq(r, hole ? -EBADMSG : 0);
	ck_assert_int_eq(sf_plan_box_chunks(ckpt, st, b->lo, b->hi, &of_box, &box_err), r);
	ck_assert_str_eq(err.msg, box_err.msg);
	ck_assert_uint_eq(of_range.n, of_box.n);
	for (size_t i = 0; i < of_range.n; i++) {
		uint32_t chunk = of_range.at[i];
		const struct sf_item_layout *layout = &tc_items[chunk].layout;
		ck_assert_uint_eq(of_box.at[i], chunk);
		r = sf_plan_pieces(ckpt, st, chunk, layout, off, len, (uint32_t)i, &range_pieces,
		                   &err);
		ck_assert_msg(r == 0, "%s", err.msg);
		r = sf_plan_box_pieces(ckpt, st, chunk, layout, b->lo, b->hi, b->stride,
		                       (uint32_t)i, &box_pieces, &err);
		ck_assert_msg(r == 0, "%s", err.msg);
	}
	if (!hole) {
		carry_out(&range_pieces, &of_range, len, range);
		carry_out(&box_pieces, &of_box, len, box);
		ck_assert_mem_eq(range, box, len);
	}
	for (uint64_t i = 0; !hole && i < len; i++) {
		uint64_t x = b->first + i / t->elem;
		if (range[i] != byte_of((size_t)owner(t, tc_holds, x), x, i % t->elem))
			ck_abort_msg("byte %llu of %llu is another's", (unsigned long long)i,
			             (unsigned long long)len);
	}
	sf_u32s_release(&of_range);
	sf_u32s_release(&of_box);
	sf_pieces_release(&range_pieces);
	sf_pieces_release(&box_pieces);
}

/* _i: the kind of cut, spoilt (holes, overlaps) or not. */
START_TEST(a_range_and_a_box_of_the_same_elements_are_the_same_bytes)
{
	uint64_t seed = sf_test_seed("plan_agree") + (unsigned)_i;
	struct tc_tensor t;
	struct both b;

	for (int round = 0; round < 60; round++) {
		tc_random(&t, &seed, (enum tc_kind)(_i / 2), 400, _i % 2);
		if (!t.numel)
			continue;
		struct sf_ckpt *ckpt = tc_ckpt(&t);
		prepare(&t, &seed);
		for (int i = 0; i < 20; i++) {
			random_region(&t, &seed, &b);
			check(&t, ckpt, &b);
		}
		sf_ckpt_free(ckpt);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("plan_agree");
	TCase *tc = tcase_create("plan_agree");

	tcase_set_timeout(tc, 30);
	tcase_add_loop_test(tc, a_range_and_a_box_of_the_same_elements_are_the_same_bytes, 0,
	                    2 * TC_NKINDS);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
