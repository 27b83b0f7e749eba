#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "base/mem.h"
#include "base/vec.h"
#include "parse/zip_write.h"
#include "tool/write_file.h"

enum {
	/*
	 * Bytes of one read and write: they pass the CPU's cache between read, CRC and write. A
	 * write straight from the mapped shard saves the copy but faults every page in on the
	 * way: 1.7 CPU-s per GiB on tmpfs against 0.7.
	 */
	PART = 512 << 10,
	PART_MAX = 4 << 20, /* of files so large that their parts would take too much memory */
	PARTS = 1 << 20,    /* of one file, about */
	SMALL = 16 << 20, /* files below are written whole by one thread, several files at a time */
	THREADS_MAX = 64,
};

/* A range of the file that one thread reads and writes. */
struct part {
	uint64_t off, len;
	uint32_t payload; /* of a .pt: which tensor record; SF_NONE: bytes of our own making */
	uint32_t crc;
};
SF_VEC(parts, struct part);

/* One file being written by one or more threads. */
struct writing {
	struct sf_session *s;
	struct sf_vfile *file;
	struct sf_progress *progress;
	const char *path;
	int fd;
	bool crc;
	struct parts parts;
	uint64_t step; /* bytes of a part at most */
	_Atomic size_t next;
	_Atomic int failed; /* the first error's code; its message is err */
	pthread_mutex_t m;
	struct sf_error err; /* under m */
};

static void fail(struct writing *w, int r, const struct sf_error *err)
{
	pthread_mutex_lock(&w->m);
	if (!atomic_load(&w->failed)) {
		w->err = *err;
		atomic_store(&w->failed, r);
	}
	pthread_mutex_unlock(&w->m);
}

static int pwrite_all(struct writing *w, struct iovec *iov, int n, uint64_t off,
                      struct sf_error *err)
{
	while (n > 0) {
		ssize_t k = pwritev(w->fd, iov, n < 1024 ? n : 1024, (off_t)off);
		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0 && errno == EFAULT)
			return sf_fail(err, -ESTALE, "a shard was truncated while it was read");
		if (k < 0)
			return sf_fail_errno(err, "'%s'", w->path);
		off += (uint64_t)k;
		for (; n > 0 && (size_t)k >= iov->iov_len; iov++, n--)
			k -= (ssize_t)iov->iov_len;
		if (n > 0) {
			iov->iov_base = (char *)iov->iov_base + k;
			iov->iov_len -= (size_t)k;
		}
	}
	return 0;
}

/* @buf: w->step bytes. */
static int write_part(struct writing *w, struct part *p, void *buf, struct sf_error *err)
{
	bool look = w->crc && p->payload != SF_NONE;
	struct sf_read rd = {
		.emit = sf_vfile_emit, .arg = w->file, .off = p->off, .len = p->len, .buf = buf
	};
	int r = sf_read_wait(w->s->reader, &rd);

	if (r < 0) {
		sf_fail(err, r, "%s", rd.err.msg);
	} else {
		if (look)
			p->crc = sf_crc32(0, buf, p->len);
		r = pwrite_all(w, rd.iov, rd.niov, p->off, err);
	}
	sf_read_release(&rd);
	return r;
}

static void *part_worker(void *arg)
{
	struct writing *w = arg;
	struct sf_error err = SF_ERROR_INIT;
	SF_FREE void *buf = malloc(w->step);

	if (!buf) {
		sf_fail(&err, -ENOMEM, "a buffer of %llu bytes", (unsigned long long)w->step);
		fail(w, -ENOMEM, &err);
	}
	while (!atomic_load(&w->failed)) {
		size_t i = atomic_fetch_add(&w->next, 1);
		if (i >= w->parts.n)
			break;
		int r = w->parts.at[i].len ? write_part(w, &w->parts.at[i], buf, &err) : 0;
		if (r < 0)
			fail(w, r, &err);
		else
			sf_progress_add(w->progress, w->parts.at[i].len);
	}
	return NULL;
}

static int cut(struct parts *parts, uint64_t off, uint64_t len, uint64_t step, uint32_t payload)
{
	while (len) {
		uint64_t n = SF_MIN(len, step);
		if (parts_push(parts, (struct part){ .off = off, .len = n, .payload = payload }) <
		    0)
			return -ENOMEM;
		off += n;
		len -= n;
	}
	return 0;
}

