#include "config.h"

#include <errno.h>
#include <stdlib.h>

#include "base/path.h"
#include "format/dcp/dcp_scan_take.h"

/* Runs of storage_data's pairs, (MetadataIndex, _StorageInfo), joined with their chunks as they go
 * by. */

/* A string that was memoised. @last: the one of this kind fetched before, for a rank's file name
 * comes a thousand times in a row. */
static bool take_known_str(struct dcp_scan *s, struct dcp_known *last, const uint8_t **pp,
                           uint32_t *ret)
{
	const uint8_t *p = *pp;
	uint32_t number = dcp_take_get(s, &p);
	dcp_value v;
	int r;

	if (number == DCP_NONE)
		return false;
	if (number != last->number) {
		v = dcp_scan_get(s, number, &r);
		if (r != 0 || dcp_tag(v) != V_STR)
			return false;
		last->number = number;
		last->str = (uint32_t)dcp_num(v);
	}
	*ret = last->str;
	*pp = p;
	return true;
}

/* A string fetched, or spelt out (*ret_new: it takes a memo number). @guess: the string it may well
 * be, which saves a hash, or DCP_NONE. */
static bool take_str(struct dcp_scan *s, struct dcp_known *last, uint32_t guess, const uint8_t **pp,
                     uint32_t *ret, bool *ret_new)
{
	const uint8_t *p = *pp;
	const struct dcp_str *known = guess != DCP_NONE ? &s->m->str.at[guess] : NULL;

	*ret_new = *p == 0x8c;
	if (*p != 0x8c)
		return take_known_str(s, last, pp, ret);
	const char *text = (const char *)p + 2;
	const size_t len = p[1];
	if (p[2 + len] != 0x94)
		return false;
	if (!known || known->len != len || memcmp(known->at, text, len) != 0) {
		guess = dcp_meta_str_find(s->m, text, len);
		if (guess == DCP_NONE &&
		    (!sf_utf8_valid(text, len) || dcp_meta_str(s->m, text, len, &guess) < 0))
			return false; /* the opcodes say it */
	}
	*ret = guess;
	*pp = p + 3 + len;
	return true;
}

/* Ranks write their tensors in the same order: after this name came that one last time. */
static inline uint32_t *next_name(struct dcp_scan *s)
{
	return s->last_fqn < s->next_str_cap ? &s->next_str[s->last_fqn] : NULL;
}

static bool take_name(struct dcp_scan *s, const uint8_t **pp, uint32_t *ret, bool *ret_new)
{
	uint32_t *next = next_name(s);

	if (!take_str(s, &s->known[DCP_KNOWN_NAME], next ? *next : DCP_NONE, pp, ret, ret_new))
		return false;
	if (next && *ret_new)
		*next = *ret;
	return true;
}

/* What an item record is made of. */
struct item_shape {
	struct dcp_fixed head, index, offset, size, tail, info, off, len,
		transforms; /* transforms: none when len is 0 */
	bool plain;
};

/* Of the pair at @p; eight bytes of it are there. */
static bool make_item_shape(const struct dcp_scan *s, const uint8_t *p, struct item_shape *x)
{
	static const uint8_t end[] = { 'u', 'b' }, list[] = { ']', 0x94 };

	memset(x, 0, sizeof(*x));
	x->plain = dcp_is_plain(p);
	if (dcp_add_get(&x->transforms, s->word_ref[W_TRANSFORMS]))
		dcp_add(&x->transforms, list, x->plain ? 1 : 2);
	/* some leave out index where they have none */
	(void)dcp_add_get(&x->index, s->word_ref[W_INDEX]);
	return dcp_add_get(&x->head, s->class_ref[C_INDEX]) && dcp_add_begin(&x->head, x->plain) &&
	       dcp_add_get(&x->head, s->word_ref[W_FQN]) &&
	       dcp_add_get(&x->offset, s->word_ref[W_OFFSET]) &&
	       dcp_add_get(&x->size, s->class_ref[C_SIZE]) && dcp_add(&x->tail, end, sizeof(end)) &&
	       dcp_add_get(&x->info, s->class_ref[C_INFO]) && dcp_add_begin(&x->info, x->plain) &&
	       dcp_add_get(&x->info, s->word_ref[W_RELATIVE_PATH]) &&
	       dcp_add_get(&x->off, s->word_ref[W_OFFSET]) &&
	       dcp_add_get(&x->len, s->word_ref[W_LENGTH]);
}

static bool item_shape(const struct dcp_scan *s, const uint8_t *p, struct item_shape *x)
{
	struct dcp_fixed *const all[] = { &x->head, &x->index, &x->offset, &x->size,
		                          &x->tail, &x->info,  &x->off,    &x->len };

	if (!make_item_shape(s, p, x))
		return false;
	for (size_t i = 0; i < SF_ARRAY_LEN(all); i++)
		dcp_seal(all[i]);
	return true;
}

