#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/mem.h"
#include "tool/ask.h"

/* Until its end, the deadline, or a full buffer. */
static size_t listen_to(int fd, int64_t until, uint8_t *buf, size_t size, bool *ret_all)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	size_t n = 0;

	while (n < size) {
		int64_t left = until - sf_now_ms();
		int ready = left > 0 ? poll(&p, 1, (int)SF_MIN(left, (int64_t)INT32_MAX)) : 0;
		if (ready < 0 && errno == EINTR)
			continue;
		if (ready <= 0)
			break;
		ssize_t k = read(fd, buf + n, size - n);
		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0) {
			*ret_all = k == 0;
			break;
		}
		n += (size_t)k;
	}
	return n;
}

ssize_t sf_ask(void (*answer)(const void *arg, int fd), const void *arg, unsigned timeout_ms,
               void *buf, size_t size, bool *ret_all)
{
	const int64_t until = sf_now_ms() + timeout_ms;
	int fd[2];

	*ret_all = false;
	if (pipe2(fd, O_CLOEXEC) < 0)
		return -errno;
	pid_t pid = fork();
	if (pid < 0) {
		int code = errno;
		close(fd[0]);
		close(fd[1]);
		return -code;
	}
	if (pid == 0) {
		close(fd[0]);
		answer(arg, fd[1]);
		_exit(0);
	}
	close(fd[1]);
	size_t n = listen_to(fd[0], until, buf, size, ret_all);
	close(fd[0]);
	if (!*ret_all)
		kill(pid, SIGKILL);
	/* one that hangs in the kernel cannot be waited for: it is init's when we end */
	while (waitpid(pid, NULL, *ret_all ? 0 : WNOHANG) < 0 && errno == EINTR)
		;
	return (ssize_t)n;
}
