/* A directory for a cache, and objects far away to be kept in it. */
#ifndef SF_TESTS_LIB_CACHE_WORLD_H
#define SF_TESTS_LIB_CACHE_WORLD_H

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "store/cache.h"
#include "store/cache_map.h"
#include "tests/lib/sf_test.h"
#include "tests/lib/store_far.h"

#define CW_BYTES ((size_t)40 * SF_CACHE_BLOCK + 1234)

struct cache_world {
	char dir[64];
	struct sf_io io;
	struct sf_far far;
	struct sf_mem_object object;
	uint8_t *bytes;
	struct sf_cache *cache;
	struct sf_store *store;
	char logged[4096]; /* what was said, a line each */
	struct sf_log log;
};

static inline void cw_log(void *arg, enum sf_log_level level, const char *line)
{
	struct cache_world *w = arg;
	size_t n = strlen(w->logged);

	if (level <= SF_LOG_WARN)
		snprintf(w->logged + n, sizeof(w->logged) - n, "%s\n", line);
}

static inline void cw_dir(struct cache_world *w)
{
	snprintf(w->dir, sizeof(w->dir), "/tmp/sf_cache_XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(w->dir));
}

/* The bytes that every process makes of the same seed. */
static inline void cw_bytes(struct cache_world *w)
{
	uint64_t state = 42;

	w->bytes = malloc(CW_BYTES);
	ck_assert_ptr_nonnull(w->bytes);
	for (size_t i = 0; i < CW_BYTES; i++)
		w->bytes[i] = (uint8_t)(i % 8 ? w->bytes[i - 1] * 31 + i : sf_test_rand(&state));
	w->object = (struct sf_mem_object){ "a/x", w->bytes, CW_BYTES };
}

/* A process's view of it. @etag NULL: "one". */
static inline void cw_begin_size(struct cache_world *w, const char *etag, uint64_t size)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_store *far;
	int r;

	if (!w->dir[0])
		cw_dir(w);
	if (!w->bytes)
		cw_bytes(w);
	ck_assert_int_eq(sf_io_init(&w->io, 4, NULL), 0);
	w->log = (struct sf_log){ cw_log, w, SF_LOG_DEBUG };
	w->io.log = &w->log;
	w->logged[0] = '\0';
	w->far = (struct sf_far){ .etag = etag ? etag : "one",
		                  .hints = { .range_max = 8 * SF_CACHE_BLOCK, .inflight = 8 } };
	ck_assert_int_eq(sf_store_far(&w->io, &w->object, 1, &w->far, &far, NULL), 0);
	r = sf_cache_new(&w->io, w->dir, size, &w->cache, &err);
	ck_assert_msg(r == 0, "%s", err.msg);
	ck_assert_int_eq(sf_store_cached(far, w->cache, &w->store, NULL), 0);
}

static inline void cw_begin(struct cache_world *w, const char *etag)
{
	cw_begin_size(w, etag, UINT64_C(1) << 30);
}

static inline void cw_end(struct cache_world *w)
{
	sf_store_free(w->store);
	sf_cache_unref(w->cache);
	sf_io_release(&w->io);
	w->store = NULL;
}

static inline void cw_remove(struct cache_world *w)
{
	char cmd[200];

	free(w->bytes);
	snprintf(cmd, sizeof(cmd), "rm -rf '%s'", w->dir);
	ck_assert_int_eq(system(cmd), 0);
	memset(w, 0, sizeof(*w)); /* the next one begins anew, in the same process too */
}

static inline struct sf_source *cw_open(struct cache_world *w)
{
	struct sf_source *src;

	ck_assert_int_eq(w->store->ops->open(w->store, "a/x", NULL, &src, NULL), 0);
	return src;
}

static inline int cw_read_err(struct cache_world *w, struct sf_source *src, uint64_t off,
                              uint64_t len, struct sf_error *err)
{
	uint8_t *got = malloc(len + 1);
	int r;

	ck_assert_ptr_nonnull(got);
	memset(got, 0xa5, len);
	r = sf_source_read(src, off, got, len, SF_FETCH_TENSOR, err);
	if (r == 0 && memcmp(got, w->bytes + off, len) != 0)
		r = 1000; /* wrong bytes */
	free(got);
	return r;
}

/* All that was fetched is on disk. */
static inline void cw_settle(struct cache_world *w)
{
	struct sf_cache_state state;

	while (sf_cache_state(w->cache, &state), state.behind)
		usleep(200);
}

static inline void cw_read(struct cache_world *w, struct sf_source *src, uint64_t off, uint64_t len)
{
	struct sf_error err = SF_ERROR_INIT;
	int r = cw_read_err(w, src, off, len, &err);

	ck_assert_msg(r == 0, "%llu bytes at %llu: %d %s", (unsigned long long)len,
	              (unsigned long long)off, r, err.msg);
	cw_settle(w);
}

/* The path of the only file in the cache that ends so. */
static inline const char *cw_file(struct cache_world *w, const char *suffix)
{
	static char path[2][400];
	static unsigned turn;
	DIR *d = opendir(w->dir);
	unsigned n = 0;

	turn = !turn;
	ck_assert_ptr_nonnull(d);
	for (struct dirent *e; (e = readdir(d));)
		if (strlen(e->d_name) == SF_CACHE_NAME + strlen(suffix) &&
		    strcmp(e->d_name + SF_CACHE_NAME, suffix) == 0) {
			snprintf(path[turn], sizeof(path[turn]), "%s/%s", w->dir, e->d_name);
			n++;
		}
	closedir(d);
	ck_assert_uint_eq(n, 1);
	return path[turn];
}

#endif
