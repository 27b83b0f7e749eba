/* Virtual files, and a directory to write them into. */
#ifndef SF_TESTS_LIB_WRITE_WORLD_H
#define SF_TESTS_LIB_WRITE_WORLD_H

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

struct open {
	struct sf_common common;
	struct sf_session s;
	struct sf_progress progress;
	char dir[64];
	unsigned done;
	char order[64]; /* first letters of the names, as they were done */
};

static inline void open_data(struct open *o, const char *which)
{
	/* without forks it is as the test before left it */
	struct sf_error err = SF_ERROR_INIT;
	char path[4096];

	*o = (struct open){ .dir = "/tmp/sf-write-XXXXXX" };
	ck_assert_ptr_nonnull(mkdtemp(o->dir));
	sf_common_init(&o->common);
	sf_progress_init(&o->progress, true);
	int r = sf_session_open(&o->s, &o->common.session, sf_test_data(path, which), &err);
	ck_assert_msg(r == 0, "%s", err.msg);
}

static inline int drop(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st, (void)flag, (void)ftw;
	return remove(path);
}

static inline void close_data(struct open *o)
{
	nftw(o->dir, drop, 16, FTW_PHYS | FTW_DEPTH);
	sf_session_close(&o->s);
	sf_common_release(&o->common);
}

static inline void done(void *arg, const struct sf_out_file *f)
{
	struct open *o = arg;
	o->order[o->done++ % sizeof(o->order)] = strrchr(f->path, '/')[1];
}

/* The virtual file at @path of the tree, to be written as DIR/NAME. */
static inline struct sf_out_file out(struct open *o, const char *path, const char *name, bool crc)
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

static inline int emit_made(struct sf_vfile *f, uint32_t rec, uint64_t off, uint64_t len,
                            struct sf_parts *parts, struct sf_error *err)
{
	(void)rec;
	if (f->size % 2)
		return sf_fail(err, -EBADMSG, "broken");
	int r = parts_zeros(parts, len);
	return r < 0 ? sf_fail(err, r, "%d zeros", (int)off) : 0;
}

static inline void free_made(struct sf_vfile *f)
{
	free(f);
}

static inline struct sf_out_file out_made(struct open *o, uint64_t size, const char *name)
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

static inline int write_all(struct open *o, struct sf_out_file *f, size_t n, unsigned threads,
                            bool force, struct sf_error *err)
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

static inline unsigned count_names(const char *dir, const char *part)
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

static inline uint8_t *slurp(const struct open *o, const char *name, size_t *ret_len)
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

#endif
