/* safetensors headers: reading, and the pieces of writing one without holding it. */
#ifndef SF_PARSE_SAFETENSORS_H
#define SF_PARSE_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "parse/dtype.h"

#define SF_ST_HEADER_MAX 100000000 /* bytes of JSON, the format's own limit */

struct sf_st_tensor {
	const char *name;
	size_t name_len;
	uint8_t dtype, ndim; /* shape is torch's (F4's last dimension halved back) */
	const uint64_t *shape;
	uint64_t begin, end; /* bytes from the buffer's start (8 + header length) */
};
struct sf_st_header {
	struct sf_st_tensor *at; /* in the header's order */
	size_t n;
	uint64_t data_off; /* 8 + header length */
	uint64_t data_len; /* end of the last tensor */
	/* DCP_SHARDING_INFO of __metadata__ as JSON text, NULL without; "format" etc. are not
	 * kept */
	const char *sharding_info;
};
/* @json: the @len bytes behind the 8-byte length. Checks ranges against shapes, holes and overlaps
 * as the real reader does. */
int sf_st_parse(const uint8_t *json, size_t len, struct sf_arena *arena, struct sf_st_header *ret,
                struct sf_error *err);

/* One header entry as the official writer spells it:
 * "name":{"dtype":"F32","shape":[2],"data_offsets":[0,8]} */
void sf_st_put_entry(struct sf_buf *out, const char *name, size_t name_len, enum sf_dtype dtype,
                     const uint64_t *shape, unsigned ndim, uint64_t begin, uint64_t end);

#endif
