#include "config.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "format/safetensors/safetensors_head.h"
#include "format/safetensors/safetensors_priv.h"
#include "store/fetch_many.h"

#define FILES_AT_ONCE 256u

/* "shard-00001-model-00002-of-00003.safetensors": DCP's writer gives such names to parts alone. */
static bool is_shard(const char *name)
{
	static const char *const word[] = { "shard-", "-model-", "-of-" };
	const char *slash = strrchr(name, '/');

	name = slash ? slash + 1 : name;
	for (size_t i = 0; i < SF_ARRAY_LEN(word); i++) {
		if (strncmp(name, word[i], strlen(word[i])) != 0)
			return false;
		name += strlen(word[i]);
		size_t digits = strspn(name, "0123456789");
		if (digits < 5)
			return false;
		name += digits;
	}
	return strcmp(name, ".safetensors") == 0;
}

/* Will it be the same the next time? */
static bool is_malformed(int code)
{
	return code == -EBADMSG || code == -ENOTSUP || code == -E2BIG;
}

/*
 * A file whose header is no good costs its tensors. Of a sharded save every file may have the end
 * of any tensor, and only the furthest end says how large it is: without one of them nothing is
 * known.
 */
static int pass_over(struct safetensors_lowering *h, const char *name, int code)
{
	struct sf_error why = *h->err;

	if (!is_malformed(code))
		return code;
	if (is_shard(name))
		return sf_fail_ctx(h->err, code, "it may hold a part of every tensor");
	h->unread++;
	return sf_ckpt_builder_warn(h->b, NULL, "unreadable-file", "its tensors are left out: %s",
	                            why.msg);
}

/* Where this file's part of the tensor belongs is not known, so neither is how large the whole is. */
static int leave_out(struct safetensors_lowering *h, const char *file, uint32_t key)
{
	struct sf_error why = *h->err;
	bool again = h->keys.at[key].unknown;

	h->keys.at[key].unknown = true;
	h->left_out += !again;
	return again ? 0
	             : sf_ckpt_builder_warn(h->b, NULL, "malformed-tensor", "left out: '%s': %s",
	                                    file, why.msg);
}

/* @info NULL: it cannot be read, and the tensors' parts belong nobody knows where; a warning says
 * so. */
static int take_tensors(struct safetensors_lowering *h, uint32_t file, uint32_t place,
                        const struct sf_st_header *head, const struct safetensors_sharding *info)
{
	int r = 0;

	for (size_t i = 0; i < head->n && r >= 0; i++) {
		struct safetensors_piece p = { .t = &head->at[i],
			                       .origin0 = h->origins.n,
			                       .data_off = head->data_off,
			                       .file = place };
		r = safetensors_key_of(h, head->at[i].name, head->at[i].name_len, &p.key);
		if (r < 0)
			break;
		if (h->nindexed && (p.key >= h->nindexed || h->key_file[p.key] != file))
			continue; /* the index gives this name to another file, or to none */
		if (!info) {
			h->left_out += !h->keys.at[p.key].unknown;
			h->keys.at[p.key].unknown = true;
			continue;
		}
		if (safetensors_origins_reserve(&h->origins, h->origins.n + p.t->ndim) < 0)
			return safetensors_no_memory(h);
		r = safetensors_origin(info, p.t, h->origins.at + h->origins.n, h->err);
		if (is_malformed(r)) {
			r = leave_out(h, h->names.at[file], p.key);
			continue;
		}
		if (r >= 0 && safetensors_pieces_push(&h->pieces, p) < 0)
			return safetensors_no_memory(h);
		h->origins.n += p.t->ndim;
		h->keys.at[p.key].npieces++;
	}
	return r;
}

/* @got: the file, or why it could not be had; NULL where it is not listed. */
static int take_file(struct safetensors_lowering *h, uint32_t file, const struct sf_fetch_one *got)
{
	SF_CLEANUP(safetensors_sharding_release) struct safetensors_sharding info = { 0 };
	const struct sf_objinfo *f = safetensors_listed(h, h->names.at[file]);
	struct sf_st_header head;
	uint32_t place;
	int r;

	if (!f || !got)
		return 0; /* only an index can name it: warned about there */
	h->mtime = SF_MAX(h->mtime, f->version.mtime_ns);
	r = sf_ckpt_builder_place(h->b, f->name, strlen(f->name), SF_ITEM_RAW, SF_CODEC_NONE,
	                          &place, h->err);
	if (r < 0)
		return r;
	r = got->r < 0 ? sf_fail(h->err, got->r, "%s", got->err.msg)
	               : safetensors_read_header(got->src, f->name, &h->arena, &head, h->err);
	if (r < 0)
		return pass_over(h, f->name, r);
	if (head.sharding_info) {
		h->sharded = true;
		r = safetensors_read_sharding(head.sharding_info, &info, h->err);
		if (is_malformed(r)) {
			struct sf_error why = *h->err;
			r = sf_ckpt_builder_warn(h->b, NULL, "unreadable-file",
			                         "its tensors are left out: '%s': %s", f->name,
			                         why.msg);
			return r < 0 ? r : take_tensors(h, file, place, &head, NULL);
		}
	}
	if (r >= 0)
		r = take_tensors(h, file, place, &head, &info);
	return r < 0 ? sf_fail_ctx(h->err, r, "'%s'", f->name) : 0;
}

/* The files' headers are asked for side by side. */
static int take_some(struct safetensors_lowering *h, uint32_t first, uint32_t end)
{
	SF_FREE struct sf_fetch_one *f = sf_alloc_array(FILES_AT_ONCE, sizeof(*f));
	const struct sf_objinfo *info;
	size_t n = 0, k = 0;
	int r = 0;

	if (!f)
		return safetensors_no_memory(h);
	for (uint32_t i = first; i < end; i++)
		if ((info = safetensors_listed(h, h->names.at[i])))
			f[n++] = (struct sf_fetch_one){ .name = info->name,
				                        .want = info,
				                        .len = SAFETENSORS_BEGIN };
	sf_fetch_many(h->src->store, f, n, SF_FETCH_HEADER);
	for (uint32_t i = first; i < end && r >= 0; i++)
		r = take_file(h, i, safetensors_listed(h, h->names.at[i]) ? &f[k++] : NULL);
	sf_fetch_many_release(f, n);
	return r;
}

int safetensors_take_files(struct safetensors_lowering *h)
{
	const size_t most = SF_MIN(FILES_AT_ONCE, SF_MAX(h->src->store->io->max_open, 1u));
	int r = 0;

	for (size_t i = 0; i < h->names.n && r >= 0; i += most)
		r = take_some(h, (uint32_t)i, (uint32_t)SF_MIN(h->names.n, i + most));
	return r;
}
