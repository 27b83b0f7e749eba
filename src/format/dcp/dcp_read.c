#include "config.h"

#include <errno.h>

#include "base/mem.h"
#include "format/dcp/dcp_read.h"
#include "format/dcp/dcp_scan.h"
#include "format/dcp/dcp_values.h"
#include "store/source.h"

int dcp_meta_read(struct dcp_meta *m, struct sf_store *store, const char *name,
                  const struct sf_objinfo *want, enum dcp_reader reader, struct sf_error *err)
{
	SF_CLEANUP(sf_source_unrefp) struct sf_source *src = NULL;
	int r;

	dcp_meta_release(m);
	/* what is no plain file was listed without a version: open says what it is */
	r = store->ops->open(store, name, want && want->size != UINT64_MAX ? want : NULL, &src,
	                     err);
	return r < 0 ? r : dcp_meta_read_source(m, src, name, reader, err);
}

int dcp_meta_read_source(struct dcp_meta *m, struct sf_source *src, const char *name,
                         enum dcp_reader reader, struct sf_error *err)
{
	struct sf_error first =
		SF_ERROR_INIT; /* a message stays behind only if the whole call fails */
	int r;

	dcp_meta_release(m);
	if (src->size > DCP_META_MAX)
		return sf_fail(err, -E2BIG, "dcp '%s': %llu bytes, the limit for metadata is %llu",
		               name, (unsigned long long)src->size,
		               (unsigned long long)DCP_META_MAX);
	if (reader != DCP_READER_VALUES) {
		r = dcp_scan(m, src, name, &first);
		if (r == 0)
			r = dcp_meta_finish(m, &first);
		if (r == 0)
			return 0;
		/* Malformed, it says: of a small file the value reader has the last word. */
		if (r < 0 &&
		    (r != -EBADMSG || src->size > DCP_SECOND_LOOK || reader == DCP_READER_SCAN))
			return sf_fail(err, r, "%s", first.msg);
		if (reader == DCP_READER_SCAN)
			return sf_fail(err, -ENOTSUP, "dcp '%s': not for the scanner", name);
		dcp_meta_release(m);
	}
	r = dcp_values_read(m, src, name, err);
	if (r >= 0)
		r = dcp_meta_finish(m, err);
	return r < 0 ? sf_fail_ctx(err, r, "dcp '%s'", name) : 0;
}
