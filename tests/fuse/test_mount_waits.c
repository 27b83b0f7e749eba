/*
 * A mount whose shards are slow: what is known answers, what must wait is parked. Needs root or
 * fusermount3, and /dev/fuse; else it is skipped (77).
 */
#include "config.h"
#include <ftw.h>
#include "tests/lib/slow_mount.h"

enum { READERS = 20 };

static int touch(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)path, (void)st, (void)ftw;
	return flag == FTW_NS || flag == FTW_DNR ? -1 : 0;
}

/* ls -lR */
static void walk(void)
{
	ck_assert_int_eq(nftw(mountpoint, touch, 16, FTW_PHYS), 0);
}

START_TEST(parked_reads_do_not_hold_up_what_is_known)
{
	static struct reader cached, slow[READERS + 1];
	start(60000);
	walk(); /* everything is known now */
	int n = npy_files(slow, READERS + 1);
	ck_assert_int_eq(n, READERS + 1);
	cached = slow[READERS];
	read_file(&cached); /* and this one is in the page cache */
	ck_assert_int_eq(cached.code, 0);

	plan->delay_ms = 8000;
	for (int i = 0; i < READERS; i++)
		ck_assert_int_eq(pthread_create(&slow[i].id, NULL, read_file, &slow[i]), 0);
	usleep(300000);
	walk();
	read_file(&cached);
	ck_assert_int_eq(cached.code, 0);
	for (int i = 0; i < READERS; i++)
		ck_assert_msg(!atomic_load(&slow[i].done), "ls -lR or a cached read waited too");
	for (int i = 0; i < READERS; i++) {
		pthread_join(slow[i].id, NULL);
		ck_assert_int_eq(slow[i].code, 0);
		ck_assert_int_gt(slow[i].got, 0);
		ck_assert_msg(slow[i].took > 7, "the delay was not there: %.1f s", slow[i].took);
	}
	stop();
}
END_TEST

START_TEST(a_read_ends_by_its_deadline)
{
	static struct reader r;
	start(500);
	walk();
	ck_assert_int_eq(npy_files(&r, 1), 1);
	plan->delay_ms = 20000;
	read_file(&r);
	ck_assert_int_eq(r.code, EIO);
	ck_assert_msg(r.took > 0.3, "it took %.1f s", r.took);
	plan->delay_ms = 0;
	stop();
}
END_TEST

START_TEST(sigterm_ends_parked_reads_and_unmounts)
{
	static struct reader r;
	int status = -1;
	struct stat here, parent;

	start(60000);
	walk();
	ck_assert_int_eq(npy_files(&r, 1), 1);
	plan->delay_ms = 30000;
	ck_assert_int_eq(pthread_create(&r.id, NULL, read_file, &r), 0);
	usleep(200000);
	kill(server, SIGTERM);
	pthread_join(r.id, NULL);
	ck_assert_int_ne(r.code, 0); /* 0 had it waited for the bytes */
	ck_assert_int_eq(waitpid(server, &status, 0), server);
	server = 0;
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);
	ck_assert_int_eq(stat(mountpoint, &here), 0);
	ck_assert_int_eq(stat(slow_tmp(), &parent), 0);
	ck_assert_uint_eq(here.st_dev, parent.st_dev);
	stop();
}
END_TEST

START_TEST(files_that_are_open_at_the_end_are_let_go)
{
	static const char *const names[] = { "README", "checkpoint.pt", "hf/model.safetensors",
		                             ".shardfuse/metrics", "shards/.metadata" };
	char path[4096];
	int fd[SF_ARRAY_LEN(names)];

	start(60000);
	for (size_t i = 0; i < SF_ARRAY_LEN(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", mountpoint, names[i]);
		fd[i] = open(path, O_RDONLY | O_CLOEXEC);
		ck_assert_msg(fd[i] >= 0, "%s: %s", path, strerror(errno));
	}
	stop();
	for (size_t i = 0; i < SF_ARRAY_LEN(names); i++)
		close(fd[i]);
}
END_TEST

/* In a child: @work, to be killed. Returns after how long it was gone, or -1 when it ended before
 * by itself. */
static double kill_at_work(void (*work)(const char *path), const char *path)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		work(path);
		_exit(0);
	}
	usleep(500000);
	double t = now();
	if (waitpid(pid, &status, WNOHANG) != 0)
		return -1;
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return now() - t;
}

