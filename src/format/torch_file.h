/* A file of torch.save: the value it holds. */
#ifndef SF_FORMAT_TORCH_FILE_H
#define SF_FORMAT_TORCH_FILE_H

#include "base/arena.h"
#include "parse/pickle_read.h"
#include "store/store.h"

/*
 * sf_torch_file_value - the pickled value of a file of torch.save (parse/torch_archive.h).
 *
 * Reads no tensor. @want: the version that was listed.
 * Errors:  -ENOTSUP no such file, or a packed data.pkl; -E2BIG directory or pickle over @limit
 *          bytes; -EBADMSG; -ESTALE; those of the store.
 * Memory:  the value is @arena's.
 */
int sf_torch_file_value(struct sf_store *store, const struct sf_objinfo *want, uint64_t limit,
                        struct sf_arena *arena, struct sf_pv **ret, struct sf_error *err);

/* The same of an archive inside a source: its bytes [off, off + len). */
int sf_torch_value(struct sf_source *src, uint64_t off, uint64_t len, uint64_t limit,
                   struct sf_arena *arena, struct sf_pv **ret, struct sf_error *err);

#endif
