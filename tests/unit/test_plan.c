#include "config.h"

#include "base/mem.h"
#include "ckpt/ckpt_order.h"
#include "read/plan.h"
#include "tests/lib/sf_test.h"
#include "tests/lib/plan_world.h"

static void check_chunk_list(const struct tc_tensor *t, const uint8_t *holds, uint64_t off,
                             uint64_t len, const struct sf_u32s *got)
{
	uint64_t from = off / t->elem, to = (off + len - 1) / t->elem + 1, before = 0;
	uint8_t listed[TC_CHUNKS] = { 0 };

	for (size_t i = 0; i < got->n; i++) {
		uint64_t x = from;
		if (got->at[i] >= t->n || listed[got->at[i]])
			ck_abort_msg("chunk %u of %zu is listed twice", got->at[i], t->n);
		listed[got->at[i]] = 1;
		while (x < to && !holds[got->at[i] * t->numel + x])
			x++;
		if (x >= to || x < before)
			ck_abort_msg("chunk %u holds nothing of the range, or comes late",
			             got->at[i]);
		before = x;
	}
	for (size_t i = 0; i < t->n; i++)
		for (uint64_t x = from; x < to && !listed[i]; x++)
			if (holds[i * t->numel + x])
				ck_abort_msg("chunk %zu holds element %llu and is not listed", i,
				             (unsigned long long)x);
}

static size_t npieces; /* of the last range */

/* No assertion a byte: the framework writes one line for each. */

static bool alike(const struct sf_piece *a, const struct sf_piece *b)
{
	return a->src_off == b->src_off && a->dst_off == b->dst_off && a->len == b->len &&
	       a->count == b->count && a->src_step == b->src_step && a->dst_step == b->dst_step &&
	       a->item == b->item && a->kind == b->kind;
}

/* Window by window, of @most pieces each, it is the same as at once. */
static void check_windows(const struct sf_ckpt *ckpt, const struct sf_tensor *st,
                          const struct item *items, uint64_t off, uint64_t len,
                          const struct sf_u32s *chunks, const struct sf_pieces *all)
{
	struct sf_pieces some = { 0 };
	size_t at = 0;

	for (size_t i = 0; i < chunks->n; i++) {
		struct sf_piece_window w = { .most = 1 + (off + len + i) % 5 };
		do {
			some.n = 0;
			ck_assert_int_eq(sf_plan_some_pieces(ckpt, st, chunks->at[i],
			                                     &items[chunks->at[i]].layout, off, len,
			                                     (uint32_t)i, &w, &some, NULL),
			                 0);
			bool same = some.n <= all->n - at;
			for (size_t k = 0; k < some.n && same; k++)
				same = alike(&some.at[k], &all->at[at + k]);
			if (some.n > w.most || (w.more && some.n != w.most) || !same)
				ck_abort_msg("chunk %zu: %zu pieces behind %llu others differ", i,
				             some.n, (unsigned long long)w.skip);
			at += some.n;
			w.skip += some.n;
		} while (w.more);
	}
	ck_assert_uint_eq(at, all->n);
	sf_pieces_release(&some);
}

