/* --map: stored names -> shown names, and the paths that go with them. */
#ifndef SF_VIEW_CATALOG_MAP_H
#define SF_VIEW_CATALOG_MAP_H

#include "base/arena.h"
#include "base/buf.h"
#include "ckpt/ckpt.h"
#include "view/view_options.h"

/*
 * sf_map_name - the shown name by the first rule that matches.
 *
 * OLD is the whole name or its first components; one '*' in it takes one whole component, which
 * replaces the '*' of NEW. An empty OLD matches every name (NEW becomes a prefix); an empty NEW
 * takes the prefix out. '.' and '/' both separate in OLD. Returns true with the name appended to
 * @out (empty before), false when no rule matches.
 */
bool sf_map_name(const struct sf_map_rule *rule, size_t nrules, const char *name, size_t len,
                 struct sf_buf *out);

/*
 * sf_map_path - the path of a key whose name became @name.
 *
 * The group's @strip elements stay, so that a group file can leave them out; elements before and
 * behind what changed stay as they were; the rest is one element, or one per component where the
 * old path was split so. Memory: @arena; @name is borrowed. -ENOMEM.
 */
int sf_map_path(const struct sf_key *key, unsigned strip, const char *name, size_t len,
                struct sf_arena *arena, const struct sf_path_elem **ret, uint32_t *ret_n);

#endif
