/* Zip archives as torch.save and its imitators write them: where is a record's data? */
#ifndef SF_PARSE_ZIP_READ_H
#define SF_PARSE_ZIP_READ_H

#include <stddef.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/error.h"

/* Offsets are bytes from the archive's start. */
struct sf_zip_record {
	const char *name; /* with its prefix, "archive/data/0"; the arena's */
	size_t name_len;
	uint64_t header_off; /* of the local header */
	uint64_t comp_size, size;
	uint32_t crc;
	uint16_t method; /* 0 stored, 8 deflated */
};
struct sf_zip_dir {
	struct sf_zip_record *at;
	size_t n;
	const char *prefix; /* "archive", from the first entry, up to its first '/' */
	size_t prefix_len;
	/* entries sorted by name, of equal ones the first in the directory first:
	 * sf_zip_find()'s */
	uint32_t *by_name;
};

/*
 * The central directory needs the archive's end only. Two steps, because the caller fetches:
 *   1. sf_zip_find_end() on the last min(archive_len, SF_ZIP_TAIL) bytes tells where the directory
 * lies;
 *   2. sf_zip_parse_dir() on those bytes.
 */
#define SF_ZIP_TAIL (65535 + 22 + 20 + 56)
struct sf_zip_end {
	uint64_t dir_off, dir_len, entries;
};
int sf_zip_find_end(const uint8_t *tail, size_t tail_len, uint64_t archive_len,
                    struct sf_zip_end *ret, struct sf_error *err);
int sf_zip_parse_dir(const uint8_t *dir, const struct sf_zip_end *end, uint64_t archive_len,
                     struct sf_arena *arena, struct sf_zip_dir *ret, struct sf_error *err);
/* Data offset of a record from its local header (the first 30 bytes of it are enough). */
int sf_zip_local_data(const uint8_t header[30], uint64_t header_off, uint64_t *ret_data_off,
                      struct sf_error *err);
/* The first record of that name, as miniz (torch's reader) takes it; NULL without. Cost: O(log
 * n). */
/* without the prefix: "data.pkl" */
const struct sf_zip_record *sf_zip_find(const struct sf_zip_dir *dir, const char *name);

#endif