static int cut_payload(void *arg, uint32_t rec, uint64_t off, uint64_t len)
{
	struct parts *parts = &((struct writing *)arg)->parts;

	/* an empty record has a CRC too, and they are counted */
	if (len == 0)
		return parts_push(parts, (struct part){ .off = off, .payload = rec }) < 0 ? -ENOMEM
		                                                                          : 0;
	return cut(parts, off, len, ((struct writing *)arg)->step, rec);
}

/* Parts of one payload lie in order: their CRCs combine to the record's. */
static int combine(struct writing *w, uint32_t **ret, uint32_t *ret_n)
{
	uint32_t n = 0, *crc = sf_alloc_array(w->parts.n, sizeof(*crc)), last = SF_NONE;

	if (!crc)
		return -ENOMEM;
	for (size_t i = 0; i < w->parts.n; i++) {
		const struct part *p = &w->parts.at[i];
		if (i && p->payload == last)
			crc[n - 1] = sf_crc32_combine(crc[n - 1], p->crc, p->len);
		else
			crc[n++] = p->crc;
		last = p->payload;
	}
	*ret = crc;
	*ret_n = n;
	return 0;
}

static void run_parts(struct writing *w, unsigned threads)
{
	pthread_t id[THREADS_MAX];
	unsigned n = 0;

	for (; n + 1 < threads && n + 1 < w->parts.n && n < THREADS_MAX; n++)
		if (pthread_create(&id[n], NULL, part_worker, w) != 0)
			break;
	part_worker(w);
	for (unsigned i = 0; i < n; i++)
		pthread_join(id[i], NULL);
}

/* What lies between the payloads of the first @n parts: headers, data.pkl, the directory. */
static int cut_gaps(struct writing *w, const struct part *payload, size_t n)
{
	uint64_t at = 0;
	int r = 0;

	for (size_t i = 0; i < n && r >= 0; i++) {
		r = cut(&w->parts, at, payload[i].off - at, w->step, SF_NONE);
		at = payload[i].off + payload[i].len;
	}
	return r < 0 ? r : cut(&w->parts, at, w->file->size - at, w->step, SF_NONE);
}

static int run_again(struct writing *w, unsigned threads)
{
	atomic_store(&w->next, 0);
	run_parts(w, threads);
	return atomic_load(&w->failed);
}

/* A .pt: the tensors first, with their CRCs; then everything around them, which carries the CRCs.
 */
static int write_pt(struct writing *w, unsigned threads)
{
	SF_FREE uint32_t *crc = NULL;
	uint32_t ncrc = 0;
	int r = sf_view_pt_payloads(w->file, cut_payload, w);

	if (r >= 0)
		r = run_again(w, threads);
	if (r < 0)
		return r;
	r = combine(w, &crc, &ncrc);
	if (r >= 0)
		r = sf_view_pt_set_crcs(w->file, crc, ncrc);
	if (r >= 0) {
		struct parts payloads = w->parts;
		w->parts = (struct parts){ 0 };
		r = cut_gaps(w, payloads.at, payloads.n);
		parts_release(&payloads);
	}
	return r < 0 ? r : run_again(w, threads);
}

static int write_parts(struct writing *w, unsigned threads)
{
	int r = w->crc ? write_pt(w, threads) : cut(&w->parts, 0, w->file->size, w->step, SF_NONE);

	if (r >= 0 && !w->crc)
		r = run_again(w, threads);
	if (r < 0 && !atomic_load(&w->failed))
		sf_fail(&w->err, r, "'%s': %s", w->path, strerror(-r));
	return r;
}

static int make_parents(const char *path, struct sf_error *err)
{
	SF_FREE char *copy = strdup(path);

	if (!copy)
		return sf_fail(err, -ENOMEM, "'%s'", path);
	for (char *c = copy + 1; *c; c++) {
		if (*c != '/')
			continue;
		*c = 0;
		if (mkdir(copy, 0777) < 0 && errno != EEXIST)
			return sf_fail_errno(err, "'%s'", copy);
		*c = '/';
	}
	return 0;
}

