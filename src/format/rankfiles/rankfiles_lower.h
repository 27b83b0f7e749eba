/* What the ranks have together, as keys of one checkpoint. */
#ifndef SF_FORMAT_RANKFILES_LOWER_H
#define SF_FORMAT_RANKFILES_LOWER_H

#include "ckpt/ckpt_builder.h"
#include "format/rankfiles/rankfiles_join.h"

/* By an optimizer's parameter number: the model's key, NULL where it is not known. { 0 }: none is. */
struct rankfiles_names {
	const struct rankfiles_key **key;
	size_t n;
};
void rankfiles_names_release(struct rankfiles_names *names);

/*
 * rankfiles_match - which parameters of @model are the numbers of @optim?
 *
 * By the shapes of the states (torch_params.h), among the model's DTensors, else among all floats; tied ones
 * once. @ret is empty where there is not one way only.
 * Errors: -ENOMEM.
 */
int rankfiles_match(const struct rankfiles_join *model, const struct rankfiles_join *optim,
                    struct rankfiles_names *ret, struct sf_error *err);

/*
 * rankfiles_lower - the keys of @j under @group.
 *
 * A DTensor or ShardedTensor is one tensor with a chunk for each box, of the lowest rank that has it; a
 * plain tensor or value that all ranks have alike is there once; what differs between ranks is under
 * rank.R. A part that contradicts itself or the others is left out, and told.
 * @names: of an optimizer; NULL none. Errors: those of the builder.
 */
int rankfiles_lower(struct sf_ckpt_builder *b, const char *group, struct rankfiles_join *j,
                    const struct rankfiles_names *names, struct sf_error *err);

#endif
