/* What stands beside the weights in a model's directory: config.json, the tokenizer … */
#ifndef SF_VIEW_HF_HF_COMPANIONS_H
#define SF_VIEW_HF_HF_COMPANIONS_H

#include "base/arena.h"
#include "base/error.h"
#include "store/store.h"

/*
 * sf_hf_find_files - the directory that has config.json for this checkpoint.
 *
 * @ckpt_dir: a path or file:// URL. Looked into: it, its huggingface/ hf/ hf_assets/ .hf_metadata/
 * context/, then its parent. *ret is malloc'ed. -ENOENT: nowhere (or SOURCE is not on this
 * machine).
 */
int sf_hf_find_files(const char *ckpt_dir, char **ret_dir);

/* Objects of @store that are, as they are now, sorted by name, in @arena. */
int sf_hf_list_companions(struct sf_store *store, struct sf_arena *arena,
                          const struct sf_objinfo **ret, uint32_t *ret_n, struct sf_error *err);

#endif
