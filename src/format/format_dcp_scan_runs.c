#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "format/format_dcp_scan_state.h"

/*
 * A million chunks are two million records of the same bytes but for a few numbers. Once one of a
 * kind went through the opcodes, the memo numbers under which its class and attribute names are
 * fetched are known, so the constant bytes of the next are known too: a record is a few comparisons
 * and its numbers. What is memoised in it only moves the counter on; a segment says how to find it
 * again (torch.Sizes of chunks, strings), anything else fetched means another scan.
 *
 * A record that is spelt otherwise in any byte (a FRAME in between, a new file name, another
 * attribute) goes through the opcodes, and the run goes on behind it. Source of the spelling:
 * CPython's Modules/_pickle.c, save_reduce, protocols 4 and 5.
 */

/* Constant bytes of a record between its numbers, compared eight at a time. */
struct fixed {
	uint64_t word[3], mask[3]; /* native order */
	uint8_t at[24], len;
};

/* Is there room for one more record, wherever it ends? Asks for more of the file; at its end the
 * opcodes do the rest. */
static int room(struct dcp_scan *s, const uint8_t **p)
{
	int r;

	if ((size_t)(s->end - *p) >= DCP_SOFT)
		return 1;
	s->op = s->p = *p;
	r = dcp_scan_fill(s, 1);
	*p = s->p;
	return r < 0 ? r : (size_t)(s->end - *p) >= DCP_SOFT;
}

static bool add(struct fixed *f, const void *p, uint8_t n)
{
	memcpy(f->at + f->len, p, n);
	f->len = (uint8_t)(f->len + n);
	return true;
}

/* BINGET or LONG_BINGET, as pickle chooses. False: that value was never memoised. */
static bool add_get(struct fixed *f, uint32_t number)
{
	uint8_t b[5] = { 'h', (uint8_t)number };

	if (number == DCP_NONE)
		return false;
	if (number < 256)
		return add(f, b, 2);
	b[0] = 'j';
	sf_put_le32(b + 1, number);
	return add(f, b, 5);
}

static void seal(struct fixed *f)
{
	uint8_t mask[24] = { 0 };

	memset(mask, 0xff, f->len);
	memcpy(f->mask, mask, sizeof(mask));
	memcpy(f->word, f->at, sizeof(f->at)); /* zero behind len: they are made with { 0 } */
}

/* @p has 24 bytes (room() saw to it). */
static inline bool take_fixed(const uint8_t **p, const struct fixed *f)
{
	uint64_t w[3];

	memcpy(w, *p, sizeof(w));
	if (((w[0] & f->mask[0]) ^ f->word[0]) | ((w[1] & f->mask[1]) ^ f->word[1]) |
	    ((w[2] & f->mask[2]) ^ f->word[2]))
		return false;
	*p += f->len;
	return true;
}

/* A number ≥ 0 as pickle spells it; LONG1 (over 31 bits) up to 2^59. */
static inline bool take_int(const uint8_t **pp, uint64_t *ret)
{
	const uint8_t *p = *pp;

	switch (*p) {
	case 'K':
		*ret = p[1];
		*pp = p + 2;
		return true;
	case 'M':
		*ret = sf_le16(p + 1);
		*pp = p + 3;
		return true;
	case 'J':
		*ret = sf_le32(p + 1);
		*pp = p + 5;
		return *ret <= INT32_MAX;
	case 0x8a:
		if (p[1] == 0 || p[1] > 8)
			return false;
		*ret = 0;
		for (unsigned i = 0; i < p[1]; i++)
			*ret |= (uint64_t)p[2 + i] << 8 * i;
		if (p[1 + p[1]] & 0x80 || *ret >> 59)
			return false;
		*pp = p + 2 + p[1];
		return true;
	default:
		return false;
	}
}

/* The numbers of a torch.Size and the opcodes up to its memo entry: TUPLEn MEMOIZE TUPLE1 MEMOIZE
 * REDUCE MEMOIZE. */
