/* A loaded checkpoint: what every format becomes and every view reads. Immutable, one arena, no
 * locks. */
#ifndef SF_CKPT_CKPT_H
#define SF_CKPT_CKPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/arena.h"
#include "parse/codec.h"
#include "parse/dtype.h"
#include "parse/torch_archive.h"
#include "parse/torch_item.h" /* SF_DIMS_MAX */
#include "parse/value_path.h"
#include "store/store.h" /* struct sf_objinfo */

#define SF_NONE UINT32_MAX /* "no such index" in the u32 fields below */

/* How a stored item wraps its payload. */
enum sf_item_form {
	/* off is the payload itself: row-major and contiguous, unless the tensor has a layout column
	 * that says otherwise */
	SF_ITEM_RAW,
	SF_ITEM_TORCH, /* a torch.save archive of one tensor, or of any object */
	/* off is the start of a safetensors blob that holds the tensor under its name (DCP
	 * SAFETENSORS mode) */
	SF_ITEM_ST_BLOB,
};

/*
 * A member: bytes that have a name in a stored file and are read where they lie (a tar's, a stored
 * zip's). A stream (codec is set): what compressed bytes of a stored file, or of a member of one,
 * have inside; it has no name. None lies in what another has inside.
 */
#define SF_CONTAINER_DEPTH 8 /* one inside the other */
struct sf_container {
	uint32_t file;   /* ckpt->file[] that it lies in */
	uint32_t parent; /* ckpt->container[], of which it is a part; SF_NONE: of the file */
	uint32_t depth;  /* 1: a part of the file */
	uint32_t stream; /* ckpt->container[]: the stream that off counts in; SF_NONE: the file */
	uint32_t name_len;
	uint8_t codec, streams; /* of a stream: as of a place; 0 of a member */
	const char *name;       /* in the parent, NUL behind */
	uint64_t off, len;      /* bytes from the start of the file, or of the stream's inside */
	uint64_t size;          /* bytes that it has inside: of a member len */
};

/*
 * A place: a container and how items lie in it. Several places may share a container: a stored file
 * as such, or a member of one. Which it is, what it is called and how it is opened: ckpt/place.h,
 * and nowhere else.
 */
struct sf_place {
	uint32_t container; /* ckpt->file[]; from nfiles on ckpt->container[container - nfiles] */
	uint8_t form;       /* enum sf_item_form */
	uint8_t codec;      /* of the whole item: enum sf_codec */
	uint8_t streams;    /* so many of that codec, one inside the other; 0 without */
	bool unreadable;    /* items there cannot be read: -ENOTSUP, sf_place_why() */
};
/* Why, in the format's words. */
struct sf_place_why {
	uint32_t place;
	const char *why;
};

/* One chunk, taken out of its tensor's columns. Units: elements; off and len are bytes in its
 * place's container. */
struct sf_chunk {
	uint64_t origin[SF_DIMS_MAX], extent[SF_DIMS_MAX]; /* the first ndim are set */
	/* which run of the box's row-major order the item holds: 0 and the volume, unless the
	 * tensor has parts (ZeRO partitions, Megatron's flattened ranges) */
	uint64_t part_off, part_len;
	/* ckpt->place[]; SF_NONE: metadata names no stored item for it */
	uint32_t place;
	uint64_t off, len; /* the item */
};

/* Where HOLE and OVERLAP are both set, the chunks may be too tangled to tell (hostile): readers
 * look. */
enum {
	SF_TENSOR_OVERLAP = 1, /* some element is in two chunks: the first in chunk order wins */
	SF_TENSOR_HOLE = 2,    /* some element is in none */
	SF_TENSOR_DAMAGED = 4, /* an item is missing or reaches past its file */
	/* the non-empty chunks are a full grid: order[] is its cells in row-major order */
	SF_TENSOR_GRID = 8,
};

/* How a raw item lies, where the format knows that it is not its dense box (a padded or transposed
 * one, a tensor's view of a storage). off is of the box's first element. */
struct sf_chunk_layout {
	const int64_t
		*stride; /* elements from one to the next, a dimension each; NULL: row-major */
	bool conj, neg;  /* to be undone */
};

/*
 * What part of another tensor one is. @stacked: that of number @index along the first dimension, which
 * it has not. Then of the first dimension that is left, in groups of @period, the @rows of each group
 * from @first on; rows 0: all of it.
 */
