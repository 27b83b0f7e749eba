#include "config.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <stdatomic.h>
#include "tool/common.h"
#include "base/arena.h"
#include "base/mem.h"
#include "parse/zip_read.h"
#include "parse/zip_write.h"
#include "tests/lib/parts_zeros.h"
#include "tests/lib/sf_test.h"
#include "tool/write_file.h"

/* What the kernel answers to a write is ours to say (--wrap in tests/local.mk). */
static struct {
	size_t most;                     /* bytes that one takes; 0 all */
	_Atomic int interrupted, failed; /* so many end with EINTR first; then one with code */
	int code;
} kernel;

ssize_t __real_pwritev(int fd, const struct iovec *iov, int n, off_t off);
ssize_t __wrap_pwritev(int fd, const struct iovec *iov, int n, off_t off);
ssize_t __wrap_pwritev(int fd, const struct iovec *iov, int n, off_t off)
{
	struct iovec part[1024];
	size_t left = kernel.most;
	int k = 0;

	if (atomic_fetch_sub(&kernel.interrupted, 1) > 0) {
		errno = EINTR;
		return -1;
	}
	if (kernel.code && atomic_fetch_add(&kernel.failed, 1) == 1) {
		errno = kernel.code;
		return -1;
	}
	if (!kernel.most)
		return __real_pwritev(fd, iov, n, off);
	for (; k < n && left; left -= part[k++].iov_len)
		part[k] = (struct iovec){ iov[k].iov_base, SF_MIN(iov[k].iov_len, left) };
	return __real_pwritev(fd, part, k, off);
}

/* What has been brought to the disk, in this order; files had no name yet, or another one. */
static struct {
	pthread_mutex_t m;
	struct {
		ino_t ino;
		bool dir;
	} at[32];
	unsigned n;
} synced = { .m = PTHREAD_MUTEX_INITIALIZER };

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
	struct stat st;

	ck_assert_int_eq(fstat(fd, &st), 0);
	pthread_mutex_lock(&synced.m);
	if (synced.n < 32) {
		synced.at[synced.n].ino = st.st_ino;
		synced.at[synced.n++].dir = S_ISDIR(st.st_mode);
	}
	pthread_mutex_unlock(&synced.m);
	return __real_fsync(fd);
}

/* How often, and that directories come behind all files. */
static unsigned was_synced(const char *path)
{
	unsigned n = 0;
	struct stat st;

	ck_assert_int_eq(stat(path, &st), 0);
	for (unsigned i = 0; i < synced.n; i++) {
		n += synced.at[i].ino == st.st_ino;
		ck_assert(i == 0 || !synced.at[i - 1].dir || synced.at[i].dir);
	}
	return n;
}

struct open {
	struct sf_common common;
	struct sf_session s;
	struct sf_progress progress;
	char dir[64];
	unsigned done;
	char order[64]; /* first letters of the names, as they were done */
};

static void open_data(struct open *o, const char *which)
{
	/* without forks it is as the test before left it */
	kernel.most = 0;
	kernel.code = 0;
	atomic_store(&kernel.interrupted, 0);
	atomic_store(&kernel.failed, 0);
	struct sf_error err = SF_ERROR_INIT;
	char path[4096];

	*o = (struct open){ .dir = "/tmp/sf-write-XXXXXX" };
	ck_assert_ptr_nonnull(mkdtemp(o->dir));
	sf_common_init(&o->common);
	sf_progress_init(&o->progress, true);
	int r = sf_session_open(&o->s, &o->common.session, sf_test_data(path, which), &err);
	ck_assert_msg(r == 0, "%s", err.msg);
}

static int drop(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st, (void)flag, (void)ftw;
	return remove(path);
}

static void close_data(struct open *o)
{
	nftw(o->dir, drop, 16, FTW_PHYS | FTW_DEPTH);
	sf_session_close(&o->s);
	sf_common_release(&o->common);
}

static void done(void *arg, const struct sf_out_file *f)
{
	struct open *o = arg;
	o->order[o->done++ % sizeof(o->order)] = strrchr(f->path, '/')[1];
}