static inline bool take_dims(const uint8_t **pp, unsigned ndim, uint64_t *ret)
{
	static const uint8_t end[] = { 0x94, 0x85, 0x94, 'R', 0x94 };
	const uint8_t *p = *pp;

	if (ndim == 0) { /* the empty tuple is not memoised */
		if (*p++ != ')')
			return false;
		if (memcmp(p, end + 1, sizeof(end) - 1) != 0)
			return false;
		*pp = p + sizeof(end) - 1;
		return true;
	}
	if (ndim > 3 && *p++ != '(')
		return false;
	for (unsigned k = 0; k < ndim; k++)
		if (!take_int(&p, &ret[k]))
			return false;
	if (*p++ != (ndim > 3 ? 't' : 0x84 + ndim))
		return false;
	if (memcmp(p, end, sizeof(end)) != 0)
		return false;
	*pp = p + sizeof(end);
	return true;
}

/* How many dimensions does the torch.Size at @p have? Only its first opcodes are looked at; -1 when
 * it is none. */
static int count_dims(const uint8_t *p)
{
	uint64_t n;
	int marked = *p == '(', dims = 0;

	if (*p == ')')
		return 0;
	p += marked;
	while (dims < 16 && take_int(&p, &n))
		dims++;
	if (marked ? *p != 't' || dims <= 3 : dims < 1 || dims > 3 || *p != 0x84 + dims)
		return -1;
	return dims;
}

/* The batch of a list (V_LIST) or dict that is being filled, and nothing else: what lies below the
 * last MARK. */
static bool in_batch_of(const struct dcp_scan *s, enum dcp_tag tag)
{
	uint32_t at = s->mark.n ? s->mark.at[s->mark.n - 1] : 0;

	return at > 0 && dcp_tag(s->stack.at[at - 1]) == tag && s->stack.n < DCP_STACK_MAX;
}

#define BATCH 4096u /* columns grow by so many chunks at least */

int dcp_scan_chunk_run(struct dcp_scan *s)
{
	static const uint8_t begin[] = { ')', 0x81, 0x94, '}', 0x94, '(' }, end[] = { 'u', 'b' };
	struct fixed head = { 0 }, mid = { 0 }, tail = { 0 };
	struct dcp_meta *m = s->m;
	struct dcp_run run = { .chunk0 = (uint32_t)m->item.n, .coord0 = m->coord.n };
	struct dcp_seg seg = { .first = s->memo_next, .kind = SEG_CHUNKS, .base = m->coord.n };
	const uint8_t *p = s->op;
	const struct dcp_item none = { .place = DCP_NONE };
	uint64_t box[32], any;
	int ndim, r;

	if (!in_batch_of(s, V_LIST) || !add_get(&head, s->class_memo[C_CHUNK]) ||
	    !add(&head, begin, sizeof(begin)) || !add_get(&head, s->word_memo[W_OFFSETS]) ||
	    !add_get(&head, s->class_memo[C_SIZE]) || !add_get(&mid, s->word_memo[W_SIZES]) ||
	    !add_get(&mid, s->class_memo[C_SIZE]) || !add(&tail, end, sizeof(end)))
		return 0;
	seal(&head);
	seal(&mid);
	seal(&tail);
	if ((size_t)(s->end - p) < DCP_SOFT || memcmp(p, head.at, head.len) != 0)
		return 0;
	ndim = count_dims(p + head.len);
	if (ndim < 0)
		return 0;
	run.ndim = seg.ndim = (uint8_t)ndim;
	/* instance, dict, then tuple (not the empty one), 1-tuple, Size for each of the two */
	seg.step = ndim ? 8 : 6;
	seg.origin = ndim ? 4 : 3;
	seg.extent = ndim ? 7 : 5;
	for (;;) {
		r = room(s, &p);
		if (r < 0)
			return r;
		if (r == 0)
			break;
		if (run.count % BATCH == 0 &&
		    (dcp_items_reserve(&m->item, m->item.n + BATCH) < 0 ||
		     dcp_u32s_reserve(&m->coord, m->coord.n + (size_t)BATCH * 2 * (unsigned)ndim) <
		             0))
			return sf_fail(s->err, -ENOMEM, "dcp '%s': no memory for %zu chunks",
			               s->name, m->item.n);
		if (m->item.n >= DCP_CHUNKS_MAX || s->memo_next >= DCP_OBJECTS_MAX - 8)
			break; /* the opcodes say it */
		const uint8_t *q = p;
		if (!take_fixed(&q, &head) || !take_dims(&q, (unsigned)ndim, box) ||
		    !take_fixed(&q, &mid) || !take_dims(&q, (unsigned)ndim, box + ndim) ||
		    !take_fixed(&q, &tail))
			break;
		any = 0;
		for (int k = 0; k < 2 * ndim; k++)
			any |= box[k];
		if (any > UINT32_MAX)
			break;
		for (int k = 0; k < 2 * ndim; k++)
			m->coord.at[m->coord.n++] = (uint32_t)box[k];
		m->item.at[m->item.n++] = none;
		run.count++;
		s->memo_next += seg.step;
		p = q;
	}
	if (run.count == 0)
		return 0;
	s->p = p;
	if (dcp_runs_push(&m->run, run) < 0 || dcp_segs_push(&s->seg, seg) < 0 ||
	    dcp_values_push(&s->stack, m->run.n - 1) < 0)
		return sf_fail(s->err, -ENOMEM, "dcp '%s': no memory for %zu runs", s->name,
		               m->run.n);
	s->stack.at[s->stack.n - 1] = dcp_v(V_RUN, m->run.n - 1);
	return 1;
}

