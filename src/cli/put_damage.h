/* Damage as people read it: a line per file and cause. */
#ifndef SF_CLI_PUT_DAMAGE_H
#define SF_CLI_PUT_DAMAGE_H

#include <stdio.h>
#include "view/damage.h"

/* The folded damage (view/damage.h), each line behind @indent; past @max lines the last says how
 * many more there are. */
void sf_put_damage(FILE *f, const struct sf_catalog *c, const struct sf_damage_list *l,
                   const char *indent, uint32_t max);

#endif
