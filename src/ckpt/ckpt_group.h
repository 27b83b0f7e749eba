/* Which keys belong together (a group), and what they are (its role). */
#ifndef SF_CKPT_CKPT_GROUP_H
#define SF_CKPT_CKPT_GROUP_H

#include "base/error.h"
#include "ckpt/ckpt.h"

/* A format's own word on one key; the last one for a key counts. */
struct sf_group_choice {
	uint32_t key;
	const char *name; /* lives as long as the checkpoint */
	uint32_t len;
	uint8_t role, strip;
};

/*
 * sf_group_keys - give every key its group and make ckpt->group[], in the order of first
 * appearance.
 *
 * By default from the paths (Source: PyTorch's planner data, formats/dcp.md 3.4): the first element
 * of a path of two or more, else the unnamed group; one level deeper when one root container holds
 * all tensors, those of a container `rng` aside (Composer's state and rng), and has a child with
 * the name of a model or an optimizer. What lies beside such children (root.step) forms the group
 * of the root container. The unnamed group is the model unless it has no tensor while others have,
 * or a named model has tensors: then it is what lies beside it (step, epoch), SF_ROLE_OTHER. Groups
 * are told apart by name and strip. Errors: -ENOMEM.
 */
int sf_group_keys(struct sf_ckpt *ckpt, struct sf_key *key, const struct sf_group_choice *choice,
                  size_t nchoices, struct sf_error *err);

#endif
