#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/vec.h"
#include "format/megatron/megatron.h"
#include "parse/zarr.h"
#include "store/fetch_many.h"

/*
 * The zarr backend: a directory a tensor, called as its key, with .zarray and a file a chunk; objects
 * are files of torch.save in a directory called as theirs, a shard each; common.pt.
 * Source: NVIDIA/Megatron-LM megatron/core/dist_checkpointing/strategies/zarr.py, 0.5 to 0.15.
 */

#define ARRAYS_AT_ONCE 256
#define ARRAY_MAX (UINT64_C(64) << 10) /* bytes of a .zarray */
/* Chunks in all, those that were never stored too: so many, and so many for each file that is there. */
#define CHUNKS_ROOM (UINT64_C(1) << 20)
#define CHUNKS_EACH 8

SF_VEC(zarr_files, const struct sf_objinfo *);

struct zarr_load {
	const struct sf_format_dir *src;
	struct sf_ckpt_builder *b;
	struct sf_error *err;
	struct zarr_files array, object; /* .zarray files; shards of objects */
	uint64_t chunks_left;
	struct sf_buf name; /* KEY/3.0.0 */
};

/* The file's name below the checkpoint's directory; NULL: it is not in it. */
static const char *below(const struct sf_format_dir *src, const char *name)
{
	const size_t n = strlen(src->dir);

	return strncmp(name, src->dir, n) == 0 ? name + n : NULL;
}

/* Directories called KEY.sync hold locks of the writers. */
static bool holds_locks(const char *name, const char *slash)
{
	return slash - name > 5 && memcmp(slash - 5, ".sync", 5) == 0;
}

static int sort_files(struct zarr_load *l)
{
	int r = 0;

	for (size_t i = 0; i < l->src->nfiles && r >= 0; i++) {
		const struct sf_objinfo *file = &l->src->files[i];
		const char *name = below(l->src, file->name), *slash = name ? strchr(name, '/') : 0;
		if (!slash || slash == name || holds_locks(name, slash))
			continue;
		if (strcmp(slash + 1, ".zarray") == 0)
			r = zarr_files_push(&l->array, file);
		else if (strncmp(slash + 1, "shard_", 6) == 0 && sf_has_suffix(slash, ".pt"))
			r = zarr_files_push(&l->object, file);
	}
	return r < 0 ? sf_fail(l->err, r, "no memory for %zu files", l->src->nfiles) : 0;
}

/* ---- tensors ---- */

struct zarr_tensor {
	const struct sf_zarr *z;
	const char *key;
	size_t len;
	uint32_t index, nchunks;
	uint64_t missing; /* chunks that are not stored, and nothing says what they are full of */
	uint64_t larger;  /* files of more bytes than a chunk has */
	const struct sf_objinfo *larger_at;
};

/* Elements from one to the next along each dimension, in a chunk that is stored whole. */
static void strides_of(const struct sf_zarr *z, int64_t *stride)
{
	uint64_t step = 1;

	for (unsigned k = 0; k < z->ndim; k++) {
		const unsigned d = z->column_major ? k : z->ndim - 1 - k;
		stride[d] = (int64_t)step;
		step *= z->chunk[d];
	}
}

/* The chunk's box; is its item other than that box, row-major? */
static bool box_of(const struct sf_zarr *z, const uint64_t *cell, uint64_t *origin,
                   uint64_t *extent)
{
	bool odd = z->column_major && z->ndim > 1;

	for (unsigned d = 0; d < z->ndim; d++) {
		origin[d] = cell[d] * z->chunk[d];
		extent[d] = SF_MIN(z->chunk[d], z->shape[d] - origin[d]);
		odd |= extent[d] != z->chunk[d];
	}
	return odd;
}

static const struct sf_objinfo *chunk_file(struct zarr_load *l, const struct zarr_tensor *t,
                                           const uint64_t *cell)
{
	char text[SF_ZARR_NAME];
	const size_t n = sf_zarr_chunk_name(t->z, cell, text);

	sf_buf_reset(&l->name);
	sf_buf_add(&l->name, t->key, t->len);
	sf_buf_byte(&l->name, '/');
	sf_buf_add(&l->name, text, n);
	if (sf_buf_check(&l->name) < 0)
		return NULL;
	return sf_format_file(l->src, (const char *)l->name.at, l->name.len);
}

