/* What libfuse's INIT reply leaves out: parallel directory operations on libfuse 3.14, passthrough
 * before 3.17, a timeout of requests. */
#ifndef SF_FUSE_KERNEL_INIT_H
#define SF_FUSE_KERNEL_INIT_H

#include <unistd.h>
#include "fuse/fs_ops.h"

/*
 * Puts our reader and writer between libfuse and the device, which add to the INIT reply what the
 * kernel offers and libfuse does not know, and note when INIT was answered (fs->ready_fd). Call
 * after fuse_session_mount. Without fuse_session_custom_io (libfuse < 3.14) kernel_init_none.c only
 * arranges for the note.
 */
int sf_kernel_init_hook(struct sf_fs *fs, struct fuse_session *se, struct sf_error *err);
/* What the kernel offered in its INIT request, and what we want of it. */
struct sf_kernel_offer {
	uint32_t flags, flags2;
	bool passthrough; /* we may: root */
	/* seconds until the kernel gives the mount up over a request; 0: never */
	unsigned timeout_s;
};
/* Adds what both sides can to libfuse's reply @out: @len bytes of struct fuse_init_out, shorter
 * from an old kernel. Is passthrough among it? */
bool sf_kernel_init_patch(const struct sf_kernel_offer *offer, uint8_t *out, size_t len);
/* Note that INIT was answered: called by the hook, or by the init operation where there is no hook.
 * Once. */
static inline void sf_kernel_init_done(struct sf_fs *fs)
{
	uint64_t one = 1;
	ssize_t n = write(fs->ready_fd, &one, sizeof(one));
	(void)n; /* an eventfd takes it */
}
/* From the init operation: remembers what the kernel offered. */
void sf_kernel_init_offer(struct sf_fs *fs, struct fuse_conn_info *conn);

/* shards/ by passthrough: a backing file's number for @fd, or 0 when the kernel refuses (not root,
 * other filesystem's depth). */
int32_t sf_passthrough_open(struct sf_fs *fs, int fd);
void sf_passthrough_close(struct sf_fs *fs, int32_t backing);
/* Answers an open request with that backing file. libfuse before 3.17 has no field for it, so the
 * reply is written here. */
void sf_passthrough_reply_open(struct sf_fs *fs, fuse_req_t req, uint64_t unique, uint64_t fh,
                               int32_t backing);
/* The request number of the request being handled by this thread. */
uint64_t sf_kernel_request_unique(void);
/* This thread goes on with a request that another received: its number is @unique. */
void sf_kernel_set_request_unique(uint64_t unique);

#endif
