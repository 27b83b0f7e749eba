#include "config.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/mem.h"
#include "format/dcp/dcp_remove.h"
#include "format/format.h"
#include "tests/lib/test_stores.h"
#include "tests/fuzz/fz_mutate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
{
	uint64_t rnd = seed;

	return fz_below(&rnd, 3) ? fz_mutate_pickle(data, size, max_size, &rnd)
	                         : LLVMFuzzerMutate(data, size, max_size);
}

static bool every_other(void *arg, const char *key, size_t len)
{
	return len && key[len - 1] % 2;
}

/* rm-keys of it: an error, or what is read again. */
static void remove_keys(const uint8_t *data, size_t size)
{
	struct sf_arena arena = { .limit = 256 << 20 };
	struct sf_buf out = { .limit = 64 << 20 }, again = { .limit = 64 << 20 };
	struct sf_error err = SF_ERROR_INIT;
	struct dcp_removed gone, none;

	if (dcp_remove(data, size, every_other, NULL, &arena, &out, &gone, &err) >= 0) {
		if (dcp_remove(out.at, out.len, every_other, NULL, &arena, &again, &none, &err) >=
		            0 &&
		    (none.keys || none.left != gone.left))
			abort();
	} else if (!err.msg[0]) {
		abort();
	}
	sf_buf_release(&out);
	sf_buf_release(&again);
	sf_arena_release(&arena);
}

/* Any bytes as `.metadata`, beside one data file: an error or a checkpoint, never more. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct sf_mem_object files[] = { { ".metadata", data, size },
		                               { "__0_0.distcp", data, size } };
	static struct sf_io io;
	struct sf_error err = SF_ERROR_INIT;
	struct sf_ckpt *ckpt = NULL;
	struct sf_store *store;
	struct sf_chunk chunk;
	int r;

	if (!io.pool && sf_io_init(&io, 1, NULL) < 0)
		abort();
	if (sf_store_mem(&io, files, SF_ARRAY_LEN(files), &store, NULL) < 0)
		abort();
	r = sf_ckpt_load(store, NULL, &ckpt, &err);
	if ((r < 0) != (err.msg[0] != '\0'))
		abort(); /* a message if and only if it failed */
	if (r >= 0) {
		for (uint32_t i = 0; i < ckpt->ntensors; i++)
			for (uint32_t k = 0; k < ckpt->tensor[i].nchunks; k++)
				sf_tensor_chunk(&ckpt->tensor[i], k, &chunk);
	}
	sf_ckpt_free(ckpt);
	sf_store_free(store);
	remove_keys(data, size);
	return 0;
}
