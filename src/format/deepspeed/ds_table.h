/* Every name that one model-parallel rank has a weight under, and what it is. */
#ifndef SF_FORMAT_DS_TABLE_H
#define SF_FORMAT_DS_TABLE_H

#include "base/map.h"
#include "format/deepspeed/ds_slice.h"

struct ds_entry {
	const char *name;
	uint32_t len;
	uint32_t trained; /* slice->params, SF_NONE */
	uint32_t frozen;  /* slice->frozen, SF_NONE */
	uint32_t same_as; /* entry that this is another name of (shared_params), SF_NONE */
	bool buffer;
	struct sf_pv *module; /* what the model states have under it, NULL nothing */
	/* the builder's, SF_NONE until there are; those of fp32 and module */
	uint32_t fp32, weight;
};
SF_VEC(ds_entries, struct ds_entry);

struct ds_table {
	struct ds_entries at;
	struct sf_map map;
	const struct ds_slice *s;
	/* how many slices have the name, beside this one; NULL: there is one slice */
	uint8_t *elsewhere;
};
void ds_table_release(struct ds_table *t);

/* In the order of zero_to_fp32: buffers, frozen, trained, shared, then what else the model has. -ENOMEM. */
int ds_table_make(struct ds_table *t, const struct ds_slice *s, struct sf_error *err);
/* SF_NONE: none. */
uint32_t ds_table_find(const struct ds_table *t, const char *name, size_t len);
/* Which names several of @n tables have. -ENOMEM. */
int ds_tables_compare(struct ds_table *t, size_t n, struct sf_error *err);

#endif
