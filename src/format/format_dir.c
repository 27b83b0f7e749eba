#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/format_dir.h"

static int by_name(const void *key, const void *elem)
{
	return strcmp(key, ((const struct sf_objinfo *)elem)->name);
}

const struct sf_objinfo *sf_format_listed(const struct sf_objinfo *files, size_t n,
                                          const char *name)
{
	return n ? bsearch(name, files, n, sizeof(*files), by_name) : NULL;
}

/* Composer: ep0-ba2, of which the second number counts batches. */
static int64_t composer_step(const char *at, const char *end)
{
	int64_t step = 0;

	if (end - at < 7 || memcmp(at, "ep", 2) != 0)
		return -1;
	for (at += 2; at < end && *at >= '0' && *at <= '9'; at++)
		;
	if (end - at < 4 || end - at > 21 || memcmp(at, "-ba", 3) != 0)
		return -1;
	for (at += 3; at < end && *at >= '0' && *at <= '9'; at++)
		step = step * 10 + (*at - '0');
	return at == end ? step : -1;
}

/* A number behind "step", "checkpoint-" and the like in the last two components of the source's
 * name. */
int64_t sf_format_step(const char *source)
{
	static const char *const words[] = { "global_step_", "global_step", "checkpoint-",
		                             "step-",        "step",        "iter_" };
	const char *end = source + strlen(source);

	for (int k = 0; k < 2 && end > source; k++) {
		const char *at;
		while (end > source && end[-1] == '/')
			end--;
		for (at = end; at > source && at[-1] != '/';)
			at--;
		if (composer_step(at, end) >= 0)
			return composer_step(at, end);
		for (size_t w = 0; w < SF_ARRAY_LEN(words); w++) {
			size_t n = strlen(words[w]);
			int64_t step = 0;
			const char *p = at + n;
			if ((size_t)(end - at) <= n || memcmp(at, words[w], n) != 0)
				continue;
			for (; p < end && p - at - (ptrdiff_t)n < 18 && *p >= '0' && *p <= '9'; p++)
				step = step * 10 + (*p - '0');
			if (p == end)
				return step;
		}
		end = at;
	}
	return -1;
}
