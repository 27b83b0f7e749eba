#include "config.h"

#include <stdio.h>
#include <string.h>

#include "save/save_plan_priv.h"

#define NUM_MAX 10 /* bytes of a varint */

static size_t put_num(uint8_t *at, uint64_t v)
{
	size_t n = 0;

	for (; v >= 0x80; v >>= 7)
		at[n++] = (uint8_t)(v | 0x80);
	at[n++] = (uint8_t)v;
	return n;
}

static void add_num(struct sf_buf *out, uint64_t v)
{
	uint8_t b[NUM_MAX];

	sf_buf_add(out, b, put_num(b, v));
}

static void add_nums(struct sf_buf *out, const uint64_t *v, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		add_num(out, v[i]);
}

static size_t step_text(const struct shardfuse_save_step *s, char buf[24], const char **ret)
{
	if (s->name) {
		*ret = s->name;
		return strlen(s->name);
	}
	*ret = buf;
	return (size_t)snprintf(buf, 24, "%llu", (unsigned long long)s->index);
}

/* Is the key the path's steps joined by '.'? Mostly. */
static bool path_is_key(const struct sf_save_item *item)
{
	size_t at = 0;

	for (uint32_t i = 0; i < item->npath; i++) {
		char buf[24];
		const char *text;
		size_t len = step_text(&item->path[i], buf, &text);

		if (i && (at >= item->key_len || item->key[at++] != '.'))
			return false;
		if (len > item->key_len - at || memcmp(item->key + at, text, len) != 0)
			return false;
		at += len;
	}
	return at == item->key_len;
}

static void add_path(struct sf_buf *out, const struct sf_save_item *item, unsigned flags)
{
	add_num(out, item->npath);
	for (uint32_t i = 0; i < item->npath; i++) {
		const struct shardfuse_save_step *s = &item->path[i];
		char buf[24];
		const char *text;
		size_t len = step_text(s, buf, &text);

		add_num(out, (uint64_t)len << 1 | !s->name);
		if (flags & SF_REC_STEPS)
			sf_buf_add(out, text, len);
	}
}

static bool same_path(const struct sf_save_item *a, const struct sf_save_item *b)
{
	if (a->npath != b->npath)
		return false;
	for (uint32_t i = 0; a->path != b->path && i < a->npath; i++) {
		const struct shardfuse_save_step *x = &a->path[i], *y = &b->path[i];
		if (x->name && y->name ? strcmp(x->name, y->name) != 0
		                       : x->name || y->name || x->index != y->index)
			return false;
	}
	return true;
}

static bool is_again(const struct sf_save_item *item, const struct sf_save_item *before)
{
	return before && item->kind == SF_SAVE_TENSOR && before->kind == SF_SAVE_TENSOR &&
	       item->key_len == before->key_len && item->dtype == before->dtype &&
	       item->requires_grad == before->requires_grad && item->ndim == before->ndim &&
	       same_path(item, before) && memcmp(item->key, before->key, item->key_len) == 0 &&
	       memcmp(item->shape, before->shape, item->ndim * sizeof(*item->shape)) == 0;
}

static void add_structure(struct sf_buf *out, const struct sf_save_item *item,
                          const struct sf_save_item *before)
{
	unsigned flags = (item->kind == SF_SAVE_OBJECT ? SF_REC_OBJECT : 0u) |
	                 (item->requires_grad ? SF_REC_GRAD : 0u);
	uint32_t shared = 0;

	if (is_again(item, before)) {
		sf_buf_byte(out, (uint8_t)(flags | SF_REC_AGAIN));
		return;
	}
	if (item->npath)
		flags |= path_is_key(item) ? SF_REC_SPLIT : SF_REC_STEPS;
	if (before)
		while (shared < SF_REC_SHARED_MAX && shared < item->key_len &&
		       shared < before->key_len && item->key[shared] == before->key[shared])
			shared++;
	sf_buf_byte(out, (uint8_t)flags);
	add_num(out, shared);
	add_num(out, item->key_len - shared);
	sf_buf_add(out, item->key + shared, item->key_len - shared);
	if (item->npath)
		add_path(out, item, flags);
	if (item->kind == SF_SAVE_OBJECT)
		return;
	sf_buf_byte(out, item->dtype);
	sf_buf_byte(out, item->ndim);
	add_nums(out, item->shape, item->ndim);
}

static void add_box(struct sf_buf *out, const struct sf_save_item *item)
{
	uint8_t b[(2 * SHARDFUSE_DIMS_MAX + 1) * NUM_MAX];
	size_t n = 0;

	for (unsigned d = 0; d < item->ndim; d++) {
		n += put_num(b + n, item->origin[d]);
		n += put_num(b + n, item->shape[d] - item->extent[d]);
	}
	n += put_num(b + n, item->stored);
	sf_buf_add(out, b, n);
}

static void add_object(struct sf_buf *out, const struct sf_save_item *item)
{
	uint8_t hash[8];

	add_num(out, item->stored);
	sf_put_le64(hash, item->hash);
	sf_buf_add(out, hash, sizeof(hash));
}

int sf_save_plan_encode(const struct sf_save_items *items, struct sf_buf *ret, uint64_t *ret_hash,
                        struct sf_error *err)
{
	size_t base = ret->len, boxes, objects, n = items->item.n;
	const struct sf_save_item *item = items->item.at;
	uint8_t *head = sf_buf_extend(ret, SF_REC_HEAD);
	int r;

	if (n > UINT32_MAX - 1)
		return sf_fail(err, -E2BIG, "%zu items to save on one rank, the limit is %u", n,
		               UINT32_MAX - 1);
	for (size_t i = 0; i < n; i++)
		add_structure(ret, &item[i], i ? &item[i - 1] : NULL);
	boxes = ret->len;
	for (size_t i = 0; i < n; i++)
		if (item[i].kind == SF_SAVE_TENSOR)
			add_box(ret, &item[i]);
	objects = ret->len;
	for (size_t i = 0; i < n; i++)
		if (item[i].kind == SF_SAVE_OBJECT)
			add_object(ret, &item[i]);
	r = sf_buf_check(ret);
	if (r < 0)
		return sf_fail(err, r, "no memory for the plan of %zu items", n);

	head = ret->at + base;
	memcpy(head, SF_REC_MAGIC, 4);
	sf_put_le32(head + 4, (uint32_t)n);
	sf_put_le64(head + 8, boxes - base - SF_REC_HEAD);
	sf_put_le64(head + 16, objects - boxes);
	sf_put_le64(head + 24, ret->len - objects);
	*ret_hash = sf_fnv1a(SF_FNV1A, head, 24); /* the objects' part changes with each step */
	*ret_hash = sf_fnv1a(*ret_hash, head + SF_REC_HEAD, objects - base - SF_REC_HEAD);
	return 0;
}
