/* The header of one safetensors file, and what DCP's Hugging Face writer puts into it. */
#ifndef SF_FORMAT_SAFETENSORS_SAFETENSORS_HEAD_H
#define SF_FORMAT_SAFETENSORS_SAFETENSORS_HEAD_H

#include "base/arena.h"
#include "base/map.h"
#include "parse/safetensors.h"
#include "store/source.h"

struct cJSON;

#define SAFETENSORS_BEGIN 65536u /* bytes of a file read at once: the headers of most */

/*
 * safetensors_read_header - the file's header, its names in @arena. Cost: one read for most.
 * Errors: -EBADMSG, -E2BIG malformed or over a limit; those of the store.
 */
int safetensors_read_header(struct sf_source *src, const char *name, struct sf_arena *arena,
                            struct sf_st_header *ret, struct sf_error *err);

/* DCP_SHARDING_INFO: { fqn: { "saved_offsets": [...] } }, found by name. */
struct safetensors_sharding {
	struct sf_json *json; /* NULL: the file has none */
	const struct cJSON **at;
	struct sf_map map;
};
int safetensors_read_sharding(const char *text, struct safetensors_sharding *x,
                              struct sf_error *err);
void safetensors_sharding_release(struct safetensors_sharding *x);
/* Where the file's part of @t begins in the whole: t->ndim numbers. Without sharding info, or an
 * entry in it, at 0. -EBADMSG. */
int safetensors_origin(const struct safetensors_sharding *x, const struct sf_st_tensor *t,
                       uint64_t *ret, struct sf_error *err);

#endif
