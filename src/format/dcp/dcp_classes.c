#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/dcp/dcp_subclass.h"

int dcp_classes_add(struct dcp_classes *c, const char *class, const char *key, bool sharded)
{
	unsigned i = 0;

	while (i < c->n && strcmp(c->at[i].name, class) != 0)
		i++;
	if (i == DCP_CLASSES_MAX)
		return 0;
	if (i == c->n) {
		c->at[i].name = class;
		c->at[i].first = strndup(key, 200);
		if (!c->at[i].first)
			return -ENOMEM;
		c->n++;
	}
	c->at[i].n++;
	c->at[i].sharded += sharded;
	return 0;
}

int dcp_classes_note(const struct dcp_classes *c, struct sf_ckpt_builder *b)
{
	int r = 0;

	for (unsigned i = 0; i < c->n && r >= 0; i++) {
		const char *some =
			c->at[i].n == 1 ? "1 tensor is an instance" : "tensors are instances";
		char sharded[64] = "", count[16] = "";
		if (c->at[i].n > 1)
			snprintf(count, sizeof(count), "%u ", c->at[i].n);
		if (c->at[i].sharded)
			snprintf(sharded, sizeof(sharded), "; %u in shards, shown as a list",
			         c->at[i].sharded);
		r = sf_ckpt_builder_warn(b, NULL, "tensor-subclass",
		                         "%s%s of %s (%s%s): in .pt as pickled, in .safetensors "
		                         "as KEY.ATTRIBUTE, not in npy/ and hf/%s",
		                         count, some, c->at[i].name, c->at[i].first,
		                         c->at[i].n > 1 ? ", …" : "", sharded);
	}
	return r;
}

void dcp_classes_release(struct dcp_classes *c)
{
	for (unsigned i = 0; i < c->n; i++)
		free(c->at[i].first);
	c->n = 0;
}