/* The virtual file at @path of the tree, to be written as DIR/NAME. */
static struct sf_out_file out(struct open *o, const char *path, const char *name, bool crc)
{
	struct sf_out_file f = { .crc = crc };
	struct sf_error err = SF_ERROR_INIT;
	sf_node node;

	int r = sf_tree_walk(o->s.tree, path, true, &node, &err);
	if (r >= 0)
		r = sf_tree_open(o->s.tree, node, &f.file, &err);
	ck_assert_msg(r >= 0, "%s", err.msg);
	ck_assert_int_gt(asprintf(&f.path, "%s/%s", o->dir, name), 0);
	return f;
}

/* A file of @size bytes of ours; those of an odd size cannot be read. */
struct made {
	struct sf_vfile f;
	uint64_t start[2];
};

static int emit_made(struct sf_vfile *f, uint32_t rec, uint64_t off, uint64_t len,
                     struct sf_parts *parts, struct sf_error *err)
{
	(void)rec;
	if (f->size % 2)
		return sf_fail(err, -EBADMSG, "broken");
	int r = parts_zeros(parts, len);
	return r < 0 ? sf_fail(err, r, "%d zeros", (int)off) : 0;
}

static void free_made(struct sf_vfile *f)
{
	free(f);
}

static struct sf_out_file out_made(struct open *o, uint64_t size, const char *name)
{
	static const struct sf_vfile_ops ops = { .emit = emit_made, .free = free_made };
	struct sf_out_file f = { 0 };
	struct made *m = calloc(1, sizeof(*m));

	sf_vfile_init(&m->f, &ops, o->s.reader);
	m->start[1] = size;
	m->f.start = m->start;
	m->f.nrec = 1;
	m->f.size = size;
	f.file = &m->f;
	ck_assert_int_gt(asprintf(&f.path, "%s/%s", o->dir, name), 0);
	return f;
}

static int write_all(struct open *o, struct sf_out_file *f, size_t n, unsigned threads, bool force,
                     struct sf_error *err)
{
	struct sf_write_options w = { .threads = threads,
		                      .force = force,
		                      .progress = &o->progress };
	uint64_t size = 0;
	int r = sf_write_files(&o->s, f, n, &w, done, o, err);
	for (size_t i = 0; i < n; i++)
		size += f[i].size;
	if (r >= 0)
		ck_assert_uint_eq(o->progress.total, size);
	for (size_t i = 0; i < n; i++) {
		ck_assert_ptr_null(f[i].file);
		free(f[i].path);
	}
	return r;
}

static unsigned count_names(const char *dir, const char *part)
{
	struct dirent *e;
	unsigned n = 0;
	DIR *d = opendir(dir);
	ck_assert_ptr_nonnull(d);
	while ((e = readdir(d)))
		n += strstr(e->d_name, part) != NULL;
	closedir(d);
	return n;
}

static uint8_t *slurp(const struct open *o, const char *name, size_t *ret_len)
{
	char path[4096];
	struct stat st;
	snprintf(path, sizeof(path), "%s/%s", o->dir, name);
	int fd = open(path, O_RDONLY);
	ck_assert_msg(fd >= 0, "%s: %s", path, strerror(errno));
	ck_assert_int_eq(fstat(fd, &st), 0);
	uint8_t *at = malloc((size_t)st.st_size + 1);
	ck_assert_int_eq(read(fd, at, (size_t)st.st_size), st.st_size);
	close(fd);
	*ret_len = (size_t)st.st_size;
	return at;
}

