/*
 * How long rank 0 plans a save of many ranks, and what it holds then: one line of JSON.
 *
 *     save_plan TENSORS RANKS [rows|grid|replicated|mixed]
 *
 * Each rank has a box of every tensor: its rows, its field of a grid, or all of it; mixed: its rows, the
 * tensors in an order of its own, so that no rank's structure is another's. The records are made
 * by the ranks, side by side in a real save: encode is the time of one. plan is rank 0's: decoded,
 * checked, assigned; layout: every item's place in the ranks' files. peak is the highest VmRSS in these
 * two less VmRSS before, records not counted.
 */
#include "config.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "save/save_plan.h"

#define ROWS 64 /* of a rank */
#define COLS 4096

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* A "VmXXX:  N kB" line of /proc/self/status, in bytes. */
static double status(const char *field)
{
	char line[256];
	double kb = 0;
	size_t n = strlen(field);
	FILE *f = fopen("/proc/self/status", "re");

	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, field, n) == 0 && line[n] == ':')
			kb = strtod(line + n + 1, NULL);
	if (f)
		fclose(f);
	return kb * 1024;
}

static void reset_peak(void)
{
	int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
	if (fd >= 0) {
		ssize_t n = write(fd, "5", 1);
		(void)n;
		close(fd);
	}
}

struct layout { /* of a tensor of two dimensions over the ranks */
	uint64_t shape[2], extent[2], across;
	uint32_t turn; /* a rank begins so many tensors behind the one before */
};

static struct layout layout_of(const char *name, uint32_t ranks)
{
	if (strcmp(name, "replicated") == 0)
		return (struct layout){ { ROWS, COLS }, { ROWS, COLS }, 0, 0 };
	if (strcmp(name, "grid") == 0) /* columns of two */
		return (struct layout){
			{ (ranks + 1) / 2 * ROWS, COLS }, { ROWS, COLS / 2 }, 2, 0
		};
	return (struct layout){
		{ (uint64_t)ranks * ROWS, COLS }, { ROWS, COLS }, 1, strcmp(name, "mixed") == 0
	};
}

static void make_items(struct sf_save_items *items, uint32_t tensors, uint32_t rank,
                       const struct layout *l)
{
	static const char *const kind[8] = { "self_attn.q_proj", "self_attn.k_proj",
		                             "self_attn.v_proj", "self_attn.o_proj",
		                             "mlp.gate_proj",    "mlp.up_proj",
		                             "mlp.down_proj",    "input_layernorm" };
	uint64_t *origin = sf_arena_calloc(&items->arena, 2, sizeof(*origin));

	if (l->across) {
		origin[0] = rank / l->across * ROWS;
		origin[1] = rank % l->across * l->extent[1];
	}
	for (uint32_t k = 0; k < tensors; k++) {
		uint32_t i = (uint32_t)((k + (uint64_t)rank * l->turn) % tensors);
		char key[128];
		int n = snprintf(key, sizeof(key), "model.language_model.model.layers.%u.%s.weight",
		                 i / 8, kind[i % 8]);
		struct sf_save_item item = { .kind = SF_SAVE_TENSOR,
			                     .dtype = SF_BFLOAT16,
			                     .ndim = 2,
			                     .key = sf_arena_strdup(&items->arena, key, (size_t)n),
			                     .key_len = (uint32_t)n,
			                     .shape = l->shape,
			                     .origin = origin,
			                     .extent = l->extent,
			                     .bytes = l->extent[0] * l->extent[1] * 2 };
		item.stored = item.bytes + 1600;
		if (sf_save_item_vec_push(&items->item, item) < 0)
			abort();
	}
}

int main(int argc, char **argv)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_global_plan g;
	double encode = 0;
	size_t bytes = 0;

	if (argc < 3 || argc > 4) {
		fprintf(stderr, "usage: %s TENSORS RANKS [rows|grid|replicated|mixed]\n", argv[0]);
		return 2;
	}
	const uint32_t tensors = (uint32_t)strtoul(argv[1], NULL, 10);
	const uint32_t ranks = (uint32_t)strtoul(argv[2], NULL, 10);
	const struct layout l = layout_of(argc > 3 ? argv[3] : "rows", ranks);
	struct sf_buf *record = calloc(ranks + 1, sizeof(*record));
	struct sf_save_record *given = calloc(ranks + 1, sizeof(*given));
	for (uint32_t r = 0; r < ranks; r++) {
		struct sf_save_items items = { 0 };
		uint64_t hash;

		make_items(&items, tensors, r, &l);
		double t = now();
		if (sf_save_plan_encode(&items, &record[r], &hash, &err) < 0)
			abort();
		encode += now() - t;
		record[r].at = realloc(record[r].at, record[r].len);
		given[r] = (struct sf_save_record){ record[r].at, record[r].len };
		bytes += record[r].len;
		sf_arena_release(&items.arena);
		sf_save_item_vec_release(&items.item);
	}

	reset_peak();
	double rss = status("VmRSS"), t0 = now();
	int r = sf_save_plan_make(given, ranks, SHARDFUSE_DEDUP_LOWEST, &g, &err);
	double t1 = now();
	if (r >= 0)
		r = sf_global_plan_layout(&g, 1, &err);
	double t2 = now();
	if (r < 0) {
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	printf("{\"plan_s\": %.6f, \"layout_s\": %.6f, \"encode_s\": %.6f, \"chunks\": %llu, "
	       "\"record_bytes\": %zu, \"peak_bytes\": %.0f}\n",
	       t1 - t0, t2 - t1, encode / ranks, (unsigned long long)g.nchunks, bytes,
	       status("VmHWM") - rss);
	sf_global_plan_release(&g);
	for (uint32_t i = 0; i < ranks; i++)
		sf_buf_release(&record[i]);
	free(record);
	free(given);
	return 0;
}
