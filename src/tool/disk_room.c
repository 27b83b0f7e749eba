#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include "base/atomic_file.h"
#include "base/mem.h"
#include "tool/disk_room.h"

static int find(struct sf_disk_room *room, const char *path, size_t *ret, struct sf_error *err)
{
	SF_FREE char *dir = sf_dir_there(path);
	struct stat st;

	if (!dir)
		return sf_fail(err, -ENOMEM, "'%s'", path);
	if (stat(dir, &st) < 0)
		return sf_fail_errno(err, "'%s': directory '%s'", path, dir);
	for (*ret = 0; *ret < room->n; ++*ret)
		if (room->at[*ret].dev == st.st_dev)
			return 0;
	struct sf_disk_need *at = realloc(room->at, (room->n + 1) * sizeof(*at));
	if (!at)
		return sf_fail(err, -ENOMEM, "'%s'", path);
	room->at = at;
	at[room->n++] = (struct sf_disk_need){ .dev = st.st_dev, .dir = SF_STEAL(dir) };
	return 0;
}

int sf_disk_room_add(struct sf_disk_room *room, const char *path, uint64_t bytes,
                     struct sf_error *err)
{
	SF_FREE char *dir = sf_dir_of(path);

	if (!dir)
		return sf_fail(err, -ENOMEM, "'%s'", path);
	if (!room->last_dir || strcmp(dir, room->last_dir) != 0) {
		int r = find(room, path, &room->last, err);
		if (r < 0)
			return r;
		free(room->last_dir);
		room->last_dir = SF_STEAL(dir);
	}
	uint64_t *sum = &room->at[room->last].bytes;
	if (!sf_add(*sum, bytes, sum))
		*sum = UINT64_MAX;
	return 0;
}

int sf_disk_room_check(const struct sf_disk_room *room, struct sf_error *err)
{
	for (size_t i = 0; i < room->n; i++) {
		const struct sf_disk_need *need = &room->at[i];
		struct statvfs st;
		uint64_t have;
		if (statvfs(need->dir, &st) < 0)
			continue;
		/* such file systems have no bytes free, which is not the reason */
		if (st.f_flag & ST_RDONLY)
			return sf_fail(err, -EROFS, "'%s' is on a read-only file system",
			               need->dir);
		if (st.f_blocks == 0)
			continue;
		/* root may use what is kept back for it */
		if (!sf_mul(geteuid() == 0 ? st.f_bfree : st.f_bavail, st.f_frsize, &have) ||
		    need->bytes <= have)
			continue;
		return sf_fail(err, -ENOSPC,
		               "'%s' has %llu bytes free, the files take %llu: nothing was written",
		               need->dir, (unsigned long long)have,
		               (unsigned long long)need->bytes);
	}
	return 0;
}

void sf_disk_room_release(struct sf_disk_room *room)
{
	for (size_t i = 0; i < room->n; i++)
		free(room->at[i].dir);
	free(room->at);
	free(room->last_dir);
	*room = (struct sf_disk_room){ 0 };
}
