#include "config.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "store/source.h"
#include "tests/lib/sf_test.h"
#include "tests/lib/test_stores.h"

static char dir[256];
static struct sf_io io;
static struct sf_store *store;

static const char *in_dir(const char *name)
{
	static char path[4][512];
	static int n;

	n = (n + 1) % 4;
	snprintf(path[n], sizeof(path[n]), "%s/%s", dir, name);
	return path[n];
}

static void put(const char *name, const char *text)
{
	FILE *f = fopen(in_dir(name), "w");

	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	fclose(f);
}

static void begin(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(dir, sizeof(dir), "%s/sf-store-XXXXXX", tmp ? tmp : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_assert_int_eq(sf_io_init(&io, 2, NULL), 0);
	ck_assert_int_eq(sf_store_open(&io, dir, NULL, &store, NULL), 0);
}

static void end(void)
{
	char cmd[300];

	sf_store_free(store);
	sf_io_release(&io);
	snprintf(cmd, sizeof(cmd), "rm -rf '%s'", dir);
	ck_assert_int_eq(system(cmd), 0);
}

START_TEST(sources_that_are_no_directory_are_refused_with_their_name)
{
	static const struct {
		const char *source;
		int r;
		const char *word;
	} bad[] = {
		{ "/nowhere/at/all", -ENOENT, "/nowhere/at/all" },
		{ "/dev/null", -ENOTDIR, "/dev/null" },
		{ "az://bucket/run", -ENOTSUP, "az://" },
		{ "ftp://u:secret@host/run", -ENOTSUP, "ftp://" },
		{ "file://host/x", -EINVAL, "file://host/x" },
		{ "file:///a%zz", -EINVAL, "%zz" },
		{ "file:///a%00", -EINVAL, "%00" },
	};
	begin();
	for (size_t i = 0; i < SF_ARRAY_LEN(bad); i++) {
		struct sf_error err = SF_ERROR_INIT;
		struct sf_store *s;
		ck_assert_int_eq(sf_store_open(&io, bad[i].source, NULL, &s, &err), bad[i].r);
		ck_assert_msg(strstr(err.msg, bad[i].word) != NULL, "%s", err.msg);
	}
	end();
}
END_TEST

START_TEST(a_file_url_is_its_decoded_path)
{
	static const char *const begins[] = { "file://", "FILE://", "file://localhost",
		                              "file://LocalHost" };
	char url[300];
	struct sf_store *s;

	begin();
	ck_assert_int_eq(mkdir(in_dir("a b%c"), 0700), 0);
	put("a b%c/x", "1");
	for (size_t i = 0; i < SF_ARRAY_LEN(begins); i++) {
		snprintf(url, sizeof(url), "%s%s/a%%20b%%25c", begins[i], dir);
		ck_assert_int_eq(sf_store_open(&io, url, NULL, &s, NULL), 0);
		ck_assert_int_eq(store_exists(s, "x"), 1);
		ck_assert_int_eq(store_exists(s, "y"), 0);
		sf_store_free(s);
	}
	end();
}
END_TEST

START_TEST(only_plain_files_open_and_none_blocks)
{
	struct sf_source *src = NULL;
	struct sf_error err = SF_ERROR_INIT;

	begin();
	put("plain", "hello");
	ck_assert_int_eq(mkfifo(in_dir("fifo"), 0600), 0);
	ck_assert_int_eq(mkdir(in_dir("sub"), 0700), 0);
	ck_assert_int_eq(symlink("plain", in_dir("link")), 0);
	ck_assert_int_eq(symlink("gone", in_dir("dangling")), 0);
	ck_assert_int_eq(store->ops->open(store, "fifo", NULL, &src, &err), -EBADMSG);
	ck_assert_ptr_nonnull(strstr(err.msg, "fifo"));
	ck_assert_int_eq(store->ops->open(store, "sub", NULL, &src, &err), -EBADMSG);
	ck_assert_int_eq(store->ops->open(store, "dangling", NULL, &src, &err), -ENOENT);
	ck_assert_int_eq(store->ops->open(store, "../etc/passwd", NULL, &src, &err), -EBADMSG);
	ck_assert_int_eq(store->ops->open(store, "/etc/passwd", NULL, &src, &err), -EBADMSG);
	ck_assert_ptr_null(src);
	ck_assert_int_eq(store->ops->open(store, "link", NULL, &src, &err), 0);
	ck_assert_uint_eq(src->size, 5);
	sf_source_unref(src);
	ck_assert_int_eq(store_exists(store, "fifo"), 0);
	ck_assert_int_eq(store_exists(store, "link"), 1);
	end();
}
END_TEST

struct seen {
	unsigned plain, other, deep;
	struct sf_objinfo b;
};
static int see(void *arg, const struct sf_objinfo *info)
{
	struct seen *s = arg;

	*(info->size == UINT64_MAX ? &s->other : &s->plain) += 1;
	s->deep += strchr(info->name, '/') != NULL;
	if (strcmp(info->name, "sub/b") == 0)
		s->b = *info;
	return 0;
}

START_TEST(a_listing_goes_to_its_depth_and_not_round_in_circles)
{
	struct seen s = { 0 };
	struct sf_source *src;
	struct sf_error err = SF_ERROR_INIT;

	begin();
	put("a", "1");
	ck_assert_int_eq(mkdir(in_dir("sub"), 0700), 0);
	ck_assert_int_eq(mkdir(in_dir("sub/more"), 0700), 0);
	put("sub/b", "22");
	put("sub/more/c", "333");
	ck_assert_int_eq(symlink("..", in_dir("sub/up")), 0);
	ck_assert_int_eq(symlink("gone", in_dir("dangling")), 0);
	ck_assert_int_eq(symlink("self", in_dir("self")), 0);
	ck_assert_int_eq(store->ops->list(store, "", 0, see, &s, NULL), 0);
	ck_assert_uint_eq(s.plain, 1);
	ck_assert_uint_eq(s.other, 3); /* sub, dangling, self */
	s = (struct seen){ 0 };
	ck_assert_int_eq(store->ops->list(store, "", 1, see, &s, NULL), 0);
	ck_assert_uint_eq(s.plain, 2);
	s = (struct seen){ 0 };
	ck_assert_int_eq(store->ops->list(store, "", 30, see, &s, NULL), 0);
	ck_assert_uint_eq(s.plain, 3);
	ck_assert_uint_eq(s.deep, 2);
	ck_assert_uint_eq(s.b.size, 2);
	/* what was listed opens as that version, and as no other */
	s.b.name = "sub/b";
	ck_assert_int_eq(store->ops->open(store, "sub/b", &s.b, &src, NULL), 0);
	sf_source_unref(src);
	put("sub/b", "three");
	ck_assert_int_eq(store->ops->open(store, "sub/b", &s.b, &src, &err), -ESTALE);
	ck_assert_ptr_nonnull(strstr(err.msg, "2 bytes"));
	ck_assert_ptr_nonnull(strstr(err.msg, "5"));
	s = (struct seen){ 0 };
	ck_assert_int_eq(store->ops->list(store, "sub", 0, see, &s, NULL), 0);
	ck_assert_uint_eq(s.b.size, 5);
	ck_assert_int_eq(store->ops->list(store, "gone", 0, see, &s, &err), -ENOENT);
	end();
}
END_TEST

static int refuse(void *arg, const struct sf_objinfo *info)
{
	return -EDOM;
}

START_TEST(a_callback_ends_the_listing_with_its_result)
{
	begin();
	put("a", "1");
	ck_assert_int_eq(store->ops->list(store, "", 3, refuse, NULL, NULL), -EDOM);
	end();
}
END_TEST

START_TEST(the_same_bytes_written_again_are_another_version)
{
	struct sf_source *src;
	struct sf_error err = SF_ERROR_INIT;
	struct timespec later[2] = { { .tv_nsec = UTIME_OMIT }, { 1000, 1 } };
	char text[6] = "";

	begin();
	put("x", "bytes");
	ck_assert_int_eq(store->ops->open(store, "x", NULL, &src, NULL), 0);
	ck_assert_int_eq(sf_source_check(src, NULL), 0);
	ck_assert_int_eq(utimensat(AT_FDCWD, in_dir("x"), later, 0), 0);
	ck_assert_int_eq(sf_source_check(src, &err), -ESTALE);
	ck_assert_ptr_nonnull(strstr(err.msg, "1000.000000001"));
	sf_source_unref(src);
	/* replaced: the open one keeps the old bytes */
	ck_assert_int_eq(store->ops->open(store, "x", NULL, &src, NULL), 0);
	put("y", "other");
	ck_assert_int_eq(rename(in_dir("y"), in_dir("x")), 0);
	ck_assert_int_eq(sf_source_read(src, 0, text, 5, SF_FETCH_TENSOR, NULL), 0);
	ck_assert_str_eq(text, "bytes");
	sf_source_unref(src);
	end();
}
END_TEST

static struct stat stat_of(const char *name)
{
	struct stat st;

	ck_assert_int_eq(stat(in_dir(name), &st), 0);
	return st;
}

/* rsync -t and cp -p give a new file the size and time of the old one. */
START_TEST(a_file_replaced_by_one_of_its_size_and_time_is_another)
{
	struct seen s = { 0 };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_source *src;
	char was[32], now[32];

	begin();
	ck_assert_int_eq(mkdir(in_dir("sub"), 0700), 0);
	put("sub/b", "bytes");
	ck_assert_int_eq(store->ops->list(store, "", 1, see, &s, NULL), 0);
	s.b.name = "sub/b";
	ck_assert_int_eq(store->ops->open(store, "sub/b", &s.b, &src, NULL), 0);
	sf_source_unref(src);
	struct stat old = stat_of("sub/b");
	put("sub/new", "other");
	ck_assert_int_eq(utimensat(AT_FDCWD, in_dir("sub/new"),
	                           (struct timespec[2]){ old.st_atim, old.st_mtim }, 0),
	                 0);
	ck_assert_int_eq(rename(in_dir("sub/new"), in_dir("sub/b")), 0);
	ck_assert_int_eq(store->ops->open(store, "sub/b", &s.b, &src, &err), -ESTALE);
	snprintf(was, sizeof(was), " %llu ", (unsigned long long)old.st_ino);
	snprintf(now, sizeof(now), " %llu ", (unsigned long long)stat_of("sub/b").st_ino);
	ck_assert_msg(strstr(err.msg, "replaced") && strstr(err.msg, was) && strstr(err.msg, now),
	              "%s", err.msg);
	end();
}
END_TEST

START_TEST(every_part_of_a_version_is_compared)
{
	const struct sf_version v = { .dev = 1, .ino = 2, .mtime_ns = 3000000004, .etag = "\"e\"" };
	struct sf_version other;
	struct sf_error err = SF_ERROR_INIT;
	const char *const words[] = { "device", "inode", "3.000000004", "\"e\"", "''" };

	ck_assert_int_eq(sf_version_check("x", 5, &v, 5, &v, &err), 0);
	ck_assert_int_eq(sf_version_check("x", UINT64_MAX, &v, 5, &v, &err), 0);
	ck_assert_int_eq(sf_version_check("x", 6, &v, 5, &v, &err), -ESTALE);
	ck_assert_int_eq(sf_version_check("x", 5, &(struct sf_version){ 0 }, 5, &v, &err),
	                 0); /* nobody knew */
	for (int i = 0; i < 5; i++) {
		struct sf_version want = v;
		if (i < 3)
			want.etag = NULL;
		other = want;
		if (i == 0)
			other.dev++;
		if (i == 1)
			other.ino++;
		if (i == 2)
			other.mtime_ns++;
		if (i == 3)
			other.etag = "\"f\"";
		if (i == 4)
			other.etag = NULL;
		ck_assert_int_eq(sf_version_check("x", 5, &want, 5, &other, &err), -ESTALE);
		ck_assert_msg(strstr(err.msg, words[i]) != NULL, "%s", err.msg);
	}
	/* one of them known is enough */
	for (int i = 0; i < 3; i++) {
		struct sf_version one = { .dev = i == 0, .ino = i == 1, .mtime_ns = i == 2 };
		ck_assert_int_eq(sf_version_check("x", 5, &one, 5, &one, &err), 0);
		ck_assert_int_eq(sf_version_check("x", 5, &one, 5, &v, &err), -ESTALE);
	}
}
END_TEST

START_TEST(the_directory_is_held_open)
{
	struct sf_store *s;
	int back = open(".", O_RDONLY | O_DIRECTORY);

	begin();
	put("x", "1");
	ck_assert_int_eq(chdir(dir), 0);
	ck_assert_int_eq(sf_store_open(&io, ".", NULL, &s, NULL), 0);
	ck_assert_int_eq(fchdir(back), 0);
	close(back);
	ck_assert_int_eq(store_exists(s, "x"), 1);
	int fd = s->ops->fd(s, "x", NULL, NULL);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_ne(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
	close(fd);
	sf_store_free(s);
	end();
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("store_file");
	TCase *t = tcase_create("store_file");

	tcase_add_test(t, sources_that_are_no_directory_are_refused_with_their_name);
	tcase_add_test(t, a_file_url_is_its_decoded_path);
	tcase_add_test(t, only_plain_files_open_and_none_blocks);
	tcase_add_test(t, a_listing_goes_to_its_depth_and_not_round_in_circles);
	tcase_add_test(t, a_callback_ends_the_listing_with_its_result);
	tcase_add_test(t, the_same_bytes_written_again_are_another_version);
	tcase_add_test(t, a_file_replaced_by_one_of_its_size_and_time_is_another);
	tcase_add_test(t, every_part_of_a_version_is_compared);
	tcase_add_test(t, the_directory_is_held_open);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return sf_test_main(suite());
}
