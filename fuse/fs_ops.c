#include "config.h"
#include <string.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include "fuse/fs_ops.h"
#include "fuse/kernel_init.h"

static struct sf_fs *fs_of(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

static void op_init(void *userdata, struct fuse_conn_info *conn)
{
	struct sf_fs *fs = userdata;
	/*
	 * splice was measured 2 to 6 times slower than pread + reply. auto_inval_data drops the
	 * page cache on every mtime change it thinks it sees; nothing here changes.
	 */
	conn->want &= ~(unsigned)(FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE |
	                          FUSE_CAP_SPLICE_MOVE | FUSE_CAP_AUTO_INVAL_DATA);
	conn->want |= conn->capable & (FUSE_CAP_ASYNC_READ | FUSE_CAP_PARALLEL_DIROPS |
	                               FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO |
	                               FUSE_CAP_CACHE_SYMLINKS | FUSE_CAP_EXPLICIT_INVAL_DATA |
	                               FUSE_CAP_NO_OPENDIR_SUPPORT | FUSE_CAP_ASYNC_DIO);
	/* 1 MiB requests: max_read follows max_write in libfuse, although nothing is ever written
	 */
	conn->max_write = SF_FS_MAX_READ;
	conn->max_read = SF_FS_MAX_READ; /* as the mount option says: libfuse insists on both */
	conn->max_readahead = SF_FS_MAX_READ;
	/* parked reads count as background requests in the kernel: the default of 12 would let a
	 * slow shard hold up the others */
	conn->max_background = 256;
	conn->congestion_threshold = 192;
	sf_kernel_init_offer(fs, conn);
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct sf_fs *fs = fs_of(req);
	sf_node node;
	int r = sf_tree_lookup(fs->s->tree, parent, name, strlen(name), &node);

	if (r == -ENOENT) {
		/* a name that is not there never will be: ino 0 lets the kernel remember that */
		struct fuse_entry_param none = { .entry_timeout = fs->timeout };
		fuse_reply_entry(req, &none);
	} else if (r < 0) {
		fuse_reply_err(req, sf_fs_errno(r));
	} else {
		sf_fs_answer_attr(fs, req, node, true);
	}
}

/* Nodes are computed: there is nothing to forget. */
static void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t nlookup)
{
	(void)ino, (void)nlookup;
	fuse_reply_none(req);
}

static void op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
	(void)count, (void)forgets;
	fuse_reply_none(req);
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)fi;
	sf_fs_answer_attr(fs_of(req), req, ino, false);
}

static void op_readlink(fuse_req_t req, fuse_ino_t ino)
{
	char target[4096];
	int r = sf_tree_readlink(fs_of(req)->s->tree, ino, target, sizeof(target) - 1);

	if (r < 0) {
		fuse_reply_err(req, sf_fs_errno(r));
		return;
	}
	target[r] = 0;
	fuse_reply_readlink(req, target);
}

/* One readdir reply being filled. */
struct listing {
	fuse_req_t req;
	struct sf_fs *fs;
	char *buf;
	size_t size, used;
	uint64_t self; /* inode number of entries without a node: "." and ".." */
	bool plus;
};

static int list_entry(void *arg, const char *name, size_t len, sf_node node, enum sf_node_type type,
                      uint64_t next)
{
	struct listing *l = arg;
	char text[256];
	size_t need;

	if (len >= sizeof(text))
		return 0; /* names are cut to 255 bytes by the tree */
	memcpy(text, name, len);
	text[len] = 0;
	if (l->plus) {
		struct fuse_entry_param e = { 0 };
		struct sf_attr a = { .ino = l->self };
		if (node != 0 && sf_tree_attr(l->fs->s->tree, node, &a) >= 0) {
			sf_fs_fill_entry(l->fs, node, &a, &e);
		} else {
			/* ino 0: a name only; its size is asked for when somebody wants it */
			e.attr.st_mode = sf_fs_type_bits(type);
			e.attr.st_ino = a.ino;
		}
		need = fuse_add_direntry_plus(l->req, l->buf + l->used, l->size - l->used, text, &e,
		                              (off_t)next);
	} else {
		struct stat st = { .st_ino = node ? sf_tree_ino(l->fs->s->tree, node) : l->self,
			           .st_mode = sf_fs_type_bits(type) };
		need = fuse_add_direntry(l->req, l->buf + l->used, l->size - l->used, text, &st,
		                         (off_t)next);
	}
	if (need > l->size - l->used)
		return 1; /* full: the kernel comes back with this entry's cookie */
	l->used += need;
	return 0;
}

