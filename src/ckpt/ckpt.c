#include "config.h"

#include <stdlib.h>

#include "ckpt/box.h"
#include "base/mem.h"
#include "ckpt/ckpt.h"

const char *const sf_role_names[SF_NROLES] = { "other", "model", "optim" };

void sf_ckpt_free(struct sf_ckpt *ckpt)
{
	if (!ckpt)
		return;
	sf_arena_release(&ckpt->arena);
	free(ckpt);
}

bool sf_warning_is_note(const char *code)
{
	static const char *const notes[] = { "unread-files",    "plain-reading", "deep-path",
		                             "tensor-subclass", "shared-item",   "ranks-differ",
		                             "per-rank",        "no-mark",       "ephemeral" };

	for (size_t i = 0; i < SF_ARRAY_LEN(notes); i++)
		if (strcmp(notes[i], code) == 0)
			return true;
	return false;
}

void sf_tensor_chunk(const struct sf_tensor *t, uint32_t i, struct sf_chunk *ret)
{
	for (unsigned d = 0; d < t->ndim; d++) {
		ret->origin[d] = sf_chunk_origin(t, i, d);
		ret->extent[d] = sf_chunk_extent(t, i, d);
	}
	ret->part_off = sf_chunk_part_off(t, i);
	ret->part_len = sf_chunk_part_len(t, i);
	ret->place = t->place[i];
	ret->off = t->off[i];
	ret->len = t->len[i];
}
