/* The one copy function that may load from a mapping of a file: where the file was cut meanwhile
 * that is SIGBUS. */
#ifndef SF_STORE_GUARD_H
#define SF_STORE_GUARD_H

#include <stdint.h>
#include <sys/uio.h>

/*
 * sf_guard_install - make sf_guard_copy() safe in this process.
 *
 * Installs a handler of SIGBUS that ends a copy under way in the thread that met it, and passes
 * every other SIGBUS on to what was installed before. Signal handlers are the program's, so the
 * program calls this (once, early) and then sets io->guard; the library never does, and reads by
 * preadv without it. Returns 0 or -errno.
 */
int sf_guard_install(void);

/* @iov's lengths of bytes from @from on into its places. 0, or -EFAULT when the mapping ended.
 * SIGBUS must not be blocked. */
int sf_guard_copy(const struct iovec *iov, int niov, const void *from);
/* @count runs of @len bytes that follow each other at @from, to places @dst_step bytes apart: a
 * column shard's rows. */
int sf_guard_copy_strided(void *dst, int64_t dst_step, const void *from, uint64_t len,
                          uint64_t count);

#endif
