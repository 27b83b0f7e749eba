/* What `.metadata` says, as flat columns: made by one of two readers, merged over files, lowered
 * once. */
#ifndef SF_FORMAT_DCP_DCP_META_H
#define SF_FORMAT_DCP_DCP_META_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/error.h"
#include "base/map.h"
#include "base/vec.h"
#include "ckpt/ckpt.h"
#include "parse/dtype.h"
#include "parse/torch_item.h" /* SF_DIMS_MAX */
#include "store/store.h"

/*
 * Limits, so that a hostile file can fail but not eat the machine:
 * DCP_META_MAX    bytes of one metadata file: 40 M chunks, more than any job writes.
 * DCP_SLOW_MAX    bytes of one that only the value reader understands: it holds file and values at
 * once. DCP_SECOND_LOOK bytes of one that is read again by values when the scanner calls it
 * malformed. DCP_CHUNKS_MAX  chunks in all (numbers are 32 bits, and half of that is kept for
 * "none"). DCP_STACK_MAX   values on the pickle's stack: pickle flushes dicts and lists every 1,000
 * entries; dicts of dicts add up. DCP_STRING_MAX  bytes of one string (keys, paths; custom planner
 * data may hold larger texts). DCP_OBJECTS_MAX containers and instances of the streaming reader
 * (handles are 32 bits).
 */
#define DCP_META_MAX (UINT64_C(8) << 30)
#define DCP_SLOW_MAX (UINT64_C(1) << 30)
#define DCP_SECOND_LOOK (UINT64_C(64) << 20)
#define DCP_CHUNKS_MAX (UINT32_C(1) << 31)
#define DCP_ATTRIBUTES_MAX 512
#define DCP_STACK_MAX (1u << 22)
#define DCP_STRING_MAX (1u << 28)
#define DCP_OBJECTS_MAX (UINT32_C(1) << 31)

#define DCP_NONE UINT32_MAX

/* A text that occurs: keys, file names, attribute names, path elements. Equal texts have equal
 * numbers. */
struct dcp_str {
	const char *at; /* the arena's */
	uint32_t len;
	uint32_t tensor; /* the tensor that has this name, for the join; DCP_NONE */
};

/* Where an item lies. place is DCP_NONE until storage_data named it. */
struct dcp_item {
	uint64_t off, len;
	uint32_t place;
};

/* A file and what was done to its items: one entry per pair that occurs. */
struct dcp_place {
	uint32_t path;      /* string */
	uint32_t transform; /* DCP_PLAIN, DCP_ZSTD to DCP_ZSTD_MAX: so many streams one inside the
	                       other, or string of the descriptors we cannot undo + DCP_OTHER */
};
enum { DCP_PLAIN, DCP_ZSTD, DCP_ZSTD_MAX = SF_CODEC_STREAMS_MAX, DCP_OTHER };

/* Chunks chunk0 … chunk0+count-1, their coordinates in a row: origin then extent, u32 words (wide:
 * two, low one first). */
struct dcp_run {
	uint64_t coord0;
	uint32_t chunk0, count;
	uint32_t first; /* number within its tensor of chunk0 */
	uint8_t ndim, wide;
};

struct dcp_tensor {
	uint64_t shape0; /* in dims[] */
	uint32_t name;   /* string, DCP_NONE until a key names it */
	uint32_t run0, nruns;
	uint32_t nchunks;
	uint32_t guess; /* the chunk behind the one joined last: where its next item belongs when
	                   nothing says it */
	uint8_t dtype, ndim;
	bool taken; /* is a value of state_dict_metadata */
	/* stored as Megatron flattens tensors: the shape it had, at dims[flat_shape0] */
	bool flat;
	uint8_t flat_ndim;
	uint64_t flat_shape0;
};

/* A key of state_dict_metadata, in its order. */
struct dcp_key {
	uint32_t name;
	uint32_t tensor; /* DCP_NONE: a bytes item */
};

/* A bytes item, by name. */
struct dcp_bytes {
	struct dcp_item item;
	uint32_t name;
};

/* An entry of storage_data that could not be joined at once: the hint was wrong, or the tensor
 * comes later. */
struct dcp_pending {
	struct dcp_item item;
	uint64_t coord0; /* in dims[] */
	uint32_t name;
	uint8_t ndim;
};

/* An element of a planner path. */
struct dcp_elem {
	uint32_t text;
	uint32_t is_int;
};
struct dcp_path {
	uint32_t key, elem0, n;
};

SF_VEC(dcp_strs, struct dcp_str);
SF_VEC(dcp_u32s, uint32_t);
SF_VEC(dcp_u64s, uint64_t);
SF_VEC(dcp_items, struct dcp_item);
SF_VEC(dcp_places, struct dcp_place);
SF_VEC(dcp_runs, struct dcp_run);
SF_VEC(dcp_tensors, struct dcp_tensor);
SF_VEC(dcp_keys, struct dcp_key);
SF_VEC(dcp_bytess, struct dcp_bytes);
SF_VEC(dcp_pendings, struct dcp_pending);
SF_VEC(dcp_elems, struct dcp_elem);
SF_VEC(dcp_paths, struct dcp_path);