static void check_range(const struct tc_tensor *t, const struct sf_ckpt *ckpt,
                        const struct item *items, const uint8_t *holds, uint64_t off, uint64_t len)
{
	static uint8_t got[BYTES_MAX], times[BYTES_MAX];
	const struct sf_tensor *st = &ckpt->tensor[0];
	struct sf_u32s chunks = { 0 };
	struct sf_pieces pieces = { 0 };
	struct sf_error err = SF_ERROR_INIT;
	int64_t hole = -1;
	int r = sf_plan_chunks(ckpt, st, off, len, &chunks, &err);

	for (uint64_t x = off / t->elem; len && x <= (off + len - 1) / t->elem && hole < 0; x++)
		if (owner(t, holds, x) < 0)
			hole = (int64_t)x;
	if (hole >= 0) {
		char text[64];
		uint64_t byte = SF_MAX((uint64_t)hole * t->elem, off);
		snprintf(text, sizeof(text), "(byte %llu of %llu)", (unsigned long long)byte,
		         (unsigned long long)st->bytes);
		ck_assert_int_eq(r, -EBADMSG);
		ck_assert_msg(strstr(err.msg, text) && strstr(err.msg, "'w'"), "%s: not %s",
		              err.msg, text);
		ck_assert_uint_eq(chunks.n, 0);
		sf_u32s_release(&chunks);
		return;
	}
	ck_assert_msg(r == 0, "%s", err.msg);
	if (len)
		check_chunk_list(t, holds, off, len, &chunks);
	memset(times, 0, len);
	for (size_t i = 0; i < chunks.n; i++) {
		const struct item *item = &items[chunks.at[i]];
		r = sf_plan_pieces(ckpt, st, chunks.at[i], &item->layout, off, len, (uint32_t)i,
		                   &pieces, &err);
		ck_assert_msg(r == 0, "%s", err.msg);
	}
	check_windows(ckpt, st, items, off, len, &chunks, &pieces);
	for (size_t i = 0; i < pieces.n; i++) {
		const struct sf_piece *p = &pieces.at[i];
		const struct item *item = &items[chunks.at[p->item]];
		if (!p->len || !p->count || p->kind != SF_PIECE_BYTES)
			ck_abort_msg("a piece of nothing");
		for (uint64_t k = 0; k < p->count; k++) {
			uint64_t src = p->src_off + k * (uint64_t)p->src_step,
				 dst = p->dst_off + k * (uint64_t)p->dst_step;
			if (src + p->len > item->layout.payload_len || dst + p->len > len)
				ck_abort_msg("%llu bytes from %llu to %llu",
				             (unsigned long long)p->len, (unsigned long long)src,
				             (unsigned long long)dst);
			memcpy(got + dst, item->at + src, p->len);
			for (uint64_t b = 0; b < p->len; b++)
				times[dst + b]++;
		}
	}
	for (uint64_t b = 0; b < len; b++) {
		uint64_t x = (off + b) / t->elem;
		uint8_t want = byte_of((size_t)owner(t, holds, x), x, (off + b) % t->elem);
		if (times[b] != 1 || got[b] != want)
			ck_abort_msg("byte %llu of [%llu, +%llu) is given %u times, last %u not %u",
			             (unsigned long long)b, (unsigned long long)off,
			             (unsigned long long)len, times[b], got[b], want);
	}
	npieces = pieces.n;
	sf_u32s_release(&chunks);
	sf_pieces_release(&pieces);
}

/* _i: the kind, spoilt or not. Small tensors in every range. */
START_TEST(every_range_of_a_small_tensor_is_given_byte_for_byte)
{
	uint64_t seed = sf_test_seed("every_range");
	struct tc_tensor t;

	for (int round = 0; round < 25; round++) {
		tc_random(&t, &seed, (enum tc_kind)(_i / 2), 24, _i % 2);
		if (t.n > 24)
			continue;
		struct sf_ckpt *ckpt = tc_ckpt(&t);
		uint64_t bytes = t.numel * t.elem, step = bytes > 64 ? 7 : 1;
		prepare(&t, &seed);
		for (uint64_t off = 0; off <= bytes; off += step)
			for (uint64_t end = off; end <= bytes; end += step)
				check_range(&t, ckpt, tc_items, tc_holds, off, end - off);
		check_range(&t, ckpt, tc_items, tc_holds, 0, bytes);
		sf_ckpt_free(ckpt);
	}
}
END_TEST

