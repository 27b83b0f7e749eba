/* A torch.save archive, planned: where each of its bytes lies is known before any is written, and
 * each can be made alone. */
#ifndef SF_PARSE_TORCH_FILE_PLAN_H
#define SF_PARSE_TORCH_FILE_PLAN_H

#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/error.h"

/*
 * The file is: data.pkl (header, pickle), byteorder, then numbered pieces, S storages:
 *   0 … S-1       a storage each: header, payload
 *   S             version
 *   S+1           the directory's entries of data.pkl and byteorder
 *   S+2 … 2S+1    a storage's directory entry each
 *   2S+2          version's entry, the ends
 * Layout and alignment: parse/zip_write.h. The same input gives the same bytes.
 */
#define SF_TORCH_FILE_PIECES(nstorage) (2 * (size_t)(nstorage) + 3)

struct sf_torch_storage {
	uint64_t len; /* bytes */
	uint32_t crc; /* 0: nobody computed it; torch does not look unless asked to */
};

/* Filled by the caller but for what @start points to. Nothing to release. */
struct sf_torch_file {
	uint64_t pkl_len; /* bytes of the pickle, with PROTO and STOP */
	uint32_t pkl_crc;
	uint32_t nstorage;
	/* Storage @i; the same length each time, the CRC may come later. Pure. */
	struct sf_torch_storage (*storage)(const void *arg, uint32_t i);
	const void *arg;
	/* The caller's room for SF_TORCH_FILE_PIECES + 1 offsets: where each piece begins, and at
	 * the end the size of the file. */
	uint64_t *start;
};

/*
 * sf_torch_file_plan - fills start[].
 *
 * -E2BIG: the file passes 2^62 bytes. Cost: O(storages).
 */
int sf_torch_file_plan(struct sf_torch_file *f, struct sf_error *err);
static inline uint64_t sf_torch_file_size(const struct sf_torch_file *f)
{
	return f->start[SF_TORCH_FILE_PIECES(f->nstorage)];
}
/* Where the pickle begins: known before anything is planned. */
uint64_t sf_torch_file_pickle_off(const struct sf_torch_file *f);
/* Where storage @i's bytes begin; *ret_len of them. */
uint64_t sf_torch_file_payload(const struct sf_torch_file *f, uint32_t i, uint64_t *ret_len);

/* What comes before the pickle, and between its end and piece 0. */
void sf_torch_file_put_head(const struct sf_torch_file *f, struct sf_buf *out);
void sf_torch_file_put_byteorder(const struct sf_torch_file *f, struct sf_buf *out);

/* Who takes the bytes, in their order; a negative code ends it and is returned. */
struct sf_torch_file_sink {
	int (*bytes)(void *arg, const void *at, size_t len);
	int (*pickle)(void *arg, uint64_t off, uint64_t len); /* of the caller's pickle */
	int (*payload)(void *arg, uint32_t storage, uint64_t off, uint64_t len);
	void *arg;
};
/* Bytes [off, off+len) of a piece: inside it. What the sink says, or -ENOMEM. @to->pickle is not
 * used. A range inside a payload costs nothing else. */
int sf_torch_file_piece(const struct sf_torch_file *f, size_t piece, uint64_t off, uint64_t len,
                        const struct sf_torch_file_sink *to);

#endif
