/* Rules of --map that show parts of a tensor: KEY[*], KEY[A:B of N in G], KEY[*][A:B of N in G]. */
#ifndef SF_CATALOG_MAP_PICK_H
#define SF_CATALOG_MAP_PICK_H

#include "base/error.h"
#include "catalog/view_options.h"
#include "ckpt/ckpt.h"

#define SF_MAP_PICKS_MAX (1u << 22) /* parts of a checkpoint */

/*
 * sf_map_pick_parse - OLD of a rule: fills all but new_name.
 *
 *   [*]             each tensor along the first dimension (layers that are stacked): '*' of NEW is its number
 *   [A:B]           of the first dimension (the next, behind [*]) rows A to B - 1
 *   [A:B of N]      that dimension cut into N equal parts, those from A to B - 1
 *   [A:B of N in G] the same of each of G equal groups: those of all groups, one behind the other
 *
 * What ends otherwise has no brackets: it is a name. old_name and whole are malloc'ed on success alone.
 * Errors: -EINVAL numbers that cannot be; -ENOMEM.
 */
int sf_map_pick_parse(const char *old, size_t len, struct sf_map_rule *rule, struct sf_error *err);

/*
 * sf_map_picks - the parts that @o's rules name become keys of @ckpt (ckpt_pick.h): part 3 of KEY[*][0:1
 * of 2] is KEY.3.[0:1 of 2], which the rule's old_name, KEY.*.[0:1 of 2], then renames.
 *
 * The key itself is no longer shown. Before anybody else sees @ckpt. Errors: -EINVAL, with the rule and
 * both numbers, a part that the tensor does not have; -E2BIG; -ENOMEM. Cost: O(keys * (log rules +
 * rules with a '*' in KEY) + parts).
 */
int sf_map_picks(struct sf_ckpt *ckpt, const struct sf_view_options *o, struct sf_error *err);

#endif
