#include "config.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include "base/mem.h"
#include "fuse/kernel_init.h"

/*
 * The kernel's messages, by offset: distributions' headers are older than the kernels they run on.
 * Source: Linux include/uapi/linux/fuse.h, 6.9 (protocol 7.40), the timeout 6.14 (7.43).
 */
enum {
	IN_HEADER = 40,  /* struct fuse_in_header; opcode at 4, unique at 8 */
	OUT_HEADER = 16, /* struct fuse_out_header: u32 len, i32 error, u64 unique */
	OPCODE_INIT = 26,
	/* struct fuse_init_in behind its header: u32 major, minor, max_readahead, flags, flags2 */
	INIT_IN_FLAGS = IN_HEADER + 12,
	INIT_IN_FLAGS2 = IN_HEADER + 16,
	/* struct fuse_init_out: flags at 12, max_pages 28, map_alignment 30, flags2 32,
	   max_stack_depth 36, request_timeout 40 (u16, seconds) */
	INIT_OUT_LEN = 64,
	INIT_OUT_FLAGS = 12,
	INIT_OUT_FLAGS2 = 32,
	INIT_OUT_STACK_DEPTH = 36,
	INIT_OUT_REQUEST_TIMEOUT = 40,
};
#define INIT_PARALLEL_DIROPS (1u << 18)
#define INIT_EXT (1u << 30)              /* flags2 are there */
#define INIT2_PASSTHROUGH (1u << 5)      /* bit 37 of the 64 */
#define INIT2_REQUEST_TIMEOUT (1u << 10) /* bit 42 */
#define OPEN_PASSTHROUGH (1u << 7)

struct backing_map {
	int32_t fd;
	uint32_t flags;
	uint64_t padding;
};
#define DEV_IOC_BACKING_OPEN _IOW(229, 1, struct backing_map)
#define DEV_IOC_BACKING_CLOSE _IOW(229, 2, uint32_t)

/* Of this mount's INIT request; written by the one thread that reads it, before any other request
 * exists. */
struct init_offer {
	uint64_t unique;
	uint32_t flags, flags2;
	bool pending;
};
static __thread struct init_offer offer;
static __thread uint64_t request_unique;

uint64_t sf_kernel_request_unique(void)
{
	return request_unique;
}

void sf_kernel_set_request_unique(uint64_t unique)
{
	request_unique = unique;
}

static ssize_t device_read(int fd, void *buf, size_t len, void *arg)
{
	ssize_t n = read(fd, buf, len);
	const uint8_t *b = buf;
	(void)arg;
	if (n < IN_HEADER)
		return n;
	request_unique = sf_le64(b + 8);
	if (sf_le32(b + 4) == OPCODE_INIT && n >= INIT_IN_FLAGS + 4) {
		offer = (struct init_offer){ .unique = request_unique,
			                     .flags = sf_le32(b + INIT_IN_FLAGS),
			                     .pending = true };
		if ((offer.flags & INIT_EXT) && n >= INIT_IN_FLAGS2 + 4)
			offer.flags2 = sf_le32(b + INIT_IN_FLAGS2);
	}
	return n;
}

bool sf_kernel_init_patch(const struct sf_kernel_offer *o, uint8_t *out, size_t len)
{
	uint32_t flags, flags2, more = 0;

	if (len < INIT_OUT_FLAGS + 4)
		return false;
	flags = sf_le32(out + INIT_OUT_FLAGS) | (o->flags & INIT_PARALLEL_DIROPS);
	if (len >= INIT_OUT_LEN && (o->flags & INIT_EXT)) {
		flags2 = sf_le32(out + INIT_OUT_FLAGS2);
		more = o->passthrough ? o->flags2 & INIT2_PASSTHROUGH : 0;
		if (o->timeout_s)
			more |= o->flags2 & INIT2_REQUEST_TIMEOUT;
		/* backing files may lie on a stacked filesystem of depth 0: everything but
		 * overlayfs on overlayfs */
		if (more & INIT2_PASSTHROUGH)
			sf_put_le32(out + INIT_OUT_STACK_DEPTH, 1);
		if (more & INIT2_REQUEST_TIMEOUT)
			sf_put_le16(out + INIT_OUT_REQUEST_TIMEOUT,
			            (uint16_t)SF_MIN(o->timeout_s, (unsigned)UINT16_MAX));
		if (more)
			flags |= INIT_EXT;
		sf_put_le32(out + INIT_OUT_FLAGS2, flags2 | more);
	}
	sf_put_le32(out + INIT_OUT_FLAGS, flags);
	return more & INIT2_PASSTHROUGH;
}

