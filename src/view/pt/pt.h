/* Inside of a .pt view: what its stages (tree, embed, pickle, layout) share. Only view/ includes
 * it. */
#ifndef SF_VIEW_PT_PT_H
#define SF_VIEW_PT_PT_H

#include <stdatomic.h>
#include "base/buf.h"
#include "parse/pickle_write.h"
#include "parse/torch_file_plan.h"
#include "read/made.h"
#include "view/view.h"

#define SF_PT_OBJECTS_MAX (1u << 30) /* bytes of emitted objects one file keeps */

enum sf_pt_container { SF_PT_DICT, SF_PT_LIST, SF_PT_TUPLE };

/* A value of the file, in the order of the pickle. */
struct sf_pt_leaf {
	/* bit d: the container that holds path element d is a list, a tuple; else a dict */
	uint64_t lists, tuples;
	uint32_t pos;  /* which of the selection's entries */
	uint32_t ref;  /* a tensor: its storage number; an object: its span */
	uint8_t depth; /* path elements; 0: the file is this value itself */
	uint8_t flat;  /* the path is the full name: its own one clashes with another key's, or is
	                  too deep */
	uint8_t object;
};

/* One element of a leaf's path as this file shows it. */
struct sf_pt_elem {
	const char *s;
	size_t len;
	uint8_t kind; /* enum sf_path_kind */
};

/* A storage that is not a tensor of the checkpoint: a record inside an object's item. */
struct sf_pt_inner {
	uint32_t object;
	uint64_t off, len;
};
#define SF_PT_INNER 0x80000000u /* in storage[]: the rest indexes inner[]; without it, leaf[] */

struct sf_pt {
	struct sf_vfile f; /* first: the vfile is the sf_pt */
	const struct sf_catalog *c;
	struct sf_selection sel;
	uint8_t root; /* enum sf_pt_container */

	struct sf_pt_leaf *leaf;
	uint32_t nleaf;
	uint32_t *storage; /* by storage number: leaf, or SF_PT_INNER | inner */
	uint32_t nstorage;
	struct sf_pt_inner *inner;
	uint32_t ninner;
	struct sf_made objects; /* emitted pickle code of all objects … */
	bool has_objects;
	const uint8_t *objects_at; /* … while the file is being sized … */
	uint64_t *span;            /* … object k's is [span[k], span[k + 1]) */
	uint32_t nspan;
	bool again;                   /* a second one, made for the code alone: says nothing */
	uint32_t first[SF_PW_NWORDS]; /* leaf that puts this word (pickle_write.h), SF_NONE */

	uint64_t *start;              /* f.start */
	struct sf_torch_file archive; /* records behind the pickle's; sizes, directory */
	uint32_t *_Atomic crc;        /* by storage number; NULL: all 0 */
};

/* How element @d of @l's path reads in this file. d < l->depth. */
struct sf_pt_elem sf_pt_elem(const struct sf_pt *pt, const struct sf_pt_leaf *l, unsigned d);
/* The container that holds path element @d. */
static inline enum sf_pt_container sf_pt_container(const struct sf_pt_leaf *l, unsigned d)
{
	return l->lists >> d & 1 ? SF_PT_LIST : l->tuples >> d & 1 ? SF_PT_TUPLE : SF_PT_DICT;
}
/* The position in a list or tuple; false when it is none, or no canonical number below 2^31. */
bool sf_pt_index(const struct sf_pt_elem *e, uint64_t *ret);
static inline const struct sf_entry *sf_pt_entry(const struct sf_pt *pt, const struct sf_pt_leaf *l)
{
	return &pt->c->entry[pt->sel.entry[l->pos]];
}
/* The dtype a tensor has in this file, and its bytes then. */
enum sf_dtype sf_pt_dtype(const struct sf_pt *pt, const struct sf_entry *e);
uint64_t sf_pt_bytes(const struct sf_pt *pt, const struct sf_entry *e);
/* A log line and a count: the file is there without this key. */
void sf_pt_left_out(const struct sf_pt *pt, const struct sf_pt_leaf *l, const char *why);

/*
 * pt_tree.c - leaves in the order of the pickle: nested by their paths, containers at the place of
 * their first descendant, lists and tuples by position. Fills leaf, nleaf, root. Two keys for one place:
 * the first has it, the other one stands under its full name at the root, or is left out if that is
 * taken too. -ENOMEM. O(path elements).
 */
int sf_pt_tree(struct sf_pt *pt, struct sf_error *err);

/*
 * pt_embed.c - reads the objects among the leaves, emits them, numbers all storages; leaves of
 * objects that are refused by policy or cannot be read are taken out. Their code goes to @out, what
 * that takes to its charge. Waits when there are objects.
 */
int sf_pt_embed(struct sf_pt *pt, struct sf_buf *out, struct sf_error *err);
uint32_t sf_pt_objects(const struct sf_pt *pt,
                       uint32_t *objects); /* those to embed; @objects NULL: their number */

/* pt_pickle.c - data.pkl piece by piece: head, one piece a leaf, tail. */
void sf_pt_memo(struct sf_pt *pt); /* fills first[] */
void sf_pt_put_head(const struct sf_pt *pt, struct sf_buf *out);
void sf_pt_put_leaf(const struct sf_pt *pt, uint32_t i,
                    struct sf_buf *out); /* all of a tensor's, what is before an object's span */
void sf_pt_put_tail(const struct sf_pt *pt, struct sf_buf *out);

/*
 * pt_layout.c - the archive: records of the vfile are
 *   0                   local header of data.pkl, the pickle's head
 *   1 … L               a leaf each
 *   L+1                 the pickle's tail, byteorder
 *   L+2 …               the pieces behind the pickle (parse/torch_file_plan.h)
 */
int sf_pt_layout(struct sf_pt *pt, struct sf_error *err); /* start[], archive */
int sf_pt_emit(struct sf_vfile *f, uint32_t rec, uint64_t off, uint64_t len, struct sf_parts *parts,
               struct sf_error *err);

#endif
