/* The public reading interface (shardfuse.h): a session behind opaque handles. */
#include "config.h"
#include <stdlib.h>
#include <string.h>
#include "base/buf.h"
#include "base/mem.h"
#include "shardfuse.h"
#include "lib/session.h"
#include "value/object.h"

struct shardfuse {
	struct sf_session_options opt;
	struct sf_session s;
};
struct shardfuse_file {
	struct sf_vfile *file;
};

_Static_assert(sizeof(struct shardfuse_error) == sizeof(struct sf_error),
               "they are the same bytes");

/* The public error has the layout of ours; a copy keeps the two types apart. */
static int hand_over(struct shardfuse_error *ret, const struct sf_error *err, int code)
{
	if (ret && code < 0)
		memcpy(ret->msg, err->msg, sizeof(ret->msg));
	return code;
}

int shardfuse_open(const char *source, struct shardfuse **ret, struct shardfuse_error *err)
{
	struct sf_error e = SF_ERROR_INIT;
	struct shardfuse *h = calloc(1, sizeof(*h));
	int r;

	if (!h)
		return hand_over(err, &e, sf_fail(&e, -ENOMEM, "'%s'", source));
	sf_session_options_init(&h->opt); /* without a log: a library does not talk */
	r = sf_session_open(&h->s, &h->opt, source, &e);
	if (r < 0) {
		free(h);
		return hand_over(err, &e, r);
	}
	*ret = h;
	return 0;
}

void shardfuse_close(struct shardfuse *h)
{
	if (!h)
		return;
	sf_session_close(&h->s);
	free(h);
}

uint64_t shardfuse_tensor_count(const struct shardfuse *h)
{
	return h->s.ckpt->ntensors;
}

int shardfuse_tensor_info(const struct shardfuse *h, uint64_t tensor, struct shardfuse_tensor *ret)
{
	if (tensor >= h->s.ckpt->ntensors)
		return -EINVAL;
	const struct sf_tensor *t = &h->s.ckpt->tensor[tensor];
	const struct sf_key *k = &h->s.ckpt->key[t->key];
	const struct sf_dtype_info *d = sf_dtype_info(t->dtype);
	*ret = (struct shardfuse_tensor){
		.key = k->name,
		.key_len = k->len,
		.dtype = d->torch,
		.elem_bytes = d->bytes,
		.ndim = t->ndim,
		.shape = t->shape,
		.bytes = t->bytes,
		.chunks = t->nchunks,
	};
	return 0;
}

int64_t shardfuse_tensor_find(const struct shardfuse *h, const char *key, size_t key_len)
{
	uint32_t k = sf_ckpt_find(h->s.ckpt, key, key_len);
	return k == SF_NONE || h->s.ckpt->key[k].tensor == SF_NONE
	               ? -ENOENT
	               : (int64_t)h->s.ckpt->key[k].tensor;
}

/* The tensor, if [off, off + len) lies in it. */
static int check_range(const struct shardfuse *h, uint64_t tensor, uint64_t off, uint64_t len,
                       struct sf_error *err)
{
	uint64_t end;
	if (tensor >= h->s.ckpt->ntensors)
		return sf_fail(err, -EINVAL, "tensor %llu of %u", (unsigned long long)tensor,
		               h->s.ckpt->ntensors);
	const struct sf_tensor *t = &h->s.ckpt->tensor[tensor];
	if (!sf_add(off, len, &end) || end > t->bytes)
		return sf_fail(err, -EINVAL, "'%s': %llu bytes at %llu, it has %llu",
		               h->s.ckpt->key[t->key].name, (unsigned long long)len,
		               (unsigned long long)off, (unsigned long long)t->bytes);
	return 0;
}

int shardfuse_tensor_read(struct shardfuse *h, uint64_t tensor, uint64_t off, void *buf,
                          uint64_t len, struct shardfuse_error *err)
{
	struct sf_error e = SF_ERROR_INIT;
	int r = check_range(h, tensor, off, len, &e);
	if (r >= 0 && len)
		r = sf_read_tensor(h->s.reader, (uint32_t)tensor, off, buf, len, &e);
	return hand_over(err, &e, r);
}

int shardfuse_tensor_read_box(struct shardfuse *h, uint64_t tensor, const uint64_t *origin,
                              const uint64_t *extent, void *buf, const int64_t *stride,
                              struct shardfuse_error *err)
{
	struct sf_error e = SF_ERROR_INIT;
	uint64_t index[SF_DIMS_MAX] = { 0 }, pitch[SF_DIMS_MAX];
	int64_t dense[SF_DIMS_MAX];
	int r = check_range(h, tensor, 0, 0, &e);

