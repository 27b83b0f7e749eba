#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "format/megatron/megatron.h"

/* What Megatron's names of sharded keys say. */

static bool begins(const char *key, size_t len, const char *with)
{
	const size_t n = strlen(with);

	return len >= n && memcmp(key, with, n) == 0;
}

/* chained_0.optimizer.state…: of several optimizers, before 0.14 always. */
static size_t chain_prefix(const char *key, size_t len)
{
	size_t at = strlen("chained_");

	if (!begins(key, len, "chained_"))
		return 0;
	while (at < len && key[at] >= '0' && key[at] <= '9')
		at++;
	return at > strlen("chained_") && at < len && key[at] == '.' ? at + 1 : 0;
}

/* Source: NVIDIA/Megatron-LM megatron/training/checkpointing.py (generate_state_dict) and
 * megatron/core/optimizer/, 0.8 to 0.19. */
int megatron_group(struct sf_ckpt_builder *b, const char *key, size_t len, struct sf_error *err)
{
	static const struct {
		const char *begins, *group;
		enum sf_role role;
	} known[] = {
		{ "optimizer.", "optimizer", SF_ROLE_OPTIM },
		{ "rng_state/", "rng_state", SF_ROLE_OTHER },
		{ "rng_state.", "rng_state", SF_ROLE_OTHER },
		{ "rerun_state_machine_state/", "rerun_state_machine_state", SF_ROLE_OTHER },
		{ "common_state/", "common_state", SF_ROLE_OTHER },
	};
	const size_t chain = chain_prefix(key, len);

	for (size_t i = 0; i < SF_ARRAY_LEN(known); i++)
		if (begins(key + chain, len - chain, known[i].begins))
			return sf_ckpt_builder_group(b, key, len, known[i].group, known[i].role, 0,
			                             err);
	return sf_ckpt_builder_group(b, key, len, "model", SF_ROLE_MODEL, 0, err);
}