struct sf_tensor_pick {
	uint32_t source; /* ckpt->tensor[], which is no part itself */
	bool stacked;
	uint64_t index, first, rows, period;
};

/* What a format knows of how a tensor is stored beside its chunks; few have any of it. */
struct sf_tensor_more {
	const struct sf_chunk_layout *layout; /* a column; NULL: every raw item is its dense box */
	/* what a safetensors blob has it under, NUL behind; NULL: its key's name */
	const char *name;
	uint32_t name_len;
	/* a chunk without an item is full of this element; else such a chunk is damage */
	bool has_fill;
	uint8_t fill[16];
	/* its values are those of ckpt->tensor[source], cast: its chunks are that one's, and their
	 * items of stored_dtype */
	bool is_cast;
	uint8_t stored_dtype;
	uint32_t source;
	/* NULL: none; else the tensor is stored as blocks, so many along each dimension, each of them
	 * flattened: with one dimension more, which checkpoint.pt has, for dcp_to_torch_save has it */
	const uint64_t *grid;
	/* NULL: none; else it has no chunks of its own (ckpt_pick.h) */
	const struct sf_tensor_pick *pick;
};

struct sf_tensor {
	uint32_t key;  /* ckpt->key[] */
	uint8_t dtype; /* enum sf_dtype */
	uint8_t ndim;
	uint8_t wide;     /* coordinates are u64, else u32 */
	uint8_t flags;    /* SF_TENSOR_* */
	uint32_t nchunks; /* stored order, empty ones too */
	uint32_t norder;  /* non-empty ones */
	/* this tensor's first number in ckpt-wide chunk numbering: chunk i is chunk0 + i */
	uint64_t chunk0;
	const uint64_t *shape;
	uint64_t bytes; /* of the whole dense tensor */
	/* Columns; chunk i's coordinates start at i * ndim. */
	const void *origin, *extent;
	const uint32_t *place;
	const uint64_t *off, *len;
	/* pairs part_off, part_len; NULL: every item holds its whole box */
	const uint64_t *part;
	/* norder non-empty chunks by their first element (so by origin, lexicographically), then by
	 * number; behind them the empty ones, nchunks in all */
	const uint32_t *order;
	const uint32_t *grid_n; /* SF_TENSOR_GRID: cells along each dimension */
	/* not a grid: order[] as an interval tree (ckpt_order.h), NULL for grids */
	const uint64_t *hull_end;
	const struct sf_tensor_more *more; /* NULL: nothing of it */
};

/* What metadata calls a tensor and the item is an object for: an instance of a tensor subclass. */
struct sf_subclass {
	const char *name;    /* "torchao.optim.subclass_8bit.OptimState8bit" */
	uint8_t dtype, ndim; /* as metadata has them; dtype may be SF_DTYPE_NONE */
	const uint64_t *shape;
};

/* A value that was part of a larger pickle, which the format has read: a pickle of its own. */
struct sf_inline {
	const uint8_t *pickle; /* protocol 2 */
	uint64_t len;
	/* what its persistent ids name, sorted by key: bytes of the object's item */
	const struct sf_torch_record *storage;
	uint32_t nstorages;
};

/* What its items' elements are: its own dtype, unless it is another tensor's values, cast. */
static inline enum sf_dtype sf_tensor_stored(const struct sf_tensor *t)
{
	return (enum sf_dtype)(t->more && t->more->is_cast ? t->more->stored_dtype : t->dtype);
}

/* A non-tensor leaf: a pickled value. */
struct sf_object {
	uint32_t key;
	uint32_t place; /* SF_NONE: no stored item */
	uint64_t off, len;
	/* NULL: the item is the value. Else the item is what the value was read from, where the
	 * tensors inside it still are. */
	const struct sf_inline *inlined;
	/* the value is what the item's dict has under this str; NULL: all of the item */
	const char *member;
	uint32_t member_len;
	/* the value is a list of one, and what that holds is the object's: files of several keys have
	 * the list, as stored */
	bool in_list;
	const struct sf_subclass *subclass; /* NULL: metadata has it as an object */
};

/* Bytes of the value: what it costs to have it. */
static inline uint64_t sf_object_bytes(const struct sf_object *o)
{
	return o->inlined ? o->inlined->len : o->len;
}

