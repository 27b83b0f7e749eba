/* Which chunk does an item belong to? By the writer's index as a hint, then by origin. */
#ifndef SF_FORMAT_DCP_DCP_JOIN_H
#define SF_FORMAT_DCP_DCP_JOIN_H

#include "format/dcp/dcp_meta.h"

/*
 * The hint is the chunk's number in the list as planned; mostly right, so it is tried without a
 * search. An empty chunk is left to the search: writers before 2.8 gave empty chunks the origin of
 * real ones, and the item is the real one's.
 */
static inline bool dcp_join_hint(struct dcp_meta *m, const struct dcp_tensor *t, uint32_t hint,
                                 const uint64_t *origin, const struct dcp_item *item)
{
	const struct dcp_run *run;
	uint32_t chunk = dcp_meta_chunk_at(m, t, hint, &run), i = chunk - run->chunk0;
	struct dcp_item *at = &m->item.at[chunk];

	for (unsigned k = 0; k < run->ndim; k++)
		if (dcp_coord(m, run, i, k) != origin[k] ||
		    dcp_coord(m, run, i, run->ndim + k) == 0)
			return false;
	if (at->place == DCP_NONE)
		*at = *item;
	return true;
}

#endif
