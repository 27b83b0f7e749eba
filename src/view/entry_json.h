/* A key as JSON: what tensors.json, state/…/info.json and the verbs' --json say of it. */
#ifndef SF_VIEW_ENTRY_JSON_H
#define SF_VIEW_ENTRY_JSON_H

#include "base/buf.h"
#include "catalog/catalog.h"

/*
 * {"key", "stored_name", "dtype", "shape", "bytes", "group", "shards": […]}; an object has
 * "object": true and its one shard. No newline.
 *
 * Where it is so: "tied_to", the stored name of the tensor whose storage this one has; of a shard
 * "inside", the members of the file that it lies in, "stream", the compressed one, "fill": true, no
 * item, "part" of its box, "stride" (elements), "conj", "neg" of an item that the format says is
 * not its dense box.
 */
void sf_entry_json(struct sf_buf *out, const struct sf_catalog *c, uint32_t entry);
/* The whole checkpoint's facts, as --json prints them. */
void sf_ckpt_json(struct sf_buf *out, const struct sf_catalog *c);

#endif
