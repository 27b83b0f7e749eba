/* All that a checkpoint shows, looked at: the tree, sizes, bytes of the views, what they parse
 * as. */
#ifndef SF_TESTS_FUZZ_WHOLE_VISIT_H
#define SF_TESTS_FUZZ_WHOLE_VISIT_H

#include <stdbool.h>
#include <stdint.h>

#include "tree/tree.h"

/* What came of one path: the code, and a hash of what was read. Two visits of the same bytes are
 * compared by these. */
struct whole_seen {
	uint64_t step; /* a hash of the path and of what was asked of it */
	char path[40]; /* its end, for a message */
	int r;
	uint64_t value;
};
#define WHOLE_SEEN 8192

struct whole_visit {
	const struct sf_catalog *c;
	struct sf_reader *reader;
	struct sf_tree *tree;
	bool silent;   /* nobody wants messages: every err is NULL */
	int fault;     /* the code of what is made to fail on the way, 0: nothing is */
	uint64_t seed; /* which files are read where there are many */
	struct whole_seen seen[WHOLE_SEEN];
	unsigned nseen;
	/* what is left of this visit */
	uint64_t bytes;
	unsigned nodes;
};

/* An abort when a promise of the headers is broken: @what, @path and the numbers go to stderr. */
void whole_broken(const char *path, const char *what, long long a, long long b)
	__attribute__((noreturn));
uint64_t whole_hash(uint64_t h, const void *at, size_t len);
/* A result and its message: a message if and only if it failed. @err NULL: none was wanted. */
int whole_result(const char *path, int r, const struct sf_error *err);
/* @what: a word or an offset, so that no two notes of a path are taken for the same. */
void whole_note(struct whole_visit *v, const char *path, uint64_t what, int r, uint64_t value);

void whole_visit(struct whole_visit *v);
/* Does what a view gave parse as what its name says? whole_parse.c */
void whole_parse(const char *path, const uint8_t *at, size_t len, bool real_crc);

#endif
