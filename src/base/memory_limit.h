/* How much memory there is: the machine's, or what its cgroup leaves a process. */
#ifndef SF_BASE_MEMORY_LIMIT_H
#define SF_BASE_MEMORY_LIMIT_H

#include <stdint.h>

/*
 * sf_memory_limit - bytes that this process may have: the least of the machine's memory and the limits
 * of its cgroup and all above it (v2 memory.max and memory.high, v1 memory.limit_in_bytes).
 *
 * @root stands before /proc and /sys; "" but in tests. What cannot be read limits nothing; UINT64_MAX:
 * nothing says. Threads: any. Cost: a few small files.
 */
uint64_t sf_memory_limit(const char *root);

#define SF_MEMORY_DEFAULT_MOST (UINT64_C(1) << 30)
#define SF_MEMORY_DEFAULT_LEAST (UINT64_C(16) << 20)
/* --memory where nobody says: a quarter of that, within these two. What else the process holds, the
 * program that reads, and the page cache are charged to the same cgroup. */
uint64_t sf_memory_default(const char *root);

#endif
