/*
 * How long .metadata of a plan takes to write, and how large it is: one line of JSON.
 *
 *     save_metadata FILE TENSORS RANKS
 *
 * The tensors of make_metadata.py, each cut into a box of rows a rank.
 */
#include "config.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "save/dcp_meta_write.h"

#define ROWS 8
#define COLS 4096
#define ITEM (ROWS * COLS * 2 + 1600)

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int die(const char *why)
{
	fprintf(stderr, "save_metadata: %s\n", why);
	return 1;
}

static int write_piece(void *arg, const void *at, size_t len, struct sf_error *err)
{
	if (fwrite(at, 1, len, arg) != len)
		return sf_fail(err, -EIO, "cannot write");
	return 0;
}

static void name_key(struct sf_global_key *k, unsigned i, struct shardfuse_save_step *step)
{
	static const char *const kinds[] = {
		"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
		"mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj",    "input_layernorm",
	};
	static const size_t model = sizeof("model");
	char *name;

	int n = asprintf(&name, "model.language_model.model.layers.%u.%s.weight", i / 8,
	                 kinds[i % 8]);
	if (n < 0)
		abort();
	k->key = name;
	k->key_len = (uint32_t)n;
	step[0].name = "model";
	step[1].name = name + model;
	k->path = step;
	k->npath = 2;
}

static void make(struct sf_global_plan *g, unsigned tensors, uint32_t ranks)
{
	const uint64_t n = (uint64_t)tensors * ranks;
	struct shardfuse_save_step *step = calloc(2 * (size_t)tensors, sizeof(*step));
	uint64_t *shape = calloc(2, sizeof(*shape)), *box;

	*g = (struct sf_global_plan){ .nranks = ranks, .nkeys = tensors, .nchunks = n };
	g->key = calloc(tensors, sizeof(*g->key));
	g->coords = box = calloc(4 * n, sizeof(*box));
	g->rank = calloc(n, sizeof(*g->rank));
	g->file = calloc(n, sizeof(*g->file));
	g->off = calloc(n, sizeof(*g->off));
	g->len = calloc(n, sizeof(*g->len));
	if (!step || !shape || !g->key || !box || !g->rank || !g->file || !g->off || !g->len)
		abort();
	shape[0] = (uint64_t)ranks * ROWS;
	shape[1] = COLS;
	for (unsigned i = 0; i < tensors; i++) {
		g->key[i] = (struct sf_global_key){ .dtype = SF_BFLOAT16,
			                            .ndim = 2,
			                            .shape = shape,
			                            .first = (uint64_t)i * ranks,
			                            .nchunks = ranks,
			                            .coord = 4 * (uint64_t)i * ranks };
		name_key(&g->key[i], i, step + 2 * i);
		for (uint32_t r = 0; r < ranks; r++, box += 4) {
			uint64_t c = (uint64_t)i * ranks + r;
			box[0] = (uint64_t)r * ROWS;
			box[2] = ROWS;
			box[3] = COLS;
			g->rank[c] = r;
			g->off[c] = (uint64_t)i * ITEM;
			g->len[c] = ITEM;
		}
	}
}

int main(int argc, char **argv)
{
	const struct sf_dcp_meta_options opt = {
		.storage_info_module = "torch.distributed.checkpoint.filesystem"
	};
	struct sf_global_plan g;
	struct sf_error err = SF_ERROR_INIT;

	if (argc != 4) {
		fprintf(stderr, "usage: %s FILE TENSORS RANKS\n", argv[0]);
		return 2;
	}
	make(&g, (unsigned)strtoul(argv[2], NULL, 10), (uint32_t)strtoul(argv[3], NULL, 10));
	FILE *f = fopen(argv[1], "wb");
	if (!f)
		return die("cannot write there");
	setvbuf(f, NULL, _IONBF, 0); /* pieces are large */
	double t = now();
	clock_t cpu = clock();
	if (sf_dcp_meta_write(&g, &opt, write_piece, f, &err) < 0)
		return die(err.msg);
	t = now() - t;
	cpu = clock() - cpu;
	printf("{\"seconds\": %.4f, \"cpu\": %.4f, \"chunks\": %" PRIu64 ", \"bytes\": %ld}\n", t,
	       (double)cpu / CLOCKS_PER_SEC, g.nchunks, ftell(f));
	return fclose(f) != 0 ? die("cannot write") : 0;
}
