/* Places and containers: where an item lies in a stored file, and what that is called. A member or
 * a stream is never opened: it is an offset, found here; the stored file alone is. */
#ifndef SF_CKPT_PLACE_H
#define SF_CKPT_PLACE_H

#include "base/buf.h"
#include "ckpt/ckpt.h"
#include "store/source.h"

/*
 * The one module that knows what a place's container is: a stored file; a member of one (of a tar,
 * of a stored zip), which is read where it lies; a stream, which is decoded first; a member of what
 * that has inside. All others ask here. Threads: pure, but for opening, which waits.
 */

/* An item's bytes in the stored file, or in what a stream of it has inside. */
struct sf_where {
	uint32_t file; /* ckpt->file[]: what is open, and the key of what is cached */
	uint64_t off;  /* bytes from the start of the file, or of the stream's inside */
	uint64_t room; /* bytes from there to the end of the container; of a file, UINT64_MAX where
	                  nobody looked at its size */
	const struct sf_container *stream; /* NULL: none is between the item and the file */
};
/* Byte @off of @place's container. -EBADMSG, with the names and both numbers: @len bytes from there
 * pass the end of a member or a stream. What passes the end of a file is the source's to tell. */
int sf_place_find(const struct sf_ckpt *ckpt, uint32_t place, uint64_t off, uint64_t len,
                  struct sf_where *ret, struct sf_error *err);
/* The same, where nobody is told. room is 0 behind the end of a member or a stream. */
struct sf_where sf_place_where(const struct sf_ckpt *ckpt, uint32_t place, uint64_t off);

/* Why its items cannot be read, in the format's words; NULL: they can. */
const char *sf_place_why(const struct sf_ckpt *ckpt, uint32_t place);

/* The stored file that it lies in. */
const struct sf_file *sf_place_file(const struct sf_ckpt *ckpt, uint32_t place);
/* The members and streams that it lies in, from the outermost in: at most SF_CONTAINER_DEPTH; 0 a
 * file's own place. */
unsigned sf_place_members(const struct sf_ckpt *ckpt, uint32_t place,
                          const struct sf_container *ret[SF_CONTAINER_DEPTH]);
/* For messages: FILE, FILE:MEMBER, FILE (CODEC):MEMBER, as stored, long ones cut. */
#define SF_PLACE_NAME 256
const char *sf_place_name(const struct sf_ckpt *ckpt, uint32_t place, char text[SF_PLACE_NAME]);
/* For people: the same, whole, escaped. */
void sf_place_put(struct sf_buf *out, const struct sf_ckpt *ckpt, uint32_t place);

/* Opens a stored file as the version that was loaded. -ESTALE: it was there then and is not now, or
 * is another one. */
int sf_file_open(struct sf_store *store, const struct sf_file *file, struct sf_source **ret,
                 struct sf_error *err);

#endif
