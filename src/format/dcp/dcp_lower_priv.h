/* What dcp_lower.c (keys, tensors, objects), dcp_lower_places.c (stored files), dcp_lower_form.c (in
 * which form items lie in them) and dcp_lower_names.c (names, paths) share. */
#ifndef SF_FORMAT_DCP_DCP_LOWER_PRIV_H
#define SF_FORMAT_DCP_DCP_LOWER_PRIV_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/mem.h"
#include "format/dcp/dcp_lower.h"
#include "format/dcp/dcp_subclass.h"

#define DCP_NAME_MAX (DCP_STRING_MAX + 4096u)
#define DCP_PLACE_UNSAFE (SF_NONE - 1) /* its name is refused */

enum dcp_form { DCP_FORM_UNKNOWN, DCP_FORM_TORCH, DCP_FORM_SAFETENSORS };
struct dcp_lower_place {      /* of m->place[] */
	uint32_t torch, blob; /* builder's places, SF_NONE not made yet */
	uint8_t form;         /* enum dcp_form */
	uint64_t blob_off;    /* of DCP_FORM_SAFETENSORS behind a transform */
};

struct dcp_lowering {
	const struct dcp_meta *m;
	const struct sf_format_dir *src;
	struct sf_ckpt_builder *b;
	struct sf_error *err;
	struct dcp_lower_place *place;
	uint32_t *object;     /* by string: builder's object, SF_NONE */
	uint8_t *is_key;      /* by string */
	struct sf_buf name;   /* the key being lowered, with its prefix */
	struct sf_buf file;   /* the stored file at hand, below the store's root */
	struct sf_arena text; /* strings that are not as stored */
	const char **class;   /* by tensor: see dcp_find_subclasses; NULL: all are dense */
	struct dcp_classes classes;
	uint64_t shard_names, shards; /* bytes, number */
};

struct dcp_text {
	const char *at;
	uint32_t len;
};

/* All: 0, or negative with a message in l->err. */

/* dcp_lower_names.c */
/* A stored str as a name of ours: lent as it is stored, or in l->text. */
int dcp_lower_str(struct dcp_lowering *l, uint32_t i, struct dcp_text *ret);
/* A key as it is shown, into l->name; NUL behind. */
int dcp_lower_name(struct dcp_lowering *l, uint32_t str);
/* The planner's paths; with a prefix every key gets one. After the keys. */
int dcp_lower_paths(struct dcp_lowering *l);

/* dcp_lower_places.c */
/* The name of m->place[@i]'s file, into l->file; NUL behind. */
int dcp_lower_file(struct dcp_lowering *l, uint32_t i);
/* A place of the builder's for items of @form in the file that l->file names, m->place[@i]'s. */
int dcp_lower_make_place(struct dcp_lowering *l, uint32_t i, enum sf_item_form form, uint32_t *ret);
/* Every file that storage_data names, before any key. */
int dcp_lower_places(struct dcp_lowering *l);

/* dcp_lower_form.c */
/* Sets form, and blob_off, of every l->place[], by a look into those files that have an item as long
 * as its payload. Cost: a pass over the chunks; round trips as sf_fetch_many's. */
int dcp_lower_forms(struct dcp_lowering *l);

/* What an item of m->place[@i] may be when it is as long as its payload; others are torch's. */
static inline bool dcp_lower_may_be_blob(const struct dcp_lowering *l, uint32_t i)
{
	uint32_t transform = l->m->place.at[i].transform;

	return (transform == DCP_PLAIN || transform == DCP_ZSTD) &&
	       l->place[i].torch != DCP_PLACE_UNSAFE;
}

/* The class of a key whose tensor is no dense one, or NULL. */
static inline const char *dcp_lower_class(const struct dcp_lowering *l, const struct dcp_key *key)
{
	return l->class && key->tensor != DCP_NONE ? l->class[key->tensor] : NULL;
}

struct dcp_lower_box {
	uint64_t origin[SF_DIMS_MAX], extent[SF_DIMS_MAX];
	uint64_t payload; /* bytes of its elements, if that … */
	bool fits;        /* … is a number */
	bool inside;      /* its tensor */
};
/* Chunk @i of @run. */
static inline void dcp_lower_box(const struct dcp_meta *m, const struct dcp_tensor *t,
                                 const struct dcp_run *run, uint32_t i, struct dcp_lower_box *ret)
{
	ret->payload = sf_dtype_info((enum sf_dtype)t->dtype)->bytes;
	ret->fits = ret->inside = true;
	for (unsigned d = 0; d < t->ndim; d++) {
		uint64_t size = m->dims.at[t->shape0 + d];
		ret->origin[d] = dcp_coord(m, run, i, d);
		ret->extent[d] = dcp_coord(m, run, i, t->ndim + d);
		ret->fits = ret->fits && sf_mul(ret->payload, ret->extent[d], &ret->payload);
		ret->inside = ret->inside && ret->origin[d] <= size &&
		              ret->extent[d] <= size - ret->origin[d];
	}
}

#endif
