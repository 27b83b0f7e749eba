#include "config.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/thread_pool.h"
#include "store/guard.h"
#include "store/store_file.h"

#define TMPFS_MAGIC_ 0x01021994
#define RAMFS_MAGIC_ 0x858458f6
#define PAGES_ASKED 512    /* of one mincore() */
#define WINDOW (256 << 10) /* bytes asked about at once, aligned */
/* bytes of an iovec below which a copy out of the mapping costs less than preadv's */
#define GUARDED_RUN 4096

/* What may be done without waiting; found out once a file. */
enum {
	KNOWN = 1,
	IN_MEMORY = 2, /* tmpfs, ramfs: a plain preadv does not wait, a mapping is resident */
	NO_NOWAIT = 4, /* RWF_NOWAIT is refused: only submit */
	NO_LEND = 8,   /* mincore() would not tell the truth, or there is no mapping */
};

struct file_source {
	struct sf_source s;
	int fd;
	_Atomic unsigned traits;
	void *_Atomic map;     /* of the whole file, made by the first lend; NULL before */
	_Atomic uint64_t seen; /* the window found resident last, and when; 0: none */
	char name[];
};

/* mincore() tells owners and writers the truth, all others that everything is resident
 * (mm/mincore.c, can_do_mincore). */
static bool mincore_is_true(int fd)
{
	struct stat st;

	return geteuid() == 0 || (fstat(fd, &st) == 0 && st.st_uid == geteuid());
}

static unsigned traits_of(struct file_source *f)
{
	unsigned t = atomic_load_explicit(&f->traits, memory_order_relaxed);
	struct statfs fs;

	if (t)
		return t;
	t = KNOWN;
	if (fstatfs(f->fd, &fs) == 0 &&
	    ((uint32_t)fs.f_type == TMPFS_MAGIC_ || (uint32_t)fs.f_type == RAMFS_MAGIC_))
		t |= IN_MEMORY;
	else if (!mincore_is_true(f->fd))
		t |= NO_LEND;
	return atomic_fetch_or_explicit(&f->traits, t, memory_order_relaxed) | t;
}

static int truncated(struct file_source *f, uint64_t end, uint64_t off, uint64_t len,
                     struct sf_error *err)
{
	return sf_fail(err, -ESTALE,
	               "'%s': the file ends at byte %llu, a read needs %llu bytes at %llu: it was "
	               "truncated after it was opened",
	               f->name, (unsigned long long)end, (unsigned long long)len,
	               (unsigned long long)off);
}

static void *mapping(struct file_source *f)
{
	void *map = atomic_load_explicit(&f->map, memory_order_acquire), *none = NULL;

	if (map)
		return map;
	if (!f->s.size || f->s.size > SIZE_MAX)
		return NULL;
	map = mmap(NULL, f->s.size, PROT_READ, MAP_SHARED, f->fd, 0);
	if (map == MAP_FAILED)
		return NULL;
	if (!atomic_compare_exchange_strong_explicit(&f->map, &none, map, memory_order_acq_rel,
	                                             memory_order_acquire)) {
		munmap(map, f->s.size); /* another thread was first */
		map = none;
	}
	return map;
}

static bool resident(const uint8_t *at, uint64_t len)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	unsigned char in[PAGES_ASKED];
	uintptr_t from = (uintptr_t)at & ~(page - 1), end = (uintptr_t)at + len;

	while (from < end) {
		size_t bytes = SF_MIN(end - from, PAGES_ASKED * page),
		       n = (bytes + page - 1) / page;
		if (mincore((void *)from, bytes, in) != 0)
			return false;
		for (size_t i = 0; i < n; i++)
			if (!(in[i] & 1))
				return false;
		from += n * page;
	}
	return true;
}

/*
 * A read of 64 column shards asks about 64 short ranges, the next read about those behind them: a
 * window that was wholly resident a moment ago (17 ms at most) is taken to be so still. Memory may
 * be taken back at any time after mincore() has answered anyway; what it costs then is a page fault
 * that waits.
 */
