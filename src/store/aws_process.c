#include "config.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/aws_chain.h"

#define WAIT_MS 60000u /* for a program: it may have to ask a server */
#define LOOK_MS 100    /* how often it is looked whether anybody still wants it */
#define SAYS_MAX 65536 /* bytes that it may print */

extern char **environ;

/* In a group of its own, so that what it starts ends with it. Its stderr is not shown: it may hold
 * what must not be shown. Signals as a new program expects them. */
static int start(const char *const *argv, int out, pid_t *ret)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t none, all;
	int e;

	sigemptyset(&none);
	sigfillset(&all);
	posix_spawn_file_actions_init(&files);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
	                                        POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setpgroup(&attr, 0);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &all);
	e = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
	if (!e)
		e = posix_spawn_file_actions_adddup2(&files, out, 1);
	if (!e)
		e = posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
	if (!e)
		e = posix_spawnp(ret, argv[0], &files, &attr, (char *const *)argv, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&files);
	return -e;
}

static int time_left(const struct sf_cloud_env *env, int64_t end)
{
	if (env->stop && *env->stop)
		return -ECANCELED;
	return sf_now_ms() >= end ? -ETIMEDOUT : 0;
}

/* All that it prints, until it closes its end: 0, of time_left(), -E2BIG, -ENOMEM, -errno. */
static int listen_to(const struct sf_cloud_env *env, int fd, int64_t end, struct sf_buf *to)
{
	for (;;) {
		struct pollfd p = { fd, POLLIN, 0 };
		char block[4096];
		ssize_t n;
		int r = time_left(env, end);

		if (r < 0)
			return r;
		if (poll(&p, 1, LOOK_MS) < 0 && errno != EINTR)
			return -errno;
		if (!p.revents)
			continue;
		n = read(fd, block, sizeof(block));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return sf_buf_check(to);
		sf_buf_add(to, block, (size_t)n);
		explicit_bzero(block, sizeof(block));
		if (sf_buf_check(to) < 0)
			return sf_buf_check(to);
	}
}

/* It may have closed its end and go on: 0, of time_left(). */
static int wait_for(const struct sf_cloud_env *env, pid_t pid, int64_t end, int *status)
{
	const struct timespec tick = { .tv_nsec = 5000000 };
	int r = 0;

	while (waitpid(pid, status, WNOHANG) != pid && (r = time_left(env, end)) == 0)
		nanosleep(&tick, NULL);
	return r;
}

int sf_aws_process(const struct sf_cloud_env *env, const char *const *argv,
                   struct sf_aws_credentials *ret, struct sf_error *err)
{
	unsigned most_ms = env->program_ms ? env->program_ms : WAIT_MS;
	struct sf_buf says = { .limit = SAYS_MAX };
	int fd[2], status = 0, r;
	pid_t pid;

	if (env->end_ns)
		most_ms = (unsigned)SF_MIN((int64_t)most_ms,
		                           SF_MAX((env->end_ns - sf_now_ns()) / 1000000, 0));
	if (pipe2(fd, O_CLOEXEC) < 0)
		return sf_fail_errno(err, "pipe");
	r = start(argv, fd[1], &pid);
	close(fd[1]);
	if (r < 0) {
		close(fd[0]);
		return sf_fail(err, -EIO, "'%.100s' cannot be started: %s", argv[0], strerror(-r));
	}
	const int64_t end = sf_now_ms() + most_ms;
	r = listen_to(env, fd[0], end, &says);
	close(fd[0]);
	if (r >= 0)
		r = wait_for(env, pid, end, &status);
	if (r < 0) {
		kill(-pid, SIGKILL);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
	}
	if (r == -ETIMEDOUT)
		sf_fail(err, r, "the program did not end within %g s", most_ms / 1000.0);
	else if (r < 0)
		sf_fail(err, r, "the program's output (%d bytes at most): %s", SAYS_MAX,
		        strerror(-r));
	else if (WIFSIGNALED(status))
		r = sf_fail(err, -EIO, "the program was ended by signal %d", WTERMSIG(status));
	else if (WEXITSTATUS(status) != 0)
		r = sf_fail(err, -EIO,
		            "the program failed with exit status %d: run it by hand to see why",
		            WEXITSTATUS(status));
	else
		r = sf_aws_reply_json((const char *)says.at, says.len, true, ret, err);
	if (says.at)
		explicit_bzero(says.at, says.len);
	sf_buf_release(&says);
	return r;
}
