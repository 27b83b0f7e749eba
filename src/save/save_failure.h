/* Who failed and who never came, of a part of the ranks: gathered up the tree, told to all by rank 0. */
#ifndef SF_SAVE_SAVE_FAILURE_H
#define SF_SAVE_SAVE_FAILURE_H

#include "base/buf.h"
#include "base/error.h"

#define SF_FAILURE_NAMED 8 /* missing ranks that a message names */

/* { 0 }: none. */
struct sf_save_failure {
	uint32_t nfailed;
	int code;      /* of the lowest that failed */
	uint32_t rank; /* that one */
	struct sf_error err;
	/* without a word until the timeout; the lowest of them, ascending; ranks whose records would
	 * have come through those */
	uint32_t nmissing, missing[SF_FAILURE_NAMED], nbehind;
};

void sf_save_failure_add(struct sf_save_failure *f, uint32_t rank, int code, const char *msg);
void sf_save_failure_miss(struct sf_save_failure *f, uint32_t rank, uint32_t nbehind);
void sf_save_failure_merge(struct sf_save_failure *f, const struct sf_save_failure *from);

/* As bytes, and back: -EBADMSG they are none. */
void sf_save_failure_put(struct sf_buf *b, const struct sf_save_failure *f);
int sf_save_failure_take(const void *at, size_t len, struct sf_save_failure *ret);

/* What all are told. Returns the code, 0: nobody failed. @nrank: of 1 it is not said which. */
int sf_save_failure_say(const struct sf_save_failure *f, uint32_t nrank, unsigned timeout_ms,
                        struct sf_error *err);

#endif