/* elements of a path that .pt files nest: a longer one's key stands flat at the root */
#define SF_PATH_NESTED 64

/* A key: flat name of a tensor or an object. */
struct sf_key {
	const char *name; /* FQN as stored, NUL behind, may hold NULs */
	uint32_t len;
	uint32_t npath;
	/* planner path; one element (the name) when there is no planner data */
	const struct sf_path_elem *path;
	uint32_t group;  /* ckpt->group[] */
	uint32_t tensor; /* ckpt->tensor[] or SF_NONE */
	uint32_t object; /* ckpt->object[] or SF_NONE */
	bool picked;     /* parts of its tensor are keys, and it is shown as those alone */
};

enum sf_role { SF_ROLE_OTHER, SF_ROLE_MODEL, SF_ROLE_OPTIM, SF_NROLES };
extern const char *const sf_role_names[SF_NROLES]; /* "other", … */

/* Keys under one container: what GROUP.pt holds. */
struct sf_group {
	const char *name; /* "" is the unnamed group */
	uint32_t len;
	uint8_t role; /* enum sf_role */
	/* path elements that name it: 0 unnamed, 1, or 2 below one root container (app, state) */
	uint8_t strip;
	uint32_t ntensors, nobjects;
	uint64_t bytes; /* of its tensors */
};

struct sf_warning {
	uint32_t key; /* SF_NONE: of the whole checkpoint */
	/* "hole", "overlap", "missing-file", "truncated-file", "missing-item", … stable words for
	 * scripts */
	const char *code;
	const char *text;
	/* ckpt->file[] when the warning is of that file as such, not of a key in it; else
	 * SF_NONE */
	uint32_t file;
};

/* Words for people about something that is whole: "unread-files" beside the checkpoint, … Not a
 * defect. */
bool sf_warning_is_note(const char *code);

/* A stored file. names are relative to the source, checked (sf_path_check). */
struct sf_file {
	const char *name;
	uint32_t name_len;
	bool missing; /* named by metadata, not in the listing */
	/* missing because it is no regular file: a message, "'x' is a fifo, …"; else NULL */
	const char *odd;
	struct sf_objinfo info; /* size and version at load; .name is NULL */
};

struct sf_ckpt {
	struct sf_arena arena;
	const char *format; /* "dcp" */
	const char *writer; /* version of what wrote it as far as it can be told, or NULL */
	const char *source; /* as shown to people: no userinfo, no query */
	const char *content_metadata; /* JSON text or NULL */
	int64_t step;                 /* -1 unknown */
	uint32_t ranks;               /* writing ranks seen in file names, 0 unknown */
	int64_t mtime_ns;             /* commit time: of what the format writes last */
	const struct sf_key *key;     /* stored order: the order of dcp_to_torch_save's result */
	const struct sf_tensor *tensor;
	/* by tensor: the first of those that have one storage, itself when it has its own. They
	 * are alike but for their names. NULL: none share. sf_tensor_storage() */
	const uint32_t *tied;
	const struct sf_object *object;
	const struct sf_group *group;
	const struct sf_place *place;
	const struct sf_place_why *why; /* of unreadable places, ascending */
	const struct sf_container *container;
	const struct sf_file *file;
	const struct sf_warning *warning;
	/* keys from here on lie beside the checkpoint: in views of their own, not in
	 * checkpoint.* */
	uint32_t nmain;
	uint32_t nkeys, ntensors, nobjects, ngroups, nplaces, nwhys, ncontainers, nfiles, nwarnings;
	uint64_t nchunks;
	/* of the source and what identifies this version of it: st_ino, "same checkpoint?" */
	uint8_t version_hash[16];
	/* every file of the source as listed at load, for shards/: relative names, sorted by
	 * bytes */
	const struct sf_file *listing;
	uint32_t nlisting;
};

void sf_ckpt_free(struct sf_ckpt *ckpt); /* NULL is fine */
/* Tensors of one number here were one storage: tied weights. */
static inline uint32_t sf_tensor_storage(const struct sf_ckpt *ckpt, uint32_t tensor)
{
	return ckpt->tied ? ckpt->tied[tensor] : tensor;
}
void sf_tensor_chunk(const struct sf_tensor *t, uint32_t i, struct sf_chunk *ret); /* i < nchunks */

#endif
