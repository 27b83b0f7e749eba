#include "config.h"
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include "fuse/control.h"
#include "fuse/fs_ops.h"
#include "fuse/kernel_init.h"
#include "fuse/steps.h"

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
	conn->want |= conn->capable &
	              (FUSE_CAP_ASYNC_READ | FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_READDIRPLUS |
	               FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_CACHE_SYMLINKS |
	               FUSE_CAP_EXPLICIT_INVAL_DATA | FUSE_CAP_NO_OPENDIR_SUPPORT |
	               FUSE_CAP_ASYNC_DIO | FUSE_CAP_IOCTL_DIR);
	/* 1 MiB requests: max_read follows max_write in libfuse, although nothing is ever written */
	conn->max_write = SF_FS_MAX_READ;
	conn->max_read = SF_FS_MAX_READ; /* as the mount option says: libfuse insists on both */
	conn->max_readahead = fs->readahead ? (unsigned)fs->readahead : SF_FS_MAX_READ;
	/* parked reads count as background requests in the kernel: the default of 12 would let a
	 * slow shard hold up the others */
	conn->max_background = 256;
	conn->congestion_threshold = 192;
	sf_kernel_init_offer(fs, conn);
}

/* A name in the root of a run, if it is that of a step: the step's own slot answers. */
static bool answer_step(struct sf_fs *fs, fuse_req_t req, struct sf_slot *run, sf_node node)
{
	struct sf_slot *slot;
	uint32_t step;
	int r;

	if (!sf_tree_step(node, &step))
		return false;
	r = sf_steps_slot(fs, run, step, &slot);
	if (r < 0) {
		fuse_reply_err(req, sf_fs_errno(r));
		return true;
	}
	sf_fs_answer_attr(fs, req, slot, SF_NODE_ROOT, true);
	sf_slot_unref(&fs->slots, slot);
	return true;
}

static void lookup(fuse_req_t req, const struct sf_call *call)
{
	struct sf_fs *fs = fs_of(req);
	sf_node dir, node;
	struct sf_slot *slot = sf_slot_of(&fs->slots, call->ino, &dir);
	int r;

	if (slot && sf_steps_wait(fs, req, slot, call))
		return;
	if (slot && dir == SF_NODE_ROOT)
		sf_steps_look(fs, slot);
	r = slot ? sf_tree_lookup(slot->s->tree, dir, call->name, strlen(call->name), &node)
	         : -ENOENT;
	if (slot && r == -ENOENT) {
		/* a name that is not there never will be, or in a run not at once: ino 0 lets the
		 * kernel remember that */
		struct fuse_entry_param none = { .entry_timeout = slot->timeout };
		fuse_reply_entry(req, &none);
	} else if (r < 0) {
		fuse_reply_err(req, sf_fs_errno(r));
	} else if (!answer_step(fs, req, slot, node)) {
		sf_fs_answer_attr(fs, req, slot, node, true);
	}
	sf_slot_unref(&fs->slots, slot);
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	lookup(req, &(struct sf_call){ .again = lookup, .ino = parent, .name = name });
}

static void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t nlookup)
{
	sf_slot_forget(&fs_of(req)->slots, ino, nlookup);
	fuse_reply_none(req);
}

static void op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
	for (size_t i = 0; i < count; i++)
		sf_slot_forget(&fs_of(req)->slots, forgets[i].ino, forgets[i].nlookup);
	fuse_reply_none(req);
}

static void getattr(fuse_req_t req, const struct sf_call *call)
{
	struct sf_fs *fs = fs_of(req);
	sf_node node;
	struct sf_slot *slot = sf_slot_of(&fs->slots, call->ino, &node);

	/* a step's own directory is its run's to describe: it need not be loaded */
	if (slot && node != SF_NODE_ROOT && sf_steps_wait(fs, req, slot, call))
		return;
	if (slot)
		sf_fs_answer_attr(fs, req, slot, node, false);
	else
		fuse_reply_err(req, ENOENT);
	sf_slot_unref(&fs->slots, slot);
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)fi;
	getattr(req, &(struct sf_call){ .again = getattr, .ino = ino });
}

