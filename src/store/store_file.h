/* A store that is a directory of this machine, and its sources: plain files read by preadv or lent
 * from a mapping. */
#ifndef SF_STORE_STORE_FILE_H
#define SF_STORE_STORE_FILE_H

#include "store/source.h"

/* @shown: what a failure calls it; once it is open it is called by its real path. -ENOENT,
 * -ENOTDIR, -EACCES … with the path in the message. */
int sf_store_file(struct sf_io *io, const char *path, const char *shown, struct sf_store **ret,
                  struct sf_error *err);

/*
 * sf_source_file - @fd, an open plain file, as a source; the source owns @fd from now on, also when
 * this fails.
 * @size, @version: as found by fstat of @fd.
 */
int sf_source_file(struct sf_io *io, int fd, const char *name, uint64_t size,
                   const struct sf_version *version, struct sf_source **ret, struct sf_error *err);
/* Bytes of such a source, read on this thread, which waits. -ESTALE: the file ends before them. */
int sf_source_file_read(struct sf_source *src, uint64_t off, const struct iovec *iov, int niov,
                        uint64_t len, struct sf_error *err);

#endif
