/* Keys as transformers knows them: without the wrappers that training put around the model. */
#ifndef SF_VIEW_HF_HF_NAMES_H
#define SF_VIEW_HF_HF_NAMES_H

#include "view/view.h"

/*
 * sf_hf_choose - which entries of @group hf/ shows, and as what.
 *
 * Tensors that safetensors takes, never `_extra_state`; the group's path taken off; `_orig_mod` and
 * the FSDP wrappers taken out, then a `module.` that all have (opt->hf_strip); then opt->hf_map. In
 * natural order of the names: layers.2 before layers.10. Memory: @arena. Errors: -EINVAL two keys
 * to one name, both in the message; -ENOMEM.
 */
struct sf_hf_name {
	const char *s; /* may hold NULs */
	uint32_t len, entry;
};
int sf_hf_choose(const struct sf_catalog *c, uint32_t group, struct sf_arena *arena,
                 struct sf_hf_name **ret, uint32_t *ret_n, struct sf_error *err);

/* Digits count as numbers; memcmp()'s sign. */
int sf_natural_compare(const char *a, size_t a_len, const char *b, size_t b_len);

#endif
