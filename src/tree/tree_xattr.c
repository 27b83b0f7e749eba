#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "tree/tree_priv.h"

#define PREFIX "user.shardfuse."

enum { X_SOURCE, X_ETAG, X_FQN, X_DTYPE, X_SHAPE, X_SHARDS, X_N };
static const char *const names[X_N] = { PREFIX "source", PREFIX "etag",  PREFIX "fqn",
	                                PREFIX "dtype",  PREFIX "shape", PREFIX "shards" };

/* tensor.raw is never cast, and stored files have nothing of a key. */
static enum sf_dtype dtype_of(const struct sf_tree *t, sf_node n, const struct sf_entry *e)
{
	return sf_kind_of(n)->stored ? (enum sf_dtype)t->c->ckpt->tensor[e->tensor].dtype
	                             : (enum sf_dtype)e->dtype;
}

/* Which version of the bytes: the stored file's own, else the checkpoint's. */
static void put_etag(const struct sf_tree *t, sf_node n, struct sf_buf *out)
{
	const struct sf_ckpt *k = t->c->ckpt;

	if (sf_node_kind(n) == SF_T_SHARDS_FILE) {
		const struct sf_objinfo *info = &k->listing[sf_node_index(n)].info;
		if (info->version.etag)
			sf_buf_str(out, info->version.etag);
		else
			sf_buf_printf(out, "%" PRIx64 "-%" PRIx64 "-%" PRIx64, info->version.ino,
			              info->size, (uint64_t)info->version.mtime_ns);
		return;
	}
	for (size_t i = 0; i < sizeof(k->version_hash); i++)
		sf_buf_printf(out, "%02x", k->version_hash[i]);
}

/* False: this node has no such attribute. */
static bool put_value(const struct sf_tree *t, sf_node n, int which, struct sf_buf *out)
{
	uint32_t entry = sf_tree_entry(t, n);
	const struct sf_entry *e = entry == SF_NONE ? NULL : &t->c->entry[entry];
	const struct sf_tensor *tensor =
		e && e->tensor != SF_NONE ? &t->c->ckpt->tensor[e->tensor] : NULL;

	if (which == X_SOURCE) {
		sf_buf_str(out, t->c->ckpt->source ? t->c->ckpt->source : "");
	} else if (which == X_ETAG) {
		put_etag(t, n, out);
	} else if (which == X_FQN && e) {
		sf_buf_add(out, e->name, e->len);
	} else if (which == X_DTYPE && tensor) {
		sf_buf_str(out, sf_dtype_info(dtype_of(t, n, e))->torch);
	} else if (which == X_SHAPE && tensor) {
		sf_buf_byte(out, '[');
		for (unsigned d = 0; d < tensor->ndim; d++)
			sf_buf_printf(out, d ? ", %" PRIu64 : "%" PRIu64, tensor->shape[d]);
		sf_buf_byte(out, ']');
	} else if (which == X_SHARDS && e) {
		sf_buf_printf(out, "%" PRIu32, tensor ? tensor->norder : 1);
	} else {
		return false;
	}
	return true;
}

static int give(const struct sf_buf *b, char *buf, size_t size)
{
	int r = sf_buf_check(b);

	if (r < 0)
		return r;
	if (b->len && size)
		memcpy(buf, b->at, SF_MIN(b->len, size));
	return (int)b->len;
}

int sf_tree_getxattr(struct sf_tree *t, sf_node n, const char *name, char *buf, size_t size)
{
	struct sf_buf b = { .limit = INT32_MAX };
	int r = -ENODATA;

	if (!sf_tree_valid(t, n))
		return -ENOENT;
	for (int i = 0; i < X_N; i++)
		if (strcmp(names[i], name) == 0 && put_value(t, n, i, &b))
			r = give(&b, buf, size);
	sf_buf_release(&b);
	return r;
}

int sf_tree_listxattr(struct sf_tree *t, sf_node n, char *buf, size_t size)
{
	struct sf_buf list = { 0 }, value = { 0 };
	int r;

	if (!sf_tree_valid(t, n))
		return -ENOENT;
	for (int i = 0; i < X_N; i++)
		if (put_value(t, n, i, &value))
			sf_buf_add(&list, names[i], strlen(names[i]) + 1);
	r = give(&list, buf, size);
	sf_buf_release(&value);
	sf_buf_release(&list);
	return r;
}