	if (r < 0)
		return hand_over(err, &e, r);
	const struct sf_tensor *t = &h->s.ckpt->tensor[tensor];
	uint64_t elem = sf_dtype_info(t->dtype)->bytes, step = elem, room = elem;
	bool empty = false;
	for (unsigned d = t->ndim; d-- > 0;) {
		if (origin[d] > t->shape[d] || extent[d] > t->shape[d] - origin[d])
			return hand_over(
				err, &e,
				sf_fail(&e, -EINVAL,
			                "'%s': dimension %u: %llu elements at %llu, it has %llu",
			                h->s.ckpt->key[t->key].name, d,
			                (unsigned long long)extent[d],
			                (unsigned long long)origin[d],
			                (unsigned long long)t->shape[d]));
		empty |= extent[d] == 0;
		pitch[d] = step;
		step *= t->shape[d];
		dense[d] = (int64_t)room;
		room *= extent[d];
	}
	if (empty)
		return 0;
	if (!stride)
		stride = dense;
	/* the inner dimensions that are one run in the tensor and in the caller's array */
	unsigned inner = t->ndim;
	uint64_t run = elem;
	while (inner > 0 && stride[inner - 1] == (int64_t)run && pitch[inner - 1] == run)
		run *= extent[--inner];
	for (;;) {
		uint64_t off = 0;
		int64_t to = 0;
		for (unsigned d = 0; d < t->ndim; d++) {
			off += (origin[d] + index[d]) * pitch[d];
			to += (int64_t)index[d] * stride[d];
		}
		r = sf_read_tensor(h->s.reader, (uint32_t)tensor, off, (char *)buf + to, run, &e);
		if (r < 0)
			return hand_over(err, &e, r);
		unsigned d = inner;
		while (d > 0 && ++index[d - 1] == extent[d - 1])
			index[--d] = 0;
		if (d == 0)
			return 0;
	}
}

uint64_t shardfuse_object_count(const struct shardfuse *h)
{
	return h->s.ckpt->nobjects;
}

int shardfuse_object_key(const struct shardfuse *h, uint64_t object, const char **ret_key,
                         size_t *ret_len)
{
	if (object >= h->s.ckpt->nobjects)
		return -EINVAL;
	const struct sf_key *k = &h->s.ckpt->key[h->s.ckpt->object[object].key];
	*ret_key = k->name;
	*ret_len = k->len;
	return 0;
}

static int to_json(void *arg, uint32_t object, struct sf_object_value *v, struct sf_error *err)
{
	(void)object;
	return sf_value_json(arg, v->root, err);
}

int shardfuse_object_json(struct shardfuse *h, uint64_t object, char **ret,
                          struct shardfuse_error *err)
{
	struct sf_error e = SF_ERROR_INIT;
	struct sf_buf b = { .limit = 1u << 30 };
	uint32_t which = (uint32_t)object;
	int r;

	if (object >= h->s.ckpt->nobjects)
		return hand_over(err, &e,
		                 sf_fail(&e, -EINVAL, "object %llu of %u",
		                         (unsigned long long)object, h->s.ckpt->nobjects));
	r = sf_objects_load(h->s.reader, &which, 1, to_json, &b, &e);
	if (r >= 0) {
		sf_buf_byte(&b, 0);
		r = sf_buf_check(&b);
		if (r < 0)
			sf_fail(&e, r, "a value of more than %zu bytes of JSON", b.limit);
	}
	if (r < 0) {
		sf_buf_release(&b);
		return hand_over(err, &e, r);
	}
	*ret = (char *)b.at;
	return 0;
}

int shardfuse_file_open(struct shardfuse *h, const char *path, struct shardfuse_file **ret,
                        struct shardfuse_error *err)
{
	struct sf_error e = SF_ERROR_INIT;
	struct shardfuse_file *f = calloc(1, sizeof(*f));
	sf_node node;
	int r = f ? sf_tree_walk(h->s.tree, path, true, &node, &e)
	          : sf_fail(&e, -ENOMEM, "'%s'", path);

	if (r >= 0)
		r = sf_tree_open(h->s.tree, node, &f->file, &e);
	if (r == -EISDIR)
		sf_fail(&e, r, "'%s' is a directory", path);
	if (r >= 0)
		r = sf_vfile_prepare(f->file, &e);
	if (r < 0) {
		shardfuse_file_close(f);
		return hand_over(err, &e, r);
	}
	*ret = f;
	return 0;
}

uint64_t shardfuse_file_size(const struct shardfuse_file *f)
{
	return f->file->size;
}

int64_t shardfuse_file_pread(struct shardfuse_file *f, void *buf, size_t len, uint64_t off,
                             struct shardfuse_error *err)
{
	struct sf_error e = SF_ERROR_INIT;
	int64_t r = sf_vfile_pread(f->file, off, buf, len, &e);
	if (r < 0)
		hand_over(err, &e, (int)r);
	return r;
}

void shardfuse_file_close(struct shardfuse_file *f)
{
	if (!f)
		return;
	sf_vfile_unref(f->file);
	free(f);
}