/* Cookies 1 and 2 stand behind "." and ".."; the tree's own are moved up by 2. */
static int list_shifted(void *arg, const char *name, size_t len, sf_node node,
                        enum sf_node_type type, uint64_t next)
{
	return list_entry(arg, name, len, node, type, next + 2);
}

static void list_dir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, bool plus)
{
	struct listing l = { .req = req, .fs = fs_of(req), .size = size, .plus = plus };
	int r = 0;

	l.buf = malloc(size);
	if (!l.buf) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	l.self = sf_tree_ino(l.fs->s->tree, ino);
	if (off < 1 && !r)
		r = list_entry(&l, ".", 1, 0, SF_NODE_DIR, 1);
	l.self = 1; /* the root's parent is another filesystem's, and nobody asks for others' */
	if (off < 2 && !r)
		r = list_entry(&l, "..", 2, 0, SF_NODE_DIR, 2);
	if (!r)
		r = sf_tree_readdir(l.fs->s->tree, ino, off > 2 ? (uint64_t)off - 2 : 0,
		                    list_shifted, &l);
	if (r < 0)
		fuse_reply_err(req, sf_fs_errno(r));
	else
		fuse_reply_buf(req, l.buf, l.used);
	free(l.buf);
}

static void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
                       struct fuse_file_info *fi)
{
	(void)fi;
	list_dir(req, ino, size, off, false);
}

static void op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
                           struct fuse_file_info *fi)
{
	(void)fi;
	list_dir(req, ino, size, off, true);
}

static struct sf_handle *handle_new(struct sf_fs *fs)
{
	struct sf_handle *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	pthread_mutex_lock(&fs->locked.m);
	h->next = fs->locked.handles;
	if (h->next)
		h->next->prev = h;
	fs->locked.handles = h;
	pthread_mutex_unlock(&fs->locked.m);
	return h;
}

void sf_fs_handle_free(struct sf_fs *fs, struct sf_handle *h)
{
	pthread_mutex_lock(&fs->locked.m);
	*(h->prev ? &h->prev->next : &fs->locked.handles) = h->next;
	if (h->next)
		h->next->prev = h->prev;
	pthread_mutex_unlock(&fs->locked.m);
	sf_vfile_unref(h->file);
	free(h->text);
	free(h);
}

void sf_fs_free_handles(struct sf_fs *fs)
{
	while (fs->locked.handles)
		sf_fs_handle_free(fs, fs->locked.handles);
}

/* .shardfuse/: text made at open, so that one reader sees one state. */
static int open_live(struct sf_fs *fs, fuse_ino_t ino, struct sf_handle *h)
{
	struct sf_error err = SF_ERROR_INIT;
	return sf_tree_live_text(fs->s->tree, ino, &fs->s->io->counters, &h->text, &h->text_len,
	                         &err);
}

/* shards/ as root: the kernel reads the stored file itself, and the request is answered. false: it
 * is to be answered as for an ordinary file. */
static bool open_passthrough(struct sf_fs *fs, fuse_req_t req, fuse_ino_t ino,
                             const struct sf_attr *a, struct sf_handle *h)
{
	uint64_t unique = sf_kernel_request_unique();
	int32_t backing = 0, fixed = 0;

	if (fs->passthrough && !sf_open_table_find(&fs->open, ino, &backing)) {
		struct sf_error err = SF_ERROR_INIT;
		const struct sf_file *f = &fs->s->ckpt->listing[a->listed];
		struct sf_store *store = fs->s->store;
		int fd = store->ops->fd ? store->ops->fd(store, f->name, &f->info, &err) : -ENOTSUP;
		if (fd >= 0) {
			backing = sf_passthrough_open(fs, fd);
			close(fd); /* the kernel holds its own reference */
		}
		int r = sf_open_table_enter(&fs->open, ino, backing, &fixed);
		if (r <= 0)
			sf_passthrough_close(
				fs,
				backing); /* lost a race against another first open, or no memory */
		if (r < 0)
			return false;
		backing = fixed;
	} else if (sf_open_table_enter(&fs->open, ino, 0, &backing) < 0) {
		return false;
	}
	if (backing <= 0)
		return false;
	sf_passthrough_reply_open(fs, req, unique, (uint64_t)(uintptr_t)h, backing);
	return true;
}

void sf_fs_finish_open(struct sf_fs *fs, fuse_req_t req, struct sf_handle *h,
                       struct fuse_file_info *fi, int r, const struct sf_error *err)
{
	if (r >= 0 && h->file)
		r = sf_vfile_size(h->file, &h->size);
	if (r < 0) {
		if (err->msg[0])
			sf_fs_log_failure(fs, "open", r, (uintptr_t)h->file, "open: %s", err->msg);
		fuse_reply_err(req, sf_fs_errno(r));
		sf_fs_handle_free(fs, h);
		return;
	}
	fi->fh = (uint64_t)(uintptr_t)h;
	if (fuse_reply_open(req, fi) == -ENOENT)
		sf_fs_handle_free(fs, h); /* the opener was interrupted: no release will come */
}

