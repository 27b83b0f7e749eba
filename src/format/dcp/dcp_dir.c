#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/vec.h"
#include "format/dcp/dcp_dir.h"
#include "format/dcp/dcp_read.h"
#include "format/format_dir.h"
#include "store/fetch_many.h"

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
	    sf_format_listed(files, n, name))
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

#define RANKS_AT_ONCE 256
#define RANKS_LOOKED 32u /* for which a store is asked at once that cannot list */
#define RANKS_MOST 1000000u
#define RANK_BEGIN (UINT64_C(1) << 20)   /* bytes of a rank's metadata that are fetched ahead … */
#define RANKS_BEGIN (UINT64_C(64) << 20) /* … and of all that are fetched at once */

/* Metadata of ranks [first, *ret_end), as many as are fetched at once. */
static int read_some(struct dcp_meta *each, struct sf_store *store, const struct rank_files *ranks,
                     size_t first, size_t *ret_end, struct sf_error *err)
{
	SF_FREE struct sf_fetch_one *f = sf_alloc_array(RANKS_AT_ONCE, sizeof(*f));
	const size_t most = SF_MIN(RANKS_AT_ONCE, SF_MAX(store->io->max_open, 1u));
	uint64_t bytes = 0;
	size_t n = 0;
	int r = 0;

	if (!f)
		return sf_fail(err, -ENOMEM, "dcp: no memory for %zu rank files", ranks->n);
	for (; n < most && first + n < ranks->n && bytes < RANKS_BEGIN; n++) {
		const struct sf_objinfo *info = ranks->at[first + n].info;
		/* what is no plain file was listed without a version: open says what it is */
		f[n] = (struct sf_fetch_one){ .name = info->name,
			                      .want = info->size != UINT64_MAX ? info : NULL,
			                      .len = RANK_BEGIN };
		bytes += SF_MIN(info->size, RANK_BEGIN);
	}
	sf_fetch_many(store, f, n, SF_FETCH_METADATA);
	for (size_t i = 0; i < n && r >= 0; i++) {
		r = f[i].r < 0 ? sf_fail(err, f[i].r, "%s", f[i].err.msg)
		               : dcp_meta_read_source(&each[first + i], f[i].src, f[i].name,
		                                      DCP_READER_AUTO, err);
		sf_source_unref(f[i].src); /* its bytes go with it */
		f[i].src = NULL;
	}
	sf_fetch_many_release(f, n);
	*ret_end = first + n;
	return r;
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
	while (got < ranks.n && r >= 0)
		r = read_some(each, store, &ranks, got, &got, err);
	for (size_t i = 0; i < ranks.n; i++)
		*ret_mtime = SF_MAX(*ret_mtime, ranks.at[i].info->version.mtime_ns);
	if (r >= 0)
		r = dcp_meta_merge(m, each, ranks.n, err);
	for (size_t i = 0; i < ranks.n; i++)
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
	global = sf_format_listed(files, n, name);
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

int dcp_find_ranks(struct sf_format_dir *src, struct sf_ckpt_builder *b,
                   struct sf_format_found *found, struct sf_error *err)
{
	char name[RANKS_LOOKED][32], first[512];
	const char *names[RANKS_LOOKED];
	size_t before = 0;
	int r = 0;

	if (!src->store->ops->look ||
	    snprintf(first, sizeof(first), "%s__0.metadata", src->dir) >= (int)sizeof(first) ||
	    !sf_format_listed(src->files, src->nfiles, first))
		return 0;
	/* a server that has this one has whatever it is asked for */
	snprintf(name[0], sizeof(name[0]), "__%u.metadata", RANKS_MOST);
	names[0] = name[0];
	before = src->nfiles;
	r = sf_format_find(src, names, 1, b, found, err);
	if (r >= 0 && src->nfiles != before)
		return sf_fail(err, -EBADMSG,
		               "the server says that it has '%s%s' too: it has whatever it is "
		               "asked for",
		               src->dir, name[0]);
	before = 0;
	for (uint32_t rank = 1; r >= 0 && before != src->nfiles && rank < RANKS_MOST;
	     rank += RANKS_LOOKED) {
		before = src->nfiles;
		for (uint32_t i = 0; i < RANKS_LOOKED; i++) {
			snprintf(name[i], sizeof(name[i]), "__%u.metadata", rank + i);
			names[i] = name[i];
		}
		r = sf_format_find(src, names, RANKS_LOOKED, b, found, err);
	}
	return r;
}

int dcp_find_files(const struct dcp_meta *m, struct sf_format_dir *src, struct sf_ckpt_builder *b,
                   struct sf_format_found *found, struct sf_error *err)
{
	SF_FREE const char **names = NULL;

	if (!src->store->ops->look)
		return 0;
	names = sf_alloc_array(m->place.n, sizeof(*names));
	if (!names)
		return sf_fail(err, -ENOMEM, "dcp: no memory for the names of %zu files",
		               m->place.n);
	for (size_t i = 0; i < m->place.n; i++) {
		const struct dcp_str *s = &m->str.at[m->place.at[i].path];
		/* one with a NUL in it is no file's */
		names[i] = strlen(s->at) == s->len ? s->at : "";
	}
	return sf_format_find(src, names, m->place.n, b, found, err);
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
