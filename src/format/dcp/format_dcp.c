#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/vec.h"
#include "ckpt/ckpt_builder.h"
#include "format/dcp/dcp_composite.h"
#include "format/dcp/dcp_lightning.h"
#include "format/dcp/dcp_lower.h"
#include "format/dcp/dcp_meta.h"
#include "format/dcp/format_dcp.h"
#include "format/format.h"
#include "format/format_unread.h"

/* __R.metadata below @dir: R, or -1. Written by saves without collectives, 2.9 on. */
int64_t dcp_rank_metadata(const char *name, const char *dir)
{
	size_t n = strlen(dir);
	int64_t rank = 0;

	if (strncmp(name, dir, n) != 0 || strncmp(name + n, "__", 2) != 0)
		return -1;
	name += n + 2;
	for (n = 0; name[n] >= '0' && name[n] <= '9' && n < 9; n++)
		rank = rank * 10 + (name[n] - '0');
	return n && strcmp(name + n, ".metadata") == 0 ? rank : -1;
}

static bool has_rank_metadata(const struct sf_objinfo *files, size_t n, const char *dir)
{
	for (size_t i = 0; i < n; i++)
		if (dcp_rank_metadata(files[i].name, dir) >= 0)
			return true;
	return false;
}

bool dcp_has_metadata(const struct sf_objinfo *files, size_t n, const char *dir)
{
	char name[512];

	if (snprintf(name, sizeof(name), "%s.metadata", dir) < (int)sizeof(name) &&
	    dcp_listed(files, n, name))
		return true;
	return has_rank_metadata(files, n, dir);
}

struct rank_file {
	const struct sf_objinfo *info;
	int64_t rank;
};
SF_VEC(rank_files, struct rank_file);

static int by_rank(const void *a, const void *b)
{
	int64_t x = ((const struct rank_file *)a)->rank, y = ((const struct rank_file *)b)->rank;

	return x < y ? -1 : x > y;
}

/* One file per rank instead of a global one: every rank must have committed. */
static int read_ranks(struct dcp_meta *m, struct sf_store *store, const struct sf_objinfo *files,
                      size_t n, const char *dir, int64_t *ret_mtime, struct sf_error *err)
{
	SF_CLEANUP(rank_files_release) struct rank_files ranks = { 0 };
	SF_FREE struct dcp_meta *each = NULL;
	size_t got = 0;
	int r = 0;

	for (size_t i = 0; i < n; i++) {
		struct rank_file f = { &files[i], dcp_rank_metadata(files[i].name, dir) };
		if (f.rank >= 0 && rank_files_push(&ranks, f) < 0)
			return sf_fail(err, -ENOMEM, "dcp: no memory for %zu rank files", ranks.n);
	}
	if (ranks.n)
		qsort(ranks.at, ranks.n, sizeof(*ranks.at), by_rank);
	for (size_t i = 0; i < ranks.n; i++)
		if (ranks.at[i].rank != (int64_t)i)
			return sf_fail(
				err, -ENOENT,
				"not committed: %s__%zu.metadata is missing, rank %lld's is there",
				dir, i, (long long)ranks.at[i].rank);
	each = calloc(ranks.n, sizeof(*each));
	if (!each)
		return sf_fail(err, -ENOMEM, "dcp: no memory for %zu rank files", ranks.n);
	for (; got < ranks.n && r >= 0; got++) {
		r = dcp_meta_read(&each[got], store, ranks.at[got].info->name, ranks.at[got].info,
		                  DCP_READER_AUTO, err);
		*ret_mtime = SF_MAX(*ret_mtime, ranks.at[got].info->version.mtime_ns);
	}
	if (r >= 0)
		r = dcp_meta_merge(m, each, ranks.n, err);
	for (size_t i = 0; i < got; i++)
		dcp_meta_release(&each[i]);
	return r;
}

/* Is it what the file itself is, now and always? -EIO, -ESTALE, -ENOMEM ... may be better next
 * time. */
static bool is_of_file(int r)
{
	return r == -EBADMSG || r == -ENOTSUP || r == -E2BIG || r == -ENOENT;
}

