#include "config.h"

#include "parse/torch_subclass.h"

#define WRAPS_MAX 8 /* parameters of parameters */

static const struct sf_pv *seq_of(const struct sf_pv *v)
{
	if (v->kind == SF_PV_CALL && sf_pv_is_global(v->call.callable, "torch", "Size") &&
	    v->call.args->kind == SF_PV_TUPLE && v->call.args->seq.n == 1)
		v = v->call.args->seq.at[0];
	return v->kind == SF_PV_TUPLE || v->kind == SF_PV_LIST ? v : NULL;
}

/* The attributes: the instance's dict, or that and those of __slots__. */
static const struct sf_pv *dict_of(const struct sf_pv *state)
{
	if (state->kind == SF_PV_TUPLE && state->seq.n == 2)
		state = state->seq.at[0];
	return state->kind == SF_PV_DICT ? state : NULL;
}

int sf_torch_subclass_from_pv(const struct sf_pv *v, struct sf_torch_subclass *ret)
{
	const struct sf_pv *args, *inner;

	for (int i = 0; i < WRAPS_MAX; i++) {
		if (v->kind != SF_PV_CALL || v->call.callable->kind != SF_PV_GLOBAL ||
		    v->call.args->kind != SF_PV_TUPLE)
			return 0;
		args = v->call.args;
		if (!sf_pv_is_str(v->call.callable->global.module, "torch._utils") ||
		    (!sf_pv_is_str(v->call.callable->global.name, "_rebuild_parameter") &&
		     !sf_pv_is_str(v->call.callable->global.name,
		                   "_rebuild_parameter_with_state")) ||
		    !args->seq.n)
			break;
		v = args->seq.at[0];
	}
	/* (function, class, its arguments, state); the arguments: (class, dtype, size, …) */
	if (!sf_pv_is_global(v->call.callable, "torch._tensor", "_rebuild_from_type_v2") ||
	    args->seq.n != 4 || args->seq.at[2]->kind != SF_PV_TUPLE ||
	    !sf_pv_is_global(args->seq.at[0], "torch._utils", "_rebuild_wrapper_subclass"))
		return 0;
	inner = args->seq.at[2];
	if (inner->seq.n < 3 || inner->seq.at[0]->kind != SF_PV_GLOBAL ||
	    inner->seq.at[1]->kind != SF_PV_GLOBAL || !seq_of(inner->seq.at[2]))
		return 0;
	*ret = (struct sf_torch_subclass){ .cls = inner->seq.at[0],
		                           .dtype = inner->seq.at[1],
		                           .shape = seq_of(inner->seq.at[2]),
		                           .state = dict_of(args->seq.at[3]) };
	return 1;
}
