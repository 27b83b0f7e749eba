/* A key's JSON in pieces, so that a tensor of a million shards is spelt out where it is read. Only
 * view/ includes it. */
#ifndef SF_VIEW_ENTRY_JSON_PART_H
#define SF_VIEW_ENTRY_JSON_PART_H

#include "view/entry_json.h"

#define SF_JSON_SHARDS 256 /* shards in a piece */

/* At least 1. */
uint32_t sf_entry_json_parts(const struct sf_catalog *c, uint32_t entry);
/* Pieces 0 … parts - 1 one after the other are what sf_entry_json puts. */
void sf_entry_json_part(struct sf_buf *out, const struct sf_catalog *c, uint32_t entry,
                        uint32_t part);

#endif
