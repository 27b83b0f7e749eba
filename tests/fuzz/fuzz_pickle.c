#include "config.h"

#include <stdlib.h>

#include "base/mem.h"
#include "parse/pickle_write.h"
#include "parse/torch_item.h"
#include "tests/fuzz/fz_mutate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
{
	uint64_t rnd = seed;

	return fz_below(&rnd, 3) ? fz_mutate_pickle(data, size, max_size, &rnd)
	                         : LLVMFuzzerMutate(data, size, max_size);
}

static int number(void *arg, const char *key, size_t key_len, uint64_t *ret_number,
                  struct sf_error *err)
{
	(void)arg, (void)err;
	*ret_number = key_len ? (uint8_t)key[key_len - 1] : 0;
	return 0;
}

/* Any bytes: a message or a value. A value is written again or refused, and what is written parses. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct sf_pickle_limits limits = { .memory = 32 << 20, .depth = 200 };
	struct sf_arena arena = { 0 }, again = { .limit = 256 << 20 };
	struct sf_buf out = { .limit = 8 << 20 };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_pickle_writer w;
	struct sf_torch_tensor t;
	struct sf_pv *v = NULL;
	size_t used = 0;
	int r = sf_pickle_parse(data, size, &limits, &arena, &v, &used, &err);

	if ((r < 0) != (err.msg[0] != '\0') || (r == 0 && used > size))
		abort();
	if (r == 0) {
		sf_pv_weights_only(v, &arena);
		sf_torch_tensor_from_pv(v, &t, NULL);
		if (sf_pickle_writer_init(&w, &out, &arena) < 0)
			abort();
		w.storage = number;
		sf_pw_proto(&w);
		r = sf_pw_value(&w, v, &err);
		sf_pw_stop(&w);
		sf_pickle_writer_release(&w);
		if ((r < 0) != (err.msg[0] != '\0'))
			abort();
		/* sets and bytes take more levels in protocol 2: too deep or too big is no bug */
		if (r == 0 && !out.failed &&
		    (r = sf_pickle_parse(out.at, out.len, NULL, &again, &v, &used, NULL)) < 0 &&
		    r != -E2BIG)
			abort();
		if (r == 0 && !out.failed && used != out.len)
			abort();
	}
	sf_buf_release(&out);
	sf_arena_release(&arena);
	sf_arena_release(&again);
	return 0;
}
