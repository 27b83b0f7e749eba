/* Inside of shardfuse_value: a parsed pickle's tree that nobody parsed. */
#ifndef SF_SAVE_SAVE_VALUES_H
#define SF_SAVE_SAVE_VALUES_H

#include "parse/pickle_read.h"
#include "shardfuse_save.h"

/* The tree; the values' own, alive as long as they. */
struct sf_pv *sf_save_value_tree(const struct shardfuse_value *v);

#endif
