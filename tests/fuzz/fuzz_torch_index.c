#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "format/torch/torch_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Any bytes as an index: files have good names, no name twice, and each has a key. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	SF_CLEANUP(sf_arena_release) struct sf_arena arena = { .limit = 64 << 20 };
	SF_CLEANUP(torch_names_release) struct torch_names names = { 0 };
	struct sf_error err = SF_ERROR_INIT;
	SF_FREE uint32_t *keys = NULL;
	int r = torch_parse_index((const char *)data, size, &arena, &names, &keys, &err);

	if ((r < 0) != (err.msg[0] != '\0'))
		abort();
	for (size_t i = 0; r >= 0 && i < names.n; i++) {
		if (sf_path_check(names.at[i], strlen(names.at[i]), NULL) < 0 || !keys[i])
			abort();
		for (size_t k = 0; k < i && k < 100; k++)
			if (strcmp(names.at[i], names.at[k]) == 0)
				abort();
	}
	return 0;
}