static ssize_t device_writev(int fd, struct iovec *iov, int count, void *arg)
{
	struct sf_fs *fs = arg;
	bool init = offer.pending && count >= 1 && iov[0].iov_len == OUT_HEADER &&
	            sf_le64((uint8_t *)iov[0].iov_base + 8) == offer.unique;

	if (atomic_load(&fs->closed)) {
		errno = ENODEV;
		return -1;
	}
	/* libfuse sends the header and fuse_init_out as two iovecs */
	if (init && count == 2) {
		const struct sf_kernel_offer o = { .flags = offer.flags,
			                           .flags2 = offer.flags2,
			                           .passthrough = geteuid() == 0,
			                           .timeout_s = fs->request_timeout_s };
		fs->passthrough = sf_kernel_init_patch(&o, iov[1].iov_base, iov[1].iov_len);
	}
	/* Not writev(): AddressSanitizer's looks at the vectors after the call, when the client has
	 * its answer and may have closed the file that they belong to. */
	ssize_t n = syscall(SYS_writev, fd, iov, (unsigned long)count);
	if (init) {
		offer.pending = false;
		sf_kernel_init_done(fs);
	}
	return n;
}

int sf_kernel_init_hook(struct sf_fs *fs, struct fuse_session *se, struct sf_error *err)
{
	static const struct fuse_custom_io io = { .read = device_read, .writev = device_writev };
	int r = fuse_session_custom_io(se, &io, fuse_session_fd(se));
	if (r != 0)
		return sf_fail(err, r, "cannot take over libfuse's device I/O");
	fs->session_fd = fuse_session_fd(se);
	return 0;
}

void sf_kernel_init_offer(struct sf_fs *fs, struct fuse_conn_info *conn)
{
	(void)fs, (void)conn; /* the hook sees the request itself */
}

int32_t sf_passthrough_open(struct sf_fs *fs, int fd)
{
	struct backing_map map = { .fd = fd };
	int r = fs->passthrough ? ioctl(fs->session_fd, DEV_IOC_BACKING_OPEN, &map) : 0;
	return r > 0 ? r : 0;
}

void sf_passthrough_close(struct sf_fs *fs, int32_t backing)
{
	uint32_t id = (uint32_t)backing;
	if (backing > 0)
		ioctl(fs->session_fd, DEV_IOC_BACKING_CLOSE, &id);
}

void sf_passthrough_reply_open(struct sf_fs *fs, fuse_req_t req, uint64_t unique, uint64_t fh,
                               int32_t backing)
{
	uint8_t out[OUT_HEADER + 16] = {
		0
	}; /* struct fuse_open_out: u64 fh, u32 open_flags, i32 backing_id */

	sf_put_le32(out, sizeof(out));
	sf_put_le64(out + 8, unique);
	sf_put_le64(out + OUT_HEADER, fh);
	sf_put_le32(out + OUT_HEADER + 8, OPEN_PASSTHROUGH);
	sf_put_le32(out + OUT_HEADER + 12, (uint32_t)backing);
	ssize_t n = write(fs->session_fd, out, sizeof(out));
	(void)n; /* fails only when the mount is being torn down; a killed opener is released like
	            others */
	fuse_reply_none(req);
}
