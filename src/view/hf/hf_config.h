/* The one synthesised edit of a companion: config.json names the dtype that the weights are shown
 * in. */
#ifndef SF_VIEW_HF_HF_CONFIG_H
#define SF_VIEW_HF_HF_CONFIG_H

#include "base/buf.h"

/* @json with the text of its outermost "torch_dtype" and "dtype" replaced where these are strings;
 * all else byte by byte. */
void sf_hf_set_dtype(const char *json, size_t len, const char *dtype, struct sf_buf *out);

#endif
