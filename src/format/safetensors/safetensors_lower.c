#include "config.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "format/safetensors/safetensors_priv.h"

/* The key as it is shown: in its container. */
static int set_name(struct safetensors_lowering *h, const struct safetensors_key *key)
{
	sf_buf_reset(&h->name);
	if (h->src->prefix) {
		sf_buf_str(&h->name, h->src->prefix);
		sf_buf_byte(&h->name, '.');
	}
	sf_buf_add(&h->name, key->name, key->len);
	sf_buf_cstr(&h->name);
	return sf_buf_check(&h->name) < 0 ? safetensors_no_memory(h) : 0;
}

static int set_path(struct safetensors_lowering *h, const struct safetensors_key *key)
{
	const struct sf_path_elem path[2] = {
		{ h->src->prefix, h->src->prefix ? (uint32_t)strlen(h->src->prefix) : 0, 0 },
		{ key->name, key->len, 0 }
	};

	return !h->src->prefix ? 0
	                       : sf_ckpt_builder_path(h->b, (const char *)h->name.at, h->name.len,
	                                              path, 2, h->err);
}

/* Global size: as far as any part reaches. Trailing empty parts are not visible: the format does
 * not say more. -EBADMSG: the parts are not those of one tensor. */
static int global_shape(struct safetensors_lowering *h, const struct safetensors_key *key,
                        const uint32_t *list, uint64_t shape[SF_DIMS_MAX])
{
	const struct safetensors_piece *first = &h->pieces.at[list[0]];
	uint64_t end;

	for (uint32_t i = 0; i < key->npieces; i++) {
		const struct safetensors_piece *p = &h->pieces.at[list[i]];
		if (p->t->dtype != first->t->dtype || p->t->ndim != first->t->ndim)
			return sf_fail(h->err, -EBADMSG,
			               "'%.*s': its parts have different dtypes or dimensions",
			               (int)SF_MIN(key->len, 200u), key->name);
		for (unsigned k = 0; k < p->t->ndim; k++) {
			if (!sf_add(h->origins.at[p->origin0 + k], p->t->shape[k], &end))
				return sf_fail(h->err, -EBADMSG,
				               "'%.*s': a part at %llu of %llu elements",
				               (int)SF_MIN(key->len, 200u), key->name,
				               (unsigned long long)h->origins.at[p->origin0 + k],
				               (unsigned long long)p->t->shape[k]);
			shape[k] = SF_MAX(shape[k], end);
		}
	}
	return 0;
}

static int lower_key(struct safetensors_lowering *h, const struct safetensors_key *key,
                     const uint32_t *list)
{
	const struct safetensors_piece *first = &h->pieces.at[list[0]];
	uint64_t shape[SF_DIMS_MAX] = { 0 };
	uint32_t tensor, chunks = 0;
	bool whole = false;
	int r = global_shape(h, key, list, shape);

	if (r < 0) { /* it is left out, the others are not */
		struct sf_error why = *h->err;
		*h->err = (struct sf_error)SF_ERROR_INIT;
		return sf_ckpt_builder_warn(h->b, NULL, "malformed-tensor", "left out: %s",
		                            why.msg);
	}
	r = set_name(h, key);
	if (r >= 0)
		r = sf_ckpt_builder_tensor(h->b, (const char *)h->name.at, h->name.len,
		                           (enum sf_dtype)first->t->dtype, shape, first->t->ndim,
		                           &tensor, h->err);
	for (uint32_t i = 0; i < key->npieces && r >= 0; i++) {
		const struct safetensors_piece *p = &h->pieces.at[list[i]];
		/* The same box again is a copy (replicated, or two files of one model side by
		 * side). */
		for (uint32_t k = 0; k < i && k < 8 && !whole; k++) {
			const struct safetensors_piece *q = &h->pieces.at[list[k]];
			whole = p->t->ndim == 0 ||
			        (memcmp(p->t->shape, q->t->shape, p->t->ndim * sizeof(uint64_t)) ==
			                 0 &&
			         memcmp(h->origins.at + p->origin0, h->origins.at + q->origin0,
			                p->t->ndim * sizeof(uint64_t)) == 0);
		}
		if (whole) {
			whole = false;
			continue;
		}
		r = sf_ckpt_builder_chunk(h->b, h->origins.at + p->origin0, p->t->shape, h->err);
		if (r >= 0)
			sf_ckpt_builder_set_item(h->b, tensor, chunks++, p->file,
			                         p->data_off + p->t->begin,
			                         p->t->end - p->t->begin);
	}
	return r < 0 ? r : set_path(h, key);
}

int safetensors_lower(struct safetensors_lowering *h)
{
	SF_FREE uint32_t *list = sf_alloc_array(h->pieces.n, sizeof(*list));
	SF_FREE size_t *start = sf_alloc_array(h->keys.n + 1, sizeof(*start));
	int r = list && start ? 0 : safetensors_no_memory(h);

	/* pieces by key, in order of files: a counting sort */
	if (r >= 0) {
		start[0] = 0;
		for (size_t i = 0; i < h->keys.n; i++)
			start[i + 1] = start[i] + h->keys.at[i].npieces;
		for (size_t i = 0; i < h->pieces.n; i++)
			list[start[h->pieces.at[i].key]++] = (uint32_t)i;
	}
	for (size_t i = 0; i < h->keys.n && r >= 0; i++) {
		const struct safetensors_key *key = &h->keys.at[i];
		if (key->unknown)
			continue;
		if (key->npieces) {
			r = lower_key(h, key, list + start[i] - key->npieces);
			continue;
		}
		if (i >= h->nindexed)
			continue; /* in a file, but the index gives it to another */
		const char *file = h->names.at[h->key_file[i]];
		bool there =
			sf_path_check(file, strlen(file), NULL) >= 0 && safetensors_listed(h, file);
		r = sf_ckpt_builder_warn(h->b, NULL, there ? "missing-item" : "missing-file",
		                         "'%.*s': the index puts it into %.200s, which %s",
		                         (int)SF_MIN(key->len, 200u), key->name, file,
		                         there ? "does not have it" : "is not there");
	}
	return r;
}
