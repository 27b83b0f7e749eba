#include "config.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/mem.h"
#include "fuse/auto_unmount.h"
#include "fuse/mountpoint.h"

/* In the child. A byte says that all is well; the pipe's end without one that its writer is dead. */
__attribute__((noreturn)) static void watch(int fd, const char *mountpoint)
{
	char byte;
	ssize_t n;

	/* Nothing inherited may live as long as the mount: the byte the parent waits for, a lock, a
	 * terminal. Signals that end the daemon stay blocked here: it is what unmounts then. */
	dup2(fd, 0);
	close_range(1, ~0U, 0);
	for (int i = 1; i <= 2; i++)
		if (open("/dev/null", O_WRONLY) != i)
			break;
	setsid();
	if (chdir("/") < 0)
		_exit(1);
	prctl(PR_SET_NAME, "sf-auto-unmount"); /* killing by the program's name spares it */
	do
		n = read(0, &byte, 1);
	while (n < 0 && errno == EINTR);
	/* it may have been unmounted by hand, even mounted anew, a moment before */
	if (n == 0 && sf_mountpoint_is_ours(mountpoint) && sf_mountpoint_is_dead(mountpoint))
		sf_mountpoint_unmount(mountpoint, true, NULL);
	_exit(0);
}

int sf_auto_unmount_start(struct sf_auto_unmount *a, const char *mountpoint, struct sf_error *err)
{
	int fd[2];

	if (pipe2(fd, O_CLOEXEC) < 0)
		return sf_fail_errno(err, "auto_unmount");
	pid_t pid = fork();
	if (pid < 0) {
		int r = sf_fail_errno(err, "auto_unmount: cannot start a process");
		close(fd[0]);
		close(fd[1]);
		return r;
	}
	if (pid == 0)
		watch(fd[0], mountpoint);
	close(fd[0]);
	*a = (struct sf_auto_unmount){ .pid = pid, .fd = fd[1] };
	return 0;
}

void sf_auto_unmount_end(struct sf_auto_unmount *a)
{
	if (!a->pid)
		return;
	ssize_t n = write(a->fd, "", 1);
	(void)n; /* killed before us: SIGPIPE is blocked, nothing to clean */
	close(a->fd);
	while (waitpid(a->pid, NULL, 0) < 0 && errno == EINTR)
		;
	a->pid = 0;
}
