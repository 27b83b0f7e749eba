/* A tar's members, from its headers: names and where their bytes lie. */
#ifndef SF_PARSE_TAR_H
#define SF_PARSE_TAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/error.h"
#include "base/vec.h"

#define SF_TAR_BLOCK 512
#define SF_TAR_MEMBERS_MAX (1u << 24)

/* A regular file, or a hard link to one before it. */
struct sf_tar_member {
	const char *name;   /* relative, a good path (base/path.h); the arena's */
	uint64_t off, size; /* bytes of the archive */
	int64_t mtime_s;
	uint32_t seq;     /* which one it is in the archive */
	const char *link; /* whose bytes these are; NULL: its own */
};
SF_VEC(sf_tar_members, struct sf_tar_member);

/*
 * An archive on its way: it says which bytes it wants, takes what it is given from there on, and
 * wants others, until it has all headers. What stands between headers is never asked for. ustar, GNU
 * (long names, binary numbers) and pax (path, size), as Python's, GNU's and BSD's tar write them.
 */
struct sf_tar {
	uint64_t len;  /* bytes of the archive */
	uint64_t at;   /* of the next header, or of what one announced */
	uint64_t want; /* bytes wanted there; 0: all is known */
	struct sf_arena *arena;
	struct sf_tar_members member; /* in order of their names, once all is known */
	/* what a header announced for the next one; NULL, UINT64_MAX: nothing */
	const char *next_name, *next_link;
	uint64_t next_size;
	int next_kind; /* of what is wanted: 0 a header, else its type */
};

void sf_tar_init(struct sf_tar *t, uint64_t len, struct sf_arena *arena);
void sf_tar_release(struct sf_tar *t); /* what is the arena's stays */

/*
 * sf_tar_take - @len bytes of the archive from t->at on: t->want of them, or more, which saves
 * asking again.
 *
 * 1: it wants more, where t->at says. 0: that was all: t->member is sorted, of members of one name
 * the last one in the archive is left.
 * Errors: -EBADMSG, with the place and both numbers: a header whose sum is wrong, a member that
 * passes the archive's end, a name that leads out of it, an archive that ends without its mark;
 * -ENOTSUP a sparse member, by name; -E2BIG too many, a name too long; -ENOMEM.
 * Source: POSIX.1-2017 pax, "ustar Interchange Format"; GNU tar 1.34 src/tar.h; CPython 3.12 tarfile.py.
 */
int sf_tar_take(struct sf_tar *t, const uint8_t *at, size_t len, struct sf_error *err);

/* Is this a tar's first header? SF_TAR_BLOCK bytes, or fewer: then it is none. */
bool sf_tar_begins(const uint8_t *head, size_t len);

#endif
