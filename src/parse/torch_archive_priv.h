/* What the three containers of torch.save share. Only torch_*.c include it. */
#ifndef SF_PARSE_TORCH_ARCHIVE_PRIV_H
#define SF_PARSE_TORCH_ARCHIVE_PRIV_H

#include "base/vec.h"
#include "parse/torch_archive.h"

#define SF_TORCH_PART_MAX (UINT64_C(1) << 30)
#define SF_TORCH_NOT_READ "not a file of torch.save that is read here"

SF_VEC(sf_torch_records, struct sf_torch_record);

/* One opening. */
struct sf_torch_open_op {
	const struct sf_torch_input *in;
	struct sf_torch_options opt;
	struct sf_arena *arena;  /* of what is kept */
	struct sf_arena scratch; /* of the bytes that were read */
	struct sf_torch_archive a;
	struct sf_error *err;
};

/* Are [off, off + len) inside @in_len bytes, and no more than @most? -EBADMSG, -E2BIG. */
int sf_torch_fits(uint64_t in_len, uint64_t off, uint64_t len, uint64_t most, const char *what,
                  struct sf_error *err);
/* [off, off + len) of the input: borrowed, or in @scratch. @what is for messages. */
int sf_torch_get(const struct sf_torch_input *in, uint64_t off, uint64_t len, uint64_t most,
                 const char *what, struct sf_arena *scratch, const uint8_t **ret,
                 struct sf_error *err);

/* The pickle that begins at @off and ends by @end, of a length that only its opcodes tell, made into
 * a value. It is read as far as it goes, and some more. *ret_end: where it ends. */
int sf_torch_pickle_at(struct sf_torch_open_op *o, uint64_t off, uint64_t end, struct sf_pv **ret,
                       uint64_t *ret_end);
int sf_torch_parse(struct sf_torch_open_op *o, const uint8_t *p, uint64_t len, struct sf_pv **ret);

/* Sorted, and into the arena. -EBADMSG two of one key. */
int sf_torch_keep_storages(struct sf_torch_open_op *o, struct sf_torch_records *s);

/*
 * torch_persid.c - calls @each for every persistent id below @root, once each, in the order of the
 * pickle. @each may turn the value into another one.
 */
typedef int sf_torch_each_persid(void *arg, struct sf_pv *v, struct sf_error *err);
int sf_torch_persids(struct sf_pv *root, sf_torch_each_persid *each, void *arg,
                     struct sf_error *err);
/* Values that are not in the pickle; NULL: no memory. */
struct sf_pv *sf_torch_new_str(struct sf_arena *a, const char *s, size_t len);
struct sf_pv *sf_torch_new_int(struct sf_arena *a, int64_t i);
struct sf_pv *sf_torch_new_tuple(struct sf_arena *a, struct sf_pv *const *at, size_t n);
/* ("storage", @cls, @key, "cpu", @count) of a persistent id, as a zip has it. */
struct sf_pv *sf_torch_new_storage_id(struct sf_arena *a, struct sf_pv *cls, const char *key,
                                      uint64_t count);

int sf_torch_open_zip(struct sf_torch_open_op *o);
int sf_torch_open_stream(struct sf_torch_open_op *o);
int sf_torch_open_tar(struct sf_torch_open_op *o);

#endif
