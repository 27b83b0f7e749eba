/*
 * What a mount answers: modes, errors, interrupts at the worst moment, parked reads that end in any
 * order. Needs what slow_mount.h says.
 */
#include "config.h"
#define FUSE_USE_VERSION 312
#include <fuse_lowlevel.h>
#include <sys/statvfs.h>
#include "tests/lib/slow_mount.h"

/* Shared with the serving process: an interrupt comes as soon as a request can take one (--wrap in
 * tests/local.mk). */
static atomic_bool *interrupt_at_once;

void __real_fuse_req_interrupt_func(fuse_req_t req, fuse_interrupt_func_t func, void *data);
void __wrap_fuse_req_interrupt_func(fuse_req_t req, fuse_interrupt_func_t func, void *data);
void __wrap_fuse_req_interrupt_func(fuse_req_t req, fuse_interrupt_func_t func, void *data)
{
	__real_fuse_req_interrupt_func(req, func, data);
	if (func && interrupt_at_once && atomic_load(interrupt_at_once))
		func(req, data);
}

static char copy[256];

/* A copy of the checkpoint that a test may spoil. */
static void copy_source(void)
{
	char from[4096], cmd[8192];

	snprintf(copy, sizeof(copy), "%s/sf-copy-XXXXXX", slow_tmp());
	ck_assert_ptr_nonnull(mkdtemp(copy));
	snprintf(cmd, sizeof(cmd), "cp -r '%s'/. '%s'", sf_test_data(from, "dcp/fsdp4/ckpt"), copy);
	ck_assert_int_eq(system(cmd), 0);
	slow_source = copy;
}

static void drop_copy(void)
{
	char cmd[512];

	snprintf(cmd, sizeof(cmd), "rm -rf '%s'", copy);
	ck_assert_int_eq(system(cmd), 0);
	slow_source = NULL;
}

static const char *in_mount(const char *name)
{
	static char path[4096];

	snprintf(path, sizeof(path), "%s/%s", mountpoint, name);
	return path;
}

static int code_of(const char *name)
{
	struct reader r;

	snprintf(r.path, sizeof(r.path), "%s", in_mount(name));
	read_file(&r);
	return r.code;
}

/* The number behind "@name": in counters.json. */
static long counter(const char *name)
{
	char text[8192] = "", word[64];
	FILE *f = fopen(in_mount(".shardfuse/counters.json"), "r");

	ck_assert_ptr_nonnull(f);
	ck_assert_uint_gt(fread(text, 1, sizeof(text) - 1, f), 0);
	fclose(f);
	snprintf(word, sizeof(word), "\"%s\":", name);
	const char *at = strstr(text, word);
	ck_assert_msg(at != NULL, "no %s in %s", word, text);
	return strtol(at + strlen(word), NULL, 10);
}

/* _i: which umask. */
START_TEST(modes_are_cut_by_the_umask)
{
	const mode_t mask = _i ? 077 : 022;
	struct stat st;

	slow_umask = mask;
	start(60000);
	ck_assert_int_eq(stat(in_mount("README"), &st), 0);
	ck_assert_int_eq(st.st_mode & 0777, 0444 & ~mask);
	ck_assert_uint_eq((uint64_t)st.st_blocks, ((uint64_t)st.st_size + 511) / 512);
	ck_assert_int_eq(stat(in_mount("npy"), &st), 0);
	ck_assert_int_eq(st.st_mode & 0777, 0555 & ~mask);
	struct statvfs fs;
	ck_assert_int_eq(statvfs(in_mount("."), &fs), 0);
	ck_assert_uint_eq(fs.f_namemax, 255);
	ck_assert_uint_eq(fs.f_bavail, 0);
	stop();
}
END_TEST

/* A shard is written again under the mount. */
START_TEST(bytes_of_another_version_are_stale_and_counted)
{
	static const struct timespec later[2] = { { 1000, 1 }, { 1000, 1 } };
	char shard[512];

	copy_source();
	start(60000);
	ck_assert_int_eq(code_of("npy/model.norm.weight.npy"), 0);
	ck_assert_int_eq(counter("stale"), 0);
	ck_assert_int_eq(counter("errors"), 0);
	for (int i = 0; i < 4; i++) {
		snprintf(shard, sizeof(shard), "%s/__%d_0.distcp", copy, i);
		ck_assert_int_eq(utimensat(AT_FDCWD, shard, later, 0), 0);
	}
	ck_assert_int_eq(code_of("npy/model.layers.0.attention.wq.weight.npy"), ESTALE);
	ck_assert_int_ge(counter("stale"), 1);
	ck_assert_int_ge(counter("errors"), counter("stale"));
	stop();
	drop_copy();
}
END_TEST