/* A string that was memoised: BINGET or LONG_BINGET. */
static bool take_known_str(struct dcp_scan *s, const uint8_t **pp, uint32_t *ret)
{
	const uint8_t *p = *pp;
	uint32_t number;
	dcp_value v;
	int r;

	if (*p != 'h' && *p != 'j')
		return false;
	number = *p == 'h' ? p[1] : sf_le32(p + 1);
	if (number != s->known_number) { /* a rank's file name comes a thousand times in a row */
		if (number >= s->memo_next)
			return false;
		v = dcp_scan_get(s, number, &r);
		if (r != 0 || dcp_tag(v) != V_STR)
			return false;
		s->known_number = number;
		s->known_str = (uint32_t)dcp_num(v);
	}
	*ret = s->known_str;
	*pp = p + (*p == 'h' ? 2 : 5);
	return true;
}

/* A key's name: spelt out again (*ret_new: it takes a memo number), or fetched. Only names that
 * occurred before. */
static bool take_name(struct dcp_scan *s, const uint8_t **pp, uint32_t *ret, bool *ret_new)
{
	const uint8_t *p = *pp;
	const struct dcp_str *guess;
	uint32_t at;

	*ret_new = *p == 0x8c;
	if (*p != 0x8c)
		return take_known_str(s, pp, ret);
	if (p[2 + p[1]] != 0x94)
		return false;
	/* Ranks write their tensors in the same order: after this name came that one last time. */
	at = s->last_fqn < s->next_str_cap ? s->next_str[s->last_fqn] : DCP_NONE;
	guess = at != DCP_NONE ? &s->m->str.at[at] : NULL;
	if (!guess || guess->len != p[1] || memcmp(guess->at, p + 2, p[1]) != 0) {
		at = dcp_meta_str_find(s->m, (const char *)p + 2, p[1]);
		if (at == DCP_NONE)
			return false;
		if (s->last_fqn < s->next_str_cap)
			s->next_str[s->last_fqn] = at;
	}
	*ret = at;
	*pp = p + 3 + p[1];
	return true;
}

/* What an item record is made of. */
struct item_shape {
	struct fixed head, index, offset, size, tail, info, off, len,
		transforms; /* transforms: none when len is 0 */
};

