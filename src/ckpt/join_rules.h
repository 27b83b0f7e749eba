/* How the tensor-parallel pieces of a parameter are put together: by its name. */
#ifndef SF_CKPT_JOIN_RULES_H
#define SF_CKPT_JOIN_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/error.h"

enum sf_join_how {
	SF_JOIN_ALONG,   /* one behind the other along an axis */
	SF_JOIN_GATED,   /* each piece is two halves: all first ones, then all second ones */
	SF_JOIN_COPY,    /* all ranks have the same: the first's is taken */
	SF_JOIN_PER_RANK /* not put together: each rank has its own key */
};
struct sf_join_rule {
	const char *pattern; /* '*', '?', [0-9], of the whole name */
	uint8_t how, axis;
	/* of a parameter of one layer: where layers or experts are stacked, those dimensions come
	 * first, and the axis is counted behind them. 0: the user's, whose axis is the tensor's */
	uint8_t ndim;
	bool if_gated; /* SF_JOIN_GATED where the model has gated MLPs, else SF_JOIN_ALONG */
};

/* The user's, which are asked first, then those that are built in. { 0 }: the latter alone. */
struct sf_join_rules {
	struct sf_arena arena;
	struct sf_join_rule *at;
	size_t n;
	bool gated; /* args.swiglu: the caller's */
};

/*
 * sf_join_rules_parse - the text of a file of rules, a line each: PATTERN, blanks, and one of
 *   0, 1, 2 …  the axis along which pieces lie behind each other
 *   gated      axis 0, each piece two halves
 *   copy       all ranks have the same
 *   rank       shown per rank
 * The first rule whose pattern has the name counts. '#' begins a comment.
 * Errors: -EINVAL with the line's number; -ENOMEM. @ret is to be released in any case.
 */
int sf_join_rules_parse(const char *text, size_t len, struct sf_join_rules *ret,
                        struct sf_error *err);
void sf_join_rules_release(struct sf_join_rules *rules);

/* The rule for @name; SF_JOIN_PER_RANK when there is none. @ret_known: there is one. */
struct sf_join_rule sf_join_rules_find(const struct sf_join_rules *rules, const char *name,
                                       size_t len, bool *ret_known);

#endif