int dcp_read_dir(struct dcp_meta *m, struct sf_store *store, const struct sf_objinfo *files,
                 size_t n, const char *dir, struct dcp_found *ret, struct sf_error *err)
{
	const struct sf_objinfo *global;
	struct sf_error first = SF_ERROR_INIT, second = SF_ERROR_INIT;
	char name[512];
	int len = snprintf(name, sizeof(name), "%s.metadata", dir), r;

	*ret = (struct dcp_found){ 0 };
	if (len < 0 || (size_t)len >= sizeof(name))
		return sf_fail(err, -ENAMETOOLONG, "dcp: directory '%.200s…': name of %d bytes",
		               dir, len);
	global = dcp_listed(files, n, name);
	if (!global)
		return read_ranks(m, store, files, n, dir, &ret->mtime_ns, err);
	ret->mtime_ns = global->version.mtime_ns;
	r = dcp_meta_read(m, store, name, global, DCP_READER_AUTO, &first);
	if (r >= 0)
		return 0;
	/* else there is no reason to show another checkpoint */
	if (!is_of_file(r) || !has_rank_metadata(files, n, dir))
		return sf_fail(err, r, "%s", first.msg);
	int ranks = read_ranks(m, store, files, n, dir, &ret->mtime_ns, &second);
	if (ranks < 0)
		return sf_fail(err, is_of_file(ranks) ? r : ranks,
		               "%.400s; neither can the ranks' own be read: %.400s", first.msg,
		               second.msg);
	ret->unread = first;
	return 0;
}

int dcp_warn_unread(struct sf_ckpt_builder *b, const char *dir, const struct dcp_found *found)
{
	if (!found->unread.msg[0])
		return 0;
	return sf_ckpt_builder_warn(b, NULL, "unread-metadata",
	                            "%s.metadata cannot be read, the ranks' own are used: %s", dir,
	                            found->unread.msg);
}

uint32_t dcp_count_ranks(const struct dcp_meta *m)
{
	int64_t max = -1;

	for (size_t i = 0; i < m->place.n; i++) {
		const struct dcp_str *s = &m->str.at[m->place.at[i].path];
		max = SF_MAX(max, dcp_file_rank(s->at, s->len));
	}
	return (uint32_t)(max + 1);
}

/* Composer: ep0-ba2, of which the second number counts batches. */
static int64_t composer_step(const char *at, const char *end)
{
	int64_t step = 0;

	if (end - at < 7 || memcmp(at, "ep", 2) != 0)
		return -1;
	for (at += 2; at < end && *at >= '0' && *at <= '9'; at++)
		;
	if (end - at < 4 || end - at > 21 || memcmp(at, "-ba", 3) != 0)
		return -1;
	for (at += 3; at < end && *at >= '0' && *at <= '9'; at++)
		step = step * 10 + (*at - '0');
	return at == end ? step : -1;
}

/* A number behind "step", "checkpoint-" and the like in the last two components of the source's
 * name. */
int64_t dcp_step_of(const char *source)
{
	static const char *const words[] = { "global_step_", "global_step", "checkpoint-",
		                             "step-",        "step",        "iter_" };
	const char *end = source + strlen(source);

	for (int k = 0; k < 2 && end > source; k++) {
		const char *at;
		while (end > source && end[-1] == '/')
			end--;
		for (at = end; at > source && at[-1] != '/';)
			at--;
		if (composer_step(at, end) >= 0)
			return composer_step(at, end);
		for (size_t w = 0; w < SF_ARRAY_LEN(words); w++) {
			size_t n = strlen(words[w]);
			int64_t step = 0;
			const char *p = at + n;
			if ((size_t)(end - at) <= n || memcmp(at, words[w], n) != 0)
				continue;
			for (; p < end && p - at - (ptrdiff_t)n < 18 && *p >= '0' && *p <= '9'; p++)
				step = step * 10 + (*p - '0');
			if (p == end)
				return step;
		}
		end = at;
	}
	return -1;
}

const char *dcp_writer(const struct dcp_facts *f)
{
	if (f->olmo)
		return "olmo-core";
	if (f->version != DCP_NONE || f->has_modules)
		return "torch >= 2.13";
	if (f->has_storage_meta)
		return "torch 2.4 to 2.12";
	if (f->shard_package)
		return "torch 1.13";
	if (f->props_in_checkpoint)
		return "torch 2.3";
	return "torch <= 2.2";
}

