/* How a format makes a checkpoint: keys in stored order, each tensor's chunks at once, items when
 * they are known. */
#ifndef SF_CKPT_CKPT_BUILDER_H
#define SF_CKPT_CKPT_BUILDER_H

#include "base/error.h"
#include "ckpt/ckpt.h"

struct sf_ckpt_builder;

/*
 * All functions: 0 or an index on success; -ENOMEM, -EBADMSG with a message, or -E2BIG with one: a
 * key or an element of a path of over 64 KiB, or paths of over 64 MiB and four times the keys. Not
 * thread-safe. Text is copied.
 */
int sf_ckpt_builder_new(const char *format, const char *source, struct sf_ckpt_builder **ret,
                        struct sf_error *err);
void sf_ckpt_builder_free(struct sf_ckpt_builder *b); /* an unfinished one too; NULL is fine */

/* A stored file by name (checked; the same name gives the same file), and how items lie in it. */
/* One stream of @codec, if any; -E2BIG: more than SF_CODEC_STREAMS_MAX of place_in(). */
int sf_ckpt_builder_place(struct sf_ckpt_builder *b, const char *file, size_t len,
                          enum sf_item_form form, enum sf_codec codec, uint32_t *ret_place,
                          struct sf_error *err);
/* A stored file as a container: the parent of members, or what goes into place_in. */
int sf_ckpt_builder_file(struct sf_ckpt_builder *b, const char *file, size_t len,
                         uint32_t *ret_container, struct sf_error *err);
/*
 * A member of a stored file (@parent is what _file gave), of another member or of a stream: its
 * bytes [off, off+len) under @name. What goes into place_in, or is the parent of further ones. -EBADMSG,
 * with names and both numbers: it passes the end of a member; parents that are none (so no
 * circles); deeper than SF_CONTAINER_DEPTH. One that passes the end of its file costs what lies
 * behind that end.
 */
int sf_ckpt_builder_member(struct sf_ckpt_builder *b, uint32_t parent, const char *name,
                           size_t name_len, uint64_t off, uint64_t len, uint32_t *ret_container,
                           struct sf_error *err);
/*
 * What @len compressed bytes at @off of a file or a member have inside, @size bytes: a container
 * like the others, whose parts lie where they lie in what is decoded. It is decoded as a whole when
 * a part of it is first read, into memory of the budget, and kept as that allows; one whose @size
 * the budget (--memory) has no room for fails its reads, as one does that has other than that
 * inside.
 * Errors: -EBADMSG, as of a member; -ENOTSUP a stream in what another has inside, a codec that is
 * none; -E2BIG more than SF_CODEC_STREAMS_MAX.
 */
int sf_ckpt_builder_stream(struct sf_ckpt_builder *b, uint32_t parent, uint64_t off, uint64_t len,
                           enum sf_codec codec, unsigned streams, uint64_t size,
                           uint32_t *ret_container, struct sf_error *err);
/* -ENOTSUP: items in what a stream has inside are compressed once more, or a blob. */
int sf_ckpt_builder_place_in(struct sf_ckpt_builder *b, uint32_t container, enum sf_item_form form,
                             enum sf_codec codec, unsigned streams, uint32_t *ret_place,
                             struct sf_error *err);
/* A place whose items cannot be read, and why: "items in x were written through y, …". What reading
 * one fails with; a warning is the format's to give. */
int sf_ckpt_builder_place_unreadable(struct sf_ckpt_builder *b, uint32_t container,
                                     enum sf_item_form form, const char *why, uint32_t *ret_place,
                                     struct sf_error *err);
/* has some place */
bool sf_ckpt_builder_has_file(const struct sf_ckpt_builder *b, const char *name, size_t len);
/* The source's files as listed (one scan), for sizes, versions, missing and truncated files, and
 * shards/. */
int sf_ckpt_builder_listing(struct sf_ckpt_builder *b, const struct sf_objinfo *files, size_t n,
                            struct sf_error *err);
