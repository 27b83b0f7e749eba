/* What a rank brought to a save: its items, in the order they were added. */
#ifndef SF_SAVE_SAVE_ITEM_H
#define SF_SAVE_SAVE_ITEM_H

#include <stdbool.h>
#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/map.h"
#include "base/vec.h"
#include "parse/dtype.h"
#include "shardfuse_save.h"

struct sf_device;

enum sf_save_kind {
	SF_SAVE_TENSOR, /* a box of a tensor */
	SF_SAVE_OBJECT, /* a torch.save archive, made already */
};

#define SF_SAVE_KEY_MAX \
	65536 /* bytes of a key, and of a step of its path: what is read back has it too */
#define SF_SAVE_PATH_MAX 256 /* steps */

/* Where a tensor's bytes come from. */
struct sf_save_from {
	const void *at;
	const uint64_t *stride;      /* elements; NULL: dense */
	int device;                  /* enum shardfuse_device */
	const struct sf_device *own; /* of SHARDFUSE_CALLER */
	void *stream;
	int (*provide)(void *arg, uint64_t off, void *to, size_t len, struct shardfuse_error *err);
	void *provide_arg;
};

/* Strings and arrays live in the arena of the items. */
struct sf_save_item {
	enum sf_save_kind kind;
	bool requires_grad;
	uint8_t dtype; /* enum sf_dtype */
	uint8_t ndim;
	uint32_t key_len, npath; /* npath 0: one step, the key */
	const char *key;
	const struct shardfuse_save_step *path;
	const uint64_t *shape, *origin, *extent; /* elements, ndim each */
	uint64_t bytes;                          /* the dense box; of an object its archive */
	uint64_t stored;     /* bytes of the item in a shard, headers and all (save_item_bytes.h) */
	uint64_t hash;       /* of an object's archive: ranks that have one key have one hash */
	const void *archive; /* of an object */
	struct sf_save_from from; /* of a tensor */
};
SF_VEC(sf_save_item_vec, struct sf_save_item);

struct sf_save_file { /* shardfuse_save_add_file */
	const char *name;
	const void *at;
	size_t len;
};
SF_VEC(sf_save_file_vec, struct sf_save_file);

struct sf_save_items {
	struct sf_arena arena;
	struct sf_save_item_vec item;
	struct sf_save_file_vec file;
	bool in_lists;           /* an object's archive holds a list of it alone */
	struct sf_map boxes;     /* key and origin -> item: the same one twice is refused */
	struct sf_map names;     /* of files */
	struct sf_save_callers { /* staging hooks that were given so far */
		const struct shardfuse_staging *hooks;
		const struct sf_device *device;
	} callers[8];
	unsigned ncallers;
	struct sf_buf probe; /* of one call */
};
int sf_save_items_init(struct sf_save_items *s, struct sf_error *err);
void sf_save_items_release(struct sf_save_items *s);

/* Those of shardfuse_save.h: check, copy, append. */
int sf_save_items_tensor(struct sf_save_items *s, const struct shardfuse_save_tensor *t,
                         struct sf_error *err);
int sf_save_items_flat(struct sf_save_items *s, const struct shardfuse_save_tensor *t,
                       uint64_t start, uint64_t stop, struct sf_error *err);
int sf_save_items_object(struct sf_save_items *s, const struct shardfuse_save_object *o,
                         struct sf_error *err);
/* An object's archive, appended. */
int sf_save_archive(const struct shardfuse_save_object *o, bool in_list, struct sf_buf *ret,
                    struct sf_error *err);
int sf_save_items_file(struct sf_save_items *s, const char *name, const void *at, size_t len,
                       struct sf_error *err);

/* A name from outside as a message has it: escaped (sf_escape_text), its beginning where it is long. */
struct sf_save_shown {
	char at[208];
};
struct sf_save_shown sf_save_shown(const char *name, size_t len);

#endif
