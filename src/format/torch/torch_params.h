/* Which parameters are an optimizer's numbers? Pure. */
#ifndef SF_FORMAT_TORCH_PARAMS_H
#define SF_FORMAT_TORCH_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sf_param_shape {
	const uint64_t *shape;
	uint32_t ndim;
	bool known; /* of a number: it has a state as long as the parameter */
};

/*
 * sf_torch_match_params - finds the @n numbers of an optimizer among @ncand tensors of a model.
 *
 * Optimizers number parameters in the order in which they got them, group by group: @end[g] is the number
 * behind group g's last. Each group is taken to be in the model's order, with tensors between that are in no
 * group (buffers, frozen ones), or in another. @ret[i]: the candidate that number i is.
 * true: there is one way only to find all of them by their shapes; else nothing is guessed.
 * Memory: false where there is none for it. Cost: O(groups² * candidates).
 */
bool sf_torch_match_params(const struct sf_param_shape *cand, size_t ncand,
                           const struct sf_param_shape *id, size_t n, const size_t *end,
                           size_t ngroups, uint32_t *ret);

#endif