/* Asked by finish about files that are not in the listing, a hundred at most: -EBADMSG, with a
 * message, what has that name is no regular file; any other code: there is none. */
typedef int sf_ckpt_look(void *arg, const char *file, struct sf_error *err);
void sf_ckpt_builder_look(struct sf_ckpt_builder *b, sf_ckpt_look *look, void *arg);

/*
 * A tensor, then its chunks in stored order, then the next tensor. A name that exists already is
 * -EBADMSG. Only one tensor is open at a time: beginning the next (or an object, or finish) closes
 * it. *ret_tensor = its index.
 */
int sf_ckpt_builder_tensor(struct sf_ckpt_builder *b, const char *name, size_t len,
                           enum sf_dtype dtype, const uint64_t *shape, unsigned ndim,
                           uint32_t *ret_tensor, struct sf_error *err);
/* Bounds are checked here (origin + extent ≤ shape). */
int sf_ckpt_builder_chunk(struct sf_ckpt_builder *b, const uint64_t *origin, const uint64_t *extent,
                          struct sf_error *err);
/* For the chunk added last: its item holds only this run of the box's row-major order. */
int sf_ckpt_builder_part(struct sf_ckpt_builder *b, uint64_t part_off, uint64_t part_len,
                         struct sf_error *err);
/* For the chunk added last: how its raw item lies; @stride: elements, one a dimension, copied;
 * NULL: row-major. Items of other forms say it themselves. -EBADMSG, with key and numbers: a
 * negative stride, or a box that passes 2^64 bytes. */
int sf_ckpt_builder_layout(struct sf_ckpt_builder *b, const int64_t *stride, bool conj, bool neg,
                           struct sf_error *err);
int sf_ckpt_builder_object(struct sf_ckpt_builder *b, const char *name, size_t len,
                           uint32_t *ret_object, struct sf_error *err);

/*
 * @tensor has the storage of an earlier one: tied weights, two names for one thing. A .pt file that
 * holds both writes it once. Both have their chunks and items, the same ones, which finish checks.
 * -EBADMSG of another dtype or shape.
 */
int sf_ckpt_builder_tie(struct sf_ckpt_builder *b, uint32_t tensor, uint32_t to,
                        struct sf_error *err);
/* The first tensor that has the storage of @tensor; itself where it is tied to none. */
uint32_t sf_ckpt_builder_storage(const struct sf_ckpt_builder *b, uint32_t tensor);

/* tensor or object index, SF_NONE */
uint32_t sf_ckpt_builder_find(const struct sf_ckpt_builder *b, const char *name, size_t len,
                              bool *ret_is_tensor);
/* The names of the keys so far, one after the other; NULL: no more. They last until the next is added. */
const char *sf_ckpt_builder_key_at(const struct sf_ckpt_builder *b, uint32_t i, size_t *ret_len);
/* @tensor, of fewer than SF_DIMS_MAX dimensions, is stored as so many equal blocks along each of them
 * (sf_tensor_more.grid). Copied. */
int sf_ckpt_builder_grid(struct sf_ckpt_builder *b, uint32_t tensor, const uint64_t *grid,
                         struct sf_error *err);
/* Chunks of @tensor without an item are not missing: every element of theirs is @element, as many
 * bytes as its dtype has. */
int sf_ckpt_builder_fill(struct sf_ckpt_builder *b, uint32_t tensor, const void *element,
                         struct sf_error *err);
/*
 * sf_ckpt_builder_cast - @tensor, which has no chunks of its own, has the values of @of, cast to its
 * dtype (nearest even): 16-bit weights of which only the 32-bit masters are stored.
 *
 * Any time before finish; @of may come later in the checkpoint. -EBADMSG another shape, a dtype that
 * is no float, or @of is such a tensor itself.
 */
int sf_ckpt_builder_cast(struct sf_ckpt_builder *b, uint32_t tensor, uint32_t of,
                         struct sf_error *err);