/* Beside the final file, and short: PATH's own name may have all of its 255 bytes. *ret is
 * malloc'ed; returns the descriptor. */
static int open_temp(const char *path, char **ret, struct sf_error *err)
{
	const char *slash = strrchr(path, '/');
	int dir = slash ? (int)(slash + 1 - path) : 0, fd;
	uint32_t random;

	/* the number tells exports on hosts that share a directory apart; O_EXCL settles what is
	 * left */
	do {
		SF_FREE char *temp = NULL;
		if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
			random = (uint32_t)time(NULL);
		if (asprintf(&temp, "%.*s.shardfuse-%ld-%08x", dir, path, (long)getpid(), random) <
		    0) {
			temp = NULL;
			return sf_fail(err, -ENOMEM, "'%s'", path);
		}
		fd = open(temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
		if (fd >= 0)
			*ret = SF_STEAL(temp);
		else if (errno != EEXIST)
			return sf_fail_errno(err, "'%s'", temp);
	} while (fd < 0);
	return fd;
}

static int write_file(struct sf_session *s, struct sf_out_file *f, const struct sf_write_options *o,
                      unsigned threads, struct sf_error *err)
{
	struct writing w = { .s = s,
		             .file = f->file,
		             .path = f->path,
		             .progress = o->progress,
		             .crc = f->crc,
		             .step = SF_MIN(SF_MAX(f->file->size / PARTS, (uint64_t)PART),
		                            (uint64_t)PART_MAX),
		             .fd = -1,
		             .m = PTHREAD_MUTEX_INITIALIZER };
	SF_FREE char *temp = NULL;
	int r = make_parents(f->path, err);

	if (r < 0)
		return r;
	w.fd = open_temp(f->path, &temp, err);
	if (w.fd < 0)
		return w.fd;
	sf_progress_file(w.progress, f->path);
	f->size = f->file->size;
	if (ftruncate(w.fd, (off_t)f->size) < 0)
		r = sf_fail_errno(&w.err, "'%s'", temp);
	if (r >= 0)
		r = write_parts(&w, threads);
	if (close(w.fd) < 0 && r >= 0)
		r = sf_fail_errno(&w.err, "'%s'", temp);
	/* link() refuses an existing name atomically where rename() would replace it */
	if (r >= 0 && (o->force ? rename(temp, f->path) : link(temp, f->path)) < 0) {
		int code = errno;
		if (!o->force && (code == EPERM || code == EOPNOTSUPP || code == ENOSYS) &&
		    access(f->path, F_OK) < 0)
			code = rename(temp, f->path) < 0 ? errno
			                                 : 0; /* a filesystem without hard links */
		if (code)
			r = sf_fail(&w.err, -code, "'%s': %s", f->path, strerror(code));
	}
	if (r < 0 || !o->force)
		unlink(temp);
	parts_release(&w.parts);
	if (r < 0)
		sf_fail(err, r, "%s", w.err.msg);
	return r;
}

/* All files: threads take them one by one while they are small; a large one is left to the caller,
 * who then gives it every thread. */
struct batch {
	struct sf_session *s;
	struct sf_out_file *files;
	size_t n;
	const struct sf_write_options *o;
	unsigned threads;
	bool large; /* this round's */
	_Atomic size_t next;
	_Atomic int failed;
	pthread_mutex_t m;
	struct sf_error *err; /* under m */
	void (*done)(void *arg, const struct sf_out_file *f);
	void *arg; /* done is called under m, so one at a time */
};

static int open_one(struct sf_out_file *f, struct sf_error *err)
{
	int r = 0;
	if (!f->file)
		r = f->open(f->arg, f, &f->file, err);
	if (r >= 0)
		r = sf_vfile_prepare(f->file, err);
	return r;
}

static void *batch_worker(void *arg)
{
	struct batch *b = arg;

	while (!atomic_load(&b->failed)) {
		size_t i = atomic_fetch_add(&b->next, 1);
		struct sf_error err = SF_ERROR_INIT;
		if (i >= b->n)
			break;
		struct sf_out_file *f = &b->files[i];
		if (b->large && !f->file)
			continue; /* written in the first round */
		int r = open_one(f, &err);
		if (r >= 0 && !b->large && f->file->size >= SMALL)
			continue;
		if (r >= 0)
			r = write_file(b->s, f, b->o, b->large ? b->threads : 1, &err);
		pthread_mutex_lock(&b->m);
		if (r < 0 && !atomic_load(&b->failed)) {
			sf_fail(b->err, r, "%s", err.msg);
			atomic_store(&b->failed, r);
		} else if (r >= 0) {
			b->done(b->arg, f);
		}
		pthread_mutex_unlock(&b->m);
		sf_vfile_unref(f->file);
		f->file = NULL;
	}
	return NULL;
}

static void release_files(struct sf_out_file *files, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		sf_vfile_unref(files[i].file);
		files[i].file = NULL;
	}
}

