#include "config.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/mem.h"
#include "save/save_target_priv.h"
#include "tests/lib/sf_test.h"
#include "tests/lib/syscall_fault.h"

static char dir[64], token[33];
static struct sf_error err;

static void make_dir(void)
{
	/* in memory: much is synced here */
	snprintf(dir, sizeof(dir), "/dev/shm/sf-target-XXXXXX");
	if (!mkdtemp(dir)) {
		snprintf(dir, sizeof(dir), "/tmp/sf-target-XXXXXX");
		ck_assert_ptr_nonnull(mkdtemp(dir));
	}
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
	int r = sf_save_target_new(in_dir(name), NULL, &t, &err);

	ck_assert_msg(r == 0, "%s", err.msg);
	return t;
}

static void claim(struct sf_save_target *t, bool replace)
{
	int r = sf_save_target_claim(t, NULL, replace, token, &err);

	ck_assert_msg(r == 0, "%s", err.msg);
	ck_assert(sf_save_target_owns(t));
}

static int try_claim(const char *name, bool replace)
{
	struct sf_save_target *t = target(name);
	int r = sf_save_target_claim(t, NULL, replace, token, &err);

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
	put(t, ".metadata", "\x80\x02torch");
	finish(t);
}

static int open_file(struct sf_save_target *t, const char *name, uint64_t size,
                     enum sf_target_name when, struct sf_target_file **ret)
{
	return sf_save_target_open(t, name, size, when, ret, &err);
}

