/* The leaves of a pickled value, under the names that torch's flattening gives them. */
#ifndef SF_PARSE_VALUE_WALK_H
#define SF_PARSE_VALUE_WALK_H

#include "base/buf.h"
#include "base/vec.h"
#include "parse/torch_item.h"
#include "parse/value_path.h"

enum sf_walk_what {
	SF_WALK_TENSOR,     /* a dense one: w->t */
	SF_WALK_BAD_TENSOR, /* shape, strides and storage contradict each other */
	SF_WALK_ODD_TENSOR, /* quantized, sparse, …: what torch rebuilds, but no dense one */
	SF_WALK_VALUE,      /* leaves: anything else */
	SF_WALK_ODD_KEY,    /* a dict's key without a text: what is there was not looked at */
	SF_WALK_CYCLE,      /* leaves: it holds itself */
	SF_WALK_MANY,       /* over nodes_max, depth_max or name_max: the walk ends here */
	SF_WALK_DEEP,
	SF_WALK_LONG,
};

struct sf_walk_step {
	size_t name; /* bytes of w->name up to and with this component */
	uint32_t len;
	uint32_t kind; /* enum sf_path_kind */
};
SF_VEC(sf_walk_steps, struct sf_walk_step);
SF_VEC(sf_walk_path, struct sf_path_elem);

struct sf_value_walk {
	/* the caller's, before */
	int (*tell)(struct sf_value_walk *w, enum sf_walk_what what, struct sf_pv *v);
	void *arg;
	/*
	 * false: tensors are told, wherever they are: in lists, dicts, instances of classes made
	 * from those, and among the attributes of tensor subclasses. Where none is found nothing is
	 * told, nor looked at twice; sf_pv.mark of what was walked is not 0 any more. true: all
	 * leaves are: what is neither a dict with keys that are texts or ints (an OrderedDict too)
	 * nor a list or tuple, or is an empty one of those. Marks are 0 again, and in what is
	 * told meanwhile, unless it holds what holds it.
	 */
	bool leaves;
	/* leaves: a list is one, too, where there is neither a tensor nor a dict in it, in lists of
	 * it neither; a tuple where there is no tensor below it. As torch's
	 * _traverse_state_dict.py has it, but that tuples with tensors are walked. */
	bool whole;
	unsigned depth_max;
	uint64_t nodes_max; /* values looked at: one that is reached twice counts twice */
	size_t name_max;    /* bytes of name */
	/* of what is told: */
	struct sf_buf name; /* components behind dots; what the caller put there stays in front */
	struct sf_walk_steps step;
	struct sf_torch_tensor t;
	unsigned tuples; /* around it */
	uint64_t nodes, told;
	bool stop; /* tell may set it: nothing more is told */
	struct sf_walk_path path;
};

/*
 * sf_value_walk - @root depth first, in the order of its pickle.
 *
 * The same walker may be used for several values; nodes, told and stop are the caller's to reset.
 * Texts are as they are elsewhere: bytes, lone surrogates that stand for one are that byte. Two
 * leaves may have one name ({"0": …, 0: …}, {"a.b": …, "a": {"b": …}}): the caller sees to that.
 * Errors: -ENOMEM, and what tell returned.
 */
int sf_value_walk(struct sf_value_walk *w, struct sf_pv *root);
void sf_value_walk_release(struct sf_value_walk *w);
/* Where what is told lies: until the next one is told. NULL: no memory. */
const struct sf_path_elem *sf_value_walk_path(struct sf_value_walk *w, size_t *ret_n);

#endif
