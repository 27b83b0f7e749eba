/* libfuse without fuse_session_custom_io: its INIT reply goes out as it is, and shards/ are served
 * like other files. */
#include "config.h"
#include "fuse/kernel_init.h"

int sf_kernel_init_hook(struct sf_fs *fs, struct fuse_session *se, struct sf_error *err)
{
	(void)err;
	fs->session_fd = fuse_session_fd(se);
	return 0;
}

void sf_kernel_init_offer(struct sf_fs *fs, struct fuse_conn_info *conn)
{
	(void)conn;
	/* libfuse answers INIT right behind the operation, in the same thread; requests queue in
	 * the kernel until then */
	sf_kernel_init_done(fs);
}

uint64_t sf_kernel_request_unique(void)
{
	return 0;
}

void sf_kernel_set_request_unique(uint64_t unique)
{
	(void)unique;
}

int32_t sf_passthrough_open(struct sf_fs *fs, int fd)
{
	(void)fs, (void)fd;
	return 0;
}

void sf_passthrough_close(struct sf_fs *fs, int32_t backing)
{
	(void)fs, (void)backing;
}

void sf_passthrough_reply_open(struct sf_fs *fs, fuse_req_t req, uint64_t unique, uint64_t fh,
                               int32_t backing)
{
	(void)fs, (void)unique, (void)fh, (void)backing;
	fuse_reply_err(req, ENOSYS);
}
