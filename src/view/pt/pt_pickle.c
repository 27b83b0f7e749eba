#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "view/pt/pt.h"
#include "view/pt/pt_blocks.h"

enum sf_dtype sf_pt_dtype(const struct sf_pt *pt, const struct sf_entry *e)
{
	return pt->sel.cast ? e->dtype : pt->c->ckpt->tensor[e->tensor].dtype;
}

static enum sf_dtype pickled_dtype(const struct sf_pt *pt, const struct sf_entry *e)
{
	return sf_pw_tensor_dtype(sf_pt_dtype(pt, e));
}

static uint64_t elements(const struct sf_tensor *t)
{
	return t->bytes / SF_MAX(sf_dtype_info(t->dtype)->bytes, 1);
}

uint64_t sf_pt_bytes(const struct sf_pt *pt, const struct sf_entry *e)
{
	const struct sf_tensor *t = &pt->c->ckpt->tensor[e->tensor];
	enum sf_dtype dtype = sf_pt_dtype(pt, e);
	uint64_t bytes;

	if (dtype == t->dtype)
		return t->bytes;
	return sf_mul(elements(t), sf_dtype_info(dtype)->bytes, &bytes) ? bytes : UINT64_MAX;
}

/* An int of Python's as it prints itself, of 64 bits. */
static bool is_int(const struct sf_pt_elem *e, int64_t *ret)
{
	const bool minus = e->len && e->s[0] == '-';
	const char *at = e->s + minus, *end = e->s + e->len;
	uint64_t v = 0;

	if (at == end || end - at > 19 || (at[0] == '0' && (minus || end - at > 1)))
		return false;
	for (; at < end; at++) {
		if (*at < '0' || *at > '9')
			return false;
		v = v * 10 + (uint64_t)(*at - '0');
	}
	if (v > (uint64_t)INT64_MAX + minus)
		return false;
	*ret = minus ? (int64_t)(0 - v) : (int64_t)v;
	return true;
}

/* A dict's key. Positions only come here when their container is a dict after all. */
static void put_key(struct sf_pickle_writer *w, const struct sf_pt_elem *e)
{
	uint64_t v;
	int64_t i;

	if (sf_pt_index(e, &v))
		sf_pw_uint(w, v);
	else if (e->kind == SF_PATH_INT && is_int(e, &i))
		sf_pw_int(w, i);
	else
		sf_pw_name(w, e->s, e->len);
}

static void put_tensor(const struct sf_pt *pt, uint32_t i, struct sf_pickle_writer *w)
{
	const struct sf_pt_leaf *l = &pt->leaf[i];
	const struct sf_entry *e = sf_pt_entry(pt, l);
	const struct sf_tensor *t = &pt->c->ckpt->tensor[e->tensor];
	struct sf_pw_tensor p = { .dtype = pickled_dtype(pt, e),
		                  .ndim = t->ndim,
		                  .shape = t->shape,
		                  .bytes = sf_pt_bytes(pt, e),
		                  .storage = l->ref };
	struct sf_pw_words used;
	uint64_t stored[SF_DIMS_MAX];

	if (sf_pt_in_blocks(pt, t)) {
		p.ndim = sf_pt_block_shape(t, stored);
		p.shape = stored;
	}

	sf_pw_tensor_words(p.dtype, &used);
	for (unsigned m = sf_pw_words_next(&used, 0); m < SF_PW_NWORDS;
	     m = sf_pw_words_next(&used, m + 1))
		if (pt->first[m] != i)
			sf_pw_words_add(&w->words, m);
	sf_pw_tensor(w, &p);
}

void sf_pt_memo(struct sf_pt *pt)
{
	for (unsigned m = 0; m < SF_PW_NWORDS; m++)
		pt->first[m] = SF_NONE;
	for (uint32_t i = 0; i < pt->nleaf; i++) {
		const struct sf_pt_leaf *l = &pt->leaf[i];
		struct sf_pw_words used;
		if (l->object)
			continue;
		sf_pw_tensor_words(pickled_dtype(pt, sf_pt_entry(pt, l)), &used);
		for (unsigned m = sf_pw_words_next(&used, 0); m < SF_PW_NWORDS;
		     m = sf_pw_words_next(&used, m + 1))
			if (pt->first[m] == SF_NONE)
				pt->first[m] = i;
	}
}

static bool same_elem(const struct sf_pt_elem *a, const struct sf_pt_elem *b)
{
	return (a->kind == SF_PATH_TEXT) == (b->kind == SF_PATH_TEXT) && a->len == b->len &&
	       memcmp(a->s, b->s, a->len) == 0;
}

/* An empty one, which a mark fills; a tuple is there when it is closed. */
static void open_container(enum sf_pt_container c, struct sf_buf *out)
{
	if (c != SF_PT_TUPLE)
		sf_buf_byte(out, c == SF_PT_LIST ? ']' : '}');
	sf_buf_byte(out, '(');
}

void sf_pt_put_head(const struct sf_pt *pt, struct sf_buf *out)
{
	sf_pw_proto(&(struct sf_pickle_writer){ .out = out });
	if (pt->sel.bare)
		return;
	if (pt->nleaf > 0)
		open_container(pt->root, out);
	else
		sf_buf_byte(out, (uint8_t) "}])"[pt->root]);
}

static void close_to(const struct sf_pt_leaf *l, unsigned depth, struct sf_buf *out)
{
	for (unsigned d = l->depth; d-- > depth;)
		sf_buf_byte(out, (uint8_t) "uet"[sf_pt_container(l, d)]);
}

void sf_pt_put_leaf(const struct sf_pt *pt, uint32_t i, struct sf_buf *out)
{
	const struct sf_pt_leaf *l = &pt->leaf[i], *prev = i > 0 ? l - 1 : NULL;
	struct sf_pickle_writer w = { .out = out };
	unsigned common = 0;
	uint64_t have = 0, at = 0;

	if (prev && l->depth > 0) {
		struct sf_pt_elem a, b;
		for (;; common++) { /* two leaves never have the same path, nor is one's a part of
			               the other's */
			a = sf_pt_elem(pt, prev, common);
			b = sf_pt_elem(pt, l, common);
			if (!same_elem(&a, &b) || common + 1 >= SF_MIN(prev->depth, l->depth))
				break;
		}
		close_to(prev, common + 1, out);
		if (sf_pt_container(l, common) != SF_PT_DICT)
			have = sf_pt_index(&a, &at) ? at + 1 : 0;
	}
	for (unsigned d = common; d < l->depth; d++) {
		struct sf_pt_elem e = sf_pt_elem(pt, l, d);
		if (d > common) {
			open_container(sf_pt_container(l, d), out);
			have = 0;
		}
		if (sf_pt_container(l, d) == SF_PT_DICT) {
			put_key(&w, &e);
			continue;
		}
		at = 0;
		sf_pt_index(&e, &at); /* the tree made it a list or a tuple: it is one */
		for (; have < at; have++)
			sf_buf_byte(out, 'N');
	}
	if (!l->object)
		put_tensor(pt, i, &w);
}

void sf_pt_put_tail(const struct sf_pt *pt, struct sf_buf *out)
{
	if (pt->nleaf > 0)
		close_to(&pt->leaf[pt->nleaf - 1], 0, out);
	sf_pw_stop(&(struct sf_pickle_writer){ .out = out });
}
