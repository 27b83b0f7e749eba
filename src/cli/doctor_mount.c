#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/mem.h"
#include "cli/doctor_mount.h"
#include "tool/ask.h"

enum { END_MS = 3000, ASK_MS = 2000, STEP_MS = 20 };

struct trial {
	char dir[PATH_MAX], ckpt[PATH_MAX + 8], file[PATH_MAX + 32], mnt[PATH_MAX + 8];
	pid_t pid; /* the daemon, 0: none */
	int said;  /* its stderr, -1 none */
	unsigned timeout_ms;
};

static void nap(void)
{
	const struct timespec t = { .tv_nsec = STEP_MS * 1000000L };
	nanosleep(&t, NULL);
}

/* A directory, a checkpoint of one float in it, a mountpoint. */
static int make(struct trial *t, struct sf_error *err)
{
	static const char header[] =
		"{\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}   ";
	const char *tmp = getenv("TMPDIR");
	uint8_t text[8 + sizeof(header) - 1 + 4] = { 0 };

	if (snprintf(t->dir, sizeof(t->dir), "%s/shardfuse-doctor-XXXXXX",
	             tmp && *tmp ? tmp : "/tmp") >= (int)sizeof(t->dir))
		return sf_fail(err, -ENAMETOOLONG, "$TMPDIR");
	if (!mkdtemp(t->dir)) {
		int r = sf_fail_errno(err, "a directory like '%s'", t->dir);
		t->dir[0] = 0;
		return r;
	}
	snprintf(t->ckpt, sizeof(t->ckpt), "%s/ckpt", t->dir);
	snprintf(t->mnt, sizeof(t->mnt), "%s/mnt", t->dir);
	snprintf(t->file, sizeof(t->file), "%s/model.safetensors", t->ckpt);
	if (mkdir(t->ckpt, 0700) < 0 || mkdir(t->mnt, 0700) < 0)
		return sf_fail_errno(err, "'%s'", t->mnt);
	sf_put_le64(text, sizeof(header) - 1);
	memcpy(text + 8, header, sizeof(header) - 1);
	int fd = open(t->file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	bool done = fd >= 0 && write(fd, text, sizeof(text)) == (ssize_t)sizeof(text);
	int r = done ? 0 : sf_fail_errno(err, "'%s'", t->file);
	if (fd >= 0)
		close(fd);
	return r;
}

/* This program with these words; its stderr goes to @to. */
static pid_t start(const char *const *argv, int to, const sigset_t *mask)
{
	pid_t parent = getpid(), pid = fork();

	if (pid != 0)
		return pid;
	/* were we killed, it would go on for ever */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(1);
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	dup2(null, 0);
	dup2(null, 1);
	dup2(to >= 0 ? to : null, 2);
	sigprocmask(SIG_SETMASK, mask, NULL);
	unsetenv("SF_TRACE");
	execv("/proc/self/exe", (char *const *)(uintptr_t)argv);
	_exit(127);
}

/* 1 it has ended. */
static int ended(pid_t pid, int64_t until, int *ret_status)
{
	for (;;) {
		pid_t r = waitpid(pid, ret_status, WNOHANG);
		if (r == pid || (r < 0 && errno != EINTR))
			return 1;
		if (sf_now_ms() >= until)
			return 0;
		nap();
	}
}

static void read_one(const void *arg, int to)
{
	const struct trial *t = arg;
	char path[PATH_MAX + 64], byte;

	snprintf(path, sizeof(path), "%s/npy/x.npy", t->mnt);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, &byte, 1);
	if (n == 1)
		n = write(to, &byte, 1);
}

static bool answers(const struct trial *t)
{
	char byte;
	bool all;

	return sf_ask(read_one, t, SF_MIN((unsigned)ASK_MS, t->timeout_ms), &byte, 1, &all) == 1;
}

/* What the child said last: fusermount3's line, or ours without the program's name. */
static int what_it_said(const struct trial *t, struct sf_error *err)
{
	char text[SF_ERROR_MAX] = "", *line = text;
	size_t n = 0;
	ssize_t k;

	while (n < sizeof(text) - 1 && (k = read(t->said, text + n, sizeof(text) - 1 - n)) > 0)
		n += (size_t)k;
	while (n && text[n - 1] == '\n')
		n--;
	text[n] = 0;
	for (char *s = text; s; s = strchr(s, '\n')) {
		s += *s == '\n';
		/* fusermount3 knows more than we who called it */
		if (strncmp(line, "fusermount3: ", 13) != 0)
			line = s;
	}
	line[strcspn(line, "\n")] = 0;
	if (strncmp(line, "shardfuse: ", 11) == 0)
		line += 11;
	char *hint = strstr(line, " (shardfuse doctor "); /* that is us */
	if (hint)
		*hint = 0;
	return sf_fail(err, -EIO, "%s", *line ? line : "the daemon ended without a word");
}

static int mount_it(struct trial *t, const sigset_t *mask, struct sf_error *err)
{
	const char *argv[] = { "shardfuse", "mount", "-f", "-q", t->ckpt, t->mnt, NULL };
	int fd[2], status;
	int64_t until = sf_now_ms() + t->timeout_ms;

	if (pipe2(fd, O_CLOEXEC | O_NONBLOCK) < 0)
		return sf_fail_errno(err, "pipe");
	t->said = fd[0];
	pid_t pid = start(argv, fd[1], mask);
	close(fd[1]);
	if (pid < 0)
		return sf_fail_errno(err, "fork");
	t->pid = pid;
	while (sf_now_ms() < until) {
		if (ended(pid, 0, &status)) {
			t->pid = 0;
			return what_it_said(t, err);
		}
		if (answers(t))
			return 0;
		nap();
	}
	return sf_fail(err, -ETIMEDOUT, "a mount did not answer within %.1f s",
	               t->timeout_ms / 1e3);
}

/* The daemon unmounts when it is told to end; what is left then is taken away by us. */
static void clean(struct trial *t, const sigset_t *mask)
{
	const char *umount[] = { "shardfuse", "umount", "-z", t->mnt, NULL };
	int status;

	if (t->pid) {
		kill(t->pid, SIGTERM);
		if (!ended(t->pid, sf_now_ms() + SF_MIN((unsigned)END_MS, t->timeout_ms),
		           &status)) {
			kill(t->pid, SIGKILL);
			ended(t->pid, sf_now_ms() + END_MS, &status);
		}
	}
	if (t->said >= 0)
		close(t->said);
	if (!t->dir[0])
		return;
	/* a directory that is still a mountpoint cannot go */
	if (rmdir(t->mnt) < 0 && errno != ENOENT) {
		pid_t pid = start(umount, -1, mask);
		if (pid > 0 && !ended(pid, sf_now_ms() + END_MS, &status)) {
			kill(pid, SIGKILL);
			ended(pid, sf_now_ms() + END_MS, &status);
		}
		rmdir(t->mnt);
	}
	unlink(t->file);
	rmdir(t->ckpt);
	rmdir(t->dir);
}

int sf_doctor_mount(unsigned timeout_ms, struct sf_error *err)
{
	struct trial t = { .said = -1, .timeout_ms = timeout_ms };
	sigset_t ends, before;

	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGHUP);
	sigaddset(&ends, SIGPIPE);
	sigprocmask(SIG_BLOCK, &ends, &before);
	int r = make(&t, err);
	if (r >= 0)
		r = mount_it(&t, &before, err);
	clean(&t, &before);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return r;
}