struct inode {
	uint64_t dev, ino;
};

static int by_inode(const void *a, const void *b)
{
	const struct inode *x = a, *y = b;

	return x->dev != y->dev ? (x->dev > y->dev) - (x->dev < y->dev)
	                        : (x->ino > y->ino) - (x->ino < y->ino);
}

/* --force replaces what is there, but never a file of the checkpoint that is being read. */
static int refuse_stored(const struct sf_session *s, const struct sf_out_file *files, size_t n,
                         struct sf_error *err)
{
	const struct sf_ckpt *k = s->ckpt;
	SF_FREE struct inode *stored = sf_alloc_array(k->nlisting, sizeof(*stored));

	if (!stored)
		return sf_fail(err, -ENOMEM, "no memory for %u names", k->nlisting);
	for (uint32_t i = 0; i < k->nlisting; i++)
		stored[i] = (struct inode){ k->listing[i].info.version.dev,
			                    k->listing[i].info.version.ino };
	qsort(stored, k->nlisting, sizeof(*stored), by_inode);
	for (size_t i = 0; i < n; i++) {
		struct stat st;
		if (lstat(files[i].path, &st) < 0)
			continue;
		struct inode there = { st.st_dev, st.st_ino };
		if (bsearch(&there, stored, k->nlisting, sizeof(*stored), by_inode))
			return sf_fail(err, -EINVAL,
			               "'%s' is a file of the checkpoint itself: not replaced",
			               files[i].path);
	}
	return 0;
}

int sf_write_files(struct sf_session *s, struct sf_out_file *files, size_t n,
                   const struct sf_write_options *o,
                   void (*done)(void *arg, const struct sf_out_file *f), void *arg,
                   struct sf_error *err)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	struct batch b = { .s = s,
		           .files = files,
		           .n = n,
		           .o = o,
		           .err = err,
		           .done = done,
		           .arg = arg,
		           .m = PTHREAD_MUTEX_INITIALIZER };
	pthread_t id[THREADS_MAX];
	unsigned started = 0;

	for (size_t i = 0; i < n && !o->force; i++) {
		struct stat st;
		if (lstat(files[i].path, &st) == 0) {
			release_files(files, n);
			return sf_fail(err, -EEXIST, "'%s' is there already (--force replaces it)",
			               files[i].path);
		}
	}
	int r = o->force ? refuse_stored(s, files, n, err) : 0;
	if (r < 0) {
		release_files(files, n);
		return r;
	}
	sf_progress_start(o->progress);
	b.threads = o->threads ? o->threads : cores > 0 ? (unsigned)cores : 1;
	b.threads = SF_MIN(b.threads, (unsigned)THREADS_MAX);
	for (; started + 1 < b.threads && started + 1 < n; started++)
		if (pthread_create(&id[started], NULL, batch_worker, &b) != 0)
			break;
	batch_worker(&b);
	for (unsigned i = 0; i < started; i++)
		pthread_join(id[i], NULL);
	b.large = true;
	uint64_t total = atomic_load(&o->progress->bytes);
	for (size_t i = 0; i < n; i++)
		total += files[i].file ? files[i].file->size : 0;
	atomic_store(&o->progress->total, total);
	atomic_store(&b.next, 0);
	batch_worker(&b);
	sf_progress_end(o->progress);
	release_files(files, n);
	return atomic_load(&b.failed);
}
