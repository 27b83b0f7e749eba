#include "config.h"

#include <inttypes.h>

#include "base/mem.h"
#include "format/torch_file.h"
#include "parse/torch_archive.h"

int sf_torch_value(struct sf_source *src, uint64_t off, uint64_t len, uint64_t limit,
                   struct sf_arena *arena, struct sf_pv **ret, struct sf_error *err)
{
	struct sf_torch_source from = { src, off, SF_FETCH_METADATA };
	const struct sf_torch_input in = { len, NULL, sf_torch_source_read, &from };
	const struct sf_torch_options opt = { .part_max = limit, .value_only = true };
	struct sf_torch_archive a;
	int r;

	if (off > src->size || len > src->size - off)
		return sf_fail(err, -EBADMSG, "'%s': %" PRIu64 " bytes at %" PRIu64 " of %" PRIu64,
		               src->name, len, off, src->size);
	r = sf_torch_open(&in, &opt, arena, &a, err);
	if (r >= 0)
		*ret = a.root;
	return r < 0 ? r : 0;
}

int sf_torch_file_value(struct sf_store *store, const struct sf_objinfo *want, uint64_t limit,
                        struct sf_arena *arena, struct sf_pv **ret, struct sf_error *err)
{
	SF_CLEANUP(sf_source_unrefp) struct sf_source *src = NULL;
	int r = store->ops->open(store, want->name, want, &src, err);

	if (r < 0)
		return r;
	r = sf_torch_value(src, 0, src->size, limit, arena, ret, err);
	return r < 0 ? sf_fail_ctx(err, r, "'%s'", want->name) : 0;
}
