/* Flat partitions: which bytes of which file hold elements of a long vector that ranks have parts of. */
#ifndef SF_FORMAT_DS_FLAT_H
#define SF_FORMAT_DS_FLAT_H

#include "base/vec.h"
#include "ckpt/ckpt_builder.h"
#include "format/torch/torch_parts.h"

struct ds_segment {
	uint64_t start, len; /* elements: of the vector */
	uint64_t off;        /* bytes: of the place's file */
	uint32_t place;
};
SF_VEC(ds_segments, struct ds_segment);

/* One after the other, without gaps. { 0 } at first. */
struct ds_space {
	struct ds_segments seg;
	uint64_t len;  /* elements */
	uint8_t dtype; /* of all; SF_DTYPE_NONE while there is none */
};
void ds_space_release(struct ds_space *s);

/*
 * ds_space_add - @v, a tensor of one dimension that @part holds, behind what is there.
 * 0; -EBADMSG it is none such, of another dtype, or outside of its storage, with the file; -ENOMEM.
 */
int ds_space_add(struct ds_space *s, struct sf_ckpt_builder *b, struct sf_torch_part *part,
                 const struct sf_pv *v, struct sf_error *err);
/* The same of a dense tensor of any shape, which becomes @ret. */
int ds_space_add_dense(struct ds_space *s, struct sf_ckpt_builder *b, struct sf_torch_part *part,
                       const struct sf_pv *v, struct sf_torch_tensor *ret, struct sf_error *err);

/*
 * ds_space_chunks - [@off, @off + @len) of the vector as chunks of the open tensor: they are elements
 * @at … of it. @chunks: how many it has; counted up.
 *
 * What lies behind the vector's end gets no chunk: a hole. Errors: the builder's. Cost: O(log segments
 * + pieces).
 */
int ds_space_chunks(const struct ds_space *s, uint64_t off, uint64_t len, uint64_t at,
                    struct sf_ckpt_builder *b, uint32_t tensor, const uint64_t *shape,
                    uint32_t *chunks, struct sf_error *err);

#endif
