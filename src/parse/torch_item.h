/* One torch.save'd tensor (a DCP item): where its payload lies and how it is strided. */
#ifndef SF_PARSE_TORCH_ITEM_H
#define SF_PARSE_TORCH_ITEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "parse/dtype.h"
#include "parse/pickle_read.h"

#define SF_DIMS_MAX 64 /* torch's own limit */

/* A tensor as the pickle tells it: units are elements. */
struct sf_torch_tensor {
	uint8_t dtype, ndim;
	bool conj, neg; /* stored bytes need conjugation / negation */
	/* elements of dtype (untyped storages: bytes / element size) */
	uint64_t storage_numel;
	uint64_t storage_off; /* elements */
	uint64_t shape[SF_DIMS_MAX];
	int64_t stride[SF_DIMS_MAX];     /* elements, ≥ 0 in what torch writes */
	const struct sf_pv *storage_key; /* STR */
};

/*
 * sf_torch_tensor_from_pv - is this value a tensor, and which?
 * 1 yes (v2, v3, parameter, _rebuild_from_type_v2 unwrapped to its inner tensor), 0 not a dense
 * tensor, -EBADMSG a tensor whose numbers contradict each other (reaches outside its storage,
 * overflow).
 */
int sf_torch_tensor_from_pv(const struct sf_pv *v, struct sf_torch_tensor *ret,
                            struct sf_error *err);

/* Where the elements are. off is bytes from the item's start. */
struct sf_torch_item {
	uint64_t payload_off, payload_len; /* record data/<key>; len bytes there */
	struct sf_torch_tensor t;          /* storage_key NULL here */
};

/*
 * sf_torch_item_head - find the payload from the first @len bytes of an item of @item_len bytes.
 *
 * Walks the local headers from the start (data.pkl, small records, data/0) as torch and simple
 * writers lay them out; -EAGAIN with *ret_need = bytes of head wanted when @len is too short;
 * -ENOTSUP when the order of records hides it: then use the central directory (sf_zip_*, then
 * sf_torch_item_pkl on data.pkl's bytes; there a record with method != 0 is compressed, which
 * nothing here reads, and a `byteorder` of "big" has swapped elements). Also -ENOTSUP, from both:
 * the value is no dense tensor. -EBADMSG malformed, or payload and storage differ in size. Cost: a
 * few microseconds, no allocation for the ordinary shape (the pickle's bytes are matched without a
 * value tree).
 */
int sf_torch_item_head(const uint8_t *head, size_t len, uint64_t item_len,
                       struct sf_torch_item *ret, uint64_t *ret_need, struct sf_error *err);
/* Where data.pkl lies in an item, from its first @len bytes: -EAGAIN, -ENOTSUP and -EBADMSG as
 * above. */
int sf_torch_item_pickle(const uint8_t *head, size_t len, uint64_t item_len, uint64_t *ret_off,
                         uint64_t *ret_len, uint64_t *ret_need, struct sf_error *err);
/* Of an archive that was opened (torch_archive.h): the tensor that its value is. -ENOTSUP it is
 * none. */
int sf_torch_item_value(const struct sf_pv *v, struct sf_torch_tensor *ret, struct sf_error *err);
/* From data.pkl alone: fills ret->t; *ret_key (in @key, NUL-terminated) names the storage
 * record. */
int sf_torch_item_pkl(const uint8_t *pkl, size_t len, struct sf_torch_tensor *ret, char key[64],
                      struct sf_error *err);

#endif
