/* A tensor or an object as an item of a shard: a torch.save archive, sized before it is made. */
#ifndef SF_SAVE_SAVE_ITEM_BYTES_H
#define SF_SAVE_SAVE_ITEM_BYTES_H

#include "base/buf.h"
#include "parse/dtype.h"
#include "parse/pickle_read.h"

/* A dense tensor's archive: head, the payload, tail. The payload begins at a multiple of 64 of the
 * item. */
struct sf_save_tensor_item {
	enum sf_dtype dtype;
	unsigned ndim;
	const uint64_t *extent;
	uint64_t bytes;              /* of the payload */
	uint64_t head_len, tail_len; /* filled by sf_save_tensor_item_plan */
};
/* -EINVAL a dtype torch cannot load from a shard (quantized), bytes that are not the box's; -E2BIG. */
int sf_save_tensor_item_plan(struct sf_save_tensor_item *t, struct sf_error *err);
/* Appends head_len and tail_len bytes; @crc of the payload (0: not computed) stands in both. */
int sf_save_tensor_item_head(const struct sf_save_tensor_item *t, uint32_t crc, struct sf_buf *out);
int sf_save_tensor_item_tail(const struct sf_save_tensor_item *t, uint32_t crc, struct sf_buf *out);

/* A value as torch.save(value) would have it: the whole archive, appended. Its .mark fields are used
 * meanwhile. */
int sf_save_object_item(const struct sf_pv *v, struct sf_buf *out, struct sf_error *err);
/* Is it an archive that torch.load takes, a zip of its kind with all that its value names? -EBADMSG says
 * why not; -E2BIG, -ENOMEM. The bytes of storages are not looked at. */
int sf_save_object_check(const void *at, size_t len, struct sf_error *err);

#endif
