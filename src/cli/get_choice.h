/* What get's KEY arguments mean: entries in the order given, and parts of tensors. */
#ifndef SF_CLI_GET_CHOICE_H
#define SF_CLI_GET_CHOICE_H

#include "cli/key_slice.h"

/* One thing that was asked for. */
struct sf_chosen {
	uint32_t entry;
	const struct sf_key_slice *slice; /* a part of a tensor; NULL: all of it */
	const char *part;                 /* as it was typed, "[0:4]", or "" */
};
struct sf_get_choice {
	struct sf_chosen *at;
	uint32_t n, cap;
	uint32_t nslices;
	struct sf_key_slice *slices; /* an argument each */
};

/*
 * sf_get_choose - @keys as key_slice.h says what one means; each entry once, but each slice.
 *
 * -ENOENT no key matches; -EINVAL a slice of something that is no tensor, or that it does not have;
 * -ENOMEM. @ret borrows from @keys and is to be released in any case.
 */
int sf_get_choose(const struct sf_catalog *c, int nkeys, char **keys, struct sf_get_choice *ret,
                  struct sf_error *err);
void sf_get_choice_release(struct sf_get_choice *ch);

#endif
