#include "config.h"

#include <errno.h>

#include "base/mem.h"
#include "format/dcp/dcp_scan_state.h"

/* The stack's top and the memo: dense where opcodes filled it, a rule where records were passed
 * over. */

int dcp_scan_push(struct dcp_scan *s, dcp_value v)
{
	if (s->stack.n == s->stack.cap) {
		if (s->stack.n >= DCP_STACK_MAX)
			return sf_fail(s->err, -E2BIG,
			               "dcp '%s': more than %u values on the pickle's stack",
			               s->name, DCP_STACK_MAX);
		if (dcp_values_reserve(&s->stack, s->stack.n + 1) < 0)
			return dcp_scan_no_memory(s);
	}
	s->stack.at[s->stack.n++] = v;
	return 0;
}

/* Under which number is a word or class fetched? What comes next will be spelt as the last. */
static void learn(struct dcp_scan *s, dcp_value v, uint32_t number, bool is_long)
{
	const struct dcp_ref ref = { number, is_long };

	if (dcp_tag(v) == V_STR && dcp_num(v) < W_NWORDS)
		s->word_ref[dcp_num(v)] = ref;
	else if (dcp_tag(v) == V_GLOBAL)
		s->class_ref[s->global.at[dcp_num(v)].cls] = ref;
}

int dcp_scan_put(struct dcp_scan *s)
{
	struct dcp_seg *last = s->seg.n ? &s->seg.at[s->seg.n - 1] : NULL;
	dcp_value v;

	if (!dcp_has(s, 1))
		return dcp_scan_bad(s, "the stack is empty");
	if (s->memo_next >= DCP_OBJECTS_MAX)
		return sf_fail(s->err, -E2BIG, "dcp '%s': more than %u memo entries", s->name,
		               DCP_OBJECTS_MAX);
	v = s->stack.at[s->stack.n - 1];
	if (!last || last->kind != SEG_DENSE) {
		struct dcp_seg seg = { .first = s->memo_next,
			               .kind = SEG_DENSE,
			               .base = s->memo.n };
		if (dcp_segs_push(&s->seg, seg) < 0)
			return dcp_scan_no_memory(s);
	}
	if (dcp_values_push(&s->memo, v) < 0)
		return dcp_scan_no_memory(s);
	learn(s, v, s->memo_next, false);
	s->memo_next++;
	return 0;
}

dcp_value dcp_scan_get(struct dcp_scan *s, uint32_t number, int *ret)
{
	size_t lo = 0, hi = s->seg.n;
	const struct dcp_seg *seg;

	*ret = 0;
	if (number >= s->memo_next) {
		*ret = dcp_scan_bad(s, "fetches a memo entry that was never stored");
		return V_OPAQUE;
	}
	if (s->seg.n > 1 && number < s->seg.at[1].first) {
		hi = 1; /* class and attribute names are in the first segment */
	} else if (s->seg.n && number >= s->seg.at[s->seg.n - 1].first) {
		lo = s->seg.n - 1;
	}
	lo += SF_LAST_THAT(i, hi - lo, s->seg.at[lo + i].first <= number);
	seg = &s->seg.at[lo];
	if (seg->kind == SEG_DENSE)
		return s->memo.at[seg->base + (number - seg->first)];
	if (seg->kind == SEG_CHUNKS) {
		uint32_t i = (number - seg->first) / seg->step,
			 k = (number - seg->first) % seg->step;
		uint64_t at = seg->base + (uint64_t)i * 2 * seg->ndim;
		if (k == seg->origin)
			return dcp_v(V_COORDS, at << 8 | seg->ndim);
		if (k == seg->extent)
			return dcp_v(V_COORDS, (at + seg->ndim) << 8 | seg->ndim);
	} else {
		size_t a = 0, b = s->memo_str.n;
		while (a < b) {
			size_t mid = a + (b - a) / 2;
			if (s->memo_str.at[mid].number < number)
				a = mid + 1;
			else
				b = mid;
		}
		if (a < s->memo_str.n && s->memo_str.at[a].number == number)
			return dcp_v(V_STR, s->memo_str.at[a].str);
		for (a = 0, b = s->memo_size.n; a < b;) {
			size_t mid = a + (b - a) / 2;
			if (s->memo_size.at[mid].number < number)
				a = mid + 1;
			else
				b = mid;
		}
		if (a < s->memo_size.n && s->memo_size.at[a].number == number)
			return dcp_v(V_COORDS,
			             s->memo_size.at[a].coord0 << 8 | s->memo_size.at[a].ndim);
	}
	*ret = DCP_AGAIN;
	return V_OPAQUE;
}

int dcp_scan_fetch(struct dcp_scan *s, uint32_t number, bool is_long)
{
	int r;
	dcp_value v = dcp_scan_get(s, number, &r);

	if (r != 0)
		return r;
	if (v == V_RECORDS)
		return DCP_AGAIN; /* the last of many */
	learn(s, v, number, is_long);
	switch (dcp_tag(v)) {
	case V_GLOBAL:
		if (!s->runs)
			break;
		/* A class fetched: another record of a kind that may have been seen. */
		if (s->global.at[dcp_num(v)].cls == C_CHUNK)
			r = dcp_scan_chunk_run(s);
		else if (s->global.at[dcp_num(v)].cls == C_INDEX)
			r = dcp_scan_item_run(s);
		if (r != 0)
			return r < 0 ? r : 0;
		break;
	case V_LIST:
	case V_DICT:
		if (s->cont.at[dcp_num(v)].spent)
			return DCP_UNKNOWN;
		break;
	case V_OBJ:
		v = dcp_made(s, v);
		if (dcp_tag(v) == V_RUN || dcp_tag(v) == V_TENSOR)
			return DCP_UNKNOWN; /* one record in two places */
		break;
	default:
		break;
	}
	return dcp_scan_push(s, v);
}
