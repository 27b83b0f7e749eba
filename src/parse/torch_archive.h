/* What torch.save wrote, opened: the value, and where its storages lie. */
#ifndef SF_PARSE_TORCH_ARCHIVE_H
#define SF_PARSE_TORCH_ARCHIVE_H

#include <stdbool.h>
#include "parse/pickle_read.h"
#include "parse/zip_read.h"
#include "store/source.h"

enum sf_torch_container {
	SF_TORCH_NONE,
	SF_TORCH_ZIP,    /* 1.6 and newer: records data.pkl, data/<key> */
	SF_TORCH_STREAM, /* before, or _use_new_zipfile_serialization=False: pickles, then storages */
	SF_TORCH_TAR,    /* before 0.1.10: members pickle, tensors, storages */
	SF_TORCH_NCONTAINERS
};

/* Which one begins with these bytes? SF_TORCH_HEAD of them are enough, fewer will do for a zip. */
#define SF_TORCH_HEAD 512
enum sf_torch_container sf_torch_container(const uint8_t *head, size_t len);

/* The container's bytes: all in memory, or asked for. */
struct sf_torch_range {
	uint64_t off, len;
};
struct sf_torch_input {
	uint64_t len;
	const uint8_t *at; /* NULL: by read */
	/* The ranges, all inside len, one behind the other into @buf. May wait. */
	int (*read)(void *arg, const struct sf_torch_range *range, size_t n, uint8_t *buf,
	            struct sf_error *err);
	void *arg;
};
/* sf_torch_input.read of bytes [off, off + …) of a source; its arg is one of these. */
struct sf_torch_source {
	struct sf_source *src;
	uint64_t off;
	enum sf_fetch_kind kind;
};
int sf_torch_source_read(void *arg, const struct sf_torch_range *range, size_t n, uint8_t *buf,
                         struct sf_error *err);

/*
 * A storage has no dtype: that is the tensors' which use it (sf_torch_tensor_from_pv). Elements are
 * little-endian but in a zip that says otherwise (struct sf_torch_archive). Storages may overlap:
 * a view of another one is a storage too.
 */
struct sf_torch_record {
	const char *key;   /* as persistent ids have it; NUL behind, none inside */
	uint64_t off, len; /* bytes of the container */
};

struct sf_torch_archive {
	enum sf_torch_container container;
	bool big_endian; /* elements are: written on such a machine */
	/*
	 * Whatever the container, storages are named in it by persistent ids as a zip has them,
	 * ("storage", class, key, location, count), and tensors are _rebuild_tensor_v2 of those.
	 */
	struct sf_pv *root;
	const struct sf_torch_record *storage; /* sorted by key as bytes, no key twice */
	uint32_t nstorages;
};

struct sf_torch_options {
	uint64_t part_max;   /* bytes of a directory, of a pickle, and of the value made of it; 0: 1
	                        GiB */
	unsigned containers; /* 1 << enum sf_torch_container, 0: all */
	bool value_only;     /* storages are not looked for, where that saves reading */
};

/*
 * sf_torch_open - reads the value, and finds the storages; no storage is read.
 *
 * Errors:  -ENOTSUP no file of torch.save, or one of a container that was not asked for; a record
 *          that is compressed; a storage of a class nobody knows. -E2BIG a part over part_max;
 *          -EBADMSG malformed (a CRC that is there and wrong, too); -ENOMEM; those of read.
 * Memory:  everything is @arena's. What is needed meanwhile is charged to the arena's charge.
 * Threads: pure but for read.
 * Cost:    zip: four reads, of the end, the directory, all local headers, and data.pkl (and one of
 *          3 bytes); stream and tar: a read for each storage or 64 KiB.
 * Source:  pytorch/pytorch torch/serialization.py (2.13: _load, _legacy_load, legacy_load).
 */
int sf_torch_open(const struct sf_torch_input *in, const struct sf_torch_options *opt,
                  struct sf_arena *arena, struct sf_torch_archive *ret, struct sf_error *err);

/* The storage of that key, NULL: none. O(log n). */
const struct sf_torch_record *sf_torch_record_find(const struct sf_torch_record *at, size_t n,
                                                   const char *key, size_t len);

/*
 * A zip, opened in rounds by who must not wait. A round is ranges that are wanted, all inside the
 * archive; when their bytes are there, it goes on with the next one.
 *
 * @head: the archive's first bytes, 4 of them or more: -ENOTSUP where it is no zip.
 * Errors, memory: as sf_torch_open's. Cost: as many rounds as that has reads.
 */
struct sf_torch_zip;
int sf_torch_zip_begin(uint64_t len, const uint8_t *head, size_t head_len,
                       const struct sf_torch_options *opt, struct sf_arena *arena,
                       struct sf_torch_zip **ret, struct sf_error *err);
/* The round's ranges, until it is taken; there may be none. */
const struct sf_torch_range *sf_torch_zip_wants(const struct sf_torch_zip *z, size_t *ret_n);
/* @bytes: those, one behind the other, not NULL. 1: the next round; 0: *ret; negative: it is over,
 * but to be freed. */
int sf_torch_zip_take(struct sf_torch_zip *z, const uint8_t *bytes, struct sf_torch_archive *ret,
                      struct sf_error *err);
uint64_t sf_torch_zip_holds(const struct sf_torch_zip *z); /* bytes of memory, @arena's too */
void sf_torch_zip_free(struct sf_torch_zip *z);            /* NULL is fine */

/* A zip's directory alone: two reads. @ret is @arena's; -E2BIG over @part_max bytes. */
int sf_torch_zip_dir(const struct sf_torch_input *in, uint64_t part_max, struct sf_arena *arena,
                     struct sf_zip_dir *ret, struct sf_error *err);

#endif