START_TEST(random_ranges_of_larger_tensors_are_given_byte_for_byte)
{
	uint64_t seed = sf_test_seed("random_ranges");
	struct tc_tensor t;

	for (int round = 0; round < 40; round++) {
		tc_random(&t, &seed, (enum tc_kind)(_i / 2), 700, _i % 2);
		struct sf_ckpt *ckpt = tc_ckpt(&t);
		uint64_t bytes = t.numel * t.elem;
		prepare(&t, &seed);
		check_range(&t, ckpt, tc_items, tc_holds, 0, bytes);
		for (int i = 0; i < 40; i++) {
			uint64_t off = sf_test_below(&seed, bytes + 1);
			check_range(&t, ckpt, tc_items, tc_holds, off,
			            sf_test_below(&seed, bytes - off + 1));
		}
		sf_ckpt_free(ckpt);
	}
}
END_TEST

static void sharded(struct tc_tensor *t, uint64_t rows, uint64_t cols, uint64_t cut_rows,
                    uint64_t cut_cols)
{
	memset(t, 0, sizeof(*t));
	*t = (struct tc_tensor){ .ndim = 2,
		                 .shape = { rows, cols },
		                 .numel = rows * cols,
		                 .dtype = SF_BFLOAT16,
		                 .elem = 2 };
	for (uint64_t r = 0; r < rows; r += cut_rows)
		for (uint64_t c = 0; c < cols; c += cut_cols)
			tc_add(t, (uint64_t[]){ r, c }, (uint64_t[]){ cut_rows, cut_cols });
}

START_TEST(row_shards_take_one_piece_each_and_column_shards_one_strided_piece)
{
	uint64_t seed = 1;
	struct tc_tensor t;
	struct sf_ckpt *ckpt;

	sharded(&t, 16, 8, 4, 8);
	ckpt = tc_ckpt(&t);
	prepare(&t, &seed);
	for (size_t i = 0; i < t.n; i++)
		tc_items[i].layout.row_major = false;
	seed = 3;
	for (size_t i = 0; i < t.n; i++)
		do
			make_item(&t, i, &seed, &tc_items[i]);
		while (!tc_items[i].layout.row_major);
	check_range(&t, ckpt, tc_items, tc_holds, 5, 16 * 16 - 10);
	ck_assert_uint_eq(npieces, 4);
	sf_ckpt_free(ckpt);

	sharded(&t, 16, 8, 16, 2);
	ckpt = tc_ckpt(&t);
	prepare(&t, &seed);
	for (size_t i = 0; i < t.n; i++)
		do
			make_item(&t, i, &seed, &tc_items[i]);
		while (!tc_items[i].layout.row_major);
	check_range(&t, ckpt, tc_items, tc_holds, 0, 16 * 16);
	ck_assert_uint_eq(npieces, 4);
	check_range(&t, ckpt, tc_items, tc_holds, 3 * 16, 2 * 16 + 4);
	ck_assert_uint_eq(npieces, 4);
	/* begins and ends inside a shard's row: that shard takes two more, the others do not */
	check_range(&t, ckpt, tc_items, tc_holds, 6, 10 * 16);
	ck_assert_uint_eq(npieces, 6);
	sf_ckpt_free(ckpt);
}
END_TEST

START_TEST(a_transposed_item_is_one_piece_a_row)
{
	const uint64_t stride_rows = 1, stride_cols = 16;
	uint64_t seed = 1;
	struct tc_tensor t;
	struct sf_ckpt *ckpt;

	sharded(&t, 16, 8, 16, 8);
	ckpt = tc_ckpt(&t);
	do
		prepare(&t, &seed);
	while (tc_items[0].layout.row_major || (uint64_t)tc_items[0].stride[0] != stride_rows ||
	       (uint64_t)tc_items[0].stride[1] != stride_cols);
	check_range(&t, ckpt, tc_items, tc_holds, 0, 16 * 16);
	ck_assert_uint_eq(npieces, 16);
	sf_ckpt_free(ckpt);
}
END_TEST

