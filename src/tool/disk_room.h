/* Is there room on disk for what is about to be written? */
#ifndef SF_TOOL_DISK_ROOM_H
#define SF_TOOL_DISK_ROOM_H

#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

/* What one file system is asked for. */
struct sf_disk_need {
	uint64_t dev, bytes;
	char *dir; /* a directory on it */
};
struct sf_disk_room {
	struct sf_disk_need *at;
	size_t n;
	char *last_dir; /* of the last file, and its need: files of a directory come together */
	size_t last;
};

/*
 * Add a file that will be @path: @bytes, where UINT64_MAX means more than any file can have. What
 * it replaces gives its blocks back only later, so it does not count. -ENOMEM, or as stat().
 */
int sf_disk_room_add(struct sf_disk_room *room, const char *path, uint64_t bytes,
                     struct sf_error *err);
/* -ENOSPC with both numbers when a file system has less free than is asked for. One that does not
 * say how much it has (0 blocks) has room. */
int sf_disk_room_check(const struct sf_disk_room *room, struct sf_error *err);
void sf_disk_room_release(struct sf_disk_room *room);

#endif
