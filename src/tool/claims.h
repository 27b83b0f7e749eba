/* Is what metadata claims of a tensor there at all? Asked before room is made for it. */
#ifndef SF_TOOL_CLAIMS_H
#define SF_TOOL_CLAIMS_H

#include "lib/session.h"

/*
 * sf_claims_check - the tensors of these catalog entries: none is known to be damaged, and none
 * claims more bytes than its stored items can hold.
 *
 * A stored item that is shorter than its chunk is looked at: its own header settles whether it may
 * be (a tensor of stride 0). A compressed one holds at most what zstd can make of it.
 * Errors: -EBADMSG with the tensor, the bytes claimed and the bytes stored; what reading a header
 *         says. Waits.
 * Cost: a look at each chunk; one element is read of each short one.
 */
int sf_claims_check(struct sf_session *s, const uint32_t *entries, size_t n, struct sf_error *err);
/* The same of one tensor, but what the load found: the stored items of its chunks alone. */
int sf_claims_check_tensor(struct sf_session *s, uint32_t tensor, struct sf_error *err);

#endif
