/* Files that are packed as a whole (x.pt.gz): what they went through, and how that is undone, piece by
 * piece. Codecs of parts of files are codec.h's. */
#ifndef SF_PARSE_UNPACK_H
#define SF_PARSE_UNPACK_H

#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

enum sf_packing {
	SF_PACKING_NONE,
	SF_PACKING_GZIP,
	SF_PACKING_BZIP2,
	SF_PACKING_XZ,
	SF_PACKING_LZMA, /* what xz calls "alone": no magic number, but a head that few others have */
	SF_PACKING_ZSTD,
	SF_PACKING_LZ4,
	SF_PACKING_LZOP, /* known, not undone */
	SF_NPACKINGS
};

#define SF_PACKING_HEAD 16 /* bytes that tell; fewer, where a file has no more */
enum sf_packing sf_packing_of(const uint8_t *head, size_t len);
const char *sf_packing_name(enum sf_packing packing); /* "gzip", for messages */

/* Memory: that of its library's decoder, 256 MiB at most. One thread at a time. */
struct sf_unpacker;
/* -ENOTSUP, with its name: this shardfuse was built without it; -ENOMEM. */
int sf_unpacker_new(enum sf_packing packing, struct sf_unpacker **ret, struct sf_error *err);
void sf_unpacker_free(struct sf_unpacker *u); /* NULL is fine */

/*
 * sf_unpacker_step - takes of the next bytes, *in, what it can, and puts out what it can.
 *
 * What it took is gone from *in and *in_len. All is out that there is up to here when less than
 * @out_len is put out and *in_len is 0. Streams one behind the other are one.
 * Errors: -EBADMSG it is no such stream, or damaged; -ENOBUFS it needs more memory than it may have;
 * -ENOMEM. After one all further calls fail.
 */
int sf_unpacker_step(struct sf_unpacker *u, const uint8_t **in, size_t *in_len, uint8_t *out,
                     size_t out_len, size_t *ret_out, struct sf_error *err);
/* After the last bytes: -EBADMSG, it was cut. */
int sf_unpacker_end(struct sf_unpacker *u, struct sf_error *err);

#endif
