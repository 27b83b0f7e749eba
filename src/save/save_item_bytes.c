#include "config.h"

#include <inttypes.h>

#include "base/crc32.h"
#include "base/mem.h"
#include "base/path.h"
#include "parse/pickle_write.h"
#include "parse/torch_archive.h"
#include "parse/torch_file_plan.h"
#include "parse/torch_item.h"
#include "save/save_item_bytes.h"

#define OBJECT_DIR_MAX (UINT64_C(1) << 30) /* bytes of a directory that is looked at */

/* An archive of one storage or none. */
struct archive {
	struct sf_torch_file plan;
	uint64_t start[SF_TORCH_FILE_PIECES(1) + 1];
	struct sf_torch_storage storage;
	struct sf_buf *out;
};

static struct sf_torch_storage storage_of(const void *arg, uint32_t i)
{
	(void)i;
	return ((const struct archive *)arg)->storage;
}

static int plan(struct archive *a, const struct sf_buf *pkl, uint32_t nstorage,
                struct sf_error *err)
{
	a->plan = (struct sf_torch_file){ .pkl_len = pkl->len,
		                          .pkl_crc = sf_crc32(0, pkl->at, pkl->len),
		                          .nstorage = nstorage,
		                          .storage = storage_of,
		                          .arg = a,
		                          .start = a->start };
	return sf_torch_file_plan(&a->plan, err);
}

static int put_bytes(void *arg, const void *at, size_t len)
{
	struct archive *a = arg;

	sf_buf_add(a->out, at, len);
	return sf_buf_check(a->out);
}

/* Payloads are not asked for. */
static int put_payload(void *arg, uint32_t i, uint64_t off, uint64_t len)
{
	(void)arg, (void)i, (void)off, (void)len;
	return -EINVAL;
}

static int put_piece(struct archive *a, size_t piece, uint64_t len)
{
	const struct sf_torch_file_sink to = { .bytes = put_bytes,
		                               .payload = put_payload,
		                               .arg = a };

	return sf_torch_file_piece(&a->plan, piece, 0, len, &to);
}

/* Piece @i, all of it. */
static int put_whole(struct archive *a, size_t i)
{
	return put_piece(a, i, a->start[i + 1] - a->start[i]);
}

/* What comes before the first piece. */
static void put_pickle(struct archive *a, const struct sf_buf *pkl)
{
	sf_torch_file_put_head(&a->plan, a->out);
	sf_buf_add(a->out, pkl->at, pkl->len);
	sf_torch_file_put_byteorder(&a->plan, a->out);
}

/* ---- tensors ---- */

static int check(const struct sf_save_tensor_item *t, struct sf_error *err)
{
	const struct sf_dtype_info *info = sf_dtype_info(t->dtype);
	uint64_t bytes = info ? info->bytes : 0;

	if (t->dtype == SF_DTYPE_NONE || !info)
		return sf_fail(err, -EINVAL, "a tensor of no dtype");
	if (sf_pw_tensor_dtype(t->dtype) != t->dtype)
		return sf_fail(err, -EINVAL, "%s: torch loads no quantized tensor from a shard",
		               info->torch);
	if (t->ndim > SF_DIMS_MAX)
		return sf_fail(err, -EINVAL, "%u dimensions, the limit is %u", t->ndim,
		               SF_DIMS_MAX);
	for (unsigned k = 0; k < t->ndim; k++)
		if (t->extent[k] == 0)
			bytes = 0;
	for (unsigned k = 0; k < t->ndim && bytes; k++)
		if (!sf_mul(bytes, t->extent[k], &bytes))
			return sf_fail(err, -E2BIG, "a box of more than 2^64 bytes");
	if (bytes != t->bytes)
		return sf_fail(err, -EINVAL, "%" PRIu64 " bytes of a box that has %" PRIu64,
		               t->bytes, bytes);
	return 0;
}

static int make_pickle(const struct sf_save_tensor_item *t, struct sf_buf *pkl)
{
	struct sf_pickle_writer w = { .out = pkl };

	sf_pw_proto(&w);
	sf_pw_tensor(&w, &(struct sf_pw_tensor){ .dtype = t->dtype,
	                                         .ndim = t->ndim,
	                                         .shape = t->extent,
	                                         .bytes = t->bytes });
	sf_pw_stop(&w);
	return sf_buf_check(pkl);
}

static int begin_tensor(const struct sf_save_tensor_item *t, uint32_t crc, struct archive *a,
                        struct sf_buf *pkl, struct sf_error *err)
{
	int r = make_pickle(t, pkl);

	a->storage = (struct sf_torch_storage){ .len = t->bytes, .crc = crc };
	return r < 0 ? sf_fail(err, r, "no memory for a tensor's pickle") : plan(a, pkl, 1, err);
}

int sf_save_tensor_item_plan(struct sf_save_tensor_item *t, struct sf_error *err)
{
	struct sf_buf pkl = { 0 };
	struct archive a = { .out = NULL };
	int r = check(t, err);

	if (r >= 0)
		r = begin_tensor(t, 0, &a, &pkl, err);
	if (r >= 0) {
		t->head_len = a.start[1] - t->bytes;
		t->tail_len = sf_torch_file_size(&a.plan) - a.start[1];
	}
	sf_buf_release(&pkl);
	return r;
}

