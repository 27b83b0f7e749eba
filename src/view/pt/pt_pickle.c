#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "view/pt/pt.h"

/*
 * The opcodes are those of torch.save's own protocol 2 pickles, all known to torch's weights_only
 * unpickler; tensors are _rebuild_tensor_v2 (typed storage) or _rebuild_tensor_v3 (untyped and a
 * dtype): pytorch/pytorch torch/_tensor.py, 2.6 to 2.14.
 */

enum sf_dtype sf_pt_dtype(const struct sf_pt *pt, const struct sf_entry *e)
{
	return pt->sel.cast ? e->dtype : pt->c->ckpt->tensor[e->tensor].dtype;
}

/* What torch cannot build from a plain storage is shown as the integers it is made of. */
static enum sf_dtype pickled_dtype(enum sf_dtype dtype)
{
	switch (dtype) {
	case SF_QINT8:
		return SF_INT8;
	case SF_QUINT8:
	case SF_QUINT4X2:
	case SF_QUINT2X4:
		return SF_UINT8;
	case SF_QINT32:
		return SF_INT32;
	default:
		return dtype;
	}
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

static void put_int(struct sf_buf *out, uint64_t v)
{
	uint8_t b[11];

	if (v < 256) {
		b[0] = 'K';
		b[1] = (uint8_t)v;
		sf_buf_add(out, b, 2);
	} else if (v < 65536) {
		b[0] = 'M';
		sf_put_le16(b + 1, (uint16_t)v);
		sf_buf_add(out, b, 3);
	} else if (v <= INT32_MAX) {
		b[0] = 'J';
		sf_put_le32(b + 1, (uint32_t)v);
		sf_buf_add(out, b, 5);
	} else { /* LONG1: two's complement, so the top bit of the last byte stays clear */
		uint8_t n = 0;
		b[0] = 0x8a;
		do {
			b[2 + n++] = (uint8_t)v;
			v >>= 8;
		} while (v);
		if (b[1 + n] & 0x80)
			b[2 + n++] = 0;
		b[1] = n;
		sf_buf_add(out, b, 2 + (size_t)n);
	}
}

/* Length of the UTF-8 sequence at @s, lone surrogates included (Python decodes with
 * "surrogatepass") but for those that stand for a byte: a name has the byte itself. 0: no such
 * thing. */
static size_t utf8_pass(const uint8_t *s, size_t len)
{
	size_t n = s[0] < 0x80                   ? 1
	           : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
	           : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
	           : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
	                                         : 0;

	if (n == 0 || n > len)
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90) ||
	    (s[0] == 0xf4 && s[1] >= 0x90) || (s[0] == 0xed && s[1] >= 0xb2))
		return 0;
	return n;
}

/* BINUNICODE. A byte that is no UTF-8 becomes U+DC80 … U+DCFF (Python's surrogateescape): one bad
 * name must not break the file. */
static void put_str(struct sf_buf *out, const char *s, size_t len)
{
	const uint8_t *p = (const uint8_t *)s;
	size_t at = out->len + 1;

	if (len > UINT32_MAX / 3) {
		out->failed = -E2BIG;
		return;
	}
	sf_buf_add(out, "X\0\0\0", 5);
	if (sf_utf8_valid(s, len)) {
		sf_buf_add(out, s, len);
	} else {
		for (size_t i = 0, n; i < len; i += n) {
			n = utf8_pass(p + i, len - i);
			if (n > 0) {
				sf_buf_add(out, p + i, n);
				continue;
			}
			unsigned c = 0xdc00u + p[i];
			sf_buf_byte(out, 0xed);
			sf_buf_byte(out, (uint8_t)(0x80 | (c >> 6 & 0x3f)));
			sf_buf_byte(out, (uint8_t)(0x80 | (c & 0x3f)));
			n = 1;
		}
	}
	if (sf_buf_check(out) == 0)
		sf_put_le32(out->at + at, (uint32_t)(out->len - at - 4));
}

