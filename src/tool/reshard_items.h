/* The keys that sessions show, as items of a checkpoint that is written anew. */
#ifndef SF_TOOL_RESHARD_ITEMS_H
#define SF_TOOL_RESHARD_ITEMS_H

#include "lib/session.h"
#include "tool/reshard_plan.h"

/* A key. */
struct sf_reshard_item {
	struct sf_session *s;
	uint32_t entry; /* of its catalog */
};
struct sf_reshard_items {
	struct sf_reshard_item *item;
	struct sf_reshard_cut *cut; /* of each: its bytes and rows; not planned yet */
	size_t n;
	uint64_t bytes; /* of all */
	size_t nsteps;  /* of the longest path */
};

static inline const struct sf_entry *sf_reshard_entry(const struct sf_reshard_item *i)
{
	return &i->s->catalog->entry[i->entry];
}

/* NULL: it is an object. */
static inline const struct sf_tensor *sf_reshard_tensor(const struct sf_reshard_item *i)
{
	uint32_t t = sf_reshard_entry(i)->tensor;

	return t == SF_NONE ? NULL : &i->s->ckpt->tensor[t];
}

/*
 * sf_reshard_items_take - the keys of all sessions, in their order, but for those that are left out: objects where
 * the session shows none, Megatron's common state as one item, and the optimizer's with @no_optim.
 *
 * Errors: -EINVAL a key that two sessions have, no key at all; those of sf_claims_check; -ENOMEM. Release it in
 * any case.
 */
int sf_reshard_items_take(struct sf_reshard_items *x, struct sf_session *const *source, size_t n,
                          bool no_optim, struct sf_error *err);
void sf_reshard_items_release(struct sf_reshard_items *x);

#endif
