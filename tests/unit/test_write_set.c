#include "config.h"

#include "tests/lib/write_world.h"

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

int main(void)
{
	Suite *s = suite_create("write_set");
	TCase *tc = tcase_create("files");
	tcase_add_test(tc, a_set_replaces_what_it_was_told_to);
	tcase_add_test(tc, files_and_then_their_directories_are_on_disk);
	tcase_add_test(tc, one_level_of_directories_is_made_above_the_root);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