static bool make_item_shape(const struct dcp_scan *s, struct item_shape *x)
{
	static const uint8_t begin[] = { ')', 0x81, 0x94, '}', 0x94, '(' }, end[] = { 'u', 'b' };

	static const uint8_t list[] = { ']', 0x94 };

	memset(x, 0, sizeof(*x));
	if (add_get(&x->transforms, s->word_memo[W_TRANSFORMS]))
		add(&x->transforms, list, sizeof(list));
	return add_get(&x->head, s->class_memo[C_INDEX]) && add(&x->head, begin, sizeof(begin)) &&
	       add_get(&x->head, s->word_memo[W_FQN]) &&
	       add_get(&x->index, s->word_memo[W_INDEX]) &&
	       add_get(&x->offset, s->word_memo[W_OFFSET]) &&
	       add_get(&x->size, s->class_memo[C_SIZE]) && add(&x->tail, end, sizeof(end)) &&
	       add_get(&x->info, s->class_memo[C_INFO]) && add(&x->info, begin, sizeof(begin)) &&
	       add_get(&x->info, s->word_memo[W_RELATIVE_PATH]) &&
	       add_get(&x->off, s->word_memo[W_OFFSET]) && add_get(&x->len, s->word_memo[W_LENGTH]);
}

static bool item_shape(const struct dcp_scan *s, struct item_shape *x)
{
	struct fixed *const all[] = { &x->head, &x->index, &x->offset, &x->size,
		                      &x->tail, &x->info,  &x->off,    &x->len };

	if (!make_item_shape(s, x))
		return false;
	for (size_t i = 0; i < SF_ARRAY_LEN(all); i++)
		seal(all[i]);
	return true;
}

/* The offset of an index: spelt out, or fetched (a save by one process shares it with the chunk).
 */
static bool take_origin(struct dcp_scan *s, const struct item_shape *x, const uint8_t **pp,
                        uint64_t *ret, int *ret_ndim, uint32_t *memo)
{
	const uint8_t *p = *pp;
	uint32_t number;
	dcp_value v;
	int r;

	if (memcmp(p, x->size.at, x->size.len) == 0) {
		p += x->size.len;
		*ret_ndim = count_dims(p);
		if (*ret_ndim < 0 || !take_dims(&p, (unsigned)*ret_ndim, ret))
			return false;
		*memo += *ret_ndim ? 3 : 2;
		*pp = p;
		return true;
	}
	if (*p != 'h' && *p != 'j')
		return false;
	number = *p == 'h' ? p[1] : sf_le32(p + 1);
	if (number >= s->memo_next)
		return false;
	v = dcp_scan_get(s, number, &r);
	if (r != 0 || dcp_tag(v) != V_COORDS || (dcp_num(v) & 255) > 16)
		return false;
	*ret_ndim = (int)(dcp_num(v) & 255);
	for (int k = 0; k < *ret_ndim; k++)
		ret[k] = s->m->coord.at[(dcp_num(v) >> 8) + (unsigned)k];
	*pp = p + (*p == 'h' ? 2 : 5);
	return true;
}

/* A guess needs a place to remember it; not having one is no error. */
static void grow_guesses(struct dcp_scan *s)
{
	size_t cap = s->m->str.n + 1024;
	uint32_t *at;

	if (s->m->str.n <= s->next_str_cap || cap > DCP_NONE)
		return;
	at = realloc(s->next_str, cap * sizeof(*at));
	if (!at)
		return;
	memset(at + s->next_str_cap, 0xff, (cap - s->next_str_cap) * sizeof(*at));
	s->next_str = at;
	s->next_str_cap = (uint32_t)cap;
}

/* One pair from @p on. False: it is spelt otherwise. */
struct pair {
	uint64_t origin[32], hint;
	struct dcp_item item;
	uint32_t fqn, file, memo, transform; /* memo: numbers it takes */
	int ndim;
	bool new_name;
};

static bool take_pair(struct dcp_scan *s, const struct item_shape *x, const uint8_t **pp,
                      struct pair *ret)
{
	const uint8_t *q = *pp;
	uint32_t descriptor;

