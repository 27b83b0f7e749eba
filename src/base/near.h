/* How far a misspelt word is from one that is known. */
#ifndef SF_BASE_NEAR_H
#define SF_BASE_NEAR_H

#include <stdbool.h>
#include <stddef.h>

#define SF_NEAR_MAX 8 /* edits that are looked for at most */

/*
 * sf_edits - letters to add, take out, replace, or swap with a neighbour (git's help counts so
 * too).
 *
 * More than @max (at most SF_NEAR_MAX) is max + 1. Cost: O(length * max), no memory.
 */
unsigned sf_edits(const char *a, size_t a_len, const char *b, size_t b_len, unsigned max);
/* Edits a word of this length may be off and still be meant: 1 of 3 letters, 2 of 6, 3 of 12. */
unsigned sf_edits_allowed(size_t len);
/* Is @b what somebody who wrote @a may mean: misspelt, or one the beginning of the other? */
bool sf_is_near(const char *a, size_t a_len, const char *b, size_t b_len);

#endif
