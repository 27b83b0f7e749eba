/* verify --expect: a file of the keys somebody counts on, compared by Megatron's strictness
 * words. */
#ifndef SF_CLI_EXPECT_H
#define SF_CLI_EXPECT_H

#include "lib/session.h"

/*
 * Source: NVIDIA/Megatron-LM megatron/core/dist_checkpointing/validation.py, StrictHandling (0.19).
 * log_* report and pass; raise_* and return_* report and fail, *_unexpected for keys that are
 * expected and not stored (Megatron's word for them; torch's and ours is missing) alone, *_all for
 * stored keys nobody expects as well. assume_ok_unexpected fails like raise_unexpected: Megatron
 * does not look beforehand then, and its load ends in a KeyError. ignore_all reports nothing.
 */
struct sf_strict {
	const char *name;
	bool missing, unexpected; /* which are looked for */
	bool fails;               /* they make verify fail */
};
const struct sf_strict *sf_strict_by_name(const char *name); /* NULL unknown */
const char *sf_strict_name(size_t i);                        /* the i-th, NULL past the last */

/* A stored key whose dtype or shape is another: "bfloat16" and "float32", "[16, 37]" and "[16]",
 * both when both differ; found is "object" where no tensor is. */
struct sf_mismatch {
	uint32_t entry; /* of the catalog */
	char *expected, *found;
};
struct sf_expect_report {
	struct sf_strs missing; /* names, malloc'ed */
	uint32_t *unexpected;   /* catalog entries */
	struct sf_mismatch *mismatched;
	size_t nunexpected, nmismatched;
};
/* FILE: a key a line, optionally a tab (or blanks) and dtype, and shape as 16x37 or [16, 37]. #
 * begins a comment line. */
int sf_expect_compare(const struct sf_catalog *c, const char *file, struct sf_expect_report *ret,
                      struct sf_error *err);
void sf_expect_release(struct sf_expect_report *r);

#endif
