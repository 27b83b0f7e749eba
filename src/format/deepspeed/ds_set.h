/* Which files of a listing are DeepSpeed's, and of which ranks: by their names. */
#ifndef SF_FORMAT_DS_SET_H
#define SF_FORMAT_DS_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "base/vec.h"
#include "store/objinfo.h"

enum ds_kind {
	DS_NONE,
	DS_MODEL,        /* mp_rank_MM_model_states.pt */
	DS_ZERO_MODEL,   /* zero_pp_rank_R_mp_rank_MM_model_states.pt: of ZeRO-3, one a rank */
	DS_OPTIM,        /* [bf16_|fp16_]zero_pp_rank_R_mp_rank_MM_optim_states.pt */
	DS_LAYER,        /* layer_LL[-model_TT]-model_states.pt: pipeline */
	DS_EXPERT,       /* [layer_L_]expert_E_mp_rank_MM_model_states.pt */
	DS_EXPERT_OPTIM, /* expp_rank_E_mp_rank_MM_optim_states.pt */
	DS_UNIVERSAL,    /* zero/NAME/STATE.pt */
	DS_REST,         /* zero/optimizer_state.pt */
	DS_COMPOSER,     /* composer_states.pt, beside the directory */
};

struct ds_name {
	enum ds_kind kind;
	uint32_t rank;  /* R, LL or E */
	uint32_t mp;    /* MM or TT; 0 */
	uint32_t layer; /* of DS_EXPERT; UINT32_MAX: the name does not say */
};
/* What a file's name says, without its directory; that of DS_UNIVERSAL and DS_REST needs "zero/". */
struct ds_name ds_name_of(const char *name);

struct ds_file {
	struct ds_name name;
	const struct sf_objinfo *file;
};
SF_VEC(ds_files, struct ds_file);

/* The files of one step, by kind, then mp, then layer, then rank. */
struct ds_set {
	struct ds_files files;
	const char *dir; /* what stands in front of the names: "" or "deepspeed/" */
};
void ds_set_release(struct ds_set *s);

/*
 * ds_set_find - files of the directory itself, else of one called deepspeed in it, or of several
 * such (tars of Composer's, which have a rank's files each).
 *
 * An empty set: there are none. Errors: -ENOMEM; -EBADMSG two files of one name in such tars.
 */
int ds_set_find(const struct sf_objinfo *files, size_t n, struct ds_set *ret, struct sf_error *err);

/* Those of one kind and mp rank, by rank: *ret_n of them, or NULL. */
const struct ds_file *ds_set_of(const struct ds_set *s, enum ds_kind kind, uint32_t mp,
                                size_t *ret_n);
/* Of one kind, all. */
const struct ds_file *ds_set_kind(const struct ds_set *s, enum ds_kind kind, size_t *ret_n);

#endif
