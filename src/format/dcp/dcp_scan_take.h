/* What runs of records are taken with: constant bytes, numbers and sizes straight from the
 * window. */
#ifndef SF_FORMAT_DCP_DCP_SCAN_TAKE_H
#define SF_FORMAT_DCP_DCP_SCAN_TAKE_H

#include <string.h>

#include "format/dcp/dcp_scan_state.h"

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
 *
 * Plain records are those of our own writer (save/dcp_meta_write.c): the same, but nothing in them is
 * memoised except names of files.
 */

/* Constant bytes of a record between its numbers, compared eight at a time. */
struct dcp_fixed {
	uint64_t word[3], mask[3]; /* native order */
	uint8_t at[24], len;
};

/* Is there room for one more record, wherever it ends? Asks for more of the file; at its end the
 * opcodes do the rest. */
static inline int dcp_room(struct dcp_scan *s, const uint8_t **p)
{
	int r;

	if ((size_t)(s->end - *p) >= DCP_SOFT)
		return 1;
	s->op = s->p = *p;
	r = dcp_scan_fill(s, 1);
	*p = s->p;
	return r < 0 ? r : (size_t)(s->end - *p) >= DCP_SOFT;
}

static inline bool dcp_add(struct dcp_fixed *f, const void *p, uint8_t n)
{
	memcpy(f->at + f->len, p, n);
	f->len = (uint8_t)(f->len + n);
	return true;
}

/* BINGET or LONG_BINGET, as it was fetched last. False: that value was never memoised. */
static inline bool dcp_add_get(struct dcp_fixed *f, struct dcp_ref ref)
{
	const uint32_t number = ref.number;
	uint8_t b[5] = { 'h', (uint8_t)number };

	if (number == DCP_NONE)
		return false;
	if (number < 256 && !ref.is_long)
		return dcp_add(f, b, 2);
	b[0] = 'j';
	sf_put_le32(b + 1, number);
	return dcp_add(f, b, 5);
}

/* What makes an instance, and the dict of its attributes, behind the GET of its class at @p. */
static inline bool dcp_is_plain(const uint8_t *p)
{
	return p[*p == 'h' ? 4 : 7] == '}';
}
static inline bool dcp_add_begin(struct dcp_fixed *f, bool plain)
{
	static const uint8_t memoised[] = { ')', 0x81, 0x94, '}', 0x94, '(' },
			     bare[] = { ')', 0x81, '}', '(' };

	return plain ? dcp_add(f, bare, sizeof(bare)) : dcp_add(f, memoised, sizeof(memoised));
}

static inline void dcp_seal(struct dcp_fixed *f)
{
	uint8_t mask[24] = { 0 };

	memset(mask, 0xff, f->len);
	memcpy(f->mask, mask, sizeof(mask));
	memcpy(f->word, f->at, sizeof(f->at)); /* zero behind len: they are made with { 0 } */
}

/* @p has 24 bytes (dcp_room() saw to it). */
static inline bool dcp_take_fixed(const uint8_t **p, const struct dcp_fixed *f)
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
static inline bool dcp_take_int(const uint8_t **pp, uint64_t *ret)
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

/* The opcodes behind the tuple of a torch.Size: [MEMOIZE] TUPLE1 MEMOIZE REDUCE MEMOIZE, plain: TUPLE1
 * REDUCE. The empty tuple is not memoised. */
static inline bool dcp_take_size_end(const uint8_t **pp, bool plain, bool empty)
{
	static const uint8_t memoised[] = { 0x94, 0x85, 0x94, 'R', 0x94 }, bare[] = { 0x85, 'R' };
	const uint8_t *end = plain ? bare : memoised + empty;
	const size_t n = plain ? sizeof(bare) : sizeof(memoised) - empty;

	if (memcmp(*pp, end, n) != 0)
		return false;
	*pp += n;
	return true;
}

/* The numbers of a torch.Size and the opcodes up to its end. */
static inline bool dcp_take_dims(const uint8_t **pp, unsigned ndim, bool plain, uint64_t *ret)
{
	const uint8_t *p = *pp;

	if (ndim == 0) {
		if (*p++ != ')' || !dcp_take_size_end(&p, plain, true))
			return false;
		*pp = p;
		return true;
	}
	if (ndim > 3 && *p++ != '(')
		return false;
	for (unsigned k = 0; k < ndim; k++)
		if (!dcp_take_int(&p, &ret[k]))
			return false;
	if (*p++ != (ndim > 3 ? 't' : 0x84 + ndim))
		return false;
	if (!dcp_take_size_end(&p, plain, false))
		return false;
	*pp = p;
	return true;
}

/* How many dimensions does the torch.Size at @p have? Only its first opcodes are looked at; -1 when
 * it is none. */
static inline int dcp_count_dims(const uint8_t *p)
{
	uint64_t n;
	int marked = *p == '(', dims = 0;

	if (*p == ')')
		return 0;
	p += marked;
	while (dims < 16 && dcp_take_int(&p, &n))
		dims++;
	if (marked ? *p != 't' || dims <= 3 : dims < 1 || dims > 3 || *p != 0x84 + dims)
		return -1;
	return dims;
}

/* The batch of a list (V_LIST) or dict that is being filled, and nothing else: what lies below the
 * last MARK. */
static inline bool dcp_in_batch_of(const struct dcp_scan *s, enum dcp_tag tag)
{
	uint32_t at = s->mark.n ? s->mark.at[s->mark.n - 1] : 0;

	return at > 0 && dcp_tag(s->stack.at[at - 1]) == tag && s->stack.n < DCP_STACK_MAX;
}

/* The number in a BINGET or LONG_BINGET; DCP_NONE: it is something else, or was never stored. */
static inline uint32_t dcp_take_get(const struct dcp_scan *s, const uint8_t **pp)
{
	const uint8_t *p = *pp;
	uint32_t number;

	if (*p != 'h' && *p != 'j')
		return DCP_NONE;
	number = *p == 'h' ? p[1] : sf_le32(p + 1);
	if (number >= s->memo_next)
		return DCP_NONE;
	*pp = p + (*p == 'h' ? 2 : 5);
	return number;
}

/* A FRAME between two records is only a promise about length. */
static inline const uint8_t *dcp_pass_frame(const uint8_t *p)
{
	return *p == 0x95 ? p + 9 : p;
}

/*
 * A torch.Size: spelt out behind @size (GET of its class), or fetched from where it was spelt
 * before (a save by one process shares an index's with its chunk's, others share one size among all
 * chunks). Room for 16 numbers. *ret_spelt: memo numbers it takes, 0 when it was fetched or is
 * plain.
 */
static inline bool dcp_take_size(struct dcp_scan *s, const struct dcp_fixed *size, bool plain,
                                 const uint8_t **pp, uint64_t *ret, int *ret_ndim,
                                 unsigned *ret_spelt)
{
	const uint8_t *p = *pp;
	int ndim;

	if (memcmp(p, size->at, size->len) != 0) {
		ndim = dcp_scan_fetch_size(s, pp, ret);
		*ret_ndim = ndim;
		*ret_spelt = 0;
		return ndim >= 0;
	}
	p += size->len;
	ndim = dcp_count_dims(p);
	if (ndim < 0 || !dcp_take_dims(&p, (unsigned)ndim, plain, ret))
		return false;
	*ret_ndim = ndim;
	*ret_spelt = plain ? 0 : ndim ? 3 : 2; /* tuple (not the empty one), 1-tuple, Size */
	*pp = p;
	return true;
}

#endif
