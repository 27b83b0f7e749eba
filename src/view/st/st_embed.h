/* Tensors inside pickled objects, for safetensors files of many keys. Why: docs/decisions/0003. */
#ifndef SF_VIEW_ST_ST_EMBED_H
#define SF_VIEW_ST_ST_EMBED_H

#include "base/vec.h"
#include "view/st/st_skipped.h"

#define SF_ST_INNER_MAX (1u << 20)   /* of one file */
#define SF_ST_INNER_TEXT (64u << 20) /* bytes of their names */
#define SF_ST_INNER_NAME (1u << 16)  /* bytes of one name */
#define SF_ST_INNER_DEPTH 1000
/* values looked at in an object: one that is reached twice counts twice */
#define SF_ST_INNER_NODES (64u << 20)
#define SF_ST_INNER_NODES_ALL (256u << 20) /* in all objects of a file */

struct sf_st_inner {
	uint64_t off, len; /* bytes of the object's item, for sf_parts_object */
	uint32_t object;
	uint32_t name, name_len; /* in text */
	uint32_t shape;          /* first of ndim in shape.at */
	uint8_t dtype, ndim;
};
SF_VEC(sf_st_inners, struct sf_st_inner);
SF_VEC(sf_st_dims, uint64_t);

struct sf_st_embed {
	/* in the order of the selection, in an object in the order of its pickle */
	struct sf_st_inners inner;
	struct sf_st_dims shape;
	struct sf_buf text;
};

/* Does a file of this selection hold such tensors, so that its objects have to be read? */
bool sf_st_embeds(const struct sf_catalog *c, const struct sf_selection *sel);
/*
 * sf_st_embed - reads the objects of @sel, each once, and notes where the dense tensors in them
 * lie.
 *
 * @kept: the @nkept positions whose tensors the file has anyway; their names are taken.
 * What cannot be in the file goes to @skipped, and so does each object as such, unless it is itself
 * a tensor. An object that is malformed or missing is skipped, logged and counted; other failures
 * (-EIO, -ESTALE, -ENOMEM …) end it. *em is filled from { 0 }; after a failure the caller releases
 * it too.
 */
int sf_st_embed(struct sf_st_embed *em, const struct sf_catalog *c, struct sf_reader *r,
                const struct sf_selection *sel, const uint32_t *kept, uint32_t nkept,
                struct sf_st_skipped *skipped, struct sf_error *err);
void sf_st_embed_release(struct sf_st_embed *em);

static inline const char *sf_st_inner_name(const struct sf_st_embed *em, uint32_t i)
{
	return (const char *)em->text.at + em->inner.at[i].name;
}

#endif
