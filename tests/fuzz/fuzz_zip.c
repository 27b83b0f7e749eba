#include "config.h"

#include <stdlib.h>

#include "base/mem.h"
#include "parse/zip_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Any bytes as an archive: every record of its directory lies inside, and each name finds the first
 * of that name. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t tail = SF_MIN(size, (size_t)SF_ZIP_TAIL);
	struct sf_arena arena = { .limit = 64 << 20 };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_zip_end end;
	struct sf_zip_dir dir;
	int r = sf_zip_find_end(data + size - tail, tail, size, &end, &err);

	if (r == 0)
		r = sf_zip_parse_dir(data + end.dir_off, &end, size, &arena, &dir, &err);
	if ((r < 0) != (err.msg[0] != '\0'))
		abort();
	for (size_t i = 0; r == 0 && i < dir.n; i++) {
		const struct sf_zip_record *rec = &dir.at[i], *found;
		uint64_t off;
		if (rec->header_off > size - 30 || rec->comp_size > size - 30 - rec->header_off)
			abort();
		if (sf_zip_local_data(data + rec->header_off, rec->header_off, &off, NULL) == 0 &&
		    off < rec->header_off + 30)
			abort();
		if (!dir.prefix_len || rec->name_len <= dir.prefix_len ||
		    memcmp(rec->name, dir.prefix, dir.prefix_len + 1) != 0 ||
		    memchr(rec->name, '\0', rec->name_len))
			continue;
		found = sf_zip_find(&dir, rec->name + dir.prefix_len + 1);
		if (!found || found > rec || found->name_len != rec->name_len ||
		    memcmp(found->name, rec->name, rec->name_len) != 0)
			abort();
	}
	sf_arena_release(&arena);
	return 0;
}
