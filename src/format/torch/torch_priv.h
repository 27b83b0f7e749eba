/* What the parts of the format torch share. */
#ifndef SF_FORMAT_TORCH_TORCH_PRIV_H
#define SF_FORMAT_TORCH_TORCH_PRIV_H

#include "base/vec.h"
#include "ckpt/ckpt_builder.h"
#include "format/format_dir.h"
#include "format/torch/torch_parts.h"

SF_VEC(torch_names, const char *);

/* Which files of a listing are the checkpoint. */
enum torch_layout {
	TORCH_NOTHING,
	TORCH_INDEX, /* an index names them */
	TORCH_ONE,   /* one file, by its name; or the only one there is */
};
struct torch_choice {
	enum torch_layout layout;
	const struct sf_objinfo *file; /* the index, or the one */
	bool named;                    /* its name is one that trainers and libraries give */
};
/* By names alone. */
struct torch_choice torch_choose(const struct sf_objinfo *files, size_t n);

/*
 * torch_parse_index - the files that an index names, each once, into @ret, and how many keys it says
 * are in each, into *ret_keys (malloc'ed). Names are @arena's. -EBADMSG: no index, or names that lead
 * out of the directory; -ENOMEM. Threads: pure.
 */
int torch_parse_index(const char *text, size_t len, struct sf_arena *arena, struct torch_names *ret,
                      uint32_t **ret_keys, struct sf_error *err);
/* The same of the file @index; it is named in messages. */
int torch_read_index(struct sf_store *store, const struct sf_objinfo *index, struct sf_arena *arena,
                     struct torch_names *ret, uint32_t **ret_keys, struct sf_error *err);

/* What a file's value says of who wrote it and when. */
struct torch_facts {
	char writer[64]; /* "": it does not say */
	int64_t step;    /* -1 */
};
void torch_facts_of(const struct sf_pv *root, const char *source, struct torch_facts *ret);

#endif
