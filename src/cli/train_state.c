#include "config.h"
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include "cli/train_state.h"

static bool has(const struct sf_catalog *c, const char *key)
{
	for (uint32_t i = 0; i < c->n; i++)
		if (c->entry[i].len == strlen(key) &&
		    memcmp(c->entry[i].name, key, c->entry[i].len) == 0)
			return true;
	return false;
}

int sf_train_state(const struct sf_catalog *c, unsigned rank, char ret[64], struct sf_error *err)
{
	const unsigned ranks[2] = { rank == UINT_MAX ? 0 : rank, 0 };

	/* as OLMo-core's trainer looks for its own */
	for (int i = 0; i < 2; i++) {
		snprintf(ret, 64, "train.rank%u", ranks[i]);
		if (has(c, ret))
			return 0;
	}
	return sf_fail(err, -ENOENT,
	               "'%s': no state of a trainer in it (train/rank0.pt of OLMo-core)",
	               c->ckpt->source);
}
