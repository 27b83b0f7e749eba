#include "config.h"
#include <fcntl.h>
#include <fts.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "cli/cli.h"
#include "cli/live_mount.h"
#include "cli/terminal.h"
#include "cli/text.h"
#include "lib/session.h"
#include "store/cache.h"
#include "store/store_file.h"
#include "store/url.h"
#include "tool/control.h"
#include "tool/warm.h"

struct warm_options {
	bool json;
};

static const struct sf_opt options[] = {
	{ "json", 0, SF_OPT_FLAG, offsetof(struct warm_options, json), NULL, NULL, "print JSON" },
	{ 0 },
};

#define AT_ONCE 16

/* A PATH under way. */
struct job {
	const char *path;
	bool json, quiet;
	uint64_t shown; /* entries printed so far */
	struct sf_progress *progress;
};

static void complain(void *arg, const struct sf_file *file, const struct sf_error *err)
{
	(void)arg, (void)file; /* the message names it */
	sf_cli_error(0, err);
}

static void report(struct job *job, const struct sf_counters *c, uint64_t bytes, int64_t ns)
{
	uint64_t fetched = atomic_load(&c->cache_fetched_bytes);
	char read[32], far[32], rate[32];
	double s = (double)SF_MAX(ns, INT64_C(1)) / 1e9;

	sf_terminal_lock();
	if (job->json) {
		printf("%s\n  {\"path\": ", job->shown++ ? "," : "");
		sf_put_json(stdout, job->path, strlen(job->path));
		printf(", \"bytes\": %" PRIu64 ", \"fetched_bytes\": %" PRIu64
		       ", \"seconds\": %.3f}",
		       bytes, fetched, s);
	} else if (!job->quiet) {
		sf_put_name(stdout, job->path, strlen(job->path));
		printf(": %s", sf_human_size(bytes, read));
		if (atomic_load(&c->cached))
			printf(", %s of it fetched", sf_human_size(fetched, far));
		printf(" (%s/s)\n", sf_human_size((uint64_t)((double)bytes / s), rate));
	}
	fflush(stdout);
	sf_terminal_unlock();
}

/* @w's open and its arg are set. */
static int read_all(struct job *job, struct sf_io *io, struct sf_warm *w,
                    const struct sf_warm_ranges *v, struct sf_error *err)
{
	int64_t begun = sf_now_ns();
	int r;

	w->progress = job->progress;
	w->failed = complain;
	sf_progress_init(job->progress, job->quiet);
	job->progress->total = sf_warm_bytes(v->at, v->n);
	sf_progress_start(job->progress);
	r = sf_warm_read(w, v->at, v->n, err);
	sf_progress_end(job->progress);
	if (r >= 0)
		report(job, &io->counters, w->bytes, sf_now_ns() - begun);
	if (r >= 0 && w->nfailed)
		r = sf_fail(err, -EIO, "'%s': %u file%s could not be read", job->path, w->nfailed,
		            sf_plural(w->nfailed));
	return r;
}

/* ---- SOURCE ---- */

/* Is there a place where it can stay? */
static int check_room(const char *path, struct sf_store *store, uint64_t bytes,
                      struct sf_error *err)
{
	struct sf_cache *c = atomic_load(&store->io->cache);
	char want[32], has[32];

	if (!c)
		return sf_fail(err, -EINVAL,
		               "'%s': nothing that is fetched is kept (--cache-size, "
		               "--cache-dir)",
		               path);
	if (bytes > sf_cache_limit(c))
		return sf_fail(err, -ENOSPC,
		               "'%s': it takes %s, the cache keeps %s (--cache-size; --key takes a "
		               "part)",
		               path, sf_human_size(bytes, want),
		               sf_human_size(sf_cache_limit(c), has));
	return 0;
}

/* @why: the cache's word, or "". */
static int check_kept(const char *path, uint64_t fetched, uint64_t kept, const char *why,
                      struct sf_error *err)
{
	char size[32];

	if (kept >= fetched)
		return 0;
	return sf_fail(err, -ENOSPC,
	               "'%s': of what was fetched %s are not kept: %s (--cache-size, %s)", path,
	               sf_human_size(fetched - kept, size),
	               *why ? why : "no room in the cache, none in memory, or its disk is slow",
	               *why ? "--cache-dir" : "--memory");
}

