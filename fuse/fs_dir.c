#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "fuse/steps.h"

/* One readdir reply being filled. */
struct listing {
	fuse_req_t req;
	struct sf_fs *fs;
	struct sf_slot *slot;
	uint64_t looked_up; /* entries with a node: the kernel learns of them */
	char *buf;
	size_t size, used;
	uint64_t self; /* inode number of entries without a node: "." and ".." */
	bool plus;
};

static int list_entry(void *arg, const char *name, size_t len, sf_node node, enum sf_node_type type,
                      uint64_t next)
{
	struct listing *l = arg;
	bool looked_up = false;
	char text[256];
	uint32_t step;
	size_t need;

	if (len >= sizeof(text))
		return 0; /* names are cut to 255 bytes by the tree */
	memcpy(text, name, len);
	text[len] = 0;
	if (l->plus) {
		struct fuse_entry_param e = { 0 };
		struct sf_attr a = { .ino = l->self };
		if (node != 0 && sf_tree_step(node, &step)) {
			e.attr.st_mode = S_IFDIR; /* it gets a slot when it is looked up */
			e.attr.st_ino = sf_tree_ino(l->slot->s->tree, node);
		} else if (node != 0 && sf_tree_attr(l->slot->s->tree, node, &a) >= 0) {
			sf_fs_fill_entry(l->fs, l->slot, node, &a, &e);
			looked_up = true;
		} else {
			/* ino 0: a name only; its size is asked for when somebody wants it */
			e.attr.st_mode = sf_fs_type_bits(type);
			e.attr.st_ino = a.ino;
		}
		need = fuse_add_direntry_plus(l->req, l->buf + l->used, l->size - l->used, text, &e,
		                              (off_t)next);
	} else {
		struct stat st = { .st_ino = node ? sf_tree_ino(l->slot->s->tree, node) : l->self,
			           .st_mode = sf_fs_type_bits(type) };
		need = fuse_add_direntry(l->req, l->buf + l->used, l->size - l->used, text, &st,
		                         (off_t)next);
	}
	if (need > l->size - l->used)
		return 1; /* full: the kernel comes back with this entry's cookie */
	l->used += need;
	l->looked_up += looked_up;
	return 0;
}

/* Cookies 1 and 2 stand behind "." and ".."; the tree's own are moved up by 2. */
static int list_shifted(void *arg, const char *name, size_t len, sf_node node,
                        enum sf_node_type type, uint64_t next)
{
	return list_entry(arg, name, len, node, type, next + 2);
}

static int fill(struct listing *l, sf_node node, off_t off)
{
	int r = 0;

	l->self = sf_tree_ino(l->slot->s->tree, node);
	if (off < 1)
		r = list_entry(l, ".", 1, 0, SF_NODE_DIR, 1);
	l->self = 1; /* the root's parent is another filesystem's, and nobody asks for others' */
	if (off < 2 && !r)
		r = list_entry(l, "..", 2, 0, SF_NODE_DIR, 2);
	return r ? r
	         : sf_tree_readdir(l->slot->s->tree, node, off > 2 ? (uint64_t)off - 2 : 0,
	                           list_shifted, l);
}

static void list_dir(fuse_req_t req, const struct sf_call *call, bool plus)
{
	struct sf_fs *fs = fuse_req_userdata(req);
	struct listing l = { .req = req, .fs = fs, .size = call->size, .plus = plus };
	sf_node node;
	int r;

	l.slot = sf_slot_of(&fs->slots, call->ino, &node);
	if (l.slot && sf_steps_wait(fs, req, l.slot, call))
		return;
	if (l.slot && node == SF_NODE_ROOT && call->off == 0)
		sf_steps_look(fs, l.slot);
	l.buf = l.slot ? malloc(l.size) : NULL;
	r = !l.slot ? -ENOENT : !l.buf ? -ENOMEM : fill(&l, node, call->off);
	if (r < 0) {
		fuse_reply_err(req, sf_fs_errno(r));
	} else {
		/* before the reply, behind which the kernel may forget them again */
		sf_slot_looked_up(&fs->slots, l.slot, l.looked_up);
		if (fuse_reply_buf(req, l.buf, l.used) < 0)
			sf_slot_forget(&fs->slots, sf_slot_ino(l.slot, 0), l.looked_up);
	}
	sf_slot_unref(&fs->slots, l.slot);
	free(l.buf);
}

static void list_names(fuse_req_t req, const struct sf_call *call)
{
	list_dir(req, call, false);
}

static void list_plus(fuse_req_t req, const struct sf_call *call)
{
	list_dir(req, call, true);
}

void sf_fs_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
                   struct fuse_file_info *fi)
{
	(void)fi;
	list_names(req,
	           &(struct sf_call){ .again = list_names, .ino = ino, .size = size, .off = off });
}

void sf_fs_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
                       struct fuse_file_info *fi)
{
	(void)fi;
	list_plus(req,
	          &(struct sf_call){ .again = list_plus, .ino = ino, .size = size, .off = off });
}
