/* What a shard is called. */
#ifndef SF_SAVE_SAVE_SHARD_NAME_H
#define SF_SAVE_SAVE_SHARD_NAME_H

#include <stdbool.h>
#include <stdint.h>

#define SF_SHARD_TAG_MAX 10 /* "-" and 8 hex digits of a save's token, and the NUL */
#define SF_SHARD_NAME_MAX 48

/* "__RANK_FILE.distcp", or with @tag, "" or "-0123abcd", in front of the dot: where saves of one place are
 * told apart by it (save_target_object.h). .metadata says the name; loaders go by that. */
void sf_shard_name(char ret[SF_SHARD_NAME_MAX], uint32_t rank, uint32_t file, const char *tag);
/* Of a token: "-" and its last 8 digits. */
void sf_shard_tag(char ret[SF_SHARD_TAG_MAX], const char *token);
/* Is @name, without a directory, a shard's with a tag? *ret_tag: that. */
bool sf_shard_is_tagged(const char *name, char ret_tag[SF_SHARD_TAG_MAX]);

#endif
