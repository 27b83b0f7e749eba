#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "format/olmo/olmo.h"
#include "format/safetensors/safetensors_head.h"
#include "store/fetch_many.h"

/*
 * A directory of rank_R.safetensors with flat parts, and metadata.json, which says where they belong.
 * Source: allenai/OLMo-core 0.1 olmo_core/distributed/checkpoint.py.
 */

#define META_MAX (UINT64_C(512) << 20)
#define VALUES_MAX (UINT64_C(1) << 26)
#define FILES_AT_ONCE 64

/* One file's header. */
struct file {
	const char *name; /* as metadata.json has it */
	uint32_t place;
	int r;
	struct sf_st_header head;
};
struct flat {
	struct olmo_load *l;
	const char *dir; /* "model/" */
	struct sf_arena arena;
	struct sf_json *json;
	const struct cJSON *tensors;
	struct file *file;
	size_t nfiles;
	struct sf_map *tensor; /* of the file at hand */
};

static int read_json(struct flat *f)
{
	SF_CLEANUP(sf_source_unrefp) struct sf_source *src = NULL;
	SF_FREE uint8_t *text = NULL;
	char name[64];
	uint64_t len;
	struct olmo_load *l = f->l;
	int r;

	snprintf(name, sizeof(name), "%smetadata.json", f->dir);
	const struct sf_objinfo *info = sf_format_listed(l->files, l->nfiles, name);
	r = l->store->ops->open(l->store, name, info, &src, l->err);
	if (r >= 0)
		r = sf_source_read_all(src, META_MAX, SF_FETCH_METADATA, &text, &len, l->err);
	if (r >= 0)
		r = sf_json_parse_most((const char *)text, (size_t)len, VALUES_MAX, &f->json,
		                       l->err);
	if (r >= 0)
		r = sf_json_get_obj(sf_json_root(f->json), "tensors", &f->tensors, l->err);
	return r < 0 ? sf_fail_ctx(l->err, r, "'%s'", name) : 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct file *)a)->name, ((const struct file *)b)->name);
}

/* The files that the tensors name, each once. */
static int find_files(struct flat *f)
{
	const struct cJSON *t = NULL, *specs, *s;
	size_t n = 0, cap = 0, k = 0;

	while ((t = sf_json_next(f->tensors, t))) {
		if (sf_json_get_obj(t, "shard_spec_per_file", &specs, f->l->err) < 0)
			return sf_fail_ctx(f->l->err, -EBADMSG, "%smetadata.json: '%.200s'", f->dir,
			                   sf_json_name(t));
		for (s = sf_json_next(specs, NULL); s; s = sf_json_next(specs, s)) {
			if (n == cap &&
			    sf_vec_grow((void **)&f->file, &cap, n + 1, sizeof(*f->file)) < 0)
				return sf_fail(f->l->err, -ENOMEM, "no memory for names of files");
			/* tensors name the same ones, in the same order */
			if (k < n && strcmp(f->file[k].name, sf_json_name(s)) == 0) {
				k++;
				continue;
			}
			size_t i = 0;
			while (i < n && strcmp(f->file[i].name, sf_json_name(s)) != 0 && i < 64)
				i++;
			if (i < n && i < 64) {
				k = i + 1;
				continue;
			}
			f->file[n++] = (struct file){ .name = sf_json_name(s), .r = -ENOENT };
			k = n;
			if (n > 1u << 20)
				return sf_fail(f->l->err, -E2BIG,
				               "%smetadata.json names more than %u files", f->dir,
				               1u << 20);
		}
		k = 0;
	}
	if (n)
		qsort(f->file, n, sizeof(*f->file), by_name);
	for (size_t i = 0; i < n; i++)
		if (!f->nfiles || by_name(&f->file[f->nfiles - 1], &f->file[i]) != 0)
			f->file[f->nfiles++] = f->file[i];
	return 0;
}