int64_t dcp_file_rank(const char *name, size_t len)
{
	int64_t rank = 0;
	size_t i = 2;

	if (len < 2 || name[0] != '_' || name[1] != '_')
		return -1;
	for (; i < len && name[i] >= '0' && name[i] <= '9' && i < 12; i++)
		rank = rank * 10 + (name[i] - '0');
	return i > 2 && i < len && name[i] == '_' && rank < UINT32_MAX ? rank : -1;
}

static int dcp_probe(struct sf_store *store, const struct sf_objinfo *files, size_t n,
                     struct sf_error *err)
{
	int r;
	(void)store;

	if (dcp_has_metadata(files, n, ""))
		return 50;
	r = dcp_is_composite(files, n);
	if (r < 0)
		return sf_fail(err, r, "no memory for %zu files", n);
	return r == 2 ? 48 : r == 1 ? 40 : 0; /* 45: plain safetensors files at the top */
}

/* Asked for by name, or it would have been refused. */
static int warn_megatron(struct sf_store *store, const struct sf_objinfo *files, size_t n,
                         struct sf_ckpt_builder *b)
{
	struct sf_unread u;

	sf_unread_megatron(store, files, n, &u);
	if (!u.format)
		return 0;
	return sf_ckpt_builder_warn(
		b, NULL, "plain-reading",
		"a %s (%s) read as plain DCP: weights and optimizer are one group, flattened "
		"tensors have the shapes they are stored in%s",
		u.what, u.file,
		dcp_listed(files, n, "common.pt") ? ", and common.pt is not read" : "");
}

static void set_facts(struct sf_ckpt_builder *b, const struct sf_store *store,
                      const struct dcp_meta *m, const struct dcp_found *found,
                      const struct dcp_lightning *lightning)
{
	const char *torch = dcp_writer(&m->facts);
	int64_t step = dcp_step_of(store->source);
	char writer[128];

	snprintf(writer, sizeof(writer), "Lightning %s, %s", lightning->version, torch);
	sf_ckpt_builder_facts(b, *lightning->version ? writer : torch, NULL,
	                      step >= 0 ? step : lightning->step, dcp_count_ranks(m),
	                      found->mtime_ns);
}

static int dcp_load(struct sf_store *store, const struct sf_objinfo *files, size_t n,
                    const struct sf_load_options *opt, struct sf_ckpt **ret, struct sf_error *err)
{
	struct dcp_source src = { .store = store, .files = files, .nfiles = n, .dir = "" };
	struct dcp_meta meta = { 0 };
	struct sf_ckpt_builder *b = NULL;
	struct dcp_lightning lightning = { .step = -1 };
	struct dcp_found found;
	int r;

	(void)opt;
	r = sf_ckpt_builder_new("dcp", store->source, &b, err);
	if (r >= 0)
		r = sf_ckpt_builder_listing(b, files, n, err);
	if (r < 0) {
		sf_ckpt_builder_free(b);
		return r;
	}
	if (dcp_has_metadata(files, n, "")) {
		r = dcp_read_dir(&meta, store, files, n, "", &found, err);
		if (r >= 0)
			r = dcp_lower(&meta, &src, b, err);
		if (r >= 0)
			r = dcp_warn_unread(b, "", &found);
		if (r >= 0)
			r = dcp_lightning(store, files, n, b, &lightning, err);
		if (r >= 0)
			set_facts(b, store, &meta, &found, &lightning);
	} else {
		r = dcp_load_composite(store, files, n, b, err);
	}
	if (r >= 0)
		r = warn_megatron(store, files, n, b);
	if (r >= 0)
		r = sf_unread_warn(b, files, n);
	dcp_meta_release(&meta); /* before finish: its columns and the checkpoint's need not be
	                            there together */
	if (r >= 0)
		r = sf_ckpt_builder_finish(b, ret, err);
	if (r < 0)
		sf_ckpt_builder_free(b);
	return r;
}

const struct sf_format sf_format_dcp = {
	.name = "dcp",
	.about = "PyTorch distributed checkpoint",
	.probe = dcp_probe,
	.load = dcp_load,
};