static int lower_chunk(struct zarr_load *l, struct zarr_tensor *t, const uint64_t *cell)
{
	const struct sf_zarr *z = t->z;
	const struct sf_objinfo *file = chunk_file(l, t, cell);
	uint64_t origin[SF_DIMS_MAX], extent[SF_DIMS_MAX], len = z->chunk_bytes;
	int64_t stride[SF_DIMS_MAX];
	const bool odd = box_of(z, cell, origin, extent);
	uint32_t place;
	int r = sf_ckpt_builder_chunk(l->b, origin, extent, l->err);

	if (r >= 0 && odd) {
		strides_of(z, stride);
		r = sf_ckpt_builder_layout(l->b, stride, false, false, l->err);
	}
	if (r < 0)
		return r;
	const uint32_t chunk = t->nchunks++;
	if (!file) {
		t->missing += !z->has_fill;
		return 0;
	}
	r = sf_ckpt_builder_place(l->b, file->name, strlen(file->name), SF_ITEM_RAW, z->codec,
	                          &place, l->err);
	if (r < 0)
		return r;
	if (z->codec != SF_CODEC_NONE) {
		len = file->size;
	} else if (file->size > len && file->size != UINT64_MAX) {
		t->larger_at = t->larger++ ? t->larger_at : file;
	}
	sf_ckpt_builder_set_item(l->b, t->index, chunk, place, 0, len);
	return 0;
}

static int lower_chunks(struct zarr_load *l, struct zarr_tensor *t)
{
	const struct sf_zarr *z = t->z;
	uint64_t cell[SF_DIMS_MAX] = { 0 };
	int r = 0;

	for (uint64_t i = 0; i < z->ncells && r >= 0; i++) {
		r = lower_chunk(l, t, cell);
		for (unsigned d = z->ndim; d-- > 0 && ++cell[d] == z->cells[d];)
			cell[d] = 0;
	}
	return r;
}

/* What is not as Megatron writes it. */
static int tell_chunks(struct zarr_load *l, const struct zarr_tensor *t, const char *key)
{
	int r = 0;

	if (t->missing)
		r = sf_ckpt_builder_warn(l->b, key, "missing-chunk",
		                         "%" PRIu64 " of its %" PRIu64
		                         " chunks are not stored, and .zarray has no fill_value: "
		                         "shown as 0",
		                         t->missing, t->z->ncells);
	if (r >= 0 && t->larger)
		r = sf_ckpt_builder_warn(l->b, key, "zarr-chunk",
		                         "%" PRIu64 " of its files are larger than a chunk, the "
		                         "first is '%.200s': %" PRIu64 " bytes for %" PRIu64,
		                         t->larger, t->larger_at->name, t->larger_at->size,
		                         t->z->chunk_bytes);
	return r;
}

static int lower_tensor(struct zarr_load *l, const struct sf_zarr *z, const char *key, size_t len)
{
	struct zarr_tensor t = { .z = z, .key = key, .len = len };
	SF_FREE char *text = strndup(key, len);
	int r;

	if (!text)
		return sf_fail(l->err, -ENOMEM, "no memory for a key of %zu bytes", len);
	if (z->separator != '.')
		return sf_ckpt_builder_warn(l->b, NULL, "unreadable-file",
		                            "'%s/.zarray': chunks in directories of their own are "
		                            "not read by this version",
		                            text);
	if (z->ncells > l->chunks_left)
		return sf_ckpt_builder_warn(l->b, NULL, "unreadable-file",
		                            "'%s/.zarray' speaks of %" PRIu64
		                            " chunks, the checkpoint has %zu files: not shown",
		                            text, z->ncells, l->src->nfiles);
	l->chunks_left -= z->ncells;
	r = sf_ckpt_builder_tensor(l->b, key, len, z->dtype, z->shape, z->ndim, &t.index, l->err);
	if (r >= 0)
		r = sf_ckpt_builder_fill(l->b, t.index, z->fill, l->err);
	if (r >= 0)
		r = lower_chunks(l, &t);
	if (r >= 0)
		r = tell_chunks(l, &t, text);
	return r < 0 ? r : megatron_group(l->b, key, len, l->err);
}

