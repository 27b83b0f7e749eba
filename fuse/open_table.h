/* Which inodes are open, and how: an inode's first open fixes its mode until nobody has it open. */
#ifndef SF_FUSE_OPEN_TABLE_H
#define SF_FUSE_OPEN_TABLE_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The kernel refuses an open whose mode (cached or passthrough) differs from that of an inode that
 * is open already (fs/fuse/iomode.c, Linux 6.9), and a passthrough inode must keep one backing
 * file. Only shards/ has a choice of modes, so only its inodes are entered here.
 */
struct sf_open_inode {
	uint64_t ino;
	uint32_t count;
	int32_t backing; /* passthrough: the kernel's number of the backing file; 0: cached */
};
struct sf_open_table {
	struct {
		pthread_mutex_t m;
		struct sf_open_inode *at; /* unordered; as many as shards are open, which the open
		                             file limit bounds */
		size_t n, cap;
	} locked;
};

void sf_open_table_init(struct sf_open_table *t);
void sf_open_table_release(struct sf_open_table *t);
/*
 * Counts an open of @ino. When it is open already *ret_backing is its mode; else @want_backing
 * becomes its mode (0 cached). Returns 1 if @want_backing was taken, 0 if another mode was fixed
 * before (the caller closes its own backing), -ENOMEM.
 */
int sf_open_table_enter(struct sf_open_table *t, uint64_t ino, int32_t want_backing,
                        int32_t *ret_backing);
/* 1 and *ret_backing when it is open, else 0 */
int sf_open_table_find(struct sf_open_table *t, uint64_t ino, int32_t *ret_backing);
/* Returns the backing number to close when this was the last open of a passthrough inode, else
 * 0. */
int32_t sf_open_table_leave(struct sf_open_table *t, uint64_t ino);

#endif
