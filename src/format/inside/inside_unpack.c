#include "config.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "format/inside/inside_priv.h"
#include "store/cache.h"
#include "store/cache_made.h"
#include "store/cache_priv.h"
#include "store/source_wait.h"
#include "store/store_file.h"

#define PIECE \
	(UINT64_C(4) << 20) /* packed bytes that are asked for at once; two are on their way */
#define OUT ((size_t)1 << 20)

/* What is read while what came before is unpacked. */
struct reading {
	struct sf_source *src;
	struct sf_waiting *next;
	uint64_t next_len, asked;
};

static void ask(struct reading *r)
{
	r->next_len = SF_MIN(PIECE, r->src->size - r->asked);
	r->next = r->next_len ? sf_waiting_begin(r->src, r->asked, r->next_len, SF_FETCH_METADATA)
	                      : NULL;
	r->asked += r->next_len;
}

/* One piece, out of @u and into @m. */
static int unpack_piece(struct sf_unpacker *u, const uint8_t *in, size_t len, uint8_t *out,
                        struct sf_cache_made *m, struct sf_error *err)
{
	int r = 0;

	for (;;) {
		size_t n = 0;
		r = sf_unpacker_step(u, &in, &len, out, OUT, &n, err);
		if (r >= 0 && n)
			r = sf_cache_made_write(m, out, n, err);
		if (r < 0 || (!len && n < OUT))
			return r;
	}
}

static int unpack_all(struct sf_source *src, struct sf_unpacker *u, struct sf_cache_made *m,
                      struct sf_error *err)
{
	SF_FREE uint8_t *out = malloc(OUT);
	struct reading read = { .src = src };
	int r = out ? 0 : sf_fail(err, -ENOMEM, "no memory to unpack it");

	if (r >= 0)
		ask(&read);
	while (r >= 0 && read.next_len) {
		struct sf_waiting *now = read.next;
		const uint64_t len = read.next_len;
		read.next = NULL;
		if (!now) {
			r = sf_fail(err, -ENOMEM, "no memory to unpack it");
			break;
		}
		r = sf_waiting_end(now, src->io->timeout_ms, err);
		if (r >= 0)
			ask(&read);
		if (r >= 0)
			r = unpack_piece(u, sf_waiting_bytes(now), (size_t)len, out, m, err);
		sf_waiting_unref(now);
		if (r >= 0 && atomic_load(&src->io->stop))
			r = sf_fail(err, -ECANCELED, "the program ends");
	}
	if (read.next) {
		(void)sf_waiting_end(read.next, 1, NULL);
		sf_waiting_unref(read.next);
	}
	return r < 0 ? r : sf_unpacker_end(u, err);
}

static int make(struct sf_source *src, enum sf_packing packing, struct sf_cache_made *m,
                struct sf_error *err)
{
	struct sf_unpacker *u = NULL;
	int r = sf_unpacker_new(packing, &u, err);

	if (r < 0)
		return r;
	sf_log(src->io->log, SF_LOG_WARN,
	       "'%s' is packed (%s): its %" PRIu64
	       " bytes are unpacked into the cache directory '%s'%s",
	       src->name, sf_packing_name(packing), src->size, m->path,
	       m->named ? ", once" : ", for this time: its version does not tell it from another");
	r = unpack_all(src, u, m, err);
	sf_unpacker_free(u);
	return r < 0 ? r : sf_cache_made_end(m, err);
}

/* What tells it from all others, in words of the block cache; *ret_text: the version; both NULL: it
 * has none. */
static int identify(struct sf_store *store, const struct sf_source *src, char **ret_url,
                    char **ret_text, struct sf_error *err)
{
	SF_FREE char *words = sf_cache_words(store), *version = NULL;
	int r = words ? sf_cache_version(src->size, &src->version, time(NULL), &version) : -ENOMEM;

	*ret_url = *ret_text = NULL;
	if (r > 0 && asprintf(ret_url, "%s/%s", words, src->name) < 0) {
		*ret_url = NULL;
		r = -ENOMEM;
	}
	if (r > 0 && asprintf(ret_text, "%s unpacked", version) < 0) {
		free(*ret_url);
		*ret_url = *ret_text = NULL;
		r = -ENOMEM;
	}
	return r < 0 ? sf_fail(err, r, "no memory") : 0;
}

/* It is not written to any more: by nobody who gets this descriptor, either. */
static int read_only(int fd)
{
	char self[64];

	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	int r = open(self, O_RDONLY | O_CLOEXEC);
	return r >= 0 ? r : fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

int inside_unpack(struct sf_store *store, struct sf_source *src, enum sf_packing packing,
                  const struct sf_store_options *opt, const char *name, struct sf_source **ret,
                  struct sf_error *err)
{
	static const struct sf_version none = { 0 }; /* our own file: its bytes do not change */
	SF_FREE char *url = NULL, *version = NULL;
	struct sf_cache_made m;
	int fd, r = identify(store, src, &url, &version, err);

	if (r < 0)
		return r;
	const struct sf_cache_id id = { url, version, src->size };
	r = sf_cache_made_open(&m, opt, url ? &id : NULL, err);
	if (r == 0)
		r = make(src, packing, &m, err);
	if (r >= 0) {
		fd = read_only(m.fd);
		r = fd < 0 ? sf_fail_errno(err, "what is inside")
		           : sf_source_file(src->io, fd, name, m.bytes, &none, ret, err);
	}
	sf_cache_made_drop(&m);
	return r < 0 ? sf_fail_ctx(err, r, "'%s' (%s, %" PRIu64 " bytes)", src->name,
	                           sf_packing_name(packing), src->size)
	             : 0;
}

const char *inside_unpacked_name(const char *name, struct sf_arena *arena)
{
	static const struct {
		const char *end, *becomes;
	} ends[] = { { ".gz", "" },      { ".bz2", "" },      { ".bzip2", "" },
		     { ".xz", "" },      { ".lzma", "" },     { ".zst", "" },
		     { ".zstd", "" },    { ".lz4", "" },      { ".lzo", "" },
		     { ".tgz", ".tar" }, { ".tbz2", ".tar" }, { ".tbz", ".tar" },
		     { ".txz", ".tar" }, { ".tzst", ".tar" } };
	const size_t n = strlen(name);

	for (size_t i = 0; i < SF_ARRAY_LEN(ends); i++) {
		const size_t len = strlen(ends[i].end), more = strlen(ends[i].becomes);
		if (n <= len || !sf_has_suffix(name, ends[i].end) || name[n - len - 1] == '/')
			continue;
		char *to = sf_arena_alloc(arena, n - len + more + 1);
		if (to) {
			memcpy(to, name, n - len);
			memcpy(to + n - len, ends[i].becomes, more + 1);
		}
		return to;
	}
	return name;
}
