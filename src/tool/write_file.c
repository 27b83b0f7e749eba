#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include "base/atomic_file.h"
#include "base/mem.h"
#include "tool/write_check.h"
#include "tool/write_file.h"
#include "tool/write_parts.h"

enum {
	SMALL = 16 << 20, /* files below are written whole by one thread, several files at a time */
	GROUP = 256,      /* files that get their names together: each holds a descriptor */
	THREADS_MAX = 64,
};

/*
 * The files of a group: threads take them one by one while they are small; a large one is left to
 * the caller, who then gives it every thread.
 */
struct batch {
	struct sf_session *s;
	struct sf_out_file *files;
	struct sf_atomic_file *new; /* one for each */
	size_t n;
	bool last; /* of all files */
	const struct sf_write_options *o;
	unsigned threads;
	_Atomic size_t next;
	_Atomic int failed;
	pthread_mutex_t m;
	struct sf_error *err; /* under m */
};

static void fail(struct batch *b, int r, const struct sf_error *err)
{
	pthread_mutex_lock(&b->m);
	if (!atomic_load(&b->failed)) {
		sf_fail(b->err, r, "%s", err->msg);
		atomic_store(&b->failed, r);
	}
	pthread_mutex_unlock(&b->m);
}

/* Ready to be written: its size is known then. */
static int open_one(struct batch *b, struct sf_out_file *f, struct sf_error *err)
{
	int r = 0;
	if (!f->file)
		r = f->open(f->arg, f, &f->file, err);
	if (r >= 0)
		r = sf_vfile_prepare(f->file, err);
	if (r < 0)
		return r;
	f->size = f->file->size;
	if (f->size > f->least)
		atomic_fetch_add(&b->o->progress->total, f->size - f->least);
	return 0;
}

static int write_one(struct batch *b, size_t i, unsigned threads, struct sf_error *err)
{
	struct sf_out_file *f = &b->files[i];
	struct sf_atomic_file *new = &b->new[i];

	sf_progress_file(b->o->progress, f->path);
	int r = sf_atomic_file_open(new, f->path, err);
	if (r >= 0)
		r = sf_write_parts(b->s, f->file, f->crc, new->fd, f->path, threads, b->o->progress,
		                   err);
	if (r >= 0)
		sync_file_range(new->fd, 0, 0, SYNC_FILE_RANGE_WRITE); /* what fsync waits for */
	sf_vfile_unref(f->file);
	f->file = NULL;
	return r;
}

static void *write_small(void *arg)
{
	struct batch *b = arg;

	while (!atomic_load(&b->failed)) {
		size_t i = atomic_fetch_add(&b->next, 1);
		struct sf_error err = SF_ERROR_INIT;
		if (i >= b->n)
			break;
		int r = open_one(b, &b->files[i], &err);
		if (r >= 0 && b->files[i].size < SMALL)
			r = write_one(b, i, 1, &err);
		if (r < 0)
			fail(b, r, &err);
	}
	return NULL;
}

/* One file's bytes go out while another's do: a journal commits for all of them at once. */
static void *sync_files(void *arg)
{
	struct batch *b = arg;

	while (!atomic_load(&b->failed)) {
		size_t i = atomic_fetch_add(&b->next, 1);
		struct sf_error err = SF_ERROR_INIT;
		if (i >= b->n)
			break;
		int r = sf_atomic_file_sync(&b->new[i], b->files[i].path, &err);
		if (r < 0)
			fail(b, r, &err);
	}
	return NULL;
}

static int by_threads(struct batch *b, void *(*work)(void *))
{
	pthread_t id[THREADS_MAX];
	unsigned n = 0;

	atomic_store(&b->next, 0);
	for (; n + 1 < b->threads && n + 1 < b->n; n++)
		if (pthread_create(&id[n], NULL, work, b) != 0)
			break;
	work(b);
	for (unsigned i = 0; i < n; i++)
		pthread_join(id[i], NULL);
	return atomic_load(&b->failed);
}

static int write_large(struct batch *b)
{
	struct sf_error err = SF_ERROR_INIT;
	int r = 0;

	for (size_t i = 0; i < b->n && r >= 0; i++)
		if (b->files[i].file)
			r = write_one(b, i, b->threads, &err);
	if (r < 0)
		fail(b, r, &err);
	return r;
}

static int remove_files(char *const *paths, size_t n, struct sf_error *err)
{
	for (size_t i = 0; i < n; i++)
		if (unlink(paths[i]) < 0 && errno != ENOENT)
			return sf_fail_errno(err, "'%s'", paths[i]);
	return 0;
}

/* Files of a directory come one after another: it is looked at once for all of them. */
static bool same_dir(const char *a, const char *b)
{
	const char *x = strrchr(a, '/'), *y = strrchr(b, '/');

	return x && y ? x - a == y - b && memcmp(a, b, (size_t)(x - a)) == 0 : !x && !y;
}

