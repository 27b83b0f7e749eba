/* The token of a Hugging Face hub's user. */
#ifndef SF_STORE_HUB_TOKEN_H
#define SF_STORE_HUB_TOKEN_H

#include "base/error.h"
#include "store/url.h"

/*
 * sf_hub_token - what to show the hub at @u; *ret is malloc'ed, NULL: nothing.
 *
 * Of https://huggingface.co, or of the hub that HF_ENDPOINT names, and of no other host: HF_TOKEN,
 * else the file HF_TOKEN_PATH, else "token" in HF_HOME (~/.cache/huggingface). None with
 * HF_HUB_DISABLE_IMPLICIT_TOKEN. -EINVAL: what is there is no token; -ENOMEM.
 * Source: huggingface/huggingface_hub src/huggingface_hub/constants.py, utils/_auth.py, 2.4.
 */
int sf_hub_token(const struct sf_url *u, char **ret, struct sf_error *err);

#endif
