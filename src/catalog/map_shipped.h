/* Mappings that come with the program: --map @NAME, --hf-map @NAME. */
#ifndef SF_CATALOG_MAP_SHIPPED_H
#define SF_CATALOG_MAP_SHIPPED_H

#include "base/buf.h"
#include "base/error.h"

/*
 * sf_map_shipped - the lines of @name, "OLD<tab>NEW", as a file of --map has them.
 *
 * Returns 1 with the lines appended to @out; 0: none is called so; -EINVAL: one is, and its numbers are
 * none; -ENOMEM.
 */
int sf_map_shipped(const char *name, struct sf_buf *out, struct sf_error *err);
/* Their names, for messages and --help. */
#define SF_MAP_SHIPPED "olmo-core-llama, olmo-core-olmo2, megatron-llama:HEADS:GROUPS"

#endif