static int sync_dirs(const struct batch *b, struct sf_error *err)
{
	int r = 0;

	for (size_t i = 0; i < b->n && r >= 0; i++)
		if (i + 1 == b->n || !same_dir(b->files[i].path, b->files[i + 1].path))
			r = sf_sync_dir_of(b->files[i].path, err);
	return r;
}

static int publish(struct batch *b, void (*done)(void *arg, const struct sf_out_file *f), void *arg)
{
	const struct sf_write_options *o = b->o;
	int r = remove_files(o->before, o->set ? o->nbefore : 0, b->err);
	size_t n = 0;

	for (; n < b->n && r >= 0; n++)
		r = sf_atomic_file_publish(&b->new[n], b->files[n].path, o->force, b->err);
	if (r >= 0)
		r = remove_files(o->after, b->last ? o->nafter : 0, b->err);
	if (r >= 0)
		r = sync_dirs(b, b->err);
	for (size_t i = 0; b->last && i < o->nafter && r >= 0; i++)
		if (i == 0 || !same_dir(o->after[i - 1], o->after[i]))
			r = sf_sync_dir_of(o->after[i], b->err);
	for (size_t i = 0; i < n && r >= 0; i++)
		done(arg, &b->files[i]);
	return r;
}

/* What is left of an error: files without names, and those that were opened for their size. */
static void release(struct batch *b)
{
	for (size_t i = 0; i < b->n; i++) {
		sf_atomic_file_drop(&b->new[i]);
		sf_vfile_unref(b->files[i].file);
		b->files[i].file = NULL;
	}
}

static int write_group(struct batch *b, void (*done)(void *arg, const struct sf_out_file *f),
                       void *arg)
{
	for (size_t i = 0; i < b->n; i++)
		b->new[i] = (struct sf_atomic_file)SF_ATOMIC_FILE_INIT;
	int r = by_threads(b, write_small);
	if (r >= 0)
		r = write_large(b);
	if (r >= 0)
		r = by_threads(b, sync_files);
	if (r >= 0)
		r = publish(b, done, arg);
	release(b);
	return r;
}

/* A descriptor for each file of a set: no half of one is ever seen. */
static int check_set(size_t n, struct sf_error *err)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim) == 0 && n > GROUP && n > lim.rlim_cur / 2)
		return sf_fail(err, -E2BIG,
		               "%zu files at once, this process may open %llu: fewer and larger "
		               "ones (--max-shard-size)",
		               n, (unsigned long long)lim.rlim_cur);
	return 0;
}

static int write_groups(struct sf_session *s, struct sf_out_file *files, size_t n,
                        const struct sf_write_options *o,
                        void (*done)(void *arg, const struct sf_out_file *f), void *arg,
                        struct sf_error *err)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	size_t group = o->set ? n : SF_MIN(n, (size_t)GROUP);
	SF_FREE struct sf_atomic_file *new = sf_alloc_array(group, sizeof(*new));
	unsigned threads = o->threads ? o->threads : cores > 0 ? (unsigned)cores : 1;
	int r = 0;

	if (!new)
		return sf_fail(err, -ENOMEM, "%zu files", n);
	for (size_t at = 0; at < n && r >= 0; at += group) {
		struct batch b = { .s = s,
			           .files = files + at,
			           .new = new,
			           .n = SF_MIN(group, n - at),
			           .last = n - at <= group,
			           .o = o,
			           .threads = SF_MIN(threads, (unsigned)THREADS_MAX),
			           .err = err,
			           .m = PTHREAD_MUTEX_INITIALIZER };
		r = write_group(&b, done, arg);
	}
	return r;
}

int sf_write_files(struct sf_session *s, struct sf_out_file *files, size_t n,
                   const struct sf_write_options *o,
                   void (*done)(void *arg, const struct sf_out_file *f), void *arg,
                   struct sf_error *err)
{
	int r = sf_write_check(s, files, n, o, err);

	if (r >= 0 && o->set)
		r = check_set(n, err);
	if (r >= 0) {
		uint64_t total = 0;
		if (o->root)
			sf_atomic_file_sweep(o->root);
		for (size_t i = 0; i < n; i++) {
			total += files[i].least;
			if (i == 0 || !same_dir(files[i - 1].path, files[i].path))
				sf_atomic_file_sweep(files[i].path);
		}
		atomic_store(&o->progress->total, total);
		sf_progress_start(o->progress);
		r = write_groups(s, files, n, o, done, arg, err);
		sf_progress_end(o->progress);
	}
	for (size_t i = 0; i < n; i++) {
		sf_vfile_unref(files[i].file);
		files[i].file = NULL;
	}
	return r;
}
