/* --map: stored names -> shown names, and the paths that go with them. */
#ifndef SF_CATALOG_CATALOG_MAP_H
#define SF_CATALOG_CATALOG_MAP_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/map.h"
#include "catalog/key_near.h"
#include "catalog/view_options.h"
#include "ckpt/ckpt.h"

/* Rules made ready for many names; @rule is borrowed. Not thread-safe: it has room for one
 * question. */
struct sf_key_map {
	const struct sf_map_rule *rule;
	size_t n;
	struct sf_map
		plain;  /* OLD without '*', its separators all dots -> the first rule that has it */
	uint32_t *wild; /* rules with a '*' in OLD or an empty OLD, in their order */
	size_t nwild;
	bool *met; /* by rule: it gave a name */
	struct sf_buf key;
};
int sf_key_map_init(struct sf_key_map *m, const struct sf_map_rule *rule,
                    size_t n); /* -ENOMEM: to be released all the same */
void sf_key_map_release(struct sf_key_map *m);

/*
 * sf_map_name - the shown name by the first rule that matches.
 *
 * OLD is the whole name or its first components; one '*' in it takes one whole component, which
 * replaces the '*' of NEW. An empty OLD matches every name (NEW becomes a prefix); an empty NEW
 * takes the prefix out. '.' and '/' both separate in OLD. Returns 1 with the name appended to @out
 * (empty before; sf_buf_check() it), 0 when no rule matches, -ENOMEM.
 * Cost: the name's components, and the rules with a '*' in front of the one that matches.
 */
int sf_map_name(struct sf_key_map *m, const char *name, size_t len, struct sf_buf *out);

/*
 * sf_map_check - does every @arg match something?
 *
 * After sf_map_name() was asked for the shown names. One all of whose rules gave none is asked for
 * @n names of @arg again, by itself: an earlier rule may have been first, or the names are not
 * shown. Errors: -EINVAL, "--OPTION 'OLD=NEW' matches no key" with a hint; -ENOMEM.
 */
int sf_map_check(const struct sf_key_map *m, const char *option, const struct sf_map_arg *arg,
                 size_t nargs, sf_key_name *name, const void *names, uint32_t n,
                 struct sf_error *err);

/*
 * sf_map_path - the path of a key whose name became @name.
 *
 * It spells @name, so that the nested views say what the flat ones say. Elements before and behind
 * what changed stay as they were; the rest is one element, or one per component where the old path
 * was split so. *ret_moved: the name is no longer below the group's @strip elements: a group file
 * has nothing to leave out then. Memory: @arena; @name is borrowed. -ENOMEM.
 */
int sf_map_path(const struct sf_key *key, unsigned strip, const char *name, size_t len,
                struct sf_arena *arena, const struct sf_path_elem **ret, uint32_t *ret_n,
                bool *ret_moved);

#endif
