/* get --train-state: the keys under which a checkpoint shows what its trainer kept of itself. */
#ifndef SF_CLI_TRAIN_STATE_H
#define SF_CLI_TRAIN_STATE_H

#include "catalog/catalog.h"

/*
 * sf_train_state - the key of @rank's state, of rank 0's where it has none of its own; @rank UINT_MAX:
 * nobody named one.
 * Errors: -ENOENT there is none.
 */
int sf_train_state(const struct sf_catalog *c, unsigned rank, char ret[64], struct sf_error *err);

#endif
