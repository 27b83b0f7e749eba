/* The bytes around the records of a torch.save archive, sized before they are made. */
#ifndef SF_PARSE_ZIP_WRITE_H
#define SF_PARSE_ZIP_WRITE_H

#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/crc32.h"

/*
 * Layout as PyTorch's own writer gives it (caffe2/serialize/inline_container.cc, 2.14;
 * docs/formats/torch-save.md): stored records, data at multiples of 64 from the archive's start
 * through an 'FB' extra field, zip64 where a size or an offset passes 2^32 - 2. Sizes and CRC stand
 * in the local header (no data descriptors), which torch, zipfile and unzip all take;
 * .format_version is left out so that readers use the real directory.
 */
struct sf_zip_entry {
	const char *name; /* with prefix */
	size_t name_len;
	uint64_t header_off, size;
	uint32_t crc; /* 0 for tensors in a mount */
};
/* with padding: data follows at once */
uint64_t sf_zip_header_len(size_t name_len, uint64_t header_off, uint64_t size);
/* exactly that many bytes */
void sf_zip_put_header(struct sf_buf *out, const struct sf_zip_entry *e);
uint64_t sf_zip_central_len(size_t name_len, uint64_t header_off, uint64_t size);
void sf_zip_put_central(struct sf_buf *out, const struct sf_zip_entry *e);
#define SF_ZIP_END_LEN (56 + 20 + 22)
void sf_zip_put_end(struct sf_buf *out, uint64_t entries, uint64_t dir_off, uint64_t dir_len);

#endif
