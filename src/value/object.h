/* Objects: a bytes item's pickled value, with the tensors inside it. */
#ifndef SF_VALUE_OBJECT_H
#define SF_VALUE_OBJECT_H

#include "base/arena.h"
#include "base/buf.h"
#include "parse/torch_archive.h"
#include "read/reader.h"

/* One value, transient: views emit it (pickle, JSON) and let go. */
struct sf_object_value {
	struct sf_arena arena;
	struct sf_pv *root;
	/* what is stored: root, unless the object is what a list of one holds (sf_object.in_list) */
	struct sf_pv *stored;
	bool raw; /* no torch archive: root is the item's bytes (an io.BytesIO saved as such) */
	/* sorted by key; their places are bytes inside the item: for sf_parts_object */
	const struct sf_torch_record *storage;
	uint32_t nstorages;
};
/*
 * sf_objects_load - values of many objects, items coalesced; @each gets one at a time (order of
 * @objects), freed after it returns. Errors: the object's key is in the message. A bytes item that
 * is no torch archive but raw bytes (io.BytesIO saved as such) becomes a BYTES value. Waits.
 */
int sf_objects_load(struct sf_reader *r, const uint32_t *objects, size_t n,
                    int (*each)(void *arg, uint32_t object, struct sf_object_value *v,
                                struct sf_error *err),
                    void *arg, struct sf_error *err);
/*
 * sf_objects_load_whole - the same, but an object that is not whole is told to @failed, in its
 * turn, and passed over: missing or malformed, by its own bytes, now and always (-ENODATA, -ENOENT,
 * -EBADMSG, -ENOTSUP, -E2BIG). What may be better next time
 * (-EIO, -ETIMEDOUT, -ESTALE, -ENOMEM …) ends it: a view that left keys out for that would not have
 * the same bytes every time.
 */
int sf_objects_load_whole(struct sf_reader *r, const uint32_t *objects, size_t n,
                          int (*each)(void *arg, uint32_t object, struct sf_object_value *v,
                                      struct sf_error *err),
                          void (*failed)(void *arg, uint32_t object, int code,
                                         const struct sf_error *why),
                          void *arg, struct sf_error *err);
/*
 * sf_objects_make - either of them (@failed NULL: the first), inside a charge that the caller has
 * begun: what is made counts as @charge's too. When the charge refused something (@charge->refused)
 * the result is -ENOMEM, and the caller begins all anew. The two above have a charge of their own,
 * and see to that themselves: each object is given once.
 */
int sf_objects_make(struct sf_reader *r, const uint32_t *objects, size_t n,
                    int (*each)(void *arg, uint32_t object, struct sf_object_value *v,
                                struct sf_error *err),
                    void (*failed)(void *arg, uint32_t object, int code,
                                   const struct sf_error *why),
                    void *arg, struct sf_charge *charge, struct sf_error *err);
/* Bytes of memory to begin such a charge with. */
uint64_t sf_objects_guess(struct sf_reader *r, const uint32_t *objects, size_t n);
/* The storage of a persistent id's key; NULL: the archive has no such record. O(log n). */
static inline const struct sf_torch_record *sf_object_storage_find(const struct sf_object_value *v,
                                                                   const char *key, size_t len)
{
	return sf_torch_record_find(v->storage, v->nstorages, key, len);
}

#endif
