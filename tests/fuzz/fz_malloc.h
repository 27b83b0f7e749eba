/* Allocations that fail when they are told to: linked with -Wl,--wrap=malloc and its kin. */
#ifndef SF_TESTS_FUZZ_FZ_MALLOC_H
#define SF_TESTS_FUZZ_FZ_MALLOC_H

#include <stdbool.h>

/* From now the @nth allocation (from 0) fails, on whatever thread; with @all those after it too.
 * @nth < 0: none. Returns how many failed since the last call. */
long fz_malloc_fails(long nth, bool all);

#endif
