#include "config.h"

#include <stdlib.h>

#include "base/mem.h"
#include "parse/pickle_skip.h"
#include "parse/torch_archive.h"
#include "parse/value_walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct bytes {
	const uint8_t *at;
	size_t len;
};

static int read_ranges(void *arg, const struct sf_torch_range *range, size_t n, uint8_t *buf,
                       struct sf_error *err)
{
	const struct bytes *b = arg;

	(void)err;
	for (size_t i = 0; i < n; buf += range[i++].len) {
		if (range[i].off > b->len || range[i].len > b->len - range[i].off)
			abort();
		memcpy(buf, b->at + range[i].off, range[i].len);
	}
	return 0;
}

static int told(struct sf_value_walk *w, enum sf_walk_what what, struct sf_pv *v)
{
	size_t n, sum = 0;
	const struct sf_path_elem *path = sf_value_walk_path(w, &n);

	(void)what, (void)v;
	for (size_t i = 0; path && i < n; i++)
		sum += path[i].len + (i > 0);
	if (path && what == SF_WALK_TENSOR && sum != w->name.len)
		abort();
	return 0;
}

static void walk(struct sf_pv *root, bool leaves)
{
	struct sf_value_walk w = { .tell = told,
		                   .leaves = leaves,
		                   .depth_max = 1000,
		                   .nodes_max = 100000,
		                   .name_max = 4096 };

	sf_value_walk(&w, root);
	sf_value_walk_release(&w);
	if (leaves && root->mark)
		abort();
}

/* Any bytes as a file of torch.save: storages lie inside and are found by their keys, and it is the
 * same file when it is read range by range. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes b = { data, size };
	const struct sf_torch_options opt = { .part_max = 16 << 20 };
	const struct sf_torch_input at = { size, data, NULL, NULL },
				    ranges = { size, NULL, read_ranges, &b };
	struct sf_arena arena = { .limit = 64 << 20 }, again = { .limit = 64 << 20 };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_torch_archive a, x;
	int r = sf_torch_open(&at, &opt, &arena, &a, &err);

	if ((r < 0) != (err.msg[0] != '\0'))
		abort();
	if (r != sf_torch_open(&ranges, &opt, &again, &x, NULL))
		abort();
	if (r == 0 && (a.container != x.container || a.nstorages != x.nstorages ||
	               a.big_endian != x.big_endian))
		abort();
	for (uint32_t i = 0; r == 0 && i < a.nstorages; i++) {
		const struct sf_torch_record *s = &a.storage[i];
		if (s->off > size || s->len > size - s->off || s->off != x.storage[i].off ||
		    sf_torch_record_find(a.storage, a.nstorages, s->key, strlen(s->key)) != s)
			abort();
	}
	if (r == 0) {
		walk(a.root, true);
		walk(x.root, true);
		walk(a.root, false);
	}
	/* and as a pickle: what is parsed is stepped over */
	struct sf_pickle_limits limits = { .memory = 16 << 20 };
	struct sf_pv *v;
	size_t used, skipped;
	sf_arena_release(&arena);
	arena.limit = 64 << 20;
	if (sf_pickle_parse(data, size, &limits, &arena, &v, &used, NULL) == 0 &&
	    (sf_pickle_skip(data, size, &skipped, NULL) < 0 || skipped != used))
		abort();
	sf_arena_release(&arena);
	sf_arena_release(&again);
	return 0;
}
