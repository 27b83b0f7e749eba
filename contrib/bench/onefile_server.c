/*
 * The peer of the benchmarks: the least a FUSE server can do. One real file, pread into a buffer,
 * one reply.
 *
 *     onefile_server [-o fuse options] REALFILE MOUNTPOINT
 *
 * Shows it as MOUNTPOINT/file. Kernel settings are those of shardfuse: keep_cache, 1 MiB requests
 * and readahead, asynchronous reads, no splice (measured slower than pread and reply), infinite
 * timeouts; libfuse's default threads.
 */
#include "config.h"
/* 31: the loop of libfuse 3.10 (Ubuntu 22.04) and of every later one, each with its default
 * threads.
 */
#define FUSE_USE_VERSION 31
#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_INO 2
#define FOREVER 1e9
#define MAX_READ (1 << 20)

static int real_fd = -1;
static struct stat real_stat;
static __thread void *thread_buf; /* one request at a time per thread */

static void fill(fuse_ino_t ino, struct stat *st)
{
	*st = (struct stat){ .st_ino = ino, .st_mode = S_IFDIR | 0555, .st_nlink = 2 };
	if (ino == FILE_INO) {
		st->st_mode = S_IFREG | 0444;
		st->st_nlink = 1;
		st->st_size = real_stat.st_size;
		st->st_blocks = (real_stat.st_size + 511) / 512;
		st->st_mtim = real_stat.st_mtim;
	}
}

static void op_init(void *userdata, struct fuse_conn_info *conn)
{
	(void)userdata;
	conn->want &= ~(unsigned)(FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE |
	                          FUSE_CAP_SPLICE_MOVE | FUSE_CAP_AUTO_INVAL_DATA);
	conn->want |= conn->capable &
	              (FUSE_CAP_ASYNC_READ | FUSE_CAP_EXPLICIT_INVAL_DATA | FUSE_CAP_ASYNC_DIO);
	conn->max_read = MAX_READ;  /* must repeat the mount option */
	conn->max_write = MAX_READ; /* libfuse takes the buffers' size from it */
	conn->max_readahead = MAX_READ;
	conn->max_background = 256;
	conn->congestion_threshold = 192;
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param e = { .ino = FILE_INO,
		                      .attr_timeout = FOREVER,
		                      .entry_timeout = FOREVER };

	if (parent != FUSE_ROOT_ID || strcmp(name, "file") != 0) {
		fuse_reply_err(req, ENOENT);
		return;
	}
	fill(FILE_INO, &e.attr);
	fuse_reply_entry(req, &e);
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct stat st;

	(void)fi;
	fill(ino, &st);
	fuse_reply_attr(req, &st, FOREVER);
}

static void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
                       struct fuse_file_info *fi)
{
	char buf[256];
	struct stat st;
	size_t n = 0;

	(void)ino, (void)fi;
	if (off == 0) {
		fill(FILE_INO, &st);
		n = fuse_add_direntry(req, buf, sizeof(buf), "file", &st, 1);
	}
	fuse_reply_buf(req, buf, n < size ? n : 0);
}

static void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	if (ino != FILE_INO) {
		fuse_reply_err(req, EISDIR);
		return;
	}
	fi->keep_cache = 1;
	fuse_reply_open(req, fi);
}

static void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
                    struct fuse_file_info *fi)
{
	(void)ino, (void)fi;
	if (!thread_buf && posix_memalign(&thread_buf, 4096, MAX_READ) != 0)
		thread_buf = NULL;
	if (!thread_buf || size > MAX_READ) {
		fuse_reply_err(req, thread_buf ? EINVAL : ENOMEM);
		return;
	}
	ssize_t n = pread(real_fd, thread_buf, size, off);
	if (n < 0)
		fuse_reply_err(req, errno);
	else
		fuse_reply_buf(req, thread_buf, (size_t)n);
}

static const struct fuse_lowlevel_ops ops = {
	.init = op_init,
	.lookup = op_lookup,
	.getattr = op_getattr,
	.readdir = op_readdir,
	.open = op_open,
	.read = op_read,
};

/* Mounts, answers until unmounted. */
static int serve(struct fuse_args *args, const char *mountpoint, bool foreground)
{
	struct fuse_session *se = fuse_session_new(args, &ops, sizeof(ops), NULL);
	int r = 1;

	if (!se)
		return 1;
	if (fuse_set_signal_handlers(se) == 0) {
		if (fuse_session_mount(se, mountpoint) == 0) {
			fuse_daemonize(foreground);
			r = fuse_session_loop_mt(se, 0) != 0;
			fuse_session_unmount(se);
		}
		fuse_remove_signal_handlers(se);
	}
	fuse_session_destroy(se);
	return r;
}

int main(int argc, char **argv)
{
	struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
	bool foreground = false;
	int c;

	fuse_opt_add_arg(&args, argv[0]);
	fuse_opt_add_arg(&args,
	                 "-oro,nosuid,nodev,default_permissions,max_read=1048576,subtype=onefile");
	while ((c = getopt(argc, argv, "fo:")) != -1) {
		if (c == 'f')
			foreground = true;
		else if (c != 'o' || fuse_opt_add_arg(&args, "-o") != 0 ||
		         fuse_opt_add_arg(&args, optarg) != 0)
			return 2;
	}
	if (argc - optind != 2) {
		fprintf(stderr, "usage: %s [-f] [-o options] REALFILE MOUNTPOINT\n", argv[0]);
		return 2;
	}
	real_fd = open(argv[optind], O_RDONLY | O_CLOEXEC);
	if (real_fd < 0 || fstat(real_fd, &real_stat) != 0) {
		fprintf(stderr, "%s: %s\n", argv[optind], strerror(errno));
		return 1;
	}
	int r = serve(&args, argv[optind + 1], foreground);
	fuse_opt_free_args(&args);
	return r;
}
