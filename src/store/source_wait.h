/* Requests that somebody waits for. Private to src/store. */
#ifndef SF_STORE_SOURCE_WAIT_H
#define SF_STORE_SOURCE_WAIT_H

#include "store/source.h"

struct sf_waiting;
/* Bytes of @src that it has, asked for ahead, into memory of their own. NULL: no memory. */
struct sf_waiting *sf_waiting_begin(struct sf_source *src, uint64_t off, uint64_t len,
                                    enum sf_fetch_kind kind);
/* Waits for them, @timeout_ms at most, 0: as long as it takes. -ETIMEDOUT: the request is ended, or
 * left to itself where it cannot be. */
int sf_waiting_end(struct sf_waiting *w, unsigned timeout_ms, struct sf_error *err);
/* Valid after sf_waiting_end() was 0, until unref. */
const uint8_t *sf_waiting_bytes(const struct sf_waiting *w);
void sf_waiting_unref(struct sf_waiting *w);

#endif
