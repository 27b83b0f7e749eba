#include "config.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <string.h>
#include <sys/stat.h>
#include "base/arena.h"
#include "base/mem.h"
#include "parse/zip_read.h"
#include "parse/zip_write.h"
#include "tests/lib/sf_test.h"
#include "tool/write_file.h"

struct open {
	struct sf_common common;
	struct sf_session s;
	struct sf_progress progress;
	char dir[64];
	unsigned done;
};

static void open_data(struct open *o, const char *which)
{
	struct sf_error err = SF_ERROR_INIT;
	char path[4096];

	*o = (struct open){ .dir = "/tmp/sf-write-XXXXXX" };
	ck_assert_ptr_nonnull(mkdtemp(o->dir));
	sf_common_init(&o->common);
	sf_progress_init(&o->progress, true);
	int r = sf_session_open(&o->s, &o->common, sf_test_data(path, which), &err);
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
	(void)f;
	((struct open *)arg)->done++;
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

static int write_all(struct open *o, struct sf_out_file *f, size_t n, unsigned threads, bool force,
                     struct sf_error *err)
{
	struct sf_write_options w = { .threads = threads,
		                      .force = force,
		                      .progress = &o->progress };
	int r = sf_write_files(&o->s, f, n, &w, done, o, err);
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
	tcase_add_loop_test(tc, a_pt_carries_the_crc_of_every_record, 0, 4);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
