/* A mount of a process of its own whose shards are as slow as a test says. Needs root or
 * fusermount3, and /dev/fuse. */
#ifndef SF_TESTS_LIB_SLOW_MOUNT_H
#define SF_TESTS_LIB_SLOW_MOUNT_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "base/mem.h"
#include "fuse/mountpoint.h"
#include "fuse/serve.h"
#include "tool/common.h"
#include "tests/lib/test_stores.h"
#include "tests/lib/sf_test.h"

/* In memory shared with the serving process: the test turns the delay on when everything is mounted
 * and known. */
static struct sf_fault *plan;
static char mountpoint[256];
static pid_t server;
static const char *slow_source;   /* a path; NULL: one of tests/data */
static const char *slow_hf_files; /* a directory; NULL: none */
static mode_t slow_umask;
static unsigned slow_threads; /* that receive requests; 0: as many as it likes */

static inline double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Where mountpoints are made. */
static inline const char *slow_tmp(void)
{
	const char *tmp = getenv("TMPDIR");

	return tmp ? tmp : "/tmp";
}

static inline void ready(void *arg)
{
	ssize_t n = write(*(int *)arg, "", 1);
	(void)n;
}

static inline int serve_slow(int ready_fd, unsigned timeout_ms, unsigned size_timeout_s)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_common common;
	struct sf_session s;
	char source[4096];
	sigset_t block;

	sigemptyset(&block);
	sigaddset(&block, SIGTERM);
	sigaddset(&block, SIGINT);
	sigaddset(&block, SIGHUP);
	sigaddset(&block, SIGPIPE);
	sigprocmask(SIG_BLOCK, &block, NULL);
	sf_common_init(&common);
	sf_test_data(source, "dcp/fsdp4/ckpt");
	if (slow_source)
		snprintf(source, sizeof(source), "%s", slow_source);
	struct sf_serve_options o = { .mountpoint = mountpoint,
		                      .fuse_options =
		                              "ro,nosuid,nodev,subtype=shardfuse,fsname=slow",
		                      .umask = slow_umask,
		                      .threads = slow_threads,
		                      .size_timeout_s = size_timeout_s };
	struct sf_store *slow = NULL;
	int r = sf_session_store(&s, &common.session, source, &err);
	s.io->timeout_ms = timeout_ms;
	s.view.hf_files_found = slow_hf_files;
	if (r >= 0 && slow_hf_files) {
		r = sf_store_open(s.io, slow_hf_files, NULL, &s.hf_store, &err);
		s.view.hf_store = s.hf_store;
	}
	if (r >= 0)
		r = sf_store_fault(s.store, plan, &slow, &err);
	if (r >= 0) {
		s.store = slow;
		r = sf_session_load(&s, &err);
	}
	if (r >= 0) {
		r = sf_serve(&s, &o, ready, &ready_fd, &err);
		sf_session_close(&s);
	}
	if (r < 0)
		fprintf(stderr, "%s\n", err.msg);
	sf_common_release(&common);
	return r < 0;
}

static inline void start_with(unsigned timeout_ms, unsigned size_timeout_s)
{
	int fd[2];
	char byte;

	plan->fail_at = -1;
	plan->delay_ms = 0;
	snprintf(mountpoint, sizeof(mountpoint), "%s/sf-test-XXXXXX", slow_tmp());
	ck_assert_ptr_nonnull(mkdtemp(mountpoint));
	ck_assert_int_eq(pipe2(fd, O_CLOEXEC), 0);
	server = fork();
	if (server == 0) {
		close(fd[0]);
		/* not _exit: a sanitizer looks for leaks then */
		exit(serve_slow(fd[1], timeout_ms, size_timeout_s));
	}
	close(fd[1]);
	ck_assert_msg(read(fd[0], &byte, 1) == 1, "the mount did not come up");
	close(fd[0]);
}

static inline void start(unsigned timeout_ms)
{
	start_with(timeout_ms, 0);
}

/* The server ends well: with 0, and under a sanitizer without a leak. */
static inline void stop(void)
{
	int status = -1;
	if (server > 0) {
		kill(server, SIGTERM);
		waitpid(server, &status, 0);
		ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);
	}
	server = 0;
	sf_mountpoint_unmount(mountpoint, true, NULL);
	rmdir(mountpoint);
}

struct reader {
	char path[4096];
	pthread_t id;
	ssize_t got;
	int code;
	double took;
	atomic_bool done;
};

static inline void *read_file(void *arg)
{
	struct reader *r = arg;
	static __thread char buf[1 << 20];
	double t = now();
	int fd = open(r->path, O_RDONLY | O_CLOEXEC);
	ssize_t n = 0;

	r->got = 0;
	while (fd >= 0 && (n = read(fd, buf, sizeof(buf))) > 0)
		r->got += n;
	r->code = fd < 0 || n < 0 ? errno : 0;
	r->took = now() - t;
	atomic_store(&r->done, true);
	if (fd >= 0)
		close(fd);
	return NULL;
}

/* The first @n files of npy/. */
static inline int npy_files(struct reader *r, int n)
{
	char dir[512];
	struct dirent *e;
	int found = 0;

	snprintf(dir, sizeof(dir), "%s/npy", mountpoint);
	DIR *d = opendir(dir);
	ck_assert_ptr_nonnull(d);
	while (found < n && (e = readdir(d)))
		if (e->d_name[0] != '.')
			snprintf(r[found++].path, sizeof(r->path), "%s/%s", dir, e->d_name);
	closedir(d);
	return found;
}

/* The plan's memory. 0, or 77 and why this machine cannot show any of it. */
static inline int slow_init(void)
{
	if (access("/dev/fuse", R_OK | W_OK) < 0) {
		char why[128];
		snprintf(why, sizeof(why), "/dev/fuse: %s", strerror(errno));
		return sf_test_skip(why);
	}
	if (geteuid() != 0 && system("command -v fusermount3 >/dev/null") != 0) {
		return sf_test_skip("neither root nor fusermount3");
	}
	plan = mmap(NULL, sizeof(*plan), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return 0;
}

#endif
