#include "config.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>

#include "base/iov.h"
#include "base/mem.h"

enum { AT_ONCE = 1024 }; /* IOV_MAX of Linux */

void sf_iov_skip(struct iovec **iov, int *n, size_t len)
{
	for (; *n > 0 && len >= (*iov)->iov_len; (*iov)++, (*n)--)
		len -= (*iov)->iov_len;
	if (*n > 0) {
		(*iov)->iov_base = (char *)(*iov)->iov_base + len;
		(*iov)->iov_len -= len;
	}
}

/* May the call that failed with errno be made again? */
static bool again(int fd)
{
	if (errno == EAGAIN) {
		struct pollfd p = { .fd = fd, .events = POLLOUT };
		poll(&p, 1, -1);
		return true;
	}
	return errno == EINTR;
}

int sf_writev_all(int fd, struct iovec *iov, int n)
{
	while (n > 0) {
		ssize_t k = writev(fd, iov, SF_MIN(n, AT_ONCE));
		if (k >= 0)
			sf_iov_skip(&iov, &n, (size_t)k);
		else if (!again(fd))
			return -errno;
	}
	return 0;
}

int sf_pwritev_all(int fd, struct iovec *iov, int n, uint64_t off)
{
	while (n > 0) {
		ssize_t k = pwritev(fd, iov, SF_MIN(n, AT_ONCE), (off_t)off);
		if (k >= 0) {
			sf_iov_skip(&iov, &n, (size_t)k);
			off += (uint64_t)k;
		} else if (!again(fd)) {
			return -errno;
		}
	}
	return 0;
}