static void do_readlink(fuse_req_t req, const struct sf_call *call)
{
	struct sf_fs *fs = fs_of(req);
	char target[4096];
	sf_node node;
	struct sf_slot *slot = sf_slot_of(&fs->slots, call->ino, &node);
	int r;

	if (slot && sf_steps_wait(fs, req, slot, call))
		return;
	r = slot ? sf_tree_readlink(slot->s->tree, node, target, sizeof(target) - 1) : -ENOENT;
	sf_slot_unref(&fs->slots, slot);
	if (r < 0) {
		fuse_reply_err(req, sf_fs_errno(r));
		return;
	}
	target[r] = 0;
	fuse_reply_readlink(req, target);
}

static void op_readlink(fuse_req_t req, fuse_ino_t ino)
{
	do_readlink(req, &(struct sf_call){ .again = do_readlink, .ino = ino });
}

static void op_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct sf_fs *fs = fs_of(req);
	uint64_t bytes, files;
	sf_node node;
	/* of a step that is not loaded the run's */
	struct sf_slot *at = sf_slot_of(&fs->slots, ino, &node), *slot = at;

	while (slot && !atomic_load(&slot->s))
		slot = slot->parent;
	if (!slot) {
		fuse_reply_err(req, ENOENT);
		return;
	}
	sf_tree_totals(slot->s->tree, &bytes, &files);
	sf_slot_unref(&fs->slots, at);
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

static void getxattr_of(fuse_req_t req, const struct sf_call *call)
{
	struct sf_fs *fs = fs_of(req);
	sf_node node;
	struct sf_slot *slot = sf_slot_of(&fs->slots, call->ino, &node);
	char *buf;
	int r;

	if (slot && sf_steps_wait(fs, req, slot, call))
		return;
	buf = malloc(XATTR_MAX);
	r = !slot ? -ENOENT
	    : buf ? sf_tree_getxattr(slot->s->tree, node, call->name, buf, XATTR_MAX)
	          : -ENOMEM;
	reply_xattr(req, r, buf, call->size);
	sf_slot_unref(&fs->slots, slot);
	free(buf);
}

static void op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	/* what ls asks of each name has nothing to do with us: no step is loaded for it */
	if (strncmp(name, "user.shardfuse.", 15) != 0)
		fuse_reply_err(req, ENODATA);
	else
		getxattr_of(req,
		            &(struct sf_call){
				    .again = getxattr_of, .ino = ino, .name = name, .size = size });
}

static void listxattr_of(fuse_req_t req, const struct sf_call *call)
{
	struct sf_fs *fs = fs_of(req);
	char buf[1024];
	sf_node node;
	struct sf_slot *slot = sf_slot_of(&fs->slots, call->ino, &node);
	int r;

	if (slot && node != SF_NODE_ROOT && sf_steps_wait(fs, req, slot, call))
		return;
	r = !slot             ? -ENOENT
	    : slot->s == NULL ? 0
	                      : sf_tree_listxattr(slot->s->tree, node, buf, sizeof(buf));
	reply_xattr(req, r, buf, call->size);
	sf_slot_unref(&fs->slots, slot);
}

static void op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	listxattr_of(req, &(struct sf_call){ .again = listxattr_of, .ino = ino, .size = size });
}

const struct fuse_lowlevel_ops sf_fs_ops = {
	.init = op_init,
	.lookup = op_lookup,
	.forget = op_forget,
	.forget_multi = op_forget_multi,
	.getattr = op_getattr,
	.readlink = op_readlink,
	.readdir = sf_fs_readdir,
	.readdirplus = sf_fs_readdirplus,
	.open = sf_fs_open,
	.read = sf_fs_read,
	.release = sf_fs_release,
	.statfs = op_statfs,
	.getxattr = op_getxattr,
	.listxattr = op_listxattr,
	.ioctl = sf_fs_ioctl,
};