/* All items' headers are damaged: the files are there, their tensors' bytes are not. */
START_TEST(damaged_items_are_an_input_output_error)
{
	static uint8_t junk[1 << 20];
	char shard[512];
	struct stat st;

	copy_source();
	memset(junk, 'j', sizeof(junk));
	for (int i = 0; i < 4; i++) {
		snprintf(shard, sizeof(shard), "%s/__%d_0.distcp", copy, i);
		int fd = open(shard, O_WRONLY);
		ck_assert_int_eq(fstat(fd, &st), 0);
		ck_assert_int_eq(write(fd, junk, SF_MIN((size_t)st.st_size, sizeof(junk))),
		                 (ssize_t)SF_MIN((size_t)st.st_size, sizeof(junk)));
		close(fd);
	}
	start(60000);
	ck_assert_int_eq(stat(in_mount("npy/model.norm.weight.npy"), &st), 0);
	ck_assert_int_gt(st.st_size, 0);
	ck_assert_int_eq(code_of("npy/model.norm.weight.npy"), EIO);
	ck_assert_int_eq(counter("stale"), 0);
	ck_assert_int_ge(counter("errors"), 1);
	stop();
	drop_copy();
}
END_TEST

/* Before the read is submitted, before the sizing is known to be interruptible: either ends it. */
START_TEST(an_interrupt_at_the_worst_moment_is_not_lost)
{
	static struct reader r;
	struct stat st;
	double t;

	start(60000);
	ck_assert_int_eq(npy_files(&r, 1), 1);
	ck_assert_int_eq(stat(r.path, &st), 0);
	plan->delay_ms = 20000;
	atomic_store(interrupt_at_once, true);
	read_file(&r);
	ck_assert_int_eq(r.code, EINTR);
	ck_assert_msg(r.took < 15, "a read took %.1f s", r.took);
	t = now();
	ck_assert_int_eq(stat(in_mount("checkpoint.pt"), &st), -1);
	ck_assert_int_eq(errno, EINTR);
	ck_assert_msg(now() - t < 15, "a size took %.1f s", now() - t);
	atomic_store(interrupt_at_once, false);
	plan->delay_ms = 0;
	ck_assert_int_eq(counter("errors"), 0); /* the client's own wish is none */
	stop();
}
END_TEST

static pid_t read_in_child(const char *path)
{
	pid_t pid = fork();

	if (pid == 0) {
		static struct reader r;
		snprintf(r.path, sizeof(r.path), "%s", path);
		read_file(&r);
		_exit(r.code != 0);
	}
	return pid;
}

static void wait_parked(long n)
{
	while (counter("parked") < n)
		usleep(10000);
}

/* Five wait; they go from the middle, from either end, and those that are left. */
START_TEST(parked_reads_end_in_any_order)
{
	static const int order[] = { 2, 0, 4, 1, 3 };
	static struct reader r[7];
	struct stat st;
	pid_t pid[5];
	int status;

	start(60000);
	ck_assert_int_eq(npy_files(r, 7), 7);
	for (int i = 0; i < 7; i++)
		ck_assert_int_eq(stat(r[i].path, &st), 0);
	plan->delay_ms = 50000;
	for (int i = 0; i < 5; i++) {
		pid[i] = read_in_child(r[i].path);
		wait_parked(i + 1);
	}
	plan->delay_ms = 0; /* for who comes now */
	for (int i = 0; i < 5; i++) {
		kill(pid[order[i]], SIGKILL);
		ck_assert_int_eq(waitpid(pid[order[i]], &status, 0), pid[order[i]]);
		ck_assert(WIFSIGNALED(status));
		if (i == 2) {
			read_file(&r[5]);
			ck_assert_int_eq(r[5].code, 0);
		}
	}
	read_file(&r[6]);
	ck_assert_int_eq(r[6].code, 0);
	ck_assert_int_eq(counter("errors"), 0);
	stop();
}
END_TEST

int main(void)
{
	int skip = slow_init();

	if (skip)
		return skip;
	interrupt_at_once = mmap(NULL, sizeof(*interrupt_at_once), PROT_READ | PROT_WRITE,
	                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	Suite *s = suite_create("mount_answers");
	TCase *tc = tcase_create("answers");
	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, modes_are_cut_by_the_umask, 0, 2);
	tcase_add_test(tc, bytes_of_another_version_are_stale_and_counted);
	tcase_add_test(tc, damaged_items_are_an_input_output_error);
	tcase_add_test(tc, an_interrupt_at_the_worst_moment_is_not_lost);
	tcase_add_test(tc, parked_reads_end_in_any_order);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
