#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "parse/pickle_read.h"

bool sf_pv_is_str(const struct sf_pv *v, const char *s)
{
	return v && v->kind == SF_PV_STR && v->str.len == strlen(s) &&
	       memcmp(v->str.at, s, v->str.len) == 0;
}

bool sf_pv_is_global(const struct sf_pv *v, const char *module, const char *name)
{
	return v && v->kind == SF_PV_GLOBAL && sf_pv_is_str(v->global.name, name) &&
	       sf_pv_is_str(v->global.module, module);
}

/* From the end: the last of equal keys is Python's. */
static struct sf_pv *dict_get(const struct sf_pv *dict, const char *key)
{
	if (!dict || dict->kind != SF_PV_DICT)
		return NULL;
	for (size_t i = dict->seq.n; i >= 2; i -= 2)
		if (sf_pv_is_str(dict->seq.at[i - 2], key))
			return dict->seq.at[i - 1];
	return NULL;
}

struct sf_pv *sf_pv_get(const struct sf_pv *v, const char *key)
{
	const struct sf_pv *state;
	struct sf_pv *found;

	if (!v)
		return NULL;
	if (v->kind == SF_PV_DICT)
		return dict_get(v, key);
	if (v->kind != SF_PV_CALL && v->kind != SF_PV_OBJECT)
		return NULL;
	found = dict_get(v->call.items, key);
	state = v->call.state;
	if (found || !state)
		return found;
	if (state->kind == SF_PV_TUPLE &&
	    state->seq.n == 2) { /* (dict of attributes, dict of slots) */
		found = dict_get(state->seq.at[0], key);
		return found ? found : dict_get(state->seq.at[1], key);
	}
	return dict_get(state, key);
}

bool sf_pv_u64(const struct sf_pv *v, uint64_t *ret)
{
	if (v && v->kind == SF_PV_INT && v->i >= 0) {
		*ret = (uint64_t)v->i;
		return true;
	}
	/* 2^63 … 2^64 - 1 have a ninth byte of zeros */
	if (v && v->kind == SF_PV_LONG && v->str.len == 9 && v->str.at[8] == 0) {
		*ret = sf_le64(v->str.at);
		return true;
	}
	return false;
}
