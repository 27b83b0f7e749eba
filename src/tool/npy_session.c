#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic_file.h"
#include "base/mem.h"
#include "base/path.h"
#include "ckpt/ckpt_builder.h"
#include "parse/npy.h"
#include "store/url.h"
#include "tool/npy_session.h"

#define SUFFIX ".npy"

bool sf_is_npy_name(const char *path)
{
	return sf_has_suffix(path, SUFFIX) && !sf_url_scheme(path);
}

static int read_header(struct sf_source *src, struct sf_npy *ret, struct sf_error *err)
{
	uint8_t head[SF_NPY_HEAD];
	SF_FREE uint8_t *all = NULL;
	size_t len = 0;
	int r;

	if (src->size < sizeof(head))
		return sf_fail(err, -EBADMSG, "%llu bytes: not a .npy file",
		               (unsigned long long)src->size);
	r = sf_source_read(src, 0, head, sizeof(head), SF_FETCH_METADATA, err);
	if (r >= 0)
		r = sf_npy_head(head, sizeof(head), &len, err);
	if (r < 0)
		return r;
	if (len > src->size)
		return sf_fail(err, -EBADMSG, "a .npy header of %zu bytes, the file has %llu", len,
		               (unsigned long long)src->size);
	all = malloc(len);
	if (!all)
		return sf_fail(err, -ENOMEM, "a header of %zu bytes", len);
	r = sf_source_read(src, 0, all, len, SF_FETCH_METADATA, err);
	if (r >= 0)
		r = sf_npy_parse(all, len, ret, err);
	if (r >= 0 && ret->ndim > SF_DIMS_MAX)
		r = sf_fail(err, -ENOTSUP, "%u dimensions, the limit is %d", ret->ndim,
		            SF_DIMS_MAX);
	if (r >= 0 && (ret->data_off > src->size || ret->bytes > src->size - ret->data_off))
		r = sf_fail(err, -EBADMSG, "%llu bytes of elements from %llu on, the file has %llu",
		            (unsigned long long)ret->bytes, (unsigned long long)ret->data_off,
		            (unsigned long long)src->size);
	return r;
}

static int put_tensor(struct sf_ckpt_builder *b, const char *file, const struct sf_npy *npy,
                      struct sf_error *err)
{
	const uint64_t origin[SF_DIMS_MAX] = { 0 };
	int64_t stride[SF_DIMS_MAX], next = 1;
	uint32_t place, tensor;
	int r = sf_ckpt_builder_place(b, file, strlen(file), SF_ITEM_RAW, SF_CODEC_NONE, &place,
	                              err);

	for (unsigned d = 0; d < npy->ndim; d++) {
		stride[d] = next;
		next *= (int64_t)SF_MAX(npy->shape[d], (uint64_t)1);
	}
	if (r >= 0)
		r = sf_ckpt_builder_tensor(b, file, strlen(file) - strlen(SUFFIX), npy->dtype,
		                           npy->shape, npy->ndim, &tensor, err);
	if (r >= 0)
		r = sf_ckpt_builder_chunk(b, origin, npy->shape, err);
	if (r >= 0 && npy->fortran && npy->ndim > 1 && npy->bytes)
		r = sf_ckpt_builder_layout(b, stride, false, false, err);
	if (r >= 0)
		sf_ckpt_builder_set_item(b, tensor, 0, place, npy->data_off, npy->bytes);
	return r;
}

static int load(struct sf_session *s, const char *file, struct sf_error *err)
{
	SF_CLEANUP(sf_source_unrefp) struct sf_source *src = NULL;
	struct sf_ckpt_builder *b = NULL;
	struct sf_objinfo info = { .name = file };
	struct sf_npy npy;
	int r = s->store->ops->open(s->store, file, NULL, &src, err);

	if (r >= 0)
		r = read_header(src, &npy, err);
	if (r < 0)
		return r;
	info.size = src->size;
	info.version = src->version;
	r = sf_ckpt_builder_new("npy", s->store->source, &b, err);
	if (r >= 0)
		r = sf_ckpt_builder_listing(b, &info, 1, err);
	if (r >= 0)
		r = put_tensor(b, file, &npy, err);
	if (r >= 0)
		r = sf_ckpt_builder_finish(b, &s->ckpt, err);
	if (r < 0)
		sf_ckpt_builder_free(b);
	return r;
}

/* What is read is the file, not what else is in its directory. */
static int name_source(struct sf_session *s, const char *file, struct sf_error *err)
{
	char *path;

	if (asprintf(&path, "%s/%s", s->store->source, file) < 0)
		return sf_fail(err, -ENOMEM, "'%s'", file);
	free(s->store->source);
	s->store->source = path;
	return 0;
}

int sf_npy_session_open(struct sf_session *s, const struct sf_session_options *opt,
                        const char *path, struct sf_error *err)
{
	SF_FREE char *dir = sf_dir_of(path);
	const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
	int r = dir ? sf_session_store(s, opt, dir, err) : sf_fail(err, -ENOMEM, "'%s'", path);

	if (r < 0)
		return r;
	r = name_source(s, file, err);
	if (r >= 0)
		r = load(s, file, err);
	if (r < 0)
		sf_fail_ctx(err, r, "'%s'", path);
	if (r >= 0)
		r = sf_catalog_new(s->ckpt, &s->view, &s->catalog, err);
	if (r >= 0)
		r = sf_reader_new(s->ckpt, s->store, &s->reader, err);
	if (r < 0)
		sf_session_close(s);
	return r;
}
