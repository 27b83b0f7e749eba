#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "format/inside/inside_priv.h"
#include "parse/tar.h"
#include "store/fetch_many.h"

#define FILES_AT_ONCE 256
#define HEAD SF_TAR_BLOCK             /* bytes that tell what a file is */
#define FAR_HEAD (UINT64_C(64) << 10) /* what comes for the price of a round trip */

/* Those that are tars, whose members are looked for together. */
struct tars {
	struct sf_source **src; /* references */
	uint32_t *from;
	size_t n;
};

static int keep_from(struct inside_build *b, const struct sf_source *src, const char *name,
                     uint32_t *ret)
{
	struct inside_from f = { .info = { .size = src->size, .version = src->version } };
	const char *etag = src->version.etag;

	f.info.name = sf_arena_strdup(&b->arena, name, strlen(name));
	if (etag)
		f.info.version.etag = sf_arena_strdup(&b->arena, etag, strlen(etag));
	if (!f.info.name || (etag && !f.info.version.etag) || inside_froms_push(&b->from, f) < 0)
		return inside_no_memory(b);
	*ret = (uint32_t)b->from.n - 1;
	return 0;
}

static int read_head(struct sf_source *src, uint8_t head[HEAD], size_t *ret, struct sf_error *err)
{
	*ret = (size_t)SF_MIN(src->size, (uint64_t)HEAD);
	return sf_source_read(src, 0, head, *ret, SF_FETCH_METADATA, err);
}

/* *src becomes what is inside. */
static int unpack(struct inside_build *b, struct sf_source **src, uint32_t from, const char **name,
                  uint8_t head[HEAD], size_t *len)
{
	struct sf_source *inside = NULL;
	enum sf_packing packing = sf_packing_of(head, *len);
	int r;

	*name = inside_unpacked_name(*name, &b->arena);
	r = *name ? inside_unpack(b->inner, *src, packing, b->opt, *name, &inside, b->err)
	          : inside_no_memory(b);
	if (r < 0)
		return r;
	b->from.at[from].held = inside;
	sf_source_unref(*src);
	*src = sf_source_ref(inside);
	r = read_head(inside, head, len, b->err);
	if (r >= 0 && sf_packing_of(head, *len) != SF_PACKING_NONE)
		r = sf_fail(b->err, -ENOTSUP, "'%s' is packed twice: %s inside %s",
		            b->from.at[from].info.name, sf_packing_name(sf_packing_of(head, *len)),
		            sf_packing_name(packing));
	return r;
}

/* By its first header, a damaged one too. A name says it where nothing else does: torch.save writes
 * files called x.pth.tar that are none. */
static bool is_tar(const char *name, const uint8_t *head, size_t len)
{
	if (sf_tar_begins(head, len) || (len >= 263 && memcmp(head + 257, "ustar", 5) == 0))
		return true;
	return sf_has_suffix(name, ".tar") && len && head[0] != 'P' && head[0] != 0x80;
}

/* A file that is open: what is it? Its reference goes to @t, or goes. */
static int add_file(struct inside_build *b, struct sf_source *src, const char *name, struct tars *t)
{
	uint8_t head[HEAD];
	uint32_t from = 0;
	size_t len = 0;
	int r = keep_from(b, src, name, &from);

	if (r >= 0)
		r = read_head(src, head, &len, b->err);
	if (r >= 0 && sf_packing_of(head, len) != SF_PACKING_NONE)
		r = unpack(b, &src, from, &name, head, &len);
	if (r >= 0 && is_tar(name, head, len)) {
		t->from[t->n] = from;
		t->src[t->n++] = src;
		return 0;
	}
	if (r >= 0)
		r = sf_has_suffix(name, ".zip") && len > 4 && memcmp(head, "PK", 2) == 0
		            ? inside_add_zip(b, src, from)
		            : 1;
	if (r > 0)
		r = inside_add(b, name, from, 0, src->size);
	sf_source_unref(src);
	return r;
}

/* Opened side by side, looked at one after the other. */
static int add_some(struct inside_build *b, const struct sf_objinfo *files, size_t n,
                    struct tars *t)
{
	SF_FREE struct sf_fetch_one *one = calloc(n, sizeof(*one));
	int r = one ? 0 : inside_no_memory(b);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		one[i].name = files[i].name;
		one[i].want = files[i].size == UINT64_MAX ? NULL : &files[i];
		one[i].len = b->inner->far ? FAR_HEAD : HEAD;
	}
	sf_fetch_many(b->inner, one, n, SF_FETCH_METADATA);
	for (size_t i = 0; i < n && r >= 0; i++) {
		if (one[i].r < 0)
			r = sf_fail(b->err, one[i].r, "%s", one[i].err.msg);
		else
			r = add_file(b, SF_STEAL(one[i].src), files[i].name, t);
	}
	sf_fetch_many_release(one, n);
	return r < 0 ? r : inside_add_tars(b, t->src, t->from, t->n);
}

int inside_add_files(struct inside_build *b, const struct sf_objinfo *files, size_t n)
{
	struct sf_source *src[FILES_AT_ONCE];
	uint32_t from[FILES_AT_ONCE];
	int r = 0;

	for (size_t i = 0; i < n && r >= 0; i += FILES_AT_ONCE) {
		struct tars t = { .src = src, .from = from };
		r = add_some(b, files + i, SF_MIN(n - i, (size_t)FILES_AT_ONCE), &t);
		for (size_t k = 0; k < t.n; k++)
			sf_source_unref(src[k]);
	}
	return r;
}