static int check_cache(const char *path, struct sf_io *io, struct sf_error *err)
{
	struct sf_cache *c = atomic_load(&io->cache);
	struct sf_cache_state state = { .why = "" };

	if (c)
		sf_cache_state(c, &state);
	return check_kept(path, atomic_load(&io->counters.cache_fetched_bytes),
	                  atomic_load(&io->counters.cache_kept_bytes) + state.behind, state.why,
	                  err);
}

static int warm_source(struct job *job, const struct sf_common *common, struct sf_error *err)
{
	struct sf_warm_ranges v = { 0 };
	struct sf_session s;
	struct sf_warm w;
	int r = sf_session_open(&s, &common->session, job->path, err);

	if (r < 0)
		return r;
	r = sf_warm_ranges_of(s.catalog, &v, err);
	if (r >= 0 && s.store->far)
		r = check_room(s.store->source, s.store, sf_warm_bytes(v.at, v.n), err);
	sf_warm_init(&w, s.store, AT_ONCE);
	if (r >= 0)
		r = read_all(job, s.io, &w, &v, err);
	sf_warm_release(&w);
	if (r >= 0 && s.store->far)
		r = check_cache(s.store->source, s.io, err);
	sf_warm_ranges_release(&v);
	sf_session_close(&s);
	return r;
}

/* ---- files of a live mount: its daemon keeps what it fetches for them ---- */

SF_VEC(found_files, struct sf_file);

static int find(const char *path, struct found_files *v, struct sf_error *err)
{
	char *const paths[] = { (char *)path, NULL };
	FTS *fts = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL);
	FTSENT *e;
	int r = 0;

	if (!fts)
		return sf_fail_errno(err, "'%s'", path);
	while (r >= 0 && (errno = 0, e = fts_read(fts))) {
		struct sf_file f = { .name_len = (uint32_t)e->fts_pathlen };
		if (e->fts_info == FTS_D && strcmp(e->fts_name, ".shardfuse") == 0)
			(void)fts_set(fts, e, FTS_SKIP);
		if (e->fts_info == FTS_ERR || e->fts_info == FTS_DNR || e->fts_info == FTS_NS)
			r = sf_fail(err, -e->fts_errno, "'%s': %s", e->fts_path,
			            strerror(e->fts_errno));
		if (e->fts_info != FTS_F || !e->fts_statp->st_size)
			continue;
		f.info.size = (uint64_t)e->fts_statp->st_size;
		f.name = strdup(e->fts_path);
		if (!f.name || found_files_push(v, f) < 0) {
			free((char *)f.name);
			r = sf_fail(err, -ENOMEM, "'%s': no memory", path);
		}
	}
	if (r >= 0 && errno)
		r = sf_fail_errno(err, "'%s'", path);
	fts_close(fts);
	return r;
}