/* A dict's key. Ints below lists only come here when their container is a dict after all. */
static void put_key(struct sf_buf *out, const struct sf_pt_elem *e)
{
	uint64_t v;

	if (sf_pt_index(e, &v))
		put_int(out, v);
	else
		put_str(out, e->s, e->len);
}

/* Is memo entry @m there already? If so it is fetched; else the caller makes it and put_memo()
 * keeps it. */
static bool fetched(const struct sf_pt *pt, uint32_t leaf, unsigned m, struct sf_buf *out)
{
	if (pt->first[m] == leaf)
		return false;
	sf_buf_byte(out, 'h');
	sf_buf_byte(out, (uint8_t)m);
	return true;
}

static void put_memo(unsigned m, struct sf_buf *out)
{
	sf_buf_byte(out, 'q');
	sf_buf_byte(out, (uint8_t)m);
}

static void put_global(const struct sf_pt *pt, uint32_t leaf, unsigned m, const char *module,
                       const char *name, struct sf_buf *out)
{
	if (fetched(pt, leaf, m, out))
		return;
	sf_buf_byte(out, 'c');
	sf_buf_str(out, module);
	sf_buf_byte(out, '\n');
	sf_buf_str(out, name);
	sf_buf_byte(out, '\n');
	put_memo(m, out);
}

static void put_word(const struct sf_pt *pt, uint32_t leaf, unsigned m, const char *word,
                     struct sf_buf *out)
{
	if (fetched(pt, leaf, m, out))
		return;
	put_str(out, word, strlen(word));
	put_memo(m, out);
}

static void put_tuple(const uint64_t *v, unsigned n, struct sf_buf *out)
{
	static const char op[] = { ')', '\x85', '\x86', '\x87' };

	if (n > 3)
		sf_buf_byte(out, '(');
	for (unsigned i = 0; i < n; i++)
		put_int(out, v[i]);
	sf_buf_byte(out, n > 3 ? 't' : (uint8_t)op[n]);
}

static void put_tensor(const struct sf_pt *pt, uint32_t i, struct sf_buf *out)
{
	const struct sf_pt_leaf *l = &pt->leaf[i];
	const struct sf_entry *e = sf_pt_entry(pt, l);
	const struct sf_tensor *t = &pt->c->ckpt->tensor[e->tensor];
	enum sf_dtype dtype = pickled_dtype(sf_pt_dtype(pt, e));
	const struct sf_dtype_info *info = sf_dtype_info(dtype);
	uint64_t stride[SF_DIMS_MAX], step = 1;
	char number[24];

	for (unsigned d = t->ndim; d-- > 0;) {
		stride[d] = step;
		/* as torch computes it for contiguous tensors; an empty one may have any other
		 * extents */
		step = __builtin_mul_overflow(step, SF_MAX(t->shape[d], 1), &step) ? INT64_MAX
		                                                                   : step;
	}
	if (info->storage)
		put_global(pt, i, SF_PT_MEMO_V2, "torch._utils", "_rebuild_tensor_v2", out);
	else
		put_global(pt, i, SF_PT_MEMO_V3, "torch._utils", "_rebuild_tensor_v3", out);
	sf_buf_add(out, "((", 2);
	put_word(pt, i, SF_PT_MEMO_STORAGE, "storage", out);
	if (info->storage)
		put_global(pt, i, SF_PT_MEMO_CLASS + dtype, "torch", info->storage, out);
	else
		put_global(pt, i, SF_PT_MEMO_UNTYPED, "torch.storage", "UntypedStorage", out);
	put_str(out, number, (size_t)snprintf(number, sizeof(number), "%u", l->ref));
	put_word(pt, i, SF_PT_MEMO_CPU, "cpu", out);
	put_int(out,
	        info->storage ? sf_pt_bytes(pt, e) / SF_MAX(info->bytes, 1) : sf_pt_bytes(pt, e));
	sf_buf_add(out, "tQ", 2);
	put_int(out, 0);
	put_tuple(t->shape, t->ndim, out);
	put_tuple(stride, t->ndim, out);
	sf_buf_byte(out, 0x89);
	put_global(pt, i, SF_PT_MEMO_ORDERED, "collections", "OrderedDict", out);
	sf_buf_add(out, ")R", 2);
	if (!info->storage)
		put_global(pt, i, SF_PT_MEMO_DTYPE + dtype, "torch", info->torch, out);
	sf_buf_add(out, "tR", 2);
}

