/* What a user may ask of the views: mount's -o and export's options. */
#ifndef SF_CATALOG_VIEW_OPTIONS_H
#define SF_CATALOG_VIEW_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "parse/dtype.h"

#define SF_ROLE_ANY (-1)
enum sf_objects_policy { SF_OBJECTS_KEEP, SF_OBJECTS_PLAIN, SF_OBJECTS_NONE };
enum sf_npy_bf16 { SF_NPY_VOID, SF_NPY_U2, SF_NPY_F4 };

/* One --map rule: stored name (a key or a component prefix, one '*' for one component) -> shown
 * name. */
struct sf_map_rule {
	const char *old_name, *new_name;
	/* Of KEY[*][A:B of N in G]: KEY, malloc'ed; NULL: there are no brackets. old_name is then that
	 * of the parts, as map_pick.h calls them. */
	const char *whole;
	bool stacked;                  /* [*] */
	bool has_rows;                 /* [A:B …] */
	uint64_t from, to, of, groups; /* of 0: from and to are rows */
};
/* A --map as it was given, and the rules it made: those up to @end that are no earlier one's. */
struct sf_map_arg {
	const char *given;
	size_t end;
};
struct sf_strs {
	const char **at;
	size_t n;
};

/* { 0 } is not the default: sf_view_options_init. Strings are borrowed and outlive what is made
 * from the options. */
struct sf_store;
struct sf_view_options {
	struct sf_strs key, ignore; /* KEY patterns on stored names */
	struct sf_map_rule *map, *hf_map;
	size_t nmap, nhf_map;
	struct sf_map_arg *map_arg, *hf_map_arg; /* each must match something; none: nobody asks */
	size_t nmap_arg, nhf_map_arg;
	int role;            /* enum sf_role: the keys of groups of this one alone; SF_ROLE_ANY */
	bool model_only;     /* that of the model, which another role excludes */
	enum sf_dtype dtype; /* cast of the model role's floats, SF_DTYPE_NONE as stored */
	bool st_all_dtypes;  /* st_dtypes=all */
	enum sf_npy_bf16 npy_bf16;
	enum sf_objects_policy objects;
	const char *hf_group;    /* NULL: the model role */
	const char *hf_name;     /* stem, "model" */
	bool hf_strip;           /* take wrapper components out */
	uint64_t max_shard_size; /* bytes, 50 GB */
	const char
		*hf_files; /* directory with config.json …, NULL: looked for near the checkpoint */
	/* Set by whoever opened it: where the companions are, as shown, or NULL; the store that has
	 * them, or why there is none. Both outlive what is made with the options. */
	const char *hf_files_found;
	struct sf_store *hf_store;
	const char *hf_why;
	uint32_t slice_tp; /* slices for so many tensor-parallel ranks; 0: none */
	/* rules for how tensors are cut (ckpt/join_rules.h), checked text; NULL: the built-in ones */
	const char *join_rules;
	struct sf_strs views; /* names of the views wanted, none = all */
};
/* The names of views, for messages and --help: in the order of the manual, @sep between them. */
#define SF_VIEW_NAMES(sep)                                                                      \
	"checkpoint" sep "groups" sep "hf" sep "state" sep "npy" sep "pt" sep "safetensors" sep \
	"shards" sep "slices"
void sf_view_options_init(struct sf_view_options *o);
/* What may be cast to, by the words of --dtype. -EINVAL. */
int sf_view_cast_parse(const char *word, enum sf_dtype *ret, struct sf_error *err);
/* What to slice for: "tp:N". -EINVAL. */
int sf_view_slice_parse(const char *word, uint32_t *ret, struct sf_error *err);
/* The words of --role. -EINVAL. */
int sf_view_role_parse(const char *word, int *ret, struct sf_error *err);

#endif
