/* A rank's shards: files written side by side, each its items one after another. */
#ifndef SF_SAVE_SAVE_WRITE_H
#define SF_SAVE_SAVE_WRITE_H

#include <stdatomic.h>
#include "save/save_item.h"
#include "save/save_shard_name.h"
#include "save/save_stage.h"
#include "save/save_target.h"

struct sf_write_place {
	uint64_t item; /* of the items */
	uint32_t file; /* 0 … nfiles - 1 */
	uint64_t off;
};
struct sf_shard_writer_options {
	const char *dir; /* put before the files' names: "" (NULL) or "model_and_optim/" */
	uint32_t rank;
	unsigned nfiles;
	bool fsync, crc, hash; /* hash: SHA-256 of each file, for the manifest */
	int zstd;              /* level; 0: none. Places' offsets are not kept then */
	struct sf_stage_pool *pool;
	_Atomic bool *cancel;       /* -ECANCELED soon after it is set; NULL: never */
	_Atomic uint64_t *progress; /* bytes of items written; NULL: nobody asks */
};
struct sf_shard_file { /* what became of a file */
	uint64_t size; /* 0: no item is in it, and it was not made */
	uint8_t sha256[32];
};

/*
 * sf_shard_write_begin - starts the writers: a thread a file. @snapshot: returns when every item's bytes
 * were copied (their memory is the caller's again), else when the writers run.
 *
 * Bytes go by way of the pool's buffers, a few MiB at a time: a thread waits for one while it holds none.
 * With @snapshot as many as the budget has are filled, and written when all of them are, or as soon as
 * there is no more room. Large tensors that lie dense in the host's memory are written from there when
 * there is no @snapshot. What lies between items is zeros.
 * sf_shard_write_end waits for them, fsyncs, closes. @ret_file: nfiles entries; @ret_place: as @place,
 * with the offset and length that each item has got (@n entries). Either may be NULL.
 * Errors: -ECANCELED; those of the file system, with the file's name; a provider's. What failed in a
 * thread is told by sf_shard_write_end, also when that was before begin returned.
 * On a failure the files are left to whoever removes the directory.
 * Memory: @t, @items and what they point to, and @o's dir, pool, cancel and progress outlive @w; @place
 * need not.
 */
struct sf_shard_write;
struct sf_shard_place {
	uint32_t file;
	uint64_t off, len;
};
int sf_shard_write_begin(struct sf_save_target *t, const struct sf_save_items *items,
                         const struct sf_write_place *place, uint64_t n,
                         const struct sf_shard_writer_options *o, bool snapshot,
                         struct sf_shard_write **ret, struct sf_error *err);
bool sf_shard_write_ended(const struct sf_shard_write *w); /* end will not wait */
int sf_shard_write_end(struct sf_shard_write *w, struct sf_shard_file *ret_file,
                       struct sf_shard_place *ret_place, struct sf_error *err); /* frees @w */

#endif