START_TEST(layouts_that_do_not_hold_their_box_are_refused)
{
	struct tc_tensor t;
	struct sf_ckpt *ckpt;
	struct sf_pieces pieces = { 0 };
	struct sf_error err = SF_ERROR_INIT;
	int64_t stride[2] = { 8, 1 };
	struct sf_item_layout layout = { .payload_len = 255, .row_major = true, .stride = stride };

	sharded(&t, 16, 8, 16, 8);
	ckpt = tc_ckpt(&t);
	ck_assert_int_eq(sf_plan_pieces(ckpt, ckpt->tensor, 0, &layout, 0, 256, 0, &pieces, &err),
	                 -EBADMSG);
	ck_assert_msg(strstr(err.msg, "255") && strstr(err.msg, "256"), "%s", err.msg);
	layout.row_major = false;
	ck_assert_int_eq(sf_plan_pieces(ckpt, ckpt->tensor, 0, &layout, 0, 256, 0, &pieces, &err),
	                 -EBADMSG);
	layout.payload_len = 256;
	ck_assert_int_eq(sf_plan_pieces(ckpt, ckpt->tensor, 0, &layout, 0, 256, 0, &pieces, &err),
	                 0);
	stride[0] = -8;
	ck_assert_int_eq(sf_plan_pieces(ckpt, ckpt->tensor, 0, &layout, 0, 256, 0, &pieces, &err),
	                 -EBADMSG);
	stride[0] = INT64_MAX;
	ck_assert_int_eq(sf_plan_pieces(ckpt, ckpt->tensor, 0, &layout, 0, 256, 0, &pieces, &err),
	                 -EBADMSG);
	ck_assert_int_eq(sf_plan_pieces(ckpt, ckpt->tensor, 0, &layout, 1, 256, 0, &pieces, &err),
	                 -EINVAL);
	ck_assert_int_eq(
		sf_plan_pieces(ckpt, ckpt->tensor, 0, &layout, UINT64_MAX, 2, 0, &pieces, &err),
		-EINVAL);
	ck_assert_uint_eq(pieces.n, 1);
	sf_pieces_release(&pieces);
	sf_ckpt_free(ckpt);
}
END_TEST

/* Which elements of the box would it hold? */
START_TEST(a_part_of_a_box_that_is_not_contiguous_is_not_supported)
{
	const uint64_t origin[2] = { 0, 0 }, extent[2] = { 16, 8 };
	const int64_t stride[2] = { 1, 16 };
	const struct sf_item_layout layout = { .payload_len = 1024, .stride = stride };
	struct tc_tensor t;
	struct sf_pieces pieces = { 0 };
	struct sf_error err = SF_ERROR_INIT;

	sharded(&t, 16, 8, 16, 8);
	tc_add(&t, origin, extent);
	t.parts = true;
	t.chunk[0].part_off = 0;
	t.chunk[0].part_len = 100;
	t.chunk[1].part_off = 100;
	t.chunk[1].part_len = 28;
	struct sf_ckpt *ckpt = tc_ckpt(&t);
	ck_assert_int_eq(sf_plan_pieces(ckpt, ckpt->tensor, 0, &layout, 0, 2, 0, &pieces, &err),
	                 -ENOTSUP);
	ck_assert_msg(strstr(err.msg, "holds 100 of its box's 128"), "%s", err.msg);
	ck_assert_uint_eq(pieces.n, 0);
	sf_ckpt_free(ckpt);
}
END_TEST

START_TEST(conjugated_items_are_marked)
{
	struct tc_tensor t;
	struct sf_ckpt *ckpt;
	struct sf_pieces pieces = { 0 };
	struct sf_item_layout layout = { .payload_len = 256, .row_major = true, .neg = true };

	sharded(&t, 16, 8, 16, 8);
	ckpt = tc_ckpt(&t);
	ck_assert_int_eq(sf_plan_pieces(ckpt, ckpt->tensor, 0, &layout, 0, 256, 7, &pieces, NULL),
	                 0);
	ck_assert_uint_eq(pieces.n, 1);
	ck_assert_int_eq(pieces.at[0].kind, SF_PIECE_CONVERT);
	ck_assert_uint_eq(pieces.at[0].item, 7);
	sf_pieces_release(&pieces);
	sf_ckpt_free(ckpt);
}
END_TEST