/* A guess needs a place to remember it; not having one is no error. */
static void grow_guesses(struct dcp_scan *s)
{
	size_t cap = s->m->str.n + s->m->str.n / 2 + 1024;
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

struct pair {
	uint64_t origin[16];
	uint64_t off, hint, len; /* off and len apart: loaded as one before both stores are done,
	                            they would wait */
	uint32_t fqn, file, transform;
	uint32_t memo; /* numbers it takes */
	int ndim;
	/* what is memoised in it and may be fetched again */
	struct dcp_memo_str str[3];
	unsigned nstr;
	uint32_t size_memo; /* 0: its torch.Size was fetched */
};

static inline void note_str(struct dcp_scan *s, struct pair *x, bool spelt, uint32_t str)
{
	if (spelt)
		x->str[x->nstr++] = (struct dcp_memo_str){ s->memo_next + x->memo++, str };
}

/* One pair from *pp on. False: it is spelt otherwise. */
static bool take_pair(struct dcp_scan *s, const struct item_shape *x, const uint8_t **pp,
                      struct pair *ret)
{
	const uint8_t *q = dcp_pass_frame(*pp);
	const unsigned made = x->plain ? 0 : 2; /* instance, dict */
	uint32_t descriptor;
	unsigned spelt;
	bool fresh;

	ret->memo = made;
	ret->nstr = 0;
	if (!dcp_take_fixed(&q, &x->head) || !take_name(s, &q, &ret->fqn, &fresh))
		return false;
	note_str(s, ret, fresh, ret->fqn);
	ret->hint = DCP_NONE;
	if (x->index.len && dcp_take_fixed(&q, &x->index)) {
		if (*q == 'N')
			q++;
		else if (!dcp_take_int(&q, &ret->hint) || ret->hint >= DCP_NONE)
			return false;
	}
	if (!dcp_take_fixed(&q, &x->offset) ||
	    !dcp_take_size(s, &x->size, x->plain, &q, ret->origin, &ret->ndim, &spelt))
		return false;
	ret->size_memo = spelt ? s->memo_next + ret->memo + spelt - 1 : 0;
	ret->memo += spelt + made;
	if (!dcp_take_fixed(&q, &x->tail) || !dcp_take_fixed(&q, &x->info) ||
	    !take_str(s, &s->known[DCP_KNOWN_FILE], s->known[DCP_KNOWN_FILE].spelt, &q, &ret->file,
	              &fresh))
		return false;
	note_str(s, ret, fresh, ret->file);
	if (fresh)
		s->known[DCP_KNOWN_FILE].spelt = ret->file;
	if (!dcp_take_fixed(&q, &x->off) || !dcp_take_int(&q, &ret->off) ||
	    !dcp_take_fixed(&q, &x->len) || !dcp_take_int(&q, &ret->len))
		return false;
	ret->transform = DCP_PLAIN;
	if (x->transforms.len && memcmp(q, x->transforms.at, x->transforms.len) == 0) {
		struct dcp_known *last = &s->known[DCP_KNOWN_TRANSFORM];
		q += x->transforms.len;
		ret->memo += !x->plain;
		if (!take_str(s, last, last->spelt, &q, &descriptor, &fresh) || *q++ != 'a')
			return false;
		note_str(s, ret, fresh, descriptor);
		if (fresh)
			last->spelt = descriptor;
		ret->transform =
			dcp_transform_of(s->m->str.at[descriptor].at, s->m->str.at[descriptor].len);
		if (ret->transform == DCP_OTHER)
			ret->transform += descriptor;
	}
	if (!dcp_take_fixed(&q, &x->tail))
		return false;
	*pp = q;
	return true;
}

/* What a pair memoised, for those who fetch it. 1 it is kept, 0 its torch.Size cannot be, or
 * negative. */
static int keep(struct dcp_scan *s, const struct pair *x)
{
	struct dcp_meta *m = s->m;

	if (s->keep_sizes && x->size_memo) {
		const struct dcp_memo_size kept = { .number = x->size_memo,
			                            .ndim = (uint8_t)x->ndim,
			                            .coord0 = m->coord.n };
		for (int k = 0; k < x->ndim; k++)
			if (x->origin[k] > UINT32_MAX)
				return 0;
		if (dcp_u32s_reserve(&m->coord, m->coord.n + (size_t)x->ndim) < 0 ||
		    dcp_memo_sizes_push(&s->memo_size, kept) < 0)
			return -ENOMEM;
		for (int k = 0; k < x->ndim; k++)
			m->coord.at[m->coord.n++] = (uint32_t)x->origin[k];
	}
	for (unsigned i = 0; i < x->nstr; i++)
		if (dcp_memo_strs_push(&s->memo_str, x->str[i]) < 0)
			return -ENOMEM;
	return 1;
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
	if (!dcp_in_batch_of(s, V_DICT) || (size_t)(s->end - p) < DCP_SOFT || !item_shape(s, p, &x))
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
		const uint8_t *q;
		r = dcp_room(s, &p);
		if (r < 0)
			return r;
		q = p;
		if (r == 0 || s->memo_next >= DCP_OBJECTS_MAX - 16 || !take_pair(s, &x, &q, &pair))
			break;
		r = keep(s, &pair);
		if (r < 0)
			goto no_memory;
		if (r == 0)
			break;
		if (pair.file != file || pair.transform != transform) {
			if (dcp_meta_place(s->m, pair.file, pair.transform, &place) < 0)
				goto no_memory;
			file = pair.file;
			transform = pair.transform;
		}
		const struct dcp_item item = { .off = pair.off, .len = pair.len, .place = place };
		if (dcp_meta_item(s->m, pair.fqn, pair.origin, (unsigned)pair.ndim,
		                  (uint32_t)pair.hint, item) < 0)
			goto no_memory;
		s->last_fqn = pair.fqn;
		s->memo_next += pair.memo;
		p = q;
	}
	if (n == 0) {
		s->seg.n--;
		return 0; /* s->p is where it was */
	}
	s->p = p;
	s->m->facts.passed_over += n;
	s->items_in = (uint32_t)dcp_num(dict);
	r = dcp_scan_push(s, V_RECORDS);
	return r < 0 ? r : 1;
no_memory:
	return sf_fail(s->err, -ENOMEM, "dcp '%s': no memory after %u items", s->name, n);
}
