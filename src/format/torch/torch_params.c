#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/torch/torch_params.h"

#define GROUPS_MAX 1024

static bool fits(const struct sf_param_shape *cand, const struct sf_param_shape *id)
{
	return !id->known || (cand->ndim == id->ndim &&
	                      memcmp(cand->shape, id->shape, id->ndim * sizeof(*id->shape)) == 0);
}

/* Numbers [@first, @end) in order among what is not @used: true when taking each as early as it fits,
 * and as late, gives the same. */
static bool match_group(const struct sf_param_shape *cand, size_t ncand, const bool *used,
                        const struct sf_param_shape *id, size_t first, size_t end, uint32_t *ret)
{
	size_t at = 0;

	for (size_t i = first; i < end; i++, at++) {
		while (at < ncand && (used[at] || !fits(&cand[at], &id[i])))
			at++;
		if (at == ncand)
			return false;
		ret[i] = (uint32_t)at;
	}
	at = ncand;
	for (size_t i = end; i-- > first;) {
		while (at > 0 && (used[at - 1] || !fits(&cand[at - 1], &id[i])))
			at--;
		if (at == 0 || --at != ret[i])
			return false;
	}
	return true;
}

bool sf_torch_match_params(const struct sf_param_shape *cand, size_t ncand,
                           const struct sf_param_shape *id, size_t n, const size_t *end,
                           size_t ngroups, uint32_t *ret)
{
	SF_FREE bool *used = calloc(ncand + 1, sizeof(*used));
	bool done[GROUPS_MAX] = { false }, more = true;
	size_t left = ngroups, known = 0;

	if (!used || ngroups > GROUPS_MAX || n > ncand)
		return false;
	for (size_t i = 0; i < n; i++)
		known += id[i].known;
	/* what is one group's is no other's: which may leave those one way only */
	while (left && more && known) {
		more = false;
		for (size_t g = 0; g < ngroups; g++) {
			const size_t first = g ? end[g - 1] : 0;
			if (done[g] || !match_group(cand, ncand, used, id, first, end[g], ret))
				continue;
			for (size_t i = first; i < end[g]; i++)
				used[ret[i]] = true;
			done[g] = more = true;
			left--;
		}
	}
	return !left && known;
}
