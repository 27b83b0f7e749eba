/* What the parts of src/format/inside share. */
#ifndef SF_FORMAT_INSIDE_INSIDE_PRIV_H
#define SF_FORMAT_INSIDE_INSIDE_PRIV_H

#include "base/map.h"
#include "base/vec.h"
#include "format/inside/inside.h"
#include "parse/unpack.h"
#include "store/objinfo.h"
#include "store/source.h"

/* A file that entries are of. Texts are the arena's. */
struct inside_from {
	struct sf_objinfo info; /* as it was opened, by its name in the store */
	struct sf_source *held; /* what was unpacked from it; NULL: it is read as it is */
};
SF_VEC(inside_froms, struct inside_from);

struct inside_entry {
	struct sf_objinfo info;
	uint32_t from;
	uint64_t off; /* of that */
};
SF_VEC(inside_entries, struct inside_entry);

/* On its way to be a store. */
struct inside_build {
	struct sf_store *inner; /* taken over by the store */
	const struct sf_store_options *opt;
	struct sf_arena arena;
	struct inside_froms from;
	struct inside_entries entry;
	struct sf_map by_name; /* of entries */
	struct sf_error *err;
};
void inside_build_release(struct inside_build *b);
int inside_no_memory(const struct inside_build *b);

/* An entry, unless one of its name is there: @size bytes at @off of @from. The name is copied. */
int inside_add(struct inside_build *b, const char *name, uint32_t from, uint64_t off,
               uint64_t size);
/* Files of b->inner, as they were listed, or of size UINT64_MAX: as they are; and what is inside. */
int inside_add_files(struct inside_build *b, const struct sf_objinfo *files, size_t n);
/* Members of tars: @src[i] is b->from[@from[i]], whatever that is read from. */
int inside_add_tars(struct inside_build *b, struct sf_source *const *src, const uint32_t *from,
                    size_t n);
/* Members of a zip, @src, that is b->from[@from]. 1: it is one of torch.save: no members. */
int inside_add_zip(struct inside_build *b, struct sf_source *src, uint32_t from);
/* The store; takes all that @b has. @shown: its name. */
int inside_store_new(struct inside_build *b, const char *shown, struct sf_store **ret);

/*
 * inside_unpack - what is inside @src, a packed file of @store, as a file of the cache's directory.
 * @name: what it is to be called.
 */
int inside_unpack(struct sf_store *store, struct sf_source *src, enum sf_packing packing,
                  const struct sf_store_options *opt, const char *name, struct sf_source **ret,
                  struct sf_error *err);
/* "x.pt" of "x.pt.gz", "x.tar" of "x.tgz"; other names as they are. */
const char *inside_unpacked_name(const char *name, struct sf_arena *arena);

/* Has it a place for a rank? Then where its last directory without one ends, in bytes. */
bool inside_is_template(const char *source, size_t *ret_dir);
/*
 * inside_match - the files in @store that @pattern stands for, in order of their ranks, into @ret;
 * texts are @arena's. -ENOENT: none, or one is missing between; the message says what was looked for.
 */
int inside_match(struct sf_store *store, const char *pattern, struct sf_arena *arena,
                 struct sf_objinfos *ret, struct sf_error *err);

#endif