static int take_file(struct flat *f, struct file *file, struct sf_fetch_one *one)
{
	struct olmo_load *l = f->l;
	struct sf_error why = SF_ERROR_INIT;
	int r = one->r;

	if (r >= 0)
		r = safetensors_read_header(one->src, one->name, &f->arena, &file->head, &why);
	else
		why = one->err;
	if (r == -EBADMSG || r == -E2BIG)
		return sf_ckpt_builder_warn(l->b, NULL, "unreadable-file", "%s", why.msg);
	if (r < 0)
		return sf_fail(l->err, r, "%s", why.msg);
	file->r = 0;
	return sf_ckpt_builder_place(l->b, one->name, strlen(one->name), SF_ITEM_RAW, SF_CODEC_NONE,
	                             &file->place, l->err);
}

/* The headers of files [at, at + n), side by side. */
static int read_heads(struct flat *f, size_t at, size_t n)
{
	struct olmo_load *l = f->l;
	struct sf_fetch_one one[FILES_AT_ONCE] = { 0 };
	struct file *of[FILES_AT_ONCE];
	size_t k = 0;
	int r = 0;

	for (size_t i = at; i < at + n && r >= 0; i++) {
		char *name;
		if (asprintf(&name, "%s%s", f->dir, f->file[i].name) < 0)
			return sf_fail(l->err, -ENOMEM, "no memory for a name");
		const struct sf_objinfo *info = sf_format_listed(l->files, l->nfiles, name);
		free(name);
		if (info) {
			one[k] = (struct sf_fetch_one){ .name = info->name,
				                        .want = info,
				                        .len = SAFETENSORS_BEGIN };
			of[k++] = &f->file[i];
		} else {
			r = sf_ckpt_builder_warn(l->b, NULL, "missing-file",
			                         "%smetadata.json names %.200s, which is not there",
			                         f->dir, f->file[i].name);
		}
	}
	sf_fetch_many(l->store, one, k, SF_FETCH_HEADER);
	for (size_t i = 0; i < k && r >= 0; i++)
		r = take_file(f, of[i], &one[i]);
	sf_fetch_many_release(one, k);
	return r;
}

static int by_tensor(const void *a, const void *b)
{
	const struct sf_st_tensor *x = a, *y = b;
	int c = memcmp(x->name, y->name, SF_MIN(x->name_len, y->name_len));

	return c ? c : (x->name_len > y->name_len) - (x->name_len < y->name_len);
}

/* ---- tensors ---- */

static bool number(const struct cJSON *v, uint64_t *ret)
{
	double d;

	if (!v || !sf_json_is_number(v, &d) || d < 0 || d > 9007199254740992.0 ||
	    d != (double)(uint64_t)d)
		return false;
	*ret = (uint64_t)d;
	return true;
}

/* The ranges that a file has, one behind the other in its entry @t. */
static int add_ranges(struct flat *f, struct olmo_runs *runs, uint32_t tensor,
                      const struct file *file, uint32_t rank, const struct sf_st_tensor *t,
                      const struct cJSON *spec)
{
	const struct cJSON *ranges, *range = NULL;
	const uint64_t elem = sf_dtype_info((enum sf_dtype)t->dtype)->bytes;
	uint64_t at = 0, have = (t->end - t->begin) / elem;
	int r = sf_json_get_arr(spec, "flattened_offsets", &ranges, f->l->err);

	while (r >= 0 && (range = sf_json_next(ranges, range))) {
		const struct cJSON *first = sf_json_next(range, NULL);
		uint64_t start, end;
		if (!number(first, &start) || !number(sf_json_next(range, first), &end) ||
		    end < start || end - start > have - at)
			return sf_fail(f->l->err, -EBADMSG,
			               "a range of %.200s is none, or more than the %" PRIu64
			               " elements that it has",
			               file->name, have);
		const struct olmo_run run = { .place = file->place,
			                      .rank = rank,
			                      .off = file->head.data_off + t->begin + at * elem,
			                      .start = start,
			                      .len = end - start };
		if (run.len)
			r = olmo_runs_add(f->l, runs, tensor, &run);
		at += run.len;
	}
	return r;
}

static const struct file *file_of(const struct flat *f, const char *name)
{
	const struct file key = { .name = name };

	return f->nfiles ? bsearch(&key, f->file, f->nfiles, sizeof(key), by_name) : NULL;
}

