#include "config.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/vec.h"
#include "store/cache_file.h"
#include "store/cache_space.h"
#include "store/cache_sweep.h"

struct kept {
	char name[SF_CACHE_NAME + 1];
	uint64_t bytes;
	int64_t used_s;
};
SF_VEC(kept_files, struct kept);

/* One of ours? What else lies in the directory is not ours to remove. */
static bool is_ours(const char *name)
{
	return strspn(name, "0123456789abcdef") == SF_CACHE_NAME &&
	       (strcmp(name + SF_CACHE_NAME, SF_CACHE_DATA) == 0 ||
	        strcmp(name + SF_CACHE_NAME, SF_CACHE_MAP) == 0);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct kept *)a)->name, ((const struct kept *)b)->name);
}

static int by_use(const void *a, const void *b)
{
	const struct kept *x = a, *y = b;

	return (x->used_s > y->used_s) - (x->used_s < y->used_s);
}

static int list(DIR *d, struct kept_files *v)
{
	struct dirent *e;
	struct stat st;

	while (errno = 0, (e = readdir(d))) {
		struct kept k = { .bytes = 0 };
		if (!is_ours(e->d_name) ||
		    fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
			continue; /* or gone meanwhile */
		memcpy(k.name, e->d_name, SF_CACHE_NAME);
		k.bytes = (uint64_t)st.st_blocks * 512;
		k.used_s = st.st_mtim.tv_sec;
		if (kept_files_push(v, k) < 0)
			return -ENOMEM;
	}
	return -errno;
}

/* An object's files are one. */
static void join(struct kept_files *v)
{
	size_t n = 0;

	if (v->n)
		qsort(v->at, v->n, sizeof(*v->at), by_name);
	for (size_t i = 0; i < v->n; i++) {
		struct kept *k = &v->at[i];
		if (n && strcmp(v->at[n - 1].name, k->name) == 0) {
			v->at[n - 1].bytes += k->bytes;
			v->at[n - 1].used_s = SF_MAX(v->at[n - 1].used_s, k->used_s);
		} else {
			v->at[n++] = *k;
		}
	}
	v->n = n;
}

int sf_cache_sweep(int dir, struct sf_cache_sweep *s, struct sf_error *err)
{
	const int64_t now = time(NULL);
	struct kept_files v = { 0 };
	struct sf_cache_space space;
	uint64_t room = sf_cache_space(dir, &space) < 0 ? UINT64_MAX : space.free,
		 keep = UINT64_MAX;
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;

	if (!d) {
		r = sf_fail_errno(err, "cache directory");
		if (fd >= 0)
			close(fd);
		return r;
	}
	r = list(d, &v);
	closedir(d);
	if (r < 0) {
		kept_files_release(&v);
		return sf_fail(err, r, "cache directory: %s", strerror(-r));
	}
	join(&v);
	if (v.n)
		qsort(v.at, v.n, sizeof(*v.at), by_use);
	s->kept = s->freed = 0;
	s->objects = v.n;
	for (size_t i = 0; i < v.n; i++)
		s->kept += v.at[i].bytes;
	if (s->kept > s->limit)
		keep = s->limit - s->limit / 8;
	for (size_t i = 0; i < v.n && (s->kept > keep || room < s->floor); i++) {
		const struct kept *k = &v.at[i];
		/* a time to come is no time: the clock was wrong once */
		if (k->used_s > now - (int64_t)s->young_s && k->used_s <= now + 60)
			continue;
		sf_cache_file_remove(dir, k->name);
		s->kept -= k->bytes;
		s->objects--;
		s->freed += k->bytes;
		room = room > UINT64_MAX - k->bytes ? UINT64_MAX : room + k->bytes;
		if (s->removed)
			s->removed(s->arg, k->name);
	}
	s->full = room < s->floor;
	kept_files_release(&v);
	return 0;
}
