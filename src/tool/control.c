#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "tool/ask.h"
#include "tool/control.h"

struct question {
	const char *mountpoint;
	enum sf_control_op op;
};
struct answer {
	int32_t code; /* errno of asking */
	struct sf_control control;
};

static void ask(const void *arg, int to)
{
	const struct question *q = arg;
	struct answer a = { .control = { .version = SF_CONTROL_VERSION, .op = q->op } };
	int fd = open(q->mountpoint, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	size_t done = 0;

	if (fd < 0 || ioctl(fd, SF_CONTROL, &a.control) < 0)
		a.code = errno;
	while (done < sizeof(a)) {
		ssize_t n = write(to, (const char *)&a + done, sizeof(a) - done);
		if (n < 0 && errno != EINTR)
			break;
		done += (size_t)SF_MAX(n, 0);
	}
}

static int refused(const char *mountpoint, int code, struct sf_error *err)
{
	if (code == ENOTCONN || code == ECONNABORTED)
		return sf_fail(err, -ENOTCONN, "'%s': its daemon is dead (umount cleans it)",
		               mountpoint);
	if (code == EPERM || code == EACCES)
		return sf_fail(err, -code, "'%s': only root and who mounted it may ask for that",
		               mountpoint);
	if (code == ENOTTY || code == ENOSYS)
		return sf_fail(err, -ENOTTY,
		               "'%s': its daemon does not know the question: it is of another "
		               "version of shardfuse",
		               mountpoint);
	return sf_fail(err, -code, "'%s': %s", mountpoint, strerror(code));
}

int sf_control_ask(const char *mountpoint, enum sf_control_op op, unsigned timeout_ms,
                   struct sf_control *ret, struct sf_error *err)
{
	const struct question q = { mountpoint, op };
	struct sf_control *c;
	SF_FREE struct answer *a = calloc(1, sizeof(*a));
	ssize_t n;
	bool all;

	if (!a)
		return sf_fail(err, -ENOMEM, "'%s': no memory", mountpoint);
	n = sf_ask(ask, &q, timeout_ms, a, sizeof(*a), &all);
	if (n < 0)
		return sf_fail(err, (int)n, "'%s': %s", mountpoint, strerror((int)-n));
	if ((size_t)n < sizeof(*a))
		return sf_fail(err, -ETIMEDOUT, "'%s': its daemon does not answer", mountpoint);
	if (a->code)
		return refused(mountpoint, a->code, err);
	c = &a->control;
	/* whoever answers may be anybody: fuse.shardfuse is everyone's to say */
	c->dir[sizeof(c->dir) - 1] = c->why[sizeof(c->why) - 1] = '\0';
	if (c->version != SF_CONTROL_VERSION)
		return sf_fail(err, -EPROTO,
		               "'%s': its daemon speaks version %u of the control, this program %u",
		               mountpoint, c->version, SF_CONTROL_VERSION);
	if (c->r < 0)
		return sf_fail(err, c->r, "'%s': %s", mountpoint,
		               *c->why ? c->why : strerror(-c->r));
	*ret = *c;
	return 0;
}
