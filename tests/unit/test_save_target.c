#include "config.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/mem.h"
#include "save/save_target.h"
#include "tests/lib/sf_test.h"

static char dir[64], token[33];
static struct sf_error err;

static void make_dir(void)
{
	snprintf(dir, sizeof(dir), "/tmp/sf-target-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void run(const char *fmt, ...)
{
	char cmd[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(cmd, sizeof(cmd), fmt, ap);
	va_end(ap);
	ck_assert_int_eq(system(cmd), 0);
}

static void remove_dir(void)
{
	run("rm -rf '%s'", dir);
}

static const char *in_dir(const char *name)
{
	static char path[4][512];
	static unsigned n;

	snprintf(path[++n % 4], sizeof(path[0]), "%s/%s", dir, name);
	return path[n % 4];
}

static bool is_there(const char *name)
{
	return access(in_dir(name), F_OK) == 0;
}

static unsigned count(const char *name)
{
	struct dirent *e;
	unsigned n = 0;
	DIR *d = opendir(in_dir(name));

	ck_assert_ptr_nonnull(d);
	while ((e = readdir(d)))
		n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
	closedir(d);
	return n;
}

static void check_text(const char *name, const char *want)
{
	char got[64] = "";
	int fd = open(in_dir(name), O_RDONLY);

	ck_assert_msg(fd >= 0, "%s", name);
	ck_assert_int_ge(read(fd, got, sizeof(got) - 1), 0);
	close(fd);
	ck_assert_str_eq(got, want);
}

static struct sf_save_target *target(const char *name)
{
	struct sf_save_target *t;
	int r = sf_save_target_new(in_dir(name), &t, &err);

	ck_assert_msg(r == 0, "%s", err.msg);
	return t;
}

static void claim(struct sf_save_target *t, bool replace)
{
	int r = sf_save_target_claim(t, replace, token, &err);

	ck_assert_msg(r == 0, "%s", err.msg);
	ck_assert(sf_save_target_owns(t));
}

static int try_claim(const char *name, bool replace)
{
	struct sf_save_target *t = target(name);
	int r = sf_save_target_claim(t, replace, token, &err);

	if (r == 0)
		sf_save_target_drop(t);
	sf_save_target_free(t);
	return r;
}

static void put(struct sf_save_target *t, const char *name, const char *text)
{
	int r = sf_save_target_put(t, name, text, strlen(text), true, &err);

	ck_assert_msg(r == 0, "%s", err.msg);
}

static void finish(struct sf_save_target *t)
{
	int r = sf_save_target_publish(t, true, &err);

	ck_assert_msg(r == 0, "%s", err.msg);
	sf_save_target_settle(t);
	sf_save_target_free(t);
}

/* A checkpoint of one file, by name and text. */
static void save(const char *name, bool replace, const char *text)
{
	struct sf_save_target *t = target(name);

	claim(t, replace);
	put(t, "shard", text);
	put(t, ".metadata", "\x80\x02");
	finish(t);
}

START_TEST(it_appears_whole)
{
	struct sf_save_target *t, *u;
	int fd;

	make_dir();
	t = target("runs/a/step1/"); /* directories above it are made */
	u = target("runs/a/step1");
	claim(t, false);
	ck_assert_int_eq(sf_save_target_join(u, token, false, false, 1000, &err), 0);
	ck_assert(!sf_save_target_owns(u));
	put(t, "train/rank0.pt", "zero");
	put(u, "train/rank1.pt", "one");
	ck_assert_int_eq(sf_save_target_open(u, "model/__1_0.distcp", 3, &fd, &err), 0);
	ck_assert_int_eq(write(fd, "abc", 3), 3);
	close(fd);
	ck_assert_int_eq(sf_save_target_open(u, "model/__1_0.distcp", 3, &fd, &err), -EEXIST);
	put(t, "x", "meta");
	ck_assert_int_eq(sf_save_target_rename(t, "x", ".metadata", &err), 0);
	ck_assert(!is_there("runs/a/step1"));
	ck_assert_int_eq(sf_save_target_publish(u, true, &err), 0); /* not its own to */
	ck_assert(!is_there("runs/a/step1"));
	finish(t);
	sf_save_target_free(u);
	ck_assert_uint_eq(count("runs/a"), 1);
	ck_assert_uint_eq(count("runs/a/step1"), 3); /* no marker */
	check_text("runs/a/step1/train/rank0.pt", "zero");
	check_text("runs/a/step1/train/rank1.pt", "one");
	check_text("runs/a/step1/model/__1_0.distcp", "abc");
	check_text("runs/a/step1/.metadata", "meta");
	remove_dir();
}
END_TEST

/* _i: published before. */
START_TEST(dropped_nothing_is_left_and_what_was_there_is)
{
	make_dir();
	struct sf_save_target *t = target("a");
	claim(t, false);
	put(t, "f", "x");
	if (_i)
		ck_assert_int_eq(sf_save_target_publish(t, false, &err), 0);
	sf_save_target_drop(t);
	sf_save_target_free(t);
	ck_assert_uint_eq(count(""), 0);

	save("a", false, "old");
	t = target("a");
	claim(t, true);
	put(t, "shard", "new");
	if (_i) {
		ck_assert_int_eq(sf_save_target_publish(t, false, &err), 0);
		check_text("a/shard", "new");
	}
	check_text(_i ? "a-tmp/shard" : "a/shard", "old");
	sf_save_target_drop(t);
	sf_save_target_free(t);
	ck_assert_uint_eq(count(""), 1);
	ck_assert_uint_eq(count("a"), 2);
	check_text("a/shard", "old");
	remove_dir();
}
END_TEST

START_TEST(a_checkpoint_is_replaced_in_one_step_and_goes)
{
	make_dir();
	save("a", false, "old");
	ck_assert_int_eq(try_claim("a", false), -EEXIST);
	ck_assert_ptr_nonnull(strstr(err.msg, "/a'"));
	save("a", true, "new");
	check_text("a/shard", "new");
	ck_assert_uint_eq(count(""), 1);
	ck_assert_uint_eq(count("a"), 2);
	run("mkdir '%s/b'", dir);
	save("b", false, "first"); /* an empty directory is nothing */
	check_text("b/shard", "first");
	ck_assert_uint_eq(count(""), 2);
	remove_dir();
}
END_TEST

START_TEST(what_is_no_checkpoint_stays)
{
	static const struct {
		const char *made; /* by the shell, in the target */
		int r;
	} cases[] = {
		{ "mkdir a; echo > a/data", -EEXIST },
		{ "mkdir a; echo text > a/.metadata", -EEXIST },
		{ "mkdir a; printf '\\200\\002' > a/.metadata", 0 },
		{ "mkdir a; echo '{}' > a/metadata.json", -EEXIST },
		{ "mkdir a; echo '{\"sharded_backend\": \"torch_dist\"}' > a/metadata.json", 0 },
		{ "mkdir a; echo '{}' > a/.metadata.json", -EEXIST },
		{ "mkdir -p a/model_and_optim; echo '{}' > a/.metadata.json", 0 },
		{ "mkdir a; echo > a/model.safetensors", -EEXIST },
		{ "mkdir a; echo > a/model.safetensors; echo > a/model.safetensors.index.json", 0 },
		{ "echo > a", -EEXIST },
		{ "mkdir b; printf '\\200' > b/.metadata; ln -s b a", -EEXIST },
		{ "ln -s nowhere a", -EEXIST },
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(cases); i++) {
		make_dir();
		run("cd '%s'; %s; find . -printf '%%p %%y %%s\\n' | sort > ../list.$$; mv "
		    "../list.$$ '%s.was'",
		    dir, cases[i].made, dir);
		ck_assert_msg(try_claim("a", true) == cases[i].r, "%s: %s", cases[i].made, err.msg);
		run("cd '%s'; find . -printf '%%p %%y %%s\\n' | sort | diff - '%s.was'", dir, dir);
		run("rm '%s.was'", dir);
		remove_dir();
	}
}
END_TEST

START_TEST(what_nobody_would_clear_is_refused)
{
	static const char *const never[] = { "/", ".", "..", "", "///", "a/..", "x/." };
	struct sf_save_target *t;
	char cwd[512];

	for (size_t i = 0; i < SF_ARRAY_LEN(never); i++)
		ck_assert_int_eq(sf_save_target_new(never[i], &t, &err), -EINVAL);
	ck_assert_int_eq(sf_save_target_new("/proc", &t, &err), 0); /* a mount point */
	ck_assert_int_eq(sf_save_target_claim(t, true, token, &err), -EINVAL);
	sf_save_target_free(t);
	ck_assert_int_eq(sf_save_target_new("/usr", &t, &err), 0);
	ck_assert_int_eq(sf_save_target_claim(t, true, token, &err), -EINVAL);
	sf_save_target_free(t);
	/* where we are, and above */
	make_dir();
	save("a", false, "old");
	run("mkdir '%s/a/below'", dir);
	ck_assert_ptr_nonnull(getcwd(cwd, sizeof(cwd)));
	ck_assert_int_eq(chdir(in_dir("a/below")), 0);
	ck_assert_int_eq(try_claim("a", true), -EINVAL);
	ck_assert_int_eq(try_claim("a/below", true), -EINVAL);
	ck_assert_int_eq(setenv("HOME", in_dir("a"), 1), 0);
	ck_assert_int_eq(chdir(cwd), 0);
	ck_assert_int_eq(try_claim("a", true), -EINVAL);
	check_text("a/shard", "old");
	remove_dir();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("save_target");
	TCase *t = tcase_create("save_target");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, it_appears_whole);
	tcase_add_loop_test(t, dropped_nothing_is_left_and_what_was_there_is, 0, 2);
	tcase_add_test(t, a_checkpoint_is_replaced_in_one_step_and_goes);
	tcase_add_test(t, what_is_no_checkpoint_stays);
	tcase_add_test(t, what_nobody_would_clear_is_refused);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
