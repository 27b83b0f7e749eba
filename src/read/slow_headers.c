#include "config.h"

#include <stdlib.h>

#include "base/mem.h"
#include "read/op.h"

/*
 * Headers of items whose order of records hides the payload: rare. Each is a search through the
 * archive's directory, in rounds (torch_archive.h). A round of the batch is what its searches want
 * next, asked for as everything else is: no thread waits for it.
 */

#define SEARCHES 16 /* at once, for their memory's sake */
/* bytes of a round, unless a single search wants more */
#define ROUND_MAX (UINT64_C(4) << 20)
#define GAP_MAX 4096 /* local headers may lie all over a long item */

struct search {
	struct sf_torch_zip *zip; /* NULL: nothing is searched here */
	struct sf_arena arena;
	uint32_t item;
	uint64_t holds; /* bytes, of what op->holds has */
	bool asked;     /* in this round, for the bytes at: */
	uint64_t at;
};

struct sf_op_slow {
	uint8_t *bytes; /* a round's */
	uint64_t cap;
	uint32_t next; /* items before this one are being searched, or were */
	struct search search[SEARCHES];
};

static void search_holds(struct sf_op *op, struct search *s, uint64_t bytes)
{
	sf_op_holds(op, (int64_t)(bytes - s->holds));
	s->holds = bytes;
}

static void search_end(struct sf_op *op, struct search *s)
{
	sf_torch_zip_free(s->zip);
	sf_arena_release(&s->arena);
	search_holds(op, s, 0);
	s->zip = NULL;
}

void sf_op_slow_free(struct sf_op *op)
{
	if (!op->slow)
		return;
	for (int i = 0; i < SEARCHES; i++)
		search_end(op, &op->slow->search[i]);
	sf_op_holds(op, -(int64_t)op->slow->cap);
	free(op->slow->bytes);
	free(op->slow);
	op->slow = NULL;
}

/* In free places, those items' whose turn it is. */
static int begin_searches(struct sf_op *op)
{
	struct sf_op_slow *slow = op->slow;

	for (int i = 0; i < SEARCHES; i++) {
		struct search *s = &slow->search[i];
		struct sf_op_item *item;
		int r;
		while (!s->zip && slow->next < op->items.n && !op->items.at[slow->next].slow)
			slow->next++;
		if (s->zip || slow->next == op->items.n)
			continue;
		s->arena = (struct sf_arena){ .limit = SF_LAYOUT_PART_MAX };
		s->item = slow->next++;
		item = &op->items.at[s->item];
		r = sf_torch_zip_begin(item->len, op->head.at + item->head_at, item->head_len,
		                       &sf_layout_options, &s->arena, &s->zip, &op->err);
		if (r < 0)
			return sf_op_fail_at(op, item, r);
	}
	return 0;
}

static uint64_t wanted(const struct search *s)
{
	uint64_t bytes = 0;
	size_t n;
	const struct sf_torch_range *range = sf_torch_zip_wants(s->zip, &n);

	for (size_t i = 0; i < n; i++)
		bytes += range[i].len;
	return bytes;
}

/* Who takes part in the round, and where its bytes go. */
static int place_searches(struct sf_op *op)
{
	struct sf_op_slow *slow = op->slow;
	uint64_t bytes = 0;

	for (int i = 0; i < SEARCHES; i++) {
		struct search *s = &slow->search[i];
		uint64_t want = s->zip ? wanted(s) : 0;
		s->asked = s->zip && (!bytes || want <= ROUND_MAX - SF_MIN(bytes, ROUND_MAX));
		if (!s->asked)
			continue;
		s->at = bytes;
		bytes += want;
	}
	if (slow->bytes && bytes <= slow->cap)
		return 0;
	free(slow->bytes);
	sf_op_holds(op, (int64_t)(bytes - slow->cap));
	slow->cap = bytes;
	slow->bytes = malloc(SF_MAX(bytes, (uint64_t)1));
	return slow->bytes ? 0
	                   : sf_fail(&op->err, -ENOMEM, "no memory for %llu bytes of archives",
	                             (unsigned long long)bytes);
}

static int ask(struct sf_op *op, const struct search *s)
{
	const struct sf_op_item *item = &op->items.at[s->item];
	struct sf_source_hints hints = *sf_source_hints(op->sources.at[item->source].src);
	uint64_t at = s->at;
	size_t n;
	const struct sf_torch_range *range = sf_torch_zip_wants(s->zip, &n);

	hints.gap_max = SF_MIN(hints.gap_max, (uint64_t)GAP_MAX);
	op->pieces.n = 0;
	for (size_t i = 0; i < n; at += range[i++].len) {
		struct sf_piece p = {
			.src_off = range[i].off, .dst_off = at, .len = range[i].len, .count = 1
		};
		if (sf_pieces_push(&op->pieces, p) < 0)
			return -ENOMEM;
	}
	return sf_coalesce(&op->co, &hints, item->source, s->item, SF_FETCH_HEADER, item->off,
	                   op->slow->bytes, op->pieces.at, op->pieces.n);
}

int sf_op_ask_slow(struct sf_op *op)
{
	bool any = false;
	int r;

	for (uint32_t i = 0; i < op->items.n; i++)
		any |= op->items.at[i].slow;
	if (!any)
		return 0;
	if (!op->slow)
		op->slow = calloc(1, sizeof(*op->slow));
	if (!op->slow)
		return sf_fail(&op->err, -ENOMEM, "no memory for archives");
	r = begin_searches(op);
	if (r >= 0)
		r = place_searches(op);
	if (r < 0)
		return r;
	sf_coalesce_reset(&op->co);
	for (int i = 0; i < SEARCHES && r >= 0; i++)
		if (op->slow->search[i].asked)
			r = ask(op, &op->slow->search[i]);
	sf_op_count_scratch(op);
	op->io_at = 0;
	return r < 0 ? sf_fail(&op->err, r, "no memory for archives") : SF_STEP_OTHER;
}

/* Its round's bytes are there. */
static int take(struct sf_op *op, struct search *s)
{
	struct sf_op_item *item = &op->items.at[s->item];
	struct sf_torch_archive a;
	struct sf_torch_item head;
	int r = sf_torch_zip_take(s->zip, op->slow->bytes + s->at, &a, &op->err);

	if (r > 0) {
		search_holds(op, s, sf_torch_zip_holds(s->zip));
		return 0;
	}
	if (r == 0)
		r = sf_layout_from_archive(&a, &head, &op->err);
	if (r == 0)
		r = sf_op_publish(op, item, &head);
	search_end(op, s);
	item->slow = false;
	return r < 0 ? sf_op_fail_at(op, item, r) : 0;
}

int sf_op_parse_slow(struct sf_op *op)
{
	int r = 0;

	for (int i = 0; i < SEARCHES && r >= 0; i++)
		if (op->slow->search[i].asked)
			r = take(op, &op->slow->search[i]);
	return SF_MIN(r, 0);
}
