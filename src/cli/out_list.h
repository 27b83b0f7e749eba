/* What get and export are about to write: files, and the selections behind them. */
#ifndef SF_CLI_OUT_LIST_H
#define SF_CLI_OUT_LIST_H

#include <stdio.h>
#include "cli/key_slice.h"
#include "tool/write_file.h"

enum sf_out_format {
	SF_OUT_PT,
	SF_OUT_SAFETENSORS,
	SF_OUT_NPY,
	SF_OUT_RAW,
	SF_OUT_JSON,
	SF_OUT_HF,
	SF_OUT_NFORMATS
};
extern const char *const sf_out_format_names[SF_OUT_NFORMATS]; /* "pt" … */
/* the file name's end: ".pt"; hf has none */
const char *sf_out_suffix(enum sf_out_format format);

/* One file to be: an entry list and how it is shown. */
struct sf_out_item {
	enum sf_out_format format;
	struct sf_selection sel; /* sel.entry points into the list's entries */
	uint64_t first;          /* of sel.entry in the list */
	const void *bytes;       /* a small text instead (index.json), borrowed */
	uint64_t nbytes;
	/* of JSON of a tensor, which is its values: the part that is meant, borrowed; NULL all */
	const struct sf_key_slice *slice;
	const struct sf_hf *hf; /* a companion of the weights instead (config.json), borrowed */
	uint32_t companion;
};
struct shardfuse_comm;
/* Where processes write one list together. */
struct sf_out_share {
	uint32_t rank, size;
	const struct shardfuse_comm *comm; /* of these */
	/* Collective: what one rank failed at all fail at, with its message. */
	int (*agree)(int r, struct sf_error *err);
};
struct sf_out_list {
	struct sf_session *s;
	const struct sf_out_share *share; /* NULL: this process writes all of it */
	struct sf_out_file *file;
	struct sf_out_item *item; /* file[i].which is i */
	size_t n, cap;
	bool quiet;
	FILE *report;    /* where sf_out_write tells what it wrote; NULL: stdout */
	uint32_t *entry; /* the selections' entries, one after another */
	uint64_t nentries, entries_cap;
};
/* All -ENOMEM or 0. */
int sf_out_add(struct sf_out_list *l, enum sf_out_format format, const struct sf_selection *sel,
               char *path); /* takes @path; copies entries */
/* A tensor's values, or a part of them, or an object's value, as JSON. */
int sf_out_add_values(struct sf_out_list *l, uint32_t entry, const struct sf_key_slice *slice,
                      char *path);
int sf_out_add_bytes(struct sf_out_list *l, const void *bytes, uint64_t len, char *path);
int sf_out_add_companion(struct sf_out_list *l, const struct sf_hf *hf, uint32_t companion,
                         char *path);
/* Can a file of this format hold the entry? Objects go into .pt and .json alone. */
bool sf_out_holds(const struct sf_catalog *c, enum sf_out_format format, uint32_t entry);
/* Is there anything in the files? Tensors inside values count in .safetensors files, and are looked
 * for where nothing else is; then it reads. -ENOENT: nothing. */
int sf_out_check_any(struct sf_out_list *l, struct sf_error *err);
/* Are the tensors of the files all there? As sf_claims_check; sf_out_write asks too. */
int sf_out_check_claims(const struct sf_out_list *l, struct sf_error *err);
/* Writes them and prints "PATH<tab>BYTES" a line, unless quiet. Sets @o's progress. Of a list that is shared each
 * rank writes its part of the weights, and when all have, rank 0 the rest (the index, config.json). */
int sf_out_write(struct sf_out_list *l, struct sf_write_options *o, struct sf_error *err);
void sf_out_release(struct sf_out_list *l);

#endif
