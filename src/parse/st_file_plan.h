/* A safetensors file, planned: order, header and offsets are known before any of it is written, and
 * each byte can be made alone. */
#ifndef SF_PARSE_ST_FILE_PLAN_H
#define SF_PARSE_ST_FILE_PLAN_H

#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/error.h"
#include "parse/dtype.h"

/* A tensor of the file, row-major. */
struct sf_st_part {
	const char *name; /* UTF-8 */
	size_t name_len;
	const uint64_t *shape;
	uint64_t bytes;
	enum sf_dtype dtype; /* one with a name in safetensors (sf_dtype_info: st_order) */
	unsigned ndim;
};

/*
 * Records, with n tensors:
 *   0              length of the header, "{", __metadata__
 *   1 … n          a header entry each, with the comma before it
 *   n + 1          "}" and spaces up to a multiple of 8
 *   n + 2 … 2n + 1 a tensor's bytes each
 * Source of the order and the spelling: huggingface/safetensors safetensors/src/tensor.rs, 0.8.
 */
#define SF_ST_FILE_RECORDS(n) (2 * (size_t)(n) + 2)

struct sf_st_file {
	/* the caller's */
	struct sf_st_part (*part)(const void *arg, uint32_t number); /* the same each time; pure */
	const void *arg;
	/* Numbers of the n tensors, in any order: planning puts them into the file's, large
	 * elements first (so that all are aligned), then by name. */
	uint32_t *tensor;
	uint32_t n; /* at most INT32_MAX */
	/* the plan's */
	uint64_t *start;    /* where each record begins, and at the end the size of the file */
	struct sf_buf head; /* record 0 */
};

/*
 * sf_st_file_plan - sorts, and says where everything lies.
 *
 * @metadata: the JSON object that becomes __metadata__; its values are strings.
 * Errors: -ENOMEM; -E2BIG the header passes SF_ST_HEADER_MAX, or the file what a file can be.
 * Memory: 8 bytes a record, until sf_st_file_release(), also after a failure.
 */
int sf_st_file_plan(struct sf_st_file *f, const char *metadata, size_t metadata_len,
                    struct sf_error *err);
void sf_st_file_release(struct sf_st_file *f); /* what was never planned is fine, { 0 } too */
static inline uint64_t sf_st_file_size(const struct sf_st_file *f)
{
	return f->start[SF_ST_FILE_RECORDS(f->n)];
}

/* Who takes the bytes, in their order; a negative code ends it and is returned. */
struct sf_st_file_sink {
	int (*bytes)(void *arg, const void *at, size_t len);
	int (*payload)(void *arg, uint32_t number, uint64_t off, uint64_t len);
	void *arg;
};
/* Bytes [off, off+len) of a record: inside it. What the sink says, or -ENOMEM. */
int sf_st_file_record(const struct sf_st_file *f, size_t rec, uint64_t off, uint64_t len,
                      const struct sf_st_file_sink *to);

#endif