/* What safetensors blobs have @tensor under, when that is not the key's name. */
int sf_ckpt_builder_stored_name(struct sf_ckpt_builder *b, uint32_t tensor, const char *name,
                                size_t len, struct sf_error *err);
/* Items: any time after the chunk exists. A second item for one chunk: the first stays
 * (replicas). */
void sf_ckpt_builder_set_item(struct sf_ckpt_builder *b, uint32_t tensor, uint32_t chunk,
                              uint32_t place, uint64_t off, uint64_t len);
void sf_ckpt_builder_set_object(struct sf_ckpt_builder *b, uint32_t object, uint32_t place,
                                uint64_t off, uint64_t len);
/*
 * sf_ckpt_builder_set_value - the object is @v, part of what @a holds.
 *
 * @place, @off, @len: the container that was opened as @a, whose storages count from @off. @v is
 * written as a pickle of its own, so what it shares with values outside of it is there twice; it
 * must not hold what holds it. Marks are used, and 0 again.
 * Errors: -E2BIG over SF_INLINE_MAX bytes of all values; -EBADMSG a storage that @a lacks, a place
 * that is not there; -ENOTSUP tensors of a big-endian machine.
 */
#define SF_INLINE_MAX (UINT64_C(256) << 20)
int sf_ckpt_builder_set_value(struct sf_ckpt_builder *b, uint32_t object, struct sf_pv *v,
                              const struct sf_torch_archive *a, uint32_t place, uint64_t off,
                              uint64_t len, struct sf_error *err);
/* Only what the item's dict has under @member. */
int sf_ckpt_builder_set_member(struct sf_ckpt_builder *b, uint32_t object, const char *member,
                               size_t len);
/* The item is a list of one, which the object stands in. */
void sf_ckpt_builder_set_in_list(struct sf_ckpt_builder *b, uint32_t object);
/* It is a tensor to metadata, but its item an instance of this class. @shape: of the tensor, or of
 * one shard's box. */
int sf_ckpt_builder_set_subclass(struct sf_ckpt_builder *b, uint32_t object, const char *class,
                                 enum sf_dtype dtype, const uint64_t *shape, unsigned ndim);
/* Keys added from now on lie beside the checkpoint (sf_ckpt.nmain). */
void sf_ckpt_builder_beside(struct sf_ckpt_builder *b);

/* The planner's path of a key (by name); elements are copied. Without it the path is the name. 1:
 * no such key, ignored. */
int sf_ckpt_builder_path(struct sf_ckpt_builder *b, const char *name, size_t len,
                         const struct sf_path_elem *path, size_t n, struct sf_error *err);
/* Facts about the whole; strings may be NULL. */
void sf_ckpt_builder_facts(struct sf_ckpt_builder *b, const char *writer,
                           const char *content_metadata, int64_t step, uint32_t ranks,
                           int64_t mtime_ns);
/* Another writer than _facts was told: who made the whole of what others wrote. */
void sf_ckpt_builder_writer(struct sf_ckpt_builder *b, const char *writer);
int sf_ckpt_builder_warn(struct sf_ckpt_builder *b, const char *key_or_null, const char *code,
                         const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/*
 * Groups: by default from paths (ckpt_group.h), which fits all formats that are read; tests alone
 * call this. A format whose paths do not tell names each key's group. @role: enum sf_role.
 */
int sf_ckpt_builder_group(struct sf_ckpt_builder *b, const char *key, size_t key_len,
                          const char *group, enum sf_role role, unsigned strip,
                          struct sf_error *err);

/*
 * Sort, check (bounds of items against file sizes, holes, overlaps: ckpt_check.h), group, warn. The
 * builder is consumed on success. A checkpoint with damage still loads: flags and warnings tell.
 * Cost: O(n log n).
 */
int sf_ckpt_builder_finish(struct sf_ckpt_builder *b, struct sf_ckpt **ret, struct sf_error *err);

#endif
