/* How the tensor-parallel pieces of a parameter are put together: by its name. */
#ifndef SF_FORMAT_MEGATRON_MEGATRON_RULES_H
#define SF_FORMAT_MEGATRON_MEGATRON_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/error.h"

enum megatron_how {
	MEGATRON_JOIN,    /* one behind the other along an axis */
	MEGATRON_GATED,   /* each piece is two halves: all first ones, then all second ones */
	MEGATRON_COPY,    /* all ranks have the same: the first's is taken */
	MEGATRON_PER_RANK /* not put together: each rank has its own key */
};
struct megatron_rule {
	const char *pattern; /* '*', '?', [0-9], of the whole name */
	uint8_t how, axis;
	bool if_gated; /* MEGATRON_GATED where the model has gated MLPs, else MEGATRON_JOIN */
};

/* The user's, which are asked first, then those that are built in. { 0 }: the latter alone. */
struct megatron_rules {
	struct sf_arena arena;
	struct megatron_rule *at;
	size_t n;
	bool gated; /* args.swiglu: the caller's */
};

/*
 * megatron_rules_parse - the text of a file of rules, a line each: PATTERN, blanks, and one of
 *   0, 1, 2 …  the axis along which pieces lie behind each other
 *   gated      axis 0, each piece two halves
 *   copy       all ranks have the same
 *   rank       shown per rank
 * The first rule whose pattern has the name counts. '#' begins a comment.
 * Errors: -EINVAL with the line's number; -ENOMEM. @ret is to be released in any case.
 */
int megatron_rules_parse(const char *text, size_t len, struct megatron_rules *ret,
                         struct sf_error *err);
void megatron_rules_release(struct megatron_rules *rules);

/* The rule for @name; MEGATRON_PER_RANK when there is none. @ret_known: there is one. */
struct megatron_rule megatron_rules_find(const struct megatron_rules *rules, const char *name,
                                         size_t len, bool *ret_known);

#endif