static void open_shard(struct sf_fs *fs, fuse_req_t req, fuse_ino_t ino, const struct sf_attr *a,
                       struct sf_handle *h, struct fuse_file_info *fi)
{
	h->size = a->size;
	if (open_passthrough(fs, req, ino, a, h))
		return;
	fi->keep_cache = 1;
	fi->fh = (uint64_t)(uintptr_t)h;
	if (fuse_reply_open(req, fi) == -ENOENT) {
		sf_passthrough_close(fs, sf_open_table_leave(&fs->open, ino));
		sf_fs_handle_free(fs, h);
	}
}

static void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct sf_fs *fs = fs_of(req);
	struct sf_error err = SF_ERROR_INIT;
	struct sf_attr a;
	uint64_t size;
	int r;

	if ((fi->flags & O_ACCMODE) != O_RDONLY) {
		fuse_reply_err(req, EROFS);
		return;
	}
	struct sf_handle *h = handle_new(fs);
	if (!h) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	r = sf_tree_attr(fs->s->tree, ino, &a);
	if (r >= 0 && a.live) {
		r = open_live(fs, ino, h);
		fi->direct_io = 1;
	} else if (r >= 0 || r == -EAGAIN) {
		r = sf_tree_open(fs->s->tree, ino, &h->file, &err);
		fi->keep_cache = 1;
	}
	if (r >= 0 && h->file && a.listed != SF_NONE) {
		open_shard(fs, req, ino, &a, h, fi);
		return;
	}
	/* the kernel looked the file up before, so it was sized; it is not when its vfile has left
	 * the cache meanwhile */
	if (r >= 0 && h->file && sf_vfile_size(h->file, &size) == -EAGAIN)
		sf_fs_size_later(fs, req, ino, false, h, fi);
	else
		sf_fs_finish_open(fs, req, h, fi, r, &err);
}

static void op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct sf_fs *fs = fs_of(req);
	struct sf_handle *h = (struct sf_handle *)(uintptr_t)fi->fh;

	if (sf_tree_is_listed(ino))
		sf_passthrough_close(fs, sf_open_table_leave(&fs->open, ino));
	sf_fs_handle_free(fs, h);
	fuse_reply_err(req, 0);
}

static void op_statfs(fuse_req_t req, fuse_ino_t ino)
{
	uint64_t bytes, files;
	(void)ino;

	sf_tree_totals(fs_of(req)->s->tree, &bytes, &files);
	struct statvfs sv = {
		.f_bsize = 1 << 20, /* what a read should ask for */
		.f_frsize = 512,
		.f_blocks = (fsblkcnt_t)((bytes + 511) / 512),
		.f_files = (fsfilcnt_t)files,
		.f_namemax = 255,
		.f_flag = ST_RDONLY,
	};
	fuse_reply_statfs(req, &sv);
}

static void reply_xattr(fuse_req_t req, int len, const char *buf, size_t size)
{
	if (len < 0)
		fuse_reply_err(req, -len);
	else if (size == 0)
		fuse_reply_xattr(req, (size_t)len);
	else if ((size_t)len > size)
		fuse_reply_err(req, ERANGE);
	else
		fuse_reply_buf(req, buf, (size_t)len);
}

#define XATTR_MAX 65536 /* bytes, the kernel's own limit of a value */

static void op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	char *buf = malloc(XATTR_MAX);
	if (!buf) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	reply_xattr(req, sf_tree_getxattr(fs_of(req)->s->tree, ino, name, buf, XATTR_MAX), buf,
	            size);
	free(buf);
}

static void op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	char buf[1024];
	reply_xattr(req, sf_tree_listxattr(fs_of(req)->s->tree, ino, buf, sizeof(buf)), buf, size);
}

const struct fuse_lowlevel_ops sf_fs_ops = {
	.init = op_init,
	.lookup = op_lookup,
	.forget = op_forget,
	.forget_multi = op_forget_multi,
	.getattr = op_getattr,
	.readlink = op_readlink,
	.readdir = op_readdir,
	.readdirplus = op_readdirplus,
	.open = op_open,
	.read = sf_fs_read,
	.release = op_release,
	.statfs = op_statfs,
	.getxattr = op_getxattr,
	.listxattr = op_listxattr,
};