int sf_save_tensor_item_head(const struct sf_save_tensor_item *t, uint32_t crc, struct sf_buf *out)
{
	struct sf_buf pkl = { 0 };
	struct archive a = { .out = out };
	int r = begin_tensor(t, crc, &a, &pkl, NULL);

	if (r >= 0) {
		put_pickle(&a, &pkl);
		r = put_piece(&a, 0, a.start[1] - a.start[0] - t->bytes);
	}
	sf_buf_release(&pkl);
	return r < 0 ? r : sf_buf_check(out);
}

int sf_save_tensor_item_tail(const struct sf_save_tensor_item *t, uint32_t crc, struct sf_buf *out)
{
	struct sf_buf pkl = { 0 };
	struct archive a = { .out = out };
	int r = begin_tensor(t, crc, &a, &pkl, NULL);

	for (size_t i = 1; i < SF_TORCH_FILE_PIECES(1) && r >= 0; i++)
		r = put_whole(&a, i);
	sf_buf_release(&pkl);
	return r;
}

/* ---- objects ---- */

/* The tree's marks are the writer's while it writes, and 0 again. */
static int pickle_value(const struct sf_pv *v, struct sf_buf *pkl, struct sf_error *err)
{
	struct sf_arena arena = { 0 };
	struct sf_pickle_writer w;
	int r = sf_pickle_writer_init(&w, pkl, &arena);

	if (r < 0)
		return sf_fail(err, r, "no memory for an object's pickle");
	sf_pw_proto(&w);
	r = sf_pw_value(&w, (struct sf_pv *)(uintptr_t)v, err);
	sf_pw_stop(&w);
	sf_pickle_writer_release(&w);
	sf_arena_release(&arena);
	if (r >= 0 && sf_buf_check(pkl) < 0)
		r = sf_fail(err, sf_buf_check(pkl), "no memory for an object's pickle");
	return r;
}

int sf_save_object_item(const struct sf_pv *v, struct sf_buf *out, struct sf_error *err)
{
	struct sf_buf pkl = { 0 };
	struct archive a = { .out = out };
	int r = pickle_value(v, &pkl, err);

	if (r >= 0)
		r = plan(&a, &pkl, 0, err);
	if (r >= 0) {
		put_pickle(&a, &pkl);
		for (size_t i = 0; i < SF_TORCH_FILE_PIECES(0) && r >= 0; i++)
			r = put_whole(&a, i);
		if (r >= 0)
			r = sf_buf_check(out);
		if (r < 0)
			sf_fail(err, r, "no memory for an object's archive");
	}
	sf_buf_release(&pkl);
	return r;
}

/* The writer's question for each storage: is it there? */
static int storage_there(void *arg, const char *key, size_t key_len, uint64_t *ret_number,
                         struct sf_error *err)
{
	const struct sf_torch_archive *a = arg;
	struct sf_buf shown = { .limit = 200 };

	*ret_number = 0;
	if (sf_torch_record_find(a->storage, a->nstorages, key, key_len))
		return 0;
	sf_escape_text(&shown, key, key_len);
	sf_fail(err, -EBADMSG, "its value has the storage data/%s, which is not in it",
	        sf_buf_cstr(&shown));
	sf_buf_release(&shown);
	return -EBADMSG;
}

/* Are all storages there that the value names? It is written once more, to nowhere. */
static int check_storages(const struct sf_torch_archive *archive, struct sf_arena *arena,
                          struct sf_error *err)
{
	struct sf_buf out = { 0 };
	struct sf_pickle_writer w;
	int r = sf_pickle_writer_init(&w, &out, arena);

	if (r < 0)
		return sf_fail(err, r, "no memory to look at an archive");
	w.storage = storage_there;
	w.storage_arg = (void *)(uintptr_t)archive;
	r = sf_pw_value(&w, archive->root, err);
	sf_pickle_writer_release(&w);
	sf_buf_release(&out);
	return r;
}

int sf_save_object_check(const void *at, size_t len, struct sf_error *err)
{
	const struct sf_torch_input in = { .len = len, .at = at };
	const struct sf_torch_options opt = { .containers = 1u << SF_TORCH_ZIP };
	struct sf_arena arena = { 0 };
	struct sf_torch_archive archive;
	struct sf_zip_dir dir;
	int r = len == 0 ? sf_fail(err, -EBADMSG, "it is empty")
	                 : sf_torch_open(&in, &opt, &arena, &archive, err);

	if (r >= 0)
		r = sf_torch_zip_dir(&in, OBJECT_DIR_MAX, &arena, &dir, err);
	if (r >= 0 && !sf_zip_find(&dir, "version") && !sf_zip_find(&dir, ".data/version"))
		r = sf_fail(err, -EBADMSG, "it has no record 'version', which torch.load asks for");
	if (r >= 0)
		r = check_storages(&archive, &arena, err);
	sf_arena_release(&arena);
	return r == -ENOTSUP ? -EBADMSG : r;
}