START_TEST(files_are_the_virtual_ones_and_directories_are_made)
{
	static const char *const names[] = { "checkpoint.safetensors", "npy/model.norm.weight.npy",
		                             "info.json", "tensors.json" };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_out_file f[SF_ARRAY_LEN(names)];
	struct open o;
	char name[128];

	open_data(&o, "dcp/fsdp4/ckpt");
	for (size_t i = 0; i < SF_ARRAY_LEN(names); i++) {
		snprintf(name, sizeof(name), "a/b%zu/%zu", i, i);
		f[i] = out(&o, names[i], name, false);
	}
	int r = write_all(&o, f, SF_ARRAY_LEN(names), 3, false, &err);
	ck_assert_msg(r == 0, "%s", err.msg);
	ck_assert_uint_eq(o.done, SF_ARRAY_LEN(names));
	for (size_t i = 0; i < SF_ARRAY_LEN(names); i++) {
		struct sf_out_file want = out(&o, names[i], "unused", false);
		size_t len;
		snprintf(name, sizeof(name), "a/b%zu/%zu", i, i);
		SF_FREE uint8_t *got = slurp(&o, name, &len);
		SF_FREE uint8_t *virtual = malloc(len + 1);
		ck_assert_int_eq(sf_vfile_prepare(want.file, NULL), 0);
		ck_assert_int_eq(sf_vfile_pread(want.file, 0, virtual, len + 1, NULL),
		                 (int64_t)len);
		ck_assert_mem_eq(got, virtual, len);
		snprintf(name, sizeof(name), "%s/a/b%zu", o.dir, i);
		ck_assert_uint_eq(count_names(name, "shardfuse"), 0);
		sf_vfile_unref(want.file);
		free(want.path);
	}
	close_data(&o);
}
END_TEST

START_TEST(what_is_there_is_not_replaced_without_force)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_out_file f[2];
	struct open o;
	char path[4096];
	size_t len;

	open_data(&o, "dcp/fsdp4/ckpt");
	snprintf(path, sizeof(path), "%s/there", o.dir);
	FILE *old = fopen(path, "w");
	fputs("old", old);
	fclose(old);
	for (int force = 0; force < 2; force++) {
		f[0] = out(&o, "info.json", force ? "new2" : "new", false);
		f[1] = out(&o, "README", "there", false);
		ck_assert_int_eq(write_all(&o, f, 2, 1, force, &err), force ? 0 : -EEXIST);
		SF_FREE uint8_t *now = slurp(&o, "there", &len);
		ck_assert_int_eq(len == 3 && memcmp(now, "old", 3) == 0, !force);
		/* all are looked at before anything is written */
		ck_assert_uint_eq(count_names(o.dir, "new"), (unsigned)force);
		ck_assert_uint_eq(count_names(o.dir, "shardfuse"), 0);
	}
	ck_assert_ptr_nonnull(strstr(err.msg, "there"));
	close_data(&o);
}
END_TEST

START_TEST(a_name_of_255_bytes_can_be_written)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_out_file f;
	struct open o;
	char name[256];

	memset(name, 'x', 255);
	name[255] = 0;
	open_data(&o, "dcp/fsdp4/ckpt");
	f = out(&o, "README", name, false);
	int r = write_all(&o, &f, 1, 1, false, &err);
	ck_assert_msg(r == 0, "%s", err.msg);
	ck_assert_uint_eq(count_names(o.dir, "xxx"), 1);
	close_data(&o);
}
END_TEST

START_TEST(a_failure_leaves_no_temporary_file)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_out_file f;
	struct open o;
	char below[80];

	open_data(&o, "dcp/fsdp4/ckpt");
	snprintf(below, sizeof(below), "%s/dir", o.dir);
	ck_assert_int_eq(mkdir(below, 0755), 0);
	f = out(&o, "README", "dir", false); /* rename cannot replace a directory by a file */
	ck_assert_int_lt(write_all(&o, &f, 1, 1, true, &err), 0);
	ck_assert_ptr_nonnull(strstr(err.msg, "/dir"));
	ck_assert_uint_eq(o.done, 0);
	ck_assert_uint_eq(count_names(o.dir, "shardfuse"), 0);
	close_data(&o);
}
END_TEST

/* Large ones are written after small ones, by other threads. */
START_TEST(results_come_in_the_order_that_was_asked)
{
	static const char *const names[] = { "e", "a", "d", "c", "b", "f" };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_out_file f[6];
	struct open o;

	open_data(&o, "dcp/fsdp4/ckpt");
	for (unsigned i = 0; i < 6; i++)
		f[i] = out_made(&o, i % 2 ? 10 : 20 << 20, names[i]);
	int r = write_all(&o, f, 6, 3, false, &err);
	ck_assert_msg(r == 0, "%s", err.msg);
	ck_assert_str_eq(o.order, "eadcbf");
	close_data(&o);
}
END_TEST

