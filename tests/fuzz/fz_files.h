/* A checkpoint as one input of a fuzzer: its files one after the other, and words of -o. */
#ifndef SF_TESTS_FUZZ_FZ_FILES_H
#define SF_TESTS_FUZZ_FZ_FILES_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define FZ_FILES 64 /* what is behind is not looked at */

/*
 * A file: a byte with the length of the name, the name, four bytes (little-endian) with the length
 * of the content, the content. The file without a name is the options, a word a line. Lengths that
 * reach past the input end there, so any bytes are a list of files.
 */
struct fz_file {
	char name[256];
	const uint8_t *at; /* borrowed */
	size_t len;
};
struct fz_files {
	struct fz_file at[FZ_FILES];
	size_t n;
};

void fz_unpack(const uint8_t *data, size_t size, struct fz_files *ret);
void fz_pack_file(struct sf_buf *out, const char *name, const void *at, size_t len);
void fz_pack(struct sf_buf *out, const struct fz_files *files);
/* The directory @path with all below it, and @options (words between spaces). False: it cannot be
 * read. */
int fz_pack_dir(struct sf_buf *out, const char *path, const char *options);

#endif
