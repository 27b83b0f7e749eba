#include "config.h"
#include <errno.h>
#include <string.h>
#include "base/iov.h"
#include "read/read_window.h"
#include "tool/copy_out.h"

#define SLICE (UINT64_C(4) << 20) /* bytes of one read */

static int write_slice(void *arg, const struct sf_read *rd, struct sf_error *err)
{
	const int *fd = arg;
	int r = sf_writev_all(*fd, rd->iov, rd->niov);

	if (r == -EFAULT)
		return sf_fail(err, -ESTALE, "a shard was truncated while it was read");
	return r < 0 ? sf_fail(err, r, "write: %s", strerror(-r)) : 0;
}

int sf_copy_out(struct sf_session *s, struct sf_vfile *file, int fd, struct sf_error *err)
{
	return sf_copy_out_some(s, file, file->size, fd, err);
}

int sf_copy_out_some(struct sf_session *s, struct sf_vfile *file, uint64_t len, int fd,
                     struct sf_error *err)
{
	const struct sf_read all = { .emit = sf_vfile_emit, .arg = file, .len = len };

	return sf_read_slices(s->reader, &all, SLICE, write_slice, &fd, err);
}
