#include "config.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "store/cache_file.h"
#include "store/store_file.h"

/* blocks: so few that the sum finds them in the processor's cache, and that the buffer is no mapping
 * of its own, whose pages would be made anew each time */
#define VERIFIED_AT_ONCE 1

/* The file's name with its suffix, in 80 bytes. */
static const char *file_name(char buf[80], const char *name, const char *suffix)
{
	snprintf(buf, 80, "%s%s", name, suffix);
	return buf;
}

void sf_cache_file_remove(int dir, const char *name)
{
	char buf[80];

	/* A map that is left finds its blocks gone by their sums; bytes that are left are no use. */
	(void)unlinkat(dir, file_name(buf, name, SF_CACHE_DATA), 0);
	(void)unlinkat(dir, file_name(buf, name, SF_CACHE_MAP), 0);
}

/* pread and pwrite of all, or as far as the file goes: how much. */
static ssize_t read_at(int fd, void *buf, size_t len, uint64_t off)
{
	size_t done = 0;
	ssize_t n;

	while (done < len) {
		n = pread(fd, (char *)buf + done, len - done, (off_t)(off + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

static int write_at(int fd, const void *buf, size_t len, uint64_t off)
{
	size_t done = 0;
	ssize_t n;

	while (done < len) {
		n = pwrite(fd, (const char *)buf + done, len - done, (off_t)(off + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -ENOSPC;
		done += (size_t)n;
	}
	return 0;
}

/* ---- opening ---- */

static int open_one(int dir, const char *name, bool *writable, struct stat *st)
{
	const int flags = O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
	int fd = *writable ? openat(dir, name, O_RDWR | O_CREAT | flags, 0600) : -1;

	if (fd < 0 && (!*writable || errno == EROFS || errno == EACCES)) {
		*writable = false;
		fd = openat(dir, name, O_RDONLY | flags);
	}
	if (fd < 0)
		return -errno;
	if (fstat(fd, st) != 0 || !S_ISREG(st->st_mode) || st->st_uid != geteuid()) {
		close(fd);
		return -EBADMSG; /* nothing of ours */
	}
	return fd;
}

static bool same(const struct sf_cache_id *a, const struct sf_cache_id *b)
{
	return a->size == b->size && strcmp(a->url, b->url) == 0 &&
	       strcmp(a->version, b->version) == 0;
}

/* 0: it is the map of @id, or is now; -ESTALE: it is something else. */
static int check_map(const struct sf_cache_file *f, const struct sf_cache_id *id)
{
	SF_FREE uint8_t *head = malloc(SF_CACHE_HEAD);
	struct sf_cache_id found;
	ssize_t n;
	int r;

	if (!head)
		return -ENOMEM;
	n = read_at(f->map, head, SF_CACHE_HEAD, 0);
	if (n < 0)
		return (int)n;
	if (n == SF_CACHE_HEAD)
		return sf_cache_head_get(head, &found) >= 0 && same(&found, id) ? 0 : -ESTALE;
	/* new, or whoever made it died then: it has no marks yet */
	if (!f->writable)
		return -ENOENT;
	r = sf_cache_head_put(id, head);
	return r < 0 ? r : write_at(f->map, head, SF_CACHE_HEAD, 0);
}

static int open_both(struct sf_cache_file *f, int dir, const struct sf_cache_id *id)
{
	struct stat st, map;
	char buf[80];
	int r;

	f->map = open_one(dir, file_name(buf, f->name, SF_CACHE_MAP), &f->writable, &st);
	r = f->map < 0 ? f->map : check_map(f, id);
	if (r < 0)
		return r;
	f->data = open_one(dir, file_name(buf, f->name, SF_CACHE_DATA), &f->writable, &st);
	if (f->data < 0)
		return f->data;
	/* all of it can be mapped: what is not there is a hole */
	if ((uint64_t)st.st_size == id->size)
		return 0;
	if (!f->writable)
		return -ENOENT;
	/* It was cut. Made longer again it would have holes where others, who have it open, know of
	 * bytes: they keep the short one. */
	if (st.st_size || (fstat(f->map, &map) == 0 && map.st_size > SF_CACHE_HEAD))
		return -ESTALE;
	return ftruncate(f->data, (off_t)id->size) == 0 ? 0 : -errno;
}

static void close_both(struct sf_cache_file *f)
{
	if (f->map >= 0)
		close(f->map);
	if (f->data >= 0)
		close(f->data);
	f->map = f->data = -1;
}

int sf_cache_file_open(struct sf_io *io, int dir, const struct sf_cache_id *id,
                       const char name[SF_CACHE_NAME + 1], struct sf_cache_file **ret,
                       struct sf_error *err)
{
	const struct sf_version none = { 0 };
	struct sf_cache_file *f = calloc(1, sizeof(*f));
	int r;

	if (!f)
		return sf_fail(err, -ENOMEM, "'%s': no memory", id->url);
	f->map = f->data = -1;
	f->writable = true;
	f->size = id->size;
	memcpy(f->name, name, sizeof(f->name));
	r = open_both(f, dir, id);
	if (r == -ESTALE && f->writable) {
		close_both(f);
		sf_cache_file_remove(dir, name);
		r = open_both(f, dir, id);
	}
	if (r < 0) {
		close_both(f);
		free(f);
		return sf_fail(err, r, "%s", strerror(-r));
	}
	r = sf_source_file(io, f->data, id->url, id->size, &none, &f->local, err);
	if (r < 0) {
		f->data = -1;
		close_both(f);
		free(f);
		return r;
	}
	*ret = f;
	return 0;
}

void sf_cache_file_free(struct sf_cache_file *f)
{
	if (!f)
		return;
	sf_source_unref(f->local);
	close(f->map);
	free(f);
}

/* ---- blocks ---- */

static uint64_t mark_at(uint64_t i)
{
	return SF_CACHE_HEAD + i * SF_CACHE_MARK;
}

static uint64_t len_of(const struct sf_cache_file *f, uint64_t i)
{
	return SF_MIN(SF_CACHE_BLOCK, f->size - i * SF_CACHE_BLOCK);
}

void sf_cache_file_verify(const struct sf_cache_file *f, uint64_t first, unsigned n, bool *there)
{
	SF_FREE uint8_t *marks = sf_alloc_array(n, SF_CACHE_MARK);
	SF_FREE uint8_t *at = NULL;
	ssize_t got;

	memset(there, 0, n * sizeof(*there));
	got = marks ? read_at(f->map, marks, n * (size_t)SF_CACHE_MARK, mark_at(first)) : 0;
	for (unsigned i = 0; i < n && got >= (ssize_t)(i + 1) * SF_CACHE_MARK; i++) {
		uint32_t sum;
		there[i] = sf_cache_mark_get(marks + i * SF_CACHE_MARK, &sum);
	}
	for (unsigned i = 0, k; i < n; i += k) {
		uint64_t bytes = 0, done = 0;
		for (k = 0; k < VERIFIED_AT_ONCE && i + k < n && there[i + k]; k++)
			bytes += len_of(f, first + i + k);
		if (!k) {
			k = 1;
			continue;
		}
		if (!at)
			at = malloc(VERIFIED_AT_ONCE * SF_CACHE_BLOCK);
		got = at ? read_at(f->data, at, bytes, (first + i) * SF_CACHE_BLOCK) : 0;
		for (unsigned j = i; j < i + k; j++) {
			uint64_t len = len_of(f, first + j);
			uint32_t sum;
			(void)sf_cache_mark_get(marks + j * SF_CACHE_MARK, &sum);
			there[j] = got >= (ssize_t)(done + len) &&
			           sf_cache_sum(f->name, first + j, at + done, len) == sum;
			done += len;
		}
	}
}

int sf_cache_file_store(const struct sf_cache_file *f, uint64_t first, const uint8_t *at,
                        uint64_t len)
{
	const unsigned n = (unsigned)sf_cache_nblocks(len);
	SF_FREE uint8_t *marks = sf_alloc_array(n, SF_CACHE_MARK);
	struct stat st;
	int r;

	if (!marks)
		return -ENOMEM;
	for (unsigned i = 0; i < n; i++)
		sf_cache_mark_put(sf_cache_sum(f->name, first + i, at + i * SF_CACHE_BLOCK,
		                               len_of(f, first + i)),
		                  marks + i * SF_CACHE_MARK);
	/* written to, a file that was cut would be long again, with holes */
	if (fstat(f->data, &st) != 0 || (uint64_t)st.st_size != f->size)
		return -ESTALE;
	r = write_at(f->data, at, len, first * SF_CACHE_BLOCK);
	return r < 0 ? r : write_at(f->map, marks, n * (size_t)SF_CACHE_MARK, mark_at(first));
}

bool sf_cache_file_touch(const struct sf_cache_file *f)
{
	struct stat data, map;

	if (fstat(f->data, &data) != 0 || fstat(f->map, &map) != 0 || !data.st_nlink ||
	    !map.st_nlink || (uint64_t)data.st_size != f->size)
		return false;
	if (f->writable)
		(void)futimens(f->map, NULL);
	return true;
}