START_TEST(it_appears_whole)
{
	char got[3];
	struct sf_save_target *t, *u;
	struct sf_target_file *f;

	make_dir();
	t = target("runs/a/step1/"); /* directories above it are made */
	u = target("runs/a/step1");
	claim(t, false);
	ck_assert_int_eq(sf_save_target_join(u, token, false, false, 1000, &err), 0);
	ck_assert(!sf_save_target_owns(u));
	put(t, "train/rank0.pt", "zero");
	put(u, "train/rank1.pt", "one");
	ck_assert_int_eq(open_file(u, "model/__1_0.distcp", 3, SF_TARGET_AT_ONCE, &f), 0);
	ck_assert_int_eq(sf_target_file_write(f, 1, "bc", 2, &err), 0);
	ck_assert_int_eq(sf_target_file_write(f, 0, "a", 1, &err), 0);
	ck_assert_int_eq(sf_target_file_read(f, 0, got, 3, &err), 0);
	ck_assert_mem_eq(got, "abc", 3);
	ck_assert_int_eq(sf_target_file_read(f, 2, got, 2, &err), -EIO);
	ck_assert_int_eq(sf_target_file_close(f, true, &err), 0);
	ck_assert_int_eq(open_file(u, "model/__1_0.distcp", 3, SF_TARGET_AT_ONCE, &f), -EEXIST);
	ck_assert_int_eq(open_file(t, ".metadata", 0, SF_TARGET_CLOSED, &f), 0);
	ck_assert_int_eq(sf_target_file_write(f, 0, "meta", 4, &err), 0);
	ck_assert(!is_there("runs/a/step1-tmp/.metadata"));
	ck_assert_int_eq(sf_target_file_close(f, true, &err), 0);
	ck_assert(is_there("runs/a/step1-tmp/.metadata"));
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
		{ "mkdir a; printf '\\200\\002ctorch' > a/.metadata", 0 },
		{ "mkdir a; echo '{}' > a/metadata.json", -EEXIST },
		{ "mkdir a; echo '{\"sharded_backend\": \"torch_dist\"}' > a/metadata.json", 0 },
		{ "mkdir a; echo '{}' > a/.metadata.json", -EEXIST },
		{ "mkdir -p a/model_and_optim; echo '{}' > a/.metadata.json", 0 },
		{ "mkdir a; echo > a/model.safetensors", -EEXIST },
		{ "mkdir a; echo > a/model.safetensors; echo '{\"weight_map\": {}}' > "
		  "a/model.safetensors.index.json",
		  0 },
		{ "echo > a", -EEXIST },
		{ "mkdir b; printf '\\200\\002ctorch' > b/.metadata; ln -s b a", -EEXIST },
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
		ck_assert_int_eq(sf_save_target_new(never[i], NULL, &t, &err), -EINVAL);
	ck_assert_int_eq(sf_save_target_new("/proc", NULL, &t, &err), 0); /* a mount point */
	ck_assert_int_eq(sf_save_target_claim(t, NULL, true, token, &err), -EINVAL);
	sf_save_target_free(t);
	ck_assert_int_eq(sf_save_target_new("/usr", NULL, &t, &err), 0);
	ck_assert_int_eq(sf_save_target_claim(t, NULL, true, token, &err), -EINVAL);
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

START_TEST(two_saves_of_one_target_do_not_meet)
{
	make_dir();
	struct sf_save_target *t = target("a");
	claim(t, false);
	ck_assert_int_eq(try_claim("a", false), -EBUSY);
	ck_assert_ptr_nonnull(strstr(err.msg, "another save"));
	put(t, "f", "x");
	/* a child that was forked meanwhile holds no lock when the save is over */
	pid_t pid = fork();
	if (pid == 0)
		for (;;)
			pause();
	finish(t);
	ck_assert_int_eq(try_claim("b", false), 0);
	run("mv '%s/a' '%s/b-tmp'", dir, dir); /* somebody's own: it is no leftover of ours */
	ck_assert_int_eq(try_claim("b", false), -EEXIST);
	ck_assert_ptr_nonnull(strstr(err.msg, "b-tmp"));
	check_text("b-tmp/f", "x");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	remove_dir();
}
END_TEST

/* A save of "a-tmp" has a-tmp-tmp; its result is not for a save of "a" to remove, marker or not. */
START_TEST(a_checkpoint_that_is_called_like_a_leftover_stays)
{
	make_dir();
	struct sf_save_target *t = target("a-tmp");
	claim(t, false);
	put(t, ".metadata", "\x80\x02torch");
	ck_assert_int_eq(sf_save_target_publish(t, false, &err), 0);
	sf_save_target_free(t); /* killed before it settled, so to speak */
	ck_assert_int_eq(try_claim("a", false), -EEXIST);
	check_text("a-tmp/.metadata", "\x80\x02torch");
	ck_assert_int_eq(try_claim("a-tmp", true), 0);
	remove_dir();
}
END_TEST

START_TEST(links_lead_nowhere)
{
	struct sf_target_file *f;

	make_dir();
	run("mkdir '%s/other' && echo -n precious > '%s/other/f'", dir, dir);
	struct sf_save_target *t = target("a");
	claim(t, false);
	run("ln -s ../other '%s/a-tmp/train'; ln -s ../other/f '%s/a-tmp/f'", dir, dir);
	ck_assert_int_lt(open_file(t, "train/rank0.pt", 0, SF_TARGET_AT_ONCE, &f), 0);
	ck_assert_int_lt(sf_save_target_put(t, "train/rank0.pt", "x", 1, false, &err), 0);
	ck_assert_int_eq(open_file(t, "f", 0, SF_TARGET_AT_ONCE, &f), -EEXIST);
	put(t, "f", "new"); /* the link is replaced, not written through */
	check_text("other/f", "precious");
	static const char *const bad[] = { "../x", "/x",   "a/../../x",      "",
		                           ".",    "a//b", ".shardfuse-save" };
	for (size_t i = 0; i < SF_ARRAY_LEN(bad); i++)
		ck_assert_msg(open_file(t, bad[i], 0, SF_TARGET_CLOSED, &f) == -EINVAL, "%s",
		              bad[i]);
	sf_save_target_drop(t);
	sf_save_target_free(t);
	check_text("other/f", "precious");
	ck_assert_uint_eq(count(""), 1);
	/* what is in the way of NAME-tmp is not followed either */
	run("ln -s other '%s/a-tmp'", dir);
	ck_assert_int_eq(try_claim("a", false), -EEXIST);
	check_text("other/f", "precious");
	remove_dir();
}
END_TEST

START_TEST(what_appears_during_a_save_stays)
{
	make_dir();
	struct sf_save_target *t = target("a");
	claim(t, false);
	put(t, "f", "x");
	run("mkdir '%s/a' && echo -n mine > '%s/a/f'", dir, dir);
	ck_assert_int_eq(sf_save_target_publish(t, true, &err), -EEXIST);
	sf_save_target_drop(t);
	sf_save_target_free(t);
	check_text("a/f", "mine");
	ck_assert_uint_eq(count(""), 1);
	remove_dir();
}
END_TEST

/* ---- a host with a disk of its own ---- */

static void *joins(void *arg)
{
	return (void *)(intptr_t)sf_save_target_join(arg, token, false, false, 60000, NULL);
}

START_TEST(another_hosts_disk_gets_a_directory_of_its_own)
{
	pthread_t t;
	void *r;

	make_dir();
	struct sf_save_target *a = target("here/a"), *b = target("there/a"), *c = target("there/a");
	claim(a, false);
	token[3] = token[3] == '0' ? '1' : '0'; /* another host's */
	ck_assert_int_eq(pthread_create(&t, NULL, joins, c), 0);
	int s = sf_save_target_join(b, token, false, true, 50, &err);
	ck_assert_msg(s == 0, "%s", err.msg);
	pthread_join(t, &r);
	ck_assert_int_eq((int)(intptr_t)r, 0);
	ck_assert(sf_save_target_owns(b));
	ck_assert(!sf_save_target_owns(c));
	put(a, ".metadata", "meta");
	put(b, "0", "zero");
	put(c, "1", "one");
	ck_assert_int_eq(sf_save_target_publish(b, true, &err), 0);
	check_text("there/a/1", "one");
	ck_assert(!is_there("here/a"));
	if (_i) { /* here it fails */
		sf_save_target_drop(a);
		sf_save_target_drop(b);
		ck_assert_uint_eq(count("there"), 0);
		ck_assert_uint_eq(count("here"), 0);
	} else {
		ck_assert_int_eq(sf_save_target_publish(a, true, &err), 0);
		sf_save_target_settle(a);
		sf_save_target_settle(b);
		ck_assert_uint_eq(count("here/a"), 1);
		ck_assert_uint_eq(count("there/a"), 2);
	}
	sf_save_target_free(a);
	sf_save_target_free(b);
	sf_save_target_free(c);
	remove_dir();
}
END_TEST

START_TEST(join_says_what_is_missing)
{
	make_dir();
	struct sf_save_target *a = target("here/a"), *b = target("there/a");
	claim(a, false);
	ck_assert_int_eq(sf_save_target_join(b, token, false, false, 1, &err), -ETIMEDOUT);
	ck_assert_ptr_nonnull(strstr(err.msg, "there/a-tmp"));
	ck_assert_int_eq(sf_save_target_join(b, "x", false, false, 1, &err), -EBADMSG);
	/* what is there on that host is refused there */
	run("mkdir -p '%s/there/a' && echo > '%s/there/a/x'", dir, dir);
	ck_assert_int_eq(sf_save_target_join(b, token, false, true, 1, &err), -EEXIST);
	ck_assert_uint_eq(count("there"), 1);
	sf_save_target_drop(a);
	sf_save_target_free(a);
	sf_save_target_free(b);
	remove_dir();
}
END_TEST

/* ---- killed, or failing, at any call ---- */

static int write_file(struct sf_save_target *t, const char *name, const char *text, size_t len,
                      enum sf_target_name when)
{
	struct sf_target_file *f;
	int r = open_file(t, name, when == SF_TARGET_CLOSED ? 0 : len, when, &f);

	if (r >= 0 && (r = sf_target_file_write(f, 0, text, len, &err)) < 0)
		sf_target_file_drop(f);
	return r < 0 ? r : sf_target_file_close(f, true, &err);
}

/* What a child does: the exit status says how far it came. */
static int whole_save(bool replace)
{
	struct sf_save_target *t = target("a");
	int r = sf_save_target_claim(t, NULL, replace, token, &err);

	if (r >= 0)
		r = write_file(t, "sub/shard", "new", 3, SF_TARGET_AT_ONCE);
	if (r >= 0)
		r = sf_save_target_put(t, "shard", "new", 3, true, &err);
	if (r >= 0)
		r = write_file(t, ".metadata", "\x80\x02torch!", 8, SF_TARGET_CLOSED);
	if (r >= 0)
		r = sf_save_target_publish(t, true, &err);
	if (r >= 0)
		sf_save_target_settle(t);
	else
		sf_save_target_drop(t);
	sf_save_target_free(t);
	return r;
}

static void check_whole(const char *text)
{
	check_text("a/shard", text);
	check_text("a/.metadata", strcmp(text, "old") == 0 ? "\x80\x02torch" : "\x80\x02torch!");
	if (strcmp(text, "new") == 0)
		check_text("a/sub/shard", "new");
}

static bool is_new(void)
{
	return is_there("a/sub/shard");
}

/* As a next save leaves it. */
static void next_save(bool replace)
{
	int r = whole_save(replace);

	ck_assert_msg(r == 0, "%s", err.msg);
	check_whole("new");
	ck_assert_uint_eq(count(""), 1);
	ck_assert_uint_eq(count("a"), 3);
}

/* _i: bits of: something is replaced; without exchange */
START_TEST(killed_at_any_call_nothing_looks_whole_and_the_next_save_succeeds)
{
	unsigned long n = 1;

	for (int status = 1; status != 0; n++) {
		make_dir();
		if (_i & 1)
			save("a", false, "old");
		pid_t pid = fork();
		if (pid == 0) {
			syscall_fault.no_exchange = _i & 2;
			syscall_fault_arm(n, 0, false);
			_exit(whole_save(_i & 1) < 0);
		}
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		ck_assert(status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
		if (is_there("a"))
			check_whole(_i & 1 && !is_new() ? "old" : "new");
		else
			ck_assert(!(_i & 1) || _i & 2);
		next_save(is_there("a") || _i & 1);
		remove_dir();
	}
	printf("killed at %lu calls\n", n - 2);
	ck_assert_uint_gt(n, 30);
}
END_TEST

/* _i: bits of: something is replaced; without exchange; all calls from then on */
START_TEST(failing_at_any_call_nothing_is_left_and_the_next_save_succeeds)
{
	static const int errs[] = { ENOSPC, EIO, EROFS, EDQUOT };
	unsigned long n = 1, failures = 0;

	syscall_fault.no_exchange = _i & 2;
	for (bool hit = true; hit; n++) {
		make_dir();
		if (_i & 1)
			save("a", false, "old");
		err.msg[0] = 0;
		syscall_fault_arm(n, errs[n % SF_ARRAY_LEN(errs)], _i & 4);
		int r = whole_save(_i & 1);
		hit = syscall_fault.hit;
		syscall_fault_arm(0, 0, false);
		ck_assert(hit || r == 0);
		failures += r < 0;
		/* told, unless it was only the tidying up */
		ck_assert_msg(r == 0 || err.msg[0], "call %lu", n);
		if (r == 0)
			check_whole("new");
		else if (!(_i & 4))
			ck_assert_msg(is_there("a") == (_i & 1) && !(is_there("a") && is_new()),
			              "call %lu: %s", n, err.msg);
		next_save(is_there("a") || _i & 1);
		remove_dir();
	}
	printf("%lu of %lu calls were failures\n", failures, n - 2);
	ck_assert_uint_gt(failures, 20);
}
END_TEST

/* What is mounted below is another's, also when it is of the same file system. */
START_TEST(a_bind_mount_inside_is_not_emptied)
{
	struct sf_error why = SF_ERROR_INIT;
	int status;
	pid_t pid;

	make_dir();
	run("cd '%s' && mkdir -p a/data pre && echo gold > pre/gold && echo x > a/x", dir);
	pid = fork();
	if (pid == 0) {
		if (unshare(CLONE_NEWNS) < 0 ||
		    mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		    mount(in_dir("pre"), in_dir("a/data"), NULL, MS_BIND, NULL) < 0)
			_exit(77); /* it takes root */
		int r = sf_target_remove(open(dir, O_RDONLY | O_DIRECTORY), "a", &why);
		_exit(r == -EXDEV ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status));
	ck_assert_msg(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77, "exit status %d",
	              WEXITSTATUS(status));
	ck_assert(is_there("pre/gold"));
	remove_dir();
}
END_TEST

/* _i: NAME-old or NAME-tmp. Its inode number is the one that the marker in NAME tells of, but it was made at another
 * time: somebody's new directory. */
START_TEST(a_number_that_was_used_again_is_no_leftover)
{
	const char *other = _i ? "a-tmp" : "a-old";
	struct sf_save_target *t;
	struct stat st;

	make_dir();
	run("cd '%s' && mkdir a %s && echo gold > %s/gold", dir, other, other);
	ck_assert_int_eq(stat(in_dir(other), &st), 0);
	run("printf 'shardfuse save 2\n%%032d\n%llu %llu 1\na' 0 > '%s/a/.shardfuse-save'",
	    (unsigned long long)st.st_dev, (unsigned long long)st.st_ino, dir);
	ck_assert_int_eq(sf_save_target_new(in_dir("a"), NULL, &t, &err), 0);
	int r = sf_save_target_claim(t, NULL, false, token, &err);
	ck_assert(_i ? r == -EEXIST : r == 0 || r == -EEXIST);
	if (r == 0)
		sf_save_target_drop(t);
	sf_save_target_free(t);
	ck_assert(is_there(_i ? "a-tmp/gold" : "a-old/gold"));
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
	tcase_add_test(t, two_saves_of_one_target_do_not_meet);
	tcase_add_test(t, a_checkpoint_that_is_called_like_a_leftover_stays);
	tcase_add_test(t, links_lead_nowhere);
	tcase_add_test(t, what_appears_during_a_save_stays);
	tcase_add_loop_test(t, another_hosts_disk_gets_a_directory_of_its_own, 0, 2);
	tcase_add_test(t, join_says_what_is_missing);
	tcase_add_loop_test(t, killed_at_any_call_nothing_looks_whole_and_the_next_save_succeeds, 0,
	                    4);
	tcase_add_loop_test(t, failing_at_any_call_nothing_is_left_and_the_next_save_succeeds, 0,
	                    8);
	tcase_add_test(t, a_bind_mount_inside_is_not_emptied);
	tcase_add_loop_test(t, a_number_that_was_used_again_is_no_leftover, 0, 2);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
