/* The builder's inside, shared by ckpt_builder.c (keys, files, facts), ckpt_builder_chunks.c
 * (tensors) and ckpt_finish.c. */
#ifndef SF_CKPT_BUILDER_PRIV_H
#define SF_CKPT_BUILDER_PRIV_H

#include "base/map.h"
#include "base/vec.h"
#include "ckpt/ckpt_builder.h"
#include "ckpt/ckpt_group.h"
#include "ckpt/ckpt_order.h"

#define SF_WARNINGS_MAX 1000
/* in sf_place.container until finish: of containers, else of files */
#define SF_MEMBER (UINT32_C(1) << 31)

struct sf_pending_warning {
	uint32_t key;         /* SF_NONE: see name */
	const char *key_name; /* looked up when all keys are known; NULL: of the whole checkpoint */
	uint32_t file;        /* SF_NONE: of no file as such */
	const char *code, *text;
};

SF_VEC(sf_keys, struct sf_key);
SF_VEC(sf_tensors, struct sf_tensor);
SF_VEC(sf_objects, struct sf_object);
SF_VEC(sf_places, struct sf_place);
SF_VEC(sf_containers, struct sf_container);
SF_VEC(sf_place_whys, struct sf_place_why);
SF_VEC(sf_files, struct sf_file);
SF_VEC(sf_pending_warnings, struct sf_pending_warning);
SF_VEC(sf_group_choices, struct sf_group_choice);
SF_VEC(sf_place_ids, uint32_t);

/* One column of the open tensor; its memory serves the next one too. */
struct sf_column {
	uint8_t *at;
	size_t cap; /* bytes */
};

struct sf_ckpt_builder {
	struct sf_ckpt *ckpt; /* arena and facts; its arrays are set by finish */
	struct sf_keys keys;
	struct sf_tensors tensors;
	struct sf_objects objects;
	struct sf_places places;
	struct sf_place_ids next_place; /* the next place of the same container */
	struct sf_place_whys whys;
	struct sf_containers containers;
	struct sf_place_ids first_place_in; /* by container */
	struct sf_files files;
	struct sf_place_ids first_place; /* by file */
	struct sf_files listing;
	struct sf_pending_warnings warnings;
	struct sf_group_choices choices;
	struct sf_place_ids tied; /* by tensor, as far as it goes; none: no ties */
	struct sf_map names;      /* of keys -> their numbers */
	struct sf_map file_names;
	uint64_t more_warnings;          /* not kept */
	uint64_t name_bytes, path_bytes; /* of keys, of their paths' elements */
	uint64_t inline_bytes;           /* of values */
	const char *last_class;          /* the subclass given last, the arena's */
	uint32_t nmain;                  /* SF_NONE: all keys */
	bool has_listing;
	sf_ckpt_look *look; /* NULL: nobody does */
	void *look_arg;
	int failed; /* of a function that returns nothing */

	/* the open tensor: the last of tensors, its columns not yet in the arena */
	bool open;
	size_t row; /* bytes of one chunk's coordinates in one column */
	struct sf_column origin, extent, part, layout, place, off, len;
	uint32_t nlayouts;       /* chunks whose layout column is filled in */
	uint32_t nparts, nitems; /* chunks whose part and item columns are filled in */
	struct sf_order_scratch scratch;
};

int sf_builder_close(struct sf_ckpt_builder *b, struct sf_error *err); /* the open tensor, if any */
/* A warning of key @key (SF_NONE: none); over SF_WARNINGS_MAX only counted. */
int sf_builder_warn_key(struct sf_ckpt_builder *b, uint32_t key, const char *code,
                        const char *text);
/* The same of a file as such. */
int sf_builder_warn_file(struct sf_ckpt_builder *b, uint32_t file, const char *code,
                         const char *text);
/* ckpt_shared.c - a note of tensors that name one stored item: exports write it for each. -ENOMEM.
 * O(n log n) of tensors. */
int sf_builder_note_shared(struct sf_ckpt_builder *b);
/* Places and members into the checkpoint, numbered as there. -ENOMEM. */
int sf_builder_keep_places(struct sf_ckpt_builder *b);
int sf_builder_no_memory(struct sf_error *err, const struct sf_ckpt_builder *b);
/* A new key: its name is copied, k's other fields taken. */
int sf_builder_add_key(struct sf_ckpt_builder *b, const char *name, size_t len, struct sf_key k,
                       struct sf_error *err);
int sf_builder_finish_ties(struct sf_ckpt_builder *b, struct sf_error *err);
uint32_t sf_builder_key(const struct sf_ckpt_builder *b, const char *name,
                        size_t len); /* SF_NONE */

#endif