/* "state.FQN.__exp_avg" is FQN.exp_avg; *ret_state: it was one. */
static void put_name(struct sf_buf *out, const char *key, bool optim, bool *ret_state)
{
	const char *last = strrchr(key, '.');

	*ret_state = optim && strncmp(key, "state.", 6) == 0 && last && last > key + 5;
	sf_buf_reset(out);
	if (!*ret_state) {
		sf_buf_str(out, key);
		return;
	}
	sf_buf_add(out, key + 6, (size_t)(last + 1 - (key + 6)));
	sf_buf_str(out, strncmp(last + 1, "__", 2) == 0 ? last + 3 : last + 1);
}

static int add_tensor(struct flat *f, const struct cJSON *t, struct olmo_runs *plain,
                      struct olmo_runs *states, struct sf_buf *name)
{
	struct olmo_load *l = f->l;
	struct olmo_runs *runs;
	uint64_t shape[SF_DIMS_MAX] = { 0 };
	const struct cJSON *specs, *s = NULL;
	uint32_t tensor = SF_NONE, rank = 0;
	bool state;
	int ndim, r;

	ndim = sf_json_get_u64s(t, "shape", shape, SF_DIMS_MAX, l->err);
	r = ndim < 0 ? ndim : sf_json_get_obj(t, "shard_spec_per_file", &specs, l->err);
	put_name(name, sf_json_name(t), *f->dir == 'o', &state);
	if (r >= 0)
		r = sf_buf_check(name);
	runs = state ? states : plain;
	while (r >= 0 && (s = sf_json_next(specs, s))) {
		const struct file *file = file_of(f, sf_json_name(s));
		const struct sf_st_tensor key = { .name = sf_json_name(t),
			                          .name_len = strlen(sf_json_name(t)) };
		const struct sf_st_tensor *have =
			file && file->r == 0 && file->head.n
				? bsearch(&key, file->head.at, file->head.n, sizeof(key), by_tensor)
				: NULL;
		if (have && tensor == SF_NONE)
			r = olmo_runs_tensor(l, runs, (const char *)name->at, name->len,
			                     (enum sf_dtype)have->dtype, shape, (unsigned)ndim,
			                     &tensor);
		if (have && r >= 0)
			r = add_ranges(f, runs, tensor, file, rank, have, s);
		rank++;
	}
	return r < 0 ? sf_fail_ctx(l->err, r, "%smetadata.json: '%.200s'", f->dir, sf_json_name(t))
	             : 0;
}

static void release(struct flat *f)
{
	sf_json_free(f->json);
	free(f->file);
	sf_arena_release(&f->arena);
}

static int load_dir(struct olmo_load *l, const char *dir, const char *group)
{
	SF_CLEANUP(olmo_runs_release) struct olmo_runs plain = { 0 }, states = { 0 };
	SF_CLEANUP(sf_buf_release) struct sf_buf name = { .limit = 65536 };
	struct flat f = { .l = l, .dir = dir };
	const struct cJSON *t = NULL;
	int r = read_json(&f);

	if (r >= 0)
		r = find_files(&f);
	for (size_t i = 0; i < f.nfiles && r >= 0; i += FILES_AT_ONCE)
		r = read_heads(&f, i, SF_MIN(f.nfiles - i, (size_t)FILES_AT_ONCE));
	for (size_t i = 0; i < f.nfiles && r >= 0; i++)
		if (f.file[i].head.n)
			qsort(f.file[i].head.at, f.file[i].head.n, sizeof(*f.file[i].head.at),
			      by_tensor);
	while (r >= 0 && (t = sf_json_next(f.tensors, t)))
		r = add_tensor(&f, t, &plain, &states, &name);
	if (r >= 0)
		r = olmo_runs_lower(l, &plain, group, false);
	if (r >= 0)
		r = olmo_runs_lower(l, &states, group, true);
	l->ranks = SF_MAX(l->ranks, (uint32_t)f.nfiles);
	release(&f);
	return r;
}

int olmo_load_flat(struct olmo_load *l)
{
	int r = load_dir(l, "model/", "model");

	if (r >= 0 && sf_format_listed(l->files, l->nfiles, "optim/metadata.json"))
		r = load_dir(l, "optim/", "optim");
	return r < 0 ? r : olmo_add_train(l);
}