void sf_pt_memo(struct sf_pt *pt)
{
	for (unsigned m = 0; m < SF_PT_NMEMO; m++)
		pt->first[m] = SF_NONE;
	for (uint32_t i = 0; i < pt->nleaf; i++) {
		const struct sf_pt_leaf *l = &pt->leaf[i];
		if (l->object)
			continue;
		enum sf_dtype dtype = pickled_dtype(sf_pt_dtype(pt, sf_pt_entry(pt, l)));
		bool typed = sf_dtype_info(dtype)->storage != NULL;
		const unsigned used[] = { SF_PT_MEMO_ORDERED,
			                  SF_PT_MEMO_STORAGE,
			                  SF_PT_MEMO_CPU,
			                  typed ? SF_PT_MEMO_V2 : SF_PT_MEMO_V3,
			                  typed ? SF_PT_MEMO_CLASS + dtype : SF_PT_MEMO_UNTYPED,
			                  typed ? SF_PT_MEMO_ORDERED : SF_PT_MEMO_DTYPE + dtype };
		for (size_t k = 0; k < SF_ARRAY_LEN(used); k++)
			if (pt->first[used[k]] == SF_NONE)
				pt->first[used[k]] = i;
	}
}

static bool list_at(const struct sf_pt_leaf *l, unsigned d)
{
	return l->lists >> d & 1;
}

static bool same_elem(const struct sf_pt_elem *a, const struct sf_pt_elem *b)
{
	return a->is_int == b->is_int && a->len == b->len && memcmp(a->s, b->s, a->len) == 0;
}

void sf_pt_put_head(const struct sf_pt *pt, struct sf_buf *out)
{
	sf_buf_add(out, "\x80\x02", 2);
	if (pt->sel.bare)
		return;
	sf_buf_byte(out, pt->root_list ? ']' : '}');
	if (pt->nleaf > 0)
		sf_buf_byte(out, '(');
}

static void close_to(const struct sf_pt_leaf *l, unsigned depth, struct sf_buf *out)
{
	for (unsigned d = l->depth; d-- > depth;)
		sf_buf_byte(out, list_at(l, d) ? 'e' : 'u');
}

void sf_pt_put_leaf(const struct sf_pt *pt, uint32_t i, struct sf_buf *out)
{
	const struct sf_pt_leaf *l = &pt->leaf[i], *prev = i > 0 ? l - 1 : NULL;
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
		if (list_at(l, common))
			have = sf_pt_index(&a, &at) ? at + 1 : 0;
	}
	for (unsigned d = common; d < l->depth; d++) {
		struct sf_pt_elem e = sf_pt_elem(pt, l, d);
		if (d > common) {
			sf_buf_byte(out, list_at(l, d) ? ']' : '}');
			sf_buf_byte(out, '(');
			have = 0;
		}
		if (!list_at(l, d)) {
			put_key(out, &e);
			continue;
		}
		at = 0;
		sf_pt_index(&e, &at); /* the tree made it a list: it is one */
		for (; have < at; have++)
			sf_buf_byte(out, 'N');
	}
	if (!l->object)
		put_tensor(pt, i, out);
}

void sf_pt_put_tail(const struct sf_pt *pt, struct sf_buf *out)
{
	if (pt->nleaf > 0)
		close_to(&pt->leaf[pt->nleaf - 1], 0, out);
	sf_buf_byte(out, '.');
}
