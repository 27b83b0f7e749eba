#include "config.h"

#include <stdlib.h>

#include "base/mem.h"
#include "parse/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Any bytes as the JSON of a header. What is taken lies without holes, and written again it is the
 * same. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sf_arena arena = { .limit = 256 << 20 };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_st_header h, again;
	struct sf_buf out = { 0 };
	uint64_t sum = 0;
	int r = sf_st_parse(data, size, &arena, &h, &err);

	if ((r < 0) != (err.msg[0] != '\0'))
		abort();
	if (r == 0) {
		sf_buf_byte(&out, '{');
		for (size_t i = 0; i < h.n; i++) {
			const struct sf_st_tensor *t = &h.at[i];
			if (t->begin > t->end || t->end > h.data_len)
				abort();
			sum += t->end - t->begin;
			sf_buf_str(&out, i ? "," : "");
			sf_st_put_entry(&out, t->name, t->name_len, (enum sf_dtype)t->dtype,
			                t->shape, t->ndim, t->begin, t->end);
		}
		sf_buf_byte(&out, '}');
		if (sum != h.data_len || sf_st_parse(out.at, out.len, &arena, &again, &err) < 0 ||
		    again.n != h.n || again.data_len != h.data_len)
			abort();
		for (size_t i = 0; i < h.n; i++)
			if (again.at[i].name_len != h.at[i].name_len ||
			    again.at[i].ndim != h.at[i].ndim ||
			    again.at[i].dtype != h.at[i].dtype ||
			    again.at[i].begin != h.at[i].begin ||
			    memcmp(again.at[i].name, h.at[i].name, h.at[i].name_len) != 0)
				abort();
	}
	sf_buf_release(&out);
	sf_arena_release(&arena);
	return 0;
}