/* More than get their names at once. */
START_TEST(many_files_come_in_order_too)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_out_file f[600];
	struct open o;

	open_data(&o, "dcp/fsdp4/ckpt");
	for (unsigned i = 0; i < 600; i++) {
		char name[16];
		snprintf(name, sizeof(name), "%c%u", 'a' + i % 26, i);
		f[i] = out_made(&o, 10, name);
	}
	int r = write_all(&o, f, 600, 3, false, &err);
	ck_assert_msg(r == 0, "%s", err.msg);
	ck_assert_uint_eq(o.done, 600);
	ck_assert_uint_eq(count_names(o.dir, ""), 602);
	for (unsigned i = 576; i < 600; i++)
		ck_assert_int_eq(o.order[i % sizeof(o.order)], 'a' + (char)(i % 26));
	close_data(&o);
}
END_TEST

/* _i: the broken one is small, large. */
START_TEST(of_an_error_no_file_has_a_name)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_out_file f[3];
	struct open o;

	open_data(&o, "dcp/fsdp4/ckpt");
	f[0] = out_made(&o, 10, "a");
	f[1] = out_made(&o, 20 << 20, "dir/b");
	f[2] = out_made(&o, _i ? (20 << 20) + 1 : 11, "c");
	ck_assert_int_eq(write_all(&o, f, 3, 2, false, &err), -EBADMSG);
	ck_assert_ptr_nonnull(strstr(err.msg, "broken"));
	ck_assert_uint_eq(count_names(o.dir, ""), 2); /* . and .. */
	ck_assert_uint_eq(o.done, 0);
	close_data(&o);
}
END_TEST

static void touch(const struct open *o, const char *name)
{
	char path[128];
	snprintf(path, sizeof(path), "%s/%s", o->dir, name);
	FILE *f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	fclose(f);
}

/* What goes before and after, and only if all is written. */
START_TEST(a_set_replaces_what_it_was_told_to)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_out_file f[2];
	struct open o;
	char first[128], last[128], below[128];

	open_data(&o, "dcp/fsdp4/ckpt");
	snprintf(first, sizeof(first), "%s/first", o.dir);
	snprintf(last, sizeof(last), "%s/last", o.dir);
	snprintf(below, sizeof(below), "%s/d", o.dir);
	ck_assert_int_eq(mkdir(below, 0700), 0);
	snprintf(below, sizeof(below), "%s/d/last", o.dir);
	/* on the heap, so that the sanitizer sees whoever looks beside them */
	char *before[] = { first, first }, **after = calloc(3, sizeof(*after));
	ck_assert_ptr_nonnull(after);
	after[0] = after[1] = last;
	after[2] = below;
	struct sf_write_options w = { .threads = 2,
		                      .force = true,
		                      .set = true,
		                      .before = before,
		                      .nbefore = 2,
		                      .after = after,
		                      .nafter = 3,
		                      .progress = &o.progress };
	for (int good = 0; good < 2; good++) {
		touch(&o, "first");
		touch(&o, "last");
		touch(&o, "d/last");
		f[0] = out_made(&o, 10, "a");
		f[1] = out_made(&o, good ? 10 : 11, "b");
		ck_assert_int_eq(sf_write_files(&o.s, f, 2, &w, done, &o, &err),
		                 good ? 0 : -EBADMSG);
		ck_assert_uint_eq(count_names(o.dir, "first") + count_names(o.dir, "last"),
		                  good ? 0 : 2);
		ck_assert_int_eq(access(below, F_OK), good ? -1 : 0);
		ck_assert_uint_eq(o.done, good ? 2 : 0);
		free(f[0].path);
		free(f[1].path);
	}
	free(after);
	close_data(&o);
}
END_TEST

