/* Bytes in several places, written whole. */
#ifndef SF_BASE_IOV_H
#define SF_BASE_IOV_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* The first @len bytes of *iov are done: *iov and *n become what is left. */
void sf_iov_skip(struct iovec **iov, int *n, size_t len);

/*
 * sf_writev_all, sf_pwritev_all - all of @iov, in as many system calls as it takes.
 *
 * Interrupted calls go on; a descriptor that somebody made non-blocking is waited for. 0, or the
 * first other -errno (-EFAULT: a mapping that ends before its file did); how much was written is
 * not told. @iov is used up.
 */
int sf_writev_all(int fd, struct iovec *iov, int n);
int sf_pwritev_all(int fd, struct iovec *iov, int n, uint64_t off);

#endif
