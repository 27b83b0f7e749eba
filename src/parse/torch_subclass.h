/* Tensor subclasses that wrap others (torchao's quantized tensors): what their pickle says. */
#ifndef SF_PARSE_TORCH_SUBCLASS_H
#define SF_PARSE_TORCH_SUBCLASS_H

#include "parse/torch_item.h"

/* Everything borrows from the value. */
struct sf_torch_subclass {
	const struct sf_pv *cls;   /* GLOBAL */
	const struct sf_pv *dtype; /* GLOBAL: what it pretends to hold */
	const struct sf_pv *shape; /* TUPLE or LIST of ints */
	const struct sf_pv
		*state; /* DICT: its attributes, the inner tensors among them; NULL without */
};

/*
 * sf_torch_subclass_from_pv - is this value an instance of a wrapper subclass?
 *
 * 1 yes, 0 no. Parameters are looked through. Its elements are known to its class alone: what is
 * stored are the tensors among its attributes.
 * Source: pytorch/pytorch torch/_tensor.py (_reduce_ex_internal), torch/_utils.py
 * (_rebuild_wrapper_subclass), 2.15.
 */
int sf_torch_subclass_from_pv(const struct sf_pv *v, struct sf_torch_subclass *ret);

#endif