START_TEST(files_and_then_their_directories_are_on_disk)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_out_file f[3];
	struct open o;
	char old[128], dir[128];

	open_data(&o, "dcp/fsdp4/ckpt");
	snprintf(dir, sizeof(dir), "%s/d", o.dir);
	ck_assert_int_eq(mkdir(dir, 0700), 0);
	snprintf(dir, sizeof(dir), "%s/old", o.dir);
	ck_assert_int_eq(mkdir(dir, 0700), 0);
	touch(&o, "old/x");
	touch(&o, "old/y");
	snprintf(old, sizeof(old), "%s/old/x", o.dir);
	char other[128], *after[] = { old, other };
	snprintf(other, sizeof(other), "%s/old/y", o.dir);
	struct sf_write_options w = {
		.threads = 2, .set = true, .after = after, .nafter = 2, .progress = &o.progress
	};
	f[0] = out_made(&o, 10, "a");
	f[1] = out_made(&o, 10, "b");
	f[2] = out_made(&o, 10, "d/c");
	synced.n = 0;
	ck_assert_int_eq(sf_write_files(&o.s, f, 3, &w, done, &o, &err), 0);
	for (int i = 0; i < 3; i++)
		ck_assert_uint_eq(was_synced(f[i].path), 1);
	/* where names came, and where they went, once each */
	ck_assert_uint_eq(was_synced(dir), 1);
	snprintf(dir, sizeof(dir), "%s/d", o.dir);
	ck_assert_uint_eq(was_synced(dir), 1);
	ck_assert_uint_eq(was_synced(o.dir), 1);
	for (int i = 0; i < 3; i++)
		free(f[i].path);
	close_data(&o);
}
END_TEST

START_TEST(one_level_of_directories_is_made_above_the_root)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_out_file f;
	struct open o;
	char root[128];

	open_data(&o, "dcp/fsdp4/ckpt");
	struct sf_write_options w = { .root = root, .progress = &o.progress };
	snprintf(root, sizeof(root), "%s/no/root", o.dir);
	f = out_made(&o, 10, "no/root/a/b");
	ck_assert_int_eq(sf_write_files(&o.s, &f, 1, &w, done, &o, &err), -ENOENT);
	ck_assert_ptr_nonnull(strstr(err.msg, "/no'"));
	ck_assert_uint_eq(count_names(o.dir, ""), 2);
	free(f.path);
	snprintf(root, sizeof(root), "%s/root", o.dir);
	f = out_made(&o, 10, "root/a/b/c");
	ck_assert_int_eq(sf_write_files(&o.s, &f, 1, &w, done, &o, &err), 0);
	free(f.path);
	close_data(&o);
}
END_TEST

START_TEST(what_does_not_fit_the_disk_is_not_begun)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_out_file f[2];
	struct open o;

	open_data(&o, "dcp/fsdp4/ckpt");
	f[0] = out_made(&o, 10, "a");
	f[1] = out_made(&o, 12, "b");
	f[1].least = UINT64_C(1) << 61;
	ck_assert_int_eq(write_all(&o, f, 2, 1, false, &err), -ENOSPC);
	ck_assert_ptr_nonnull(strstr(err.msg, "free"));
	ck_assert_uint_eq(count_names(o.dir, ""), 2);
	close_data(&o);
}
END_TEST

/* A disk that takes a part of what it is given, quotas and signals make such. */
START_TEST(writes_that_take_a_part_are_gone_on_with)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_out_file f[2];
	struct open o;
	size_t len;

	open_data(&o, "dcp/fsdp4/ckpt");
	f[0] = out(&o, "checkpoint.safetensors", "whole", false);
	ck_assert_int_eq(write_all(&o, f, 1, 1, false, &err), 0);
	SF_FREE uint8_t *whole = slurp(&o, "whole", &len);
	for (int i = 0; i < 2; i++) {
		size_t got_len;
		kernel.most = i ? 333 : 4096;
		atomic_store(&kernel.interrupted, 3);
		f[0] = out(&o, "checkpoint.safetensors", i ? "b" : "a", false);
		int r = write_all(&o, f, 1, 1, false, &err);
		ck_assert_msg(r == 0, "%s", err.msg);
		SF_FREE uint8_t *got = slurp(&o, i ? "b" : "a", &got_len);
		ck_assert_uint_eq(got_len, len);
		ck_assert(memcmp(got, whole, len) == 0);
	}
	close_data(&o);
}
END_TEST

