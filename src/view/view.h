/* Makers of virtual files: each reads only the catalog (and through the reader, objects). */
#ifndef SF_VIEW_VIEW_H
#define SF_VIEW_VIEW_H

#include "catalog/catalog.h"
#include "view/vfile.h"

struct sf_slice_cut;
/* Which entries a file holds, and under which names. */
struct sf_selection {
	const uint32_t *entry; /* catalog entries, in the order they are shown; borrowed for the
	                          file's life */
	uint32_t n;
	unsigned strip; /* path elements (and the name's text of them) left out: a group file */
	bool cast;      /* apply opt->dtype (model.*, hf/, npy/ …; never checkpoint.*, optim.*) */
	const char *const *names;  /* other names, one per entry (hf/), or NULL */
	const uint32_t *name_lens; /* their bytes: a name may hold NULs */
	bool stored;               /* .pt: shapes as stored, of tensors that were flattened
	                              (sf_tensor_more.grid): checkpoint.pt */
	bool flat;                 /* .pt: {name: tensor} instead of the nested state dict (export
	                              one_file_per_tensor, chunks, get) */
	/* safetensors: of each entry what this rank has (catalog/catalog_slice.h); NULL: all of it */
	const struct sf_slice_cut *cut;
	uint32_t rank, ranks;
	bool bare; /* .pt of one entry: the value itself, not a dict (pt/KEY.pt, tensor.pt,
	              value.pt) */
};

/* All: *ret has one reference; the catalog and reader outlive it. */
int sf_view_pt(const struct sf_catalog *c, struct sf_reader *r, const struct sf_selection *sel,
               struct sf_vfile **ret, struct sf_error *err);
int sf_view_safetensors(const struct sf_catalog *c, struct sf_reader *r,
                        const struct sf_selection *sel, struct sf_vfile **ret,
                        struct sf_error *err);
int sf_view_npy(const struct sf_catalog *c, struct sf_reader *r, uint32_t entry,
                struct sf_vfile **ret, struct sf_error *err);
int sf_view_raw(const struct sf_catalog *c, struct sf_reader *r, uint32_t entry,
                struct sf_vfile **ret, struct sf_error *err); /* never cast */
int sf_view_value_json(const struct sf_catalog *c, struct sf_reader *r, uint32_t entry,
                       struct sf_vfile **ret, struct sf_error *err);
int sf_view_entry_json(const struct sf_catalog *c, struct sf_reader *r, uint32_t entry,
                       struct sf_vfile **ret, struct sf_error *err); /* state/…/info.json */
int sf_view_tensors_json(const struct sf_catalog *c, struct sf_reader *r, struct sf_vfile **ret,
                         struct sf_error *err);
int sf_view_info_json(const struct sf_catalog *c, struct sf_reader *r, struct sf_vfile **ret,
                      struct sf_error *err);
int sf_view_readme(const struct sf_catalog *c, struct sf_reader *r, struct sf_vfile **ret,
                   struct sf_error *err);
int sf_view_listed(const struct sf_catalog *c, struct sf_reader *r, uint32_t listed,
                   struct sf_vfile **ret, struct sf_error *err); /* shards/ */
int sf_view_bytes(struct sf_reader *r, const void *bytes, uint64_t len, struct sf_vfile **ret,
                  struct sf_error *err); /* copied: small texts (index.json, config.json) */

/* How many tensors a prepared file of sf_view_safetensors holds, those inside values too. */
uint32_t sf_view_safetensors_tensors(const struct sf_vfile *f);

/* May npy/ (safetensors files) hold this entry? NULL yes, else why not ("safetensors has no
 * complex128"). */
const char *sf_view_npy_refuses(const struct sf_catalog *c, uint32_t entry);
const char *sf_view_safetensors_refuses(const struct sf_catalog *c, uint32_t entry, bool cast);

/* For export: where each record of a .pt or safetensors file's tensors lies, so that payloads can
 * be written in parallel by tensor and CRCs patched. Calls @each(the payload's number from 0, its
 * file offset, its length) in file order, for empty ones too. The file must be prepared. */
int sf_view_pt_payloads(struct sf_vfile *f,
                        int (*each)(void *arg, uint32_t rec, uint64_t off, uint64_t len),
                        void *arg);
/* With the CRCs known (one per payload, in that order): from now on headers and directory carry
 * them. */
int sf_view_pt_set_crcs(struct sf_vfile *f, const uint32_t *crc, uint32_t n);

/* hf/: names after stripping and hf_map, files by max_shard_size. */
struct sf_hf {
	struct sf_arena arena;
	uint32_t nfiles;
	struct sf_hf_file {
		const char *name; /* "model.safetensors", "model-00001-of-00003.safetensors" */
		struct sf_selection sel;
	} * file;
	uint64_t total_size;
	const char *index_name; /* "model.safetensors.index.json" */
	const char *index_json; /* NULL with one file */
	size_t index_len;
	/* files of opt->hf_files_found as they were then, by name */
	const struct sf_objinfo *companion;
	uint32_t ncompanions;
	const struct sf_catalog *catalog;
};
/*
 * Reads the directory of the companions, nothing else. Errors: -ENOENT no group to show, or no
 * tensor in it; -EINVAL two keys come to one name (both in the message); those of a directory that
 * opt->hf_files names.
 */
int sf_hf_new(const struct sf_catalog *c, struct sf_hf **ret, struct sf_error *err);
void sf_hf_free(struct sf_hf *hf);
/* A companion: small ones are kept when they are sized, of others what is asked for is read.
 * config.json's dtype follows a cast. */
int sf_view_hf_companion(const struct sf_hf *hf, struct sf_reader *r, uint32_t i,
                         struct sf_vfile **ret, struct sf_error *err);

#endif
