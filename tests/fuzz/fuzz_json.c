#include "config.h"

#include <stdlib.h>

#include "base/json.h"
#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(const struct cJSON *v, int depth)
{
	const struct cJSON *child = NULL, *obj;
	const char *str, *name;
	uint64_t u[4];

	if (depth > 64)
		abort();
	sf_json_str(v);
	while ((child = sf_json_next(v, child)) != NULL) {
		name = sf_json_name(child);
		if (name) {
			sf_json_get_str(v, name, &str, NULL);
			sf_json_get_u64(v, name, u, NULL);
			sf_json_get_obj(v, name, &obj, NULL);
			sf_json_get_u64s(v, name, u, SF_ARRAY_LEN(u), NULL);
		}
		walk(child, depth + 1);
	}
}

/* Any bytes as JSON: an error or a tree that the getters can look at. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_json *j = NULL;
	int r = sf_json_parse((const char *)data, SF_MIN(size, (size_t)20000), &j,
	                      &err); /* getters are linear, the walk is not */

	if ((r < 0) != (err.msg[0] != '\0'))
		abort();
	if (r == 0)
		walk(sf_json_root(j), 0);
	sf_json_free(j);
	return 0;
}