static void work_stat(const char *path)
{
	struct stat st;
	stat(path, &st);
}

static void work_read(const char *path)
{
	struct reader r;
	snprintf(r.path, sizeof(r.path), "%s", path);
	read_file(&r);
}

START_TEST(a_killed_client_ends_at_once)
{
	char path[4096];
	static struct reader r;

	start(20000);
	ck_assert_int_eq(npy_files(&r, 1), 1);
	plan->delay_ms = 8000;
	snprintf(path, sizeof(path), "%s/checkpoint.pt", mountpoint);
	double stat_took = kill_at_work(work_stat, path); /* a size that needs objects read */
	double read_took = kill_at_work(work_read, r.path);
	plan->delay_ms = 0;
	ck_assert_msg(stat_took >= 0 && stat_took < 7, "stat: %.1f s", stat_took);
	ck_assert_msg(read_took >= 0 && read_took < 7, "read: %.1f s", read_took);
	/* and the file is there for the next one */
	struct stat st;
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_int_gt(st.st_size, 0);
	stop();
}
END_TEST

START_TEST(who_waits_for_a_size_is_answered_in_time)
{
	char path[4096];
	struct stat st;

	start_with(60000, 1);
	plan->delay_ms = 8000;
	snprintf(path, sizeof(path), "%s/checkpoint.pt", mountpoint);
	double t = now();
	ck_assert_int_eq(stat(path, &st), -1);
	ck_assert_int_eq(errno, EIO);
	ck_assert_msg(now() - t < 7, "it took %.1f s", now() - t);
	/* what was begun goes on, and is there for who asks again */
	plan->delay_ms = 0;
	while (stat(path, &st) < 0 && errno == EIO && now() - t < 30)
		usleep(100000);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_int_gt(st.st_size, 0);
	stop();
}
END_TEST

START_TEST(sigterm_unmounts_while_sizes_are_being_found)
{
	char path[4096];
	struct stat here, parent;

	start(20000);
	plan->delay_ms = 8000;
	snprintf(path, sizeof(path), "%s/checkpoint.pt", mountpoint);
	pid_t pid = fork();
	if (pid == 0) {
		work_stat(path);
		_exit(0);
	}
	usleep(300000);
	ck_assert_int_eq(waitpid(pid, NULL, WNOHANG), 0);
	double t = now();
	kill(server, SIGTERM);
	waitpid(pid, NULL, 0);
	/* a look at the mount while it goes may be refused */
	ck_assert_int_eq(stat(slow_tmp(), &parent), 0);
	while ((stat(mountpoint, &here) < 0 || here.st_dev != parent.st_dev) && now() - t < 7)
		usleep(1000);
	ck_assert_int_eq(stat(mountpoint, &here), 0);
	ck_assert_uint_eq(here.st_dev, parent.st_dev);
	ck_assert_msg(now() - t < 7, "it took %.1f s", now() - t);
	plan->delay_ms = 0;
	stop();
}
END_TEST

int main(void)
{
	int skip = slow_init();

	if (skip)
		return skip;
	Suite *s = suite_create("mount_waits");
	TCase *tc = tcase_create("slow shards");
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, parked_reads_do_not_hold_up_what_is_known);
	tcase_add_test(tc, a_read_ends_by_its_deadline);
	tcase_add_test(tc, sigterm_ends_parked_reads_and_unmounts);
	tcase_add_test(tc, files_that_are_open_at_the_end_are_let_go);
	tcase_add_test(tc, a_killed_client_ends_at_once);
	tcase_add_test(tc, who_waits_for_a_size_is_answered_in_time);
	tcase_add_test(tc, sigterm_unmounts_while_sizes_are_being_found);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
