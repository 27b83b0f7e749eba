/* Which bytes of an object make up which part of it: pure. */
#ifndef SF_STORE_UPLOAD_PLAN_H
#define SF_STORE_UPLOAD_PLAN_H

#include <stdint.h>
#include "base/error.h"
#include "store/upload.h"

/*
 * Parts of one size where the object's is known, the last may be shorter. Else parts that grow with their number,
 * so that a few bytes take little memory and an object of many TiB has room: each tenth of the parts that there may
 * be is twice as large as those before, up to the largest that the server takes.
 */
struct sf_upload_plan {
	uint64_t size; /* of the object; 0: not known */
	uint64_t part; /* bytes of the first parts */
	uint64_t part_max;
	uint32_t parts_max,
		step; /* step: so many are of one size, where the object's is not known */
};

/* @part_bytes: of a part at least. -EFBIG: more than the server's parts can hold. */
int sf_upload_plan_init(struct sf_upload_plan *p, uint64_t size, uint64_t part_bytes,
                        const struct sf_put_ops *limits, struct sf_error *err);
/* In which part is the byte at @off, where does that begin, and how long is it? UINT32_MAX: in none. O(1). */
uint32_t sf_upload_plan_part(const struct sf_upload_plan *p, uint64_t off, uint64_t *ret_start,
                             uint64_t *ret_len);
/* Bytes that its parts can hold in all; of a known size that. */
uint64_t sf_upload_plan_most(const struct sf_upload_plan *p);

#endif