/* _i: a shard that is cut under a write from its mapping; a full disk. */
START_TEST(a_write_that_fails_says_why_and_leaves_nothing)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_out_file f;
	struct open o;

	open_data(&o, "dcp/fsdp4/ckpt");
	kernel.code = _i ? ENOSPC : EFAULT;
	kernel.most = 5000;
	f = out(&o, "checkpoint.pt", "c.pt", true);
	ck_assert_int_eq(write_all(&o, &f, 1, 2, false, &err), _i ? -ENOSPC : -ESTALE);
	ck_assert_ptr_nonnull(strstr(err.msg, _i ? "c.pt" : "truncated"));
	ck_assert_uint_eq(o.done, 0);
	ck_assert_uint_eq(count_names(o.dir, "c.pt"), 0);
	ck_assert_uint_eq(count_names(o.dir, "shardfuse"), 0);
	close_data(&o);
}
END_TEST

/* _i: which. Types of all sizes, empty tensors, many small ones; each record's CRC is computed
 * again here. */
START_TEST(a_pt_carries_the_crc_of_every_record)
{
	static const char *const which[] = { "dcp/fsdp4/ckpt", "dcp/dtypes/ckpt", "dcp/nested/ckpt",
		                             "dcp/columns/ckpt" };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_arena arena = { 0 };
	struct sf_zip_dir dir = { 0 };
	struct sf_zip_end end;
	struct sf_out_file f;
	struct open o;
	size_t len;

	open_data(&o, which[_i]);
	f = out(&o, "checkpoint.pt", "c.pt", true);
	int r = write_all(&o, &f, 1, 4, false, &err);
	ck_assert_msg(r == 0, "%s", err.msg);
	SF_FREE uint8_t *at = slurp(&o, "c.pt", &len);
	size_t tail = SF_MIN(len, (size_t)SF_ZIP_TAIL);
	ck_assert_int_eq(sf_zip_find_end(at + len - tail, tail, len, &end, &err), 0);
	ck_assert_int_eq(sf_zip_parse_dir(at + end.dir_off, &end, len, &arena, &dir, &err), 0);
	ck_assert_uint_gt(dir.n, 2);
	for (size_t i = 0; i < dir.n; i++) {
		const struct sf_zip_record *rec = &dir.at[i];
		uint64_t data;
		ck_assert_int_eq(
			sf_zip_local_data(at + rec->header_off, rec->header_off, &data, &err), 0);
		uint32_t crc = sf_crc32(0, at + data, rec->comp_size);
		ck_assert_msg(crc == rec->crc, "%.*s: CRC %08x, directory %08x", (int)rec->name_len,
		              rec->name, crc, rec->crc);
		ck_assert_uint_eq(sf_le32(at + rec->header_off + 14), crc);
	}
	sf_arena_release(&arena);
	close_data(&o);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("write_file");
	TCase *tc = tcase_create("files");
	tcase_add_test(tc, files_are_the_virtual_ones_and_directories_are_made);
	tcase_add_test(tc, what_is_there_is_not_replaced_without_force);
	tcase_add_test(tc, a_name_of_255_bytes_can_be_written);
	tcase_add_test(tc, a_failure_leaves_no_temporary_file);
	tcase_add_test(tc, results_come_in_the_order_that_was_asked);
	tcase_add_test(tc, many_files_come_in_order_too);
	tcase_add_loop_test(tc, of_an_error_no_file_has_a_name, 0, 2);
	tcase_add_test(tc, a_set_replaces_what_it_was_told_to);
	tcase_add_test(tc, files_and_then_their_directories_are_on_disk);
	tcase_add_test(tc, one_level_of_directories_is_made_above_the_root);
	tcase_add_test(tc, what_does_not_fit_the_disk_is_not_begun);
	tcase_add_test(tc, writes_that_take_a_part_are_gone_on_with);
	tcase_add_loop_test(tc, a_write_that_fails_says_why_and_leaves_nothing, 0, 2);
	tcase_add_loop_test(tc, a_pt_carries_the_crc_of_every_record, 0, 4);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