static bool resident_lately(struct file_source *f, const uint8_t *map, uint64_t off, uint64_t len)
{
	uint64_t window = off / WINDOW, from = window * WINDOW, key;
	struct timespec now;

	if (!len || (off + len - 1) / WINDOW != window)
		return resident(map + off, len);
	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	key = (window + 1) << 16 |
	      (((uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec) >> 24 & 0xffff);
	if (atomic_load_explicit(&f->seen, memory_order_relaxed) == key)
		return true;
	if (!resident(map + from, SF_MIN((uint64_t)WINDOW, f->s.size - from)))
		return resident(map + off, len);
	atomic_store_explicit(&f->seen, key, memory_order_relaxed);
	return true;
}

static int cut_under_copy(struct file_source *f, uint64_t off, uint64_t len, struct sf_error *err)
{
	struct stat st;

	return truncated(f, fstat(f->fd, &st) == 0 ? (uint64_t)st.st_size : 0, off, len, err);
}

static int file_try(struct sf_source *src, uint64_t off, const struct iovec *iov, int niov,
                    uint64_t len, struct sf_error *err)
{
	struct file_source *f = (struct file_source *)src;
	unsigned t = traits_of(f);
	ssize_t n;

	if (src->io->guard && niov > 1 && len / (unsigned)niov < GUARDED_RUN && !(t & NO_LEND)) {
		const uint8_t *map = mapping(f);
		if (map && (t & IN_MEMORY || resident_lately(f, map, off, len)))
			return sf_guard_copy(iov, niov, map + off) == 0
			               ? 0
			               : cut_under_copy(f, off, len, err);
	}
	if (t & NO_NOWAIT)
		return -EAGAIN;
	do
		n = t & IN_MEMORY ? preadv(f->fd, iov, niov, (off_t)off)
		                  : preadv2(f->fd, iov, niov, (off_t)off, RWF_NOWAIT);
	while (n < 0 && errno == EINTR);
	if (n >= 0 && (uint64_t)n == len)
		return 0;
	if (n >= 0) /* in part resident, or cut short: submit tells which */
		return t & IN_MEMORY ? truncated(f, off + (uint64_t)n, off, len, err) : -EAGAIN;
	if (errno == EAGAIN)
		return -EAGAIN;
	if (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL) {
		atomic_fetch_or_explicit(&f->traits, NO_NOWAIT, memory_order_relaxed);
		return -EAGAIN;
	}
	return sf_fail_errno(err, "'%s': reading %llu bytes at %llu", f->name,
	                     (unsigned long long)len, (unsigned long long)off);
}

static int file_lend(struct sf_source *src, uint64_t off, uint64_t len, struct sf_lease *ret)
{
	struct file_source *f = (struct file_source *)src;
	unsigned t = traits_of(f);
	const uint8_t *map;

	if (t & NO_LEND)
		return -ENOTSUP;
	map = mapping(f);
	if (!map) {
		atomic_fetch_or_explicit(&f->traits, NO_LEND, memory_order_relaxed);
		return -ENOTSUP;
	}
	if (!(t & IN_MEMORY) && !resident_lately(f, map, off, len))
		return -EAGAIN;
	ret->at = map + off;
	return 0;
}

/* iovecs are copied a few at a time because what is left of one must be changed. */
int sf_source_file_read(struct sf_source *src, uint64_t off, const struct iovec *iov, int niov,
                        uint64_t len, struct sf_error *err)
{
	struct file_source *f = (struct file_source *)src;
	uint64_t done = 0, skip = 0; /* skip: bytes of iov[0] that are there */
	struct iovec part[64];

	while (done < len) {
		int n = SF_MIN(niov, (int)SF_ARRAY_LEN(part));
		ssize_t got;

		memcpy(part, iov, (size_t)n * sizeof(*part));
		part[0].iov_base = (char *)part[0].iov_base + skip;
		part[0].iov_len -= skip;
		/* whole lists go down in one call; copies are for what a short read left */
		if (!skip && niov > n)
			got = preadv(f->fd, iov, SF_MIN(niov, IOV_MAX), (off_t)(off + done));
		else
			got = preadv(f->fd, part, n, (off_t)(off + done));
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return sf_fail_errno(err, "'%s': reading %llu bytes at %llu", f->name,
			                     (unsigned long long)(len - done),
			                     (unsigned long long)(off + done));
		if (got == 0)
			return truncated(f, off + done, off, len, err);
		done += (uint64_t)got;
		skip += (uint64_t)got;
		for (; niov && skip >= iov->iov_len; iov++, niov--)
			skip -= iov->iov_len;
	}
	return 0;
}

static void read_task(struct sf_task *task)
{
	struct sf_io_req *req = sf_container_of(task, struct sf_io_req, task);

	sf_io_req_end(req, sf_source_file_read(req->src, req->off, req->iov, req->niov, req->len,
	                                       &req->err));
}

static void file_submit(struct sf_source *src, struct sf_io_req *req)
{
	req->task.run = read_task;
	sf_thread_pool_submit(src->io->pool, &req->task);
}

static int file_check(struct sf_source *src, struct sf_error *err)
{
	struct file_source *f = (struct file_source *)src;
	struct sf_version now;
	struct stat st;

	if (fstat(f->fd, &st) != 0)
		return sf_fail_errno(err, "'%s': fstat", f->name);
	now = (struct sf_version){ .dev = st.st_dev,
		                   .ino = st.st_ino,
		                   .mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 +
		                               st.st_mtim.tv_nsec };
	return sf_version_check(f->name, src->size, &src->version, (uint64_t)st.st_size, &now, err);
}

static void file_free(struct sf_source *src)
{
	struct file_source *f = (struct file_source *)src;

	if (f->map)
		munmap(f->map, src->size);
	close(f->fd);
	free(f);
}

static const struct sf_source_ops file_ops = {
	.try_read = file_try,
	.lend = file_lend,
	.submit = file_submit,
	.check = file_check,
	.free = file_free,
	.on_pool = true,
};

int sf_source_file(struct sf_io *io, int fd, const char *name, uint64_t size,
                   const struct sf_version *version, struct sf_source **ret, struct sf_error *err)
{
	size_t len = strlen(name);
	struct file_source *f = calloc(1, sizeof(*f) + len + 1);

	if (!f) {
		close(fd);
		return sf_fail(err, -ENOMEM, "'%s': no memory", name);
	}
	memcpy(f->name, name, len + 1);
	f->fd = fd;
	f->s.ops = &file_ops;
	f->s.refs = 1;
	f->s.io = io;
	f->s.name = f->name;
	f->s.size = size;
	f->s.version = *version;
	*ret = &f->s;
	return 0;
}