/* What a metadata file tells about its writer. */
struct dcp_facts {
	uint32_t version; /* string of Metadata.version, DCP_NONE */
	uint8_t protocol;
	bool has_storage_meta;    /* 2.4 */
	bool has_modules;         /* StorageMeta.modules: 2.13 at the latest */
	bool props_in_checkpoint; /* TensorProperties live in
	                             torch.distributed.checkpoint.metadata: 2.3 */
	bool shard_package;       /* torch.distributed._shard.checkpoint: 1.13 */
	bool olmo;                /* olmo_core's _StorageInfo */
	bool mcore_class;         /* the root is Megatron's MCoreMetadata: 0.15 */
	bool mcore_data;          /* it has that attribute: Megatron 0.8 to 0.15 */
	uint64_t passed_over;     /* chunks and items that the scanner took without opcodes */
};

struct dcp_meta {
	struct sf_arena arena; /* strings */
	struct dcp_strs str;
	struct sf_map str_map;
	struct dcp_u32s coord;
	struct dcp_u64s dims;
	struct dcp_items item; /* per chunk */
	struct dcp_runs run;
	struct dcp_tensors tensor;
	struct dcp_places place;
	struct sf_map place_map;
	struct dcp_keys key;
	struct dcp_bytess bytes;
	struct dcp_pendings pending;
	struct dcp_elems elem;
	struct dcp_paths path;
	struct dcp_facts facts;
	uint64_t room;  /* bytes of the file being read; 0: none is */
	uint64_t stray; /* entries of storage_data that belong to no chunk and no key */
	bool no_paths;  /* planner_data is None or absent */
	/* the caller's, before dcp_lower: tensors that are stored flattened are shown as they were
	 * (dcp_flat.h) */
	bool unflatten;
};

void dcp_meta_release(struct dcp_meta *m);

/*
 * dcp_meta_finish - once after reading: joins what is pending, gives chunks of equal boxes the same
 * item, counts strays.
 *
 * dcp_meta_merge - one description from @n finished ones (rank-local metadata), keys in order of
 * first appearance. A tensor that several have gets the chunks of all, equal boxes (replicas) once;
 * contradicting shapes or dtypes are -EBADMSG.
 */
int dcp_meta_finish(struct dcp_meta *m, struct sf_error *err);
int dcp_meta_merge(struct dcp_meta *m, const struct dcp_meta *from, size_t n, struct sf_error *err);

/* The pieces the readers build with. All: 0 or negative. */
int dcp_meta_str(struct dcp_meta *m, const char *s, size_t len, uint32_t *ret);  /* -ENOMEM only */
uint32_t dcp_meta_str_find(const struct dcp_meta *m, const char *s, size_t len); /* DCP_NONE */
int dcp_meta_place(struct dcp_meta *m, uint32_t path, uint32_t transform, uint32_t *ret);
/* A chunk as a run of its own. */
int dcp_meta_chunk(struct dcp_meta *m, const uint64_t *origin, const uint64_t *extent,
                   unsigned ndim, uint32_t *ret_run);
/* One storage_data entry of a tensor chunk. @hint: chunk number within the tensor, DCP_NONE when
 * unknown. */
int dcp_meta_item(struct dcp_meta *m, uint32_t name, const uint64_t *origin, unsigned ndim,
                  uint32_t hint, struct dcp_item item);
/* The tensor @name had this shape before it was flattened; 1: there is none. -ENOMEM; -EEXIST it was
 * said before. */
int dcp_meta_flat(struct dcp_meta *m, uint32_t name, const uint64_t *shape, unsigned ndim);
/* The number in a descriptor list as dcp_place.transform: texts joined by ','. */
uint32_t
dcp_transform_of(const char *joined,
                 size_t len); /* DCP_PLAIN, DCP_ZSTD … or DCP_OTHER (the caller adds the string) */

/* Chunk @i of a tensor: finds its run. O(log runs). Returns the chunk number in item[]. */
uint32_t dcp_meta_chunk_at(const struct dcp_meta *m, const struct dcp_tensor *t, uint32_t i,
                           const struct dcp_run **ret_run);
static inline uint64_t dcp_coord(const struct dcp_meta *m, const struct dcp_run *r, uint32_t i,
                                 unsigned k)
{
	uint64_t at = r->coord0 + ((uint64_t)i * 2 * r->ndim + k) * (r->wide ? 2 : 1);

	return r->wide ? m->coord.at[at] | (uint64_t)m->coord.at[at + 1] << 32 : m->coord.at[at];
}

#endif
