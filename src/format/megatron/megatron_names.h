/* Names of a legacy checkpoint's parameters: layers and experts are numbered within a rank. */
#ifndef SF_FORMAT_MEGATRON_MEGATRON_NAMES_H
#define SF_FORMAT_MEGATRON_MEGATRON_NAMES_H

#include "base/arena.h"
#include "base/buf.h"

/*
 * Where a name's numbers are: of the layer in "decoder.layers.3.mlp…", of the expert in
 * "…local_experts.1.linear_fc1.weight" or "…experts.linear_fc1.weight1". len 0: it has none.
 */
struct megatron_number {
	size_t at, len;
	uint32_t n;
};
struct megatron_name {
	struct megatron_number layer, expert;
};
struct megatron_name megatron_name_parse(const char *name, size_t len);

/* Layers of each container ("decoder.layers.") in each stage and virtual chunk: { 0 } at first. */
#define MEGATRON_STACKS_MAX 64
struct megatron_stacks {
	struct sf_arena arena;
	uint32_t npipe, nchunk; /* the caller's, before */
	struct megatron_stack {
		const char *name;
		size_t len;
		uint32_t *first; /* by chunk, then stage: the number of its first layer */
	} at[MEGATRON_STACKS_MAX];
	unsigned n;
	uint32_t experts; /* of one rank */
};
/* A name that is in chunk @chunk of stage @pipe. -ENOMEM; -E2BIG more than MEGATRON_STACKS_MAX. */
int megatron_stacks_add(struct megatron_stacks *s, const char *name, size_t len, uint32_t pipe,
                        uint32_t chunk);
/* All names are there: chunk 0's layers of all stages come first, then chunk 1's. Source:
 * NVIDIA/Megatron-LM megatron/core/transformer/transformer_layer.py (get_transformer_layer_offset). */
void megatron_stacks_end(struct megatron_stacks *s);
/* The name with its numbers as they are in the whole model, into @out. */
void megatron_stacks_name(const struct megatron_stacks *s, const char *name, size_t len,
                          uint32_t pipe, uint32_t chunk, uint32_t expert, struct sf_buf *out);
uint32_t megatron_stacks_layers(const struct megatron_stacks *s, const char *stack); /* after end */
void megatron_stacks_release(struct megatron_stacks *s);

#endif