/* A million chunks: _i = 0 a grid; 1 one row of it is cut elsewhere, so it is none; 2 one tall
 * chunk beside rows. The reads take 0.03 s; looking at every chunk would run into Check's limit for
 * a test. */
START_TEST(a_read_under_a_million_chunks_touches_few)
{
	const uint64_t n = 1000, shape[2] = { 2 * n * (_i == 2 ? n : 1), 2 * n };
	struct sf_ckpt_builder *b;
	struct sf_ckpt *ckpt;
	struct sf_u32s chunks = { 0 };
	struct sf_error err = SF_ERROR_INIT;
	uint64_t seed = sf_test_seed("a_million");
	uint32_t id;

	ck_assert_int_eq(sf_ckpt_builder_new("test", "memory", &b, &err), 0);
	ck_assert_int_eq(sf_ckpt_builder_tensor(b, "w", 1, SF_FLOAT32, shape, 2, &id, &err), 0);
	if (_i == 2) {
		ck_assert_int_eq(sf_ckpt_builder_chunk(b, (uint64_t[]){ 0, 0 },
		                                       (uint64_t[]){ shape[0], n }, &err),
		                 0);
		for (uint64_t r = 0; r < n * n; r++)
			ck_assert_int_eq(sf_ckpt_builder_chunk(b, (uint64_t[]){ 2 * r, n },
			                                       (uint64_t[]){ 2, n }, &err),
			                 0);
	} else {
		for (uint64_t r = 0; r < n; r++)
			for (uint64_t c = 0; c < n; c++) {
				uint64_t o[2] = { 2 * r, 2 * c }, e[2] = { 2, 2 };
				if (_i == 1 && r == 500 && c < 2) {
					o[1] = c ? 1 : 0;
					e[1] = c ? 3 : 1;
				}
				ck_assert_int_eq(sf_ckpt_builder_chunk(b, o, e, &err), 0);
			}
	}
	ck_assert_int_eq(sf_ckpt_builder_finish(b, &ckpt, &err), 0);
	ck_assert_int_eq(ckpt->tensor[0].flags &
	                         (SF_TENSOR_GRID | SF_TENSOR_HOLE | SF_TENSOR_OVERLAP),
	                 _i ? 0 : SF_TENSOR_GRID);
	ck_assert_msg(ckpt->arena.used < 64 * ckpt->nchunks, "%zu bytes for %llu chunks",
	              ckpt->arena.used, (unsigned long long)ckpt->nchunks);
	for (int i = 0; i < 20000; i++) {
		uint64_t off = sf_test_below(&seed, ckpt->tensor[0].bytes - 16);
		chunks.n = 0;
		ck_assert_int_eq(sf_plan_chunks(ckpt, ckpt->tensor, off, 16, &chunks, &err), 0);
		ck_assert_uint_ge(chunks.n, 1);
		ck_assert_uint_le(chunks.n, 5);
	}
	sf_u32s_release(&chunks);
	sf_ckpt_free(ckpt);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("plan");
	TCase *tc = tcase_create("plan");

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, every_range_of_a_small_tensor_is_given_byte_for_byte, 0,
	                    2 * TC_NKINDS);
	tcase_add_loop_test(tc, random_ranges_of_larger_tensors_are_given_byte_for_byte, 0,
	                    2 * TC_NKINDS);
	tcase_add_test(tc, row_shards_take_one_piece_each_and_column_shards_one_strided_piece);
	tcase_add_test(tc, a_transposed_item_is_one_piece_a_row);
	tcase_add_test(tc, layouts_that_do_not_hold_their_box_are_refused);
	tcase_add_test(tc, a_part_of_a_box_that_is_not_contiguous_is_not_supported);
	tcase_add_test(tc, conjugated_items_are_marked);
	tcase_add_loop_test(tc, a_read_under_a_million_chunks_touches_few, 0, 3);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
