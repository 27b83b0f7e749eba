/* What format_safetensors.c, safetensors_files.c (which files and keys there are), safetensors_take.c
 * (what their headers say) and safetensors_lower.c (tensors made of that) share. */
#ifndef SF_FORMAT_SAFETENSORS_SAFETENSORS_PRIV_H
#define SF_FORMAT_SAFETENSORS_SAFETENSORS_PRIV_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/map.h"
#include "base/vec.h"
#include "ckpt/ckpt_builder.h"
#include "format/format_dir.h"
#include "parse/safetensors.h"

#define SAFETENSORS_INDEX "model.safetensors.index.json"

struct safetensors_piece { /* one tensor of one file */
	const struct sf_st_tensor *t;
	uint64_t origin0; /* in origins[] */
	uint64_t data_off;
	uint32_t file; /* place */
	uint32_t key;  /* keys[] */
};
struct safetensors_key {
	const char *name;
	uint32_t len;
	uint32_t npieces;
	bool unknown; /* some file does not say where its part belongs: left out */
};
SF_VEC(safetensors_pieces, struct safetensors_piece);
SF_VEC(safetensors_keys, struct safetensors_key);
SF_VEC(safetensors_names, const char *);
SF_VEC(safetensors_origins, uint64_t);

struct safetensors_lowering {
	struct sf_format_dir *src;
	struct sf_format_found found; /* files that the index names, of a store that cannot list */
	struct sf_ckpt_builder *b;
	struct sf_error *err;
	struct sf_arena arena;          /* headers, names */
	struct safetensors_names names; /* files to read, relative to src->dir */
	struct safetensors_pieces pieces;
	struct safetensors_keys keys;
	struct safetensors_origins origins;
	struct sf_map key_map, file_map;
	struct sf_json *index; /* names of keys and files are its; NULL without */
	uint32_t *key_file;    /* by key of the index: names[] */
	uint32_t nindexed;     /* keys that the index named; 0 without */
	bool sharded;          /* some header has sharding info */
	uint32_t unread;       /* files whose header cannot be read */
	uint32_t left_out;     /* keys that are unknown */
	int64_t mtime;
	struct sf_buf name; /* of the file or key at hand, with what is put in front */
};

/* All that return an int: 0, or negative with a message in h->err. */

/* safetensors_files.c */
/* Safetensors files in src->dir itself, or @below it in sharded/. */
size_t safetensors_count(const struct sf_format_dir *src, bool below);
/* The listed file of this name in the directory, or NULL. */
const struct sf_objinfo *safetensors_listed(const struct safetensors_lowering *h, const char *name);
/* The index's keys, in its order, and which file each should be in. */
int safetensors_read_index(struct safetensors_lowering *h, const struct sf_objinfo *index);
/* Which files make the checkpoint when no index says so? */
int safetensors_take_listing(struct safetensors_lowering *h);
/* Key @name, a new one if need be; @name lives in the arena or the index. */
int safetensors_key_of(struct safetensors_lowering *h, const char *name, size_t len, uint32_t *ret);
int safetensors_no_memory(struct safetensors_lowering *h); /* -ENOMEM */

/* safetensors_take.c */
/* The headers of all h->names: pieces, and the keys that no index named. */
int safetensors_take_files(struct safetensors_lowering *h);

/* safetensors_lower.c */
int safetensors_lower(struct safetensors_lowering *h);

#endif