static int open_file(void *arg, const struct sf_file *file, struct sf_source **ret,
                     struct sf_error *err)
{
	const struct sf_version none = { 0 };
	int fd = open(file->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	/* what the kernel has of it, and does not ask for, the daemon's cache need not have */
	if (fd >= 0)
		(void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	return fd < 0 ? sf_fail_errno(err, "'%s'", file->name)
	              : sf_source_file(arg, fd, file->name, file->info.size, &none, ret, err);
}

static int warm_files(struct job *job, const struct sf_common *common, const char *path,
                      struct sf_error *err)
{
	struct sf_warm_ranges v = { 0 };
	struct found_files files = { 0 };
	struct sf_warm w;
	struct sf_io io;
	int r = sf_session_io(&io, &common->session, err);

	if (r < 0)
		return r;
	r = find(path, &files, err);
	for (size_t i = 0; i < files.n && r >= 0; i++)
		if (sf_warm_ranges_push(&v, (struct sf_warm_range){ &files.at[i], 0,
		                                                    files.at[i].info.size }) < 0)
			r = sf_fail(err, -ENOMEM, "'%s': no memory", path);
	sf_warm_init(&w, NULL, AT_ONCE);
	w.open = open_file;
	w.arg = &io;
	if (r >= 0)
		r = read_all(job, &io, &w, &v, err);
	sf_warm_release(&w);
	sf_io_release(&io);
	sf_warm_ranges_release(&v);
	for (size_t i = 0; i < files.n; i++)
		free((char *)files.at[i].name);
	found_files_release(&files);
	return r;
}

/* The views of a mount show the same bytes many times: of its root, those that are stored. */
static int warm_paths(struct job *job, const struct sf_common *common,
                      const struct sf_live_mount *m, struct sf_error *err)
{
	SF_FREE char *stored = NULL;

	if (strcmp(m->path, m->target) != 0)
		return warm_files(job, common, m->path, err);
	if (asprintf(&stored, "%s/shards", m->path) < 0) {
		stored = NULL;
		return sf_fail(err, -ENOMEM, "'%s': no memory", job->path);
	}
	if (access(stored, F_OK) != 0)
		return sf_fail(err, -ENOENT,
		               "'%s': the mount has no shards/ (views=): name a file or directory "
		               "in it",
		               job->path);
	return warm_files(job, common, stored, err);
}

#define ANSWER_MS 5000

/* A mount that may be read may be warmed; whoever may not ask its daemon is not told what was kept. */
static int warm_mounted(struct job *job, const struct sf_common *common,
                        const struct sf_live_mount *m, struct sf_error *err)
{
	struct sf_control before, after;
	int asked = sf_control_ask(m->target, SF_CONTROL_STATE, ANSWER_MS, &before, NULL), r;

	if (asked >= 0 && before.flags == SF_CONTROL_FAR)
		return sf_fail(err, -EINVAL,
		               "'%s': the mount keeps nothing of what it fetches (its cache_size, "
		               "cache_dir)",
		               job->path);
	if (asked >= 0 && *before.why)
		return sf_fail(err, -ENOSPC, "'%s': nothing more is kept in '%s': %s", job->path,
		               before.dir, before.why);
	r = warm_paths(job, common, m, err);
	if (r < 0 || asked < 0 || !(before.flags & SF_CONTROL_CACHED) ||
	    sf_control_ask(m->target, SF_CONTROL_STATE, ANSWER_MS, &after, NULL) < 0)
		return r;
	return check_kept(job->path, after.fetched_bytes - before.fetched_bytes,
	                  after.fetched_kept - before.fetched_kept, after.why, err);
}

static int warm(struct job *job, const struct sf_common *common, struct sf_error *err)
{
	struct sf_live_mount m;
	int r = sf_url_scheme(job->path) ? 0 : sf_live_mount_find(job->path, &m, err);

	if (r < 0)
		return r;
	if (!r)
		return warm_source(job, common, err);
	r = warm_mounted(job, common, &m, err);
	sf_live_mount_release(&m);
	return r;
}

static int run(const void *opt, const struct sf_common *common, int argc, char **argv)
{
	const struct warm_options *o = opt;
	struct sf_progress progress;
	struct job job = { .json = o->json, .quiet = common->quiet, .progress = &progress };
	int code = SF_EXIT_OK;

	if (o->json)
		printf("{\"schema\": 1, \"paths\": [");
	fflush(stdout); /* a child is forked to ask a mount */
	for (int i = 0; i < argc; i++) {
		struct sf_error err = SF_ERROR_INIT;
		job.path = argv[i];
		if (warm(&job, common, &err) < 0)
			code = sf_cli_error(SF_EXIT_FAILED, &err);
	}
	if (o->json)
		printf("%s]}\n", job.shown ? "\n " : "");
	return code;
}

const struct sf_cmd sf_cmd_warm = {
	.name = "warm",
	.usage = "SOURCE… [--key KEY] [--json]",
	.about = "fetch what is stored of SOURCE, or of files in a mount, so that later reads find "
		 "it on "
		 "this machine",
	.example = "shardfuse warm s3://bucket/runs/r1/step9000\nshardfuse warm /mnt/c/model.pt",
	.options = options,
	.common = true,
	.view = true,
	.min_args = 1,
	.max_args = -1,
	.opt_size = sizeof(struct warm_options),
	.run = run,
};