static int lower_array(struct zarr_load *l, const struct sf_fetch_one *f)
{
	struct sf_error why = SF_ERROR_INIT;
	const char *key = below(l->src, f->name);
	SF_FREE uint8_t *text = NULL;
	struct sf_zarr z;
	uint64_t len;
	int r = f->r;

	if (r < 0)
		return sf_fail(l->err, r, "%s", f->err.msg);
	r = sf_source_read_all(f->src, ARRAY_MAX, SF_FETCH_METADATA, &text, &len, &why);
	if (r < 0 && r != -E2BIG)
		return sf_fail(l->err, r, "%s", why.msg);
	if (r >= 0)
		r = sf_zarr_parse((const char *)text, (size_t)len, &z, &why);
	if (r == -ENOMEM)
		return sf_fail(l->err, r, "%s", why.msg);
	if (r < 0)
		return sf_ckpt_builder_warn(l->b, NULL, "unreadable-file", "'%s': %s", f->name,
		                            why.msg);
	return lower_tensor(l, &z, key, (size_t)(strchr(key, '/') - key));
}

static int lower_arrays(struct zarr_load *l)
{
	SF_FREE struct sf_fetch_one *f = sf_alloc_array(ARRAYS_AT_ONCE, sizeof(*f));
	int r = 0;

	if (!f)
		return sf_fail(l->err, -ENOMEM, "no memory for %d arrays", ARRAYS_AT_ONCE);
	for (size_t at = 0; at < l->array.n && r >= 0; at += ARRAYS_AT_ONCE) {
		const size_t n = SF_MIN(l->array.n - at, (size_t)ARRAYS_AT_ONCE);
		for (size_t i = 0; i < n; i++)
			f[i] = (struct sf_fetch_one){ .name = l->array.at[at + i]->name,
				                      .want = l->array.at[at + i],
				                      .len = ARRAY_MAX };
		sf_fetch_many(l->src->store, f, n, SF_FETCH_METADATA);
		for (size_t i = 0; i < n && r >= 0; i++)
			r = lower_array(l, &f[i]);
		sf_fetch_many_release(f, n);
	}
	return r;
}

/* ---- objects ---- */

/* KEY/shard_0_4.pt is the object KEY/shard_0_4, as it is. */
static int lower_object(struct zarr_load *l, const struct sf_objinfo *file)
{
	const char *key = below(l->src, file->name);
	const size_t len = strlen(key) - strlen(".pt");
	uint32_t place, object;
	int r = sf_ckpt_builder_place(l->b, file->name, strlen(file->name), SF_ITEM_TORCH,
	                              SF_CODEC_NONE, &place, l->err);

	if (r >= 0)
		r = sf_ckpt_builder_object(l->b, key, len, &object, l->err);
	if (r < 0)
		return r;
	sf_ckpt_builder_set_object(l->b, object, place, 0, file->size);
	return megatron_group(l->b, key, len, l->err);
}

int megatron_load_zarr(struct sf_format_dir *src, struct sf_ckpt_builder *b,
                       struct megatron_facts *facts, struct sf_error *err)
{
	struct zarr_load l = { .src = src, .b = b, .err = err, .name.limit = 1 << 20 };
	int r;

	if (src->store->ops->look)
		return sf_fail(err, -ENOTSUP,
		               "'%s': a web server does not list, and zarr's arrays are told by "
		               "their directories",
		               src->store->source);
	facts->writer = "Megatron-Core <= 0.15";
	l.chunks_left = CHUNKS_ROOM + CHUNKS_EACH * (uint64_t)src->nfiles;
	r = sort_files(&l);
	if (r >= 0)
		r = lower_arrays(&l);
	for (size_t i = 0; i < l.object.n && r >= 0; i++)
		r = lower_object(&l, l.object.at[i]);
	if (r >= 0) {
		sf_ckpt_builder_beside(b);
		r = megatron_common_file(src, b, facts, err);
	}
	zarr_files_release(&l.array);
	zarr_files_release(&l.object);
	sf_buf_release(&l.name);
	return r;
}
