/* What a store listed, kept: copies, in order of their names. */
#ifndef SF_STORE_OBJINFO_H
#define SF_STORE_OBJINFO_H

#include "base/arena.h"
#include "base/vec.h"
#include "store/store.h"

SF_VEC(sf_objinfos, struct sf_objinfo);

/* @info with its texts in @arena, behind the others: -ENOMEM. */
int sf_objinfos_keep(struct sf_objinfos *v, struct sf_arena *arena, const struct sf_objinfo *info);
/* By name, for qsort and bsearch: pointers to struct sf_objinfo. */
int sf_objinfo_compare(const void *a, const void *b);

#endif