	ret->memo = 2; /* instance, dict */
	if (!take_fixed(&q, &x->head) || !take_name(s, &q, &ret->fqn, &ret->new_name) ||
	    !take_fixed(&q, &x->index))
		return false;
	ret->memo += ret->new_name;
	if (*q == 'N') {
		ret->hint = DCP_NONE;
		q++;
	} else if (!take_int(&q, &ret->hint) || ret->hint >= DCP_NONE) {
		return false;
	}
	if (!take_fixed(&q, &x->offset) ||
	    !take_origin(s, x, &q, ret->origin, &ret->ndim, &ret->memo) ||
	    !take_fixed(&q, &x->tail) || !take_fixed(&q, &x->info) ||
	    !take_known_str(s, &q, &ret->file) || !take_fixed(&q, &x->off) ||
	    !take_int(&q, &ret->item.off) || !take_fixed(&q, &x->len) ||
	    !take_int(&q, &ret->item.len))
		return false;
	ret->memo += 2;
	ret->transform = DCP_PLAIN;
	if (x->transforms.len && memcmp(q, x->transforms.at, x->transforms.len) == 0) {
		q += x->transforms.len;
		if (!take_known_str(s, &q, &descriptor) || *q++ != 'a')
			return false;
		ret->transform =
			dcp_transform_of(s->m->str.at[descriptor].at, s->m->str.at[descriptor].len);
		if (ret->transform == DCP_OTHER)
			ret->transform += descriptor;
		ret->memo += 1;
	}
	if (!take_fixed(&q, &x->tail))
		return false;
	*pp = q;
	return true;
}

int dcp_scan_item_run(struct dcp_scan *s)
{
	struct item_shape x;
	struct dcp_seg seg = { .first = s->memo_next, .kind = SEG_ITEMS };
	const uint8_t *p = s->op;
	uint32_t file = DCP_NONE, transform = DCP_PLAIN, place = DCP_NONE, n = 0, first;
	struct pair pair;
	dcp_value dict, top;
	int r;

	/* Pairs are taken where pairs are expected: right above a dict's mark, or behind another
	 * pair. */
	if (!in_batch_of(s, V_DICT) || (size_t)(s->end - p) < DCP_SOFT || !item_shape(s, &x))
		return 0;
	first = s->mark.at[s->mark.n - 1];
	dict = s->stack.at[first - 1];
	top = s->stack.at[s->stack.n - 1];
	if (s->stack.n != first && dcp_tag(top) != V_INFO && top != V_RECORDS)
		return 0;
	if (s->items_in != DCP_NONE && s->items_in != dcp_num(dict))
		return 0;
	grow_guesses(s);
	/* before the first: a name in the run may be fetched by a later pair of the same run */
	if (dcp_segs_push(&s->seg, seg) < 0)
		goto no_memory;
	for (;; n++) {
		r = room(s, &p);
		if (r < 0)
			return r;
		if (r == 0 || s->memo_next >= DCP_OBJECTS_MAX - 16 || !take_pair(s, &x, &p, &pair))
			break;
		if (pair.file != file || pair.transform != transform) {
			if (dcp_meta_place(s->m, pair.file, pair.transform, &place) < 0)
				goto no_memory;
			file = pair.file;
			transform = pair.transform;
		}
		pair.item.place = place;
		if (dcp_meta_item(s->m, pair.fqn, pair.origin, (unsigned)pair.ndim,
		                  (uint32_t)pair.hint, pair.item) < 0 ||
		    (pair.new_name &&
		     dcp_memo_strs_push(&s->memo_str,
		                        (struct dcp_memo_str){ s->memo_next + 2, pair.fqn }) < 0))
			goto no_memory;
		s->last_fqn = pair.fqn;
		s->memo_next += pair.memo;
	}
	if (n == 0) {
		s->seg.n--;
		return 0; /* s->p is where it was */
	}
	s->p = p;
	s->items_in = (uint32_t)dcp_num(dict);
	if (dcp_values_push(&s->stack, V_RECORDS) < 0)
		goto no_memory;
	return 1;
no_memory:
	return sf_fail(s->err, -ENOMEM, "dcp '%s': no memory after %u items", s->name, n);
}
