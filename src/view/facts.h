/* What can be counted without reading a tensor: parameters, dtypes, layers, the largest tensors; of
 * what is shown. */
#ifndef SF_VIEW_FACTS_H
#define SF_VIEW_FACTS_H

#include "catalog/catalog.h"

#define SF_FACTS_LARGEST 5
#define SF_FACTS_LAYERS 3

/* Sums stop at UINT64_MAX: shapes are claims. */
struct sf_group_facts {
	uint32_t ntensors, nobjects;
	uint64_t bytes, elements;
	uint64_t dtype_bytes[SF_NDTYPES];
};
/* A container of numbered children, as "model.layers" is: the first @len bytes of the name of
 * @entry. */
struct sf_layers {
	uint32_t entry, len;
	uint32_t n; /* different numbers, at least 2 */
};
struct sf_facts {
	struct sf_group_facts all, *group; /* of each catalog group */
	/* Elements of the model role's tensors, of all tensors where nothing has that role;
	 * float4_e2m1fn_x2 has two numbers in an element. */
	uint64_t parameters;
	struct sf_layers layers[SF_FACTS_LAYERS]; /* of the same tensors, most children first; the
	                                             outermost number of a name counts */
	uint32_t nlayers;
	uint32_t largest[SF_FACTS_LARGEST]; /* entries of the same tensors, largest first */
	uint32_t nlargest;
};
/* -ENOMEM. Cost: O(length of all names). To be released in any case. */
int sf_facts_init(struct sf_facts *f, const struct sf_catalog *c);
void sf_facts_release(struct sf_facts *f);
/* The dtypes of a group with the most bytes first; how many, at most SF_NDTYPES. */
unsigned sf_facts_dtypes(const struct sf_group_facts *g, enum sf_dtype ret[SF_NDTYPES]);

#endif
