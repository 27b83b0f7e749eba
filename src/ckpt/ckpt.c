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
	sf_map_release(&ckpt->names);
	sf_arena_release(&ckpt->arena);
	free(ckpt);
}

bool sf_warning_is_note(const char *code)
{
	static const char *const notes[] = { "unread-files", "plain-reading", "deep-path",
		                             "tensor-subclass", "shared-item" };

	for (size_t i = 0; i < SF_ARRAY_LEN(notes); i++)
		if (strcmp(notes[i], code) == 0)
			return true;
	return false;
}

static int same_name(void *arg, uint32_t value, const char *name, size_t len)
{
	const struct sf_key *k = (const struct sf_key *)arg + value;

	return k->len == len && (len == 0 || memcmp(k->name, name, len) == 0);
}

uint32_t sf_ckpt_find(const struct sf_ckpt *ckpt, const char *name, size_t len)
{
	uint32_t i = sf_map_get(&ckpt->names, name, len, same_name, (void *)ckpt->key);

	return i == SF_MAP_NONE ? SF_NONE : i;
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
