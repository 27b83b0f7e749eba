/* verify --deep: every stored byte is read, every item's own checksums are checked. */
#ifndef SF_CLI_VERIFY_DEEP_H
#define SF_CLI_VERIFY_DEEP_H

#include "lib/session.h"
#include "tool/progress.h"

struct sf_deep {
	struct sf_session *s;
	struct sf_progress *progress;
	/* called for each defect, one at a time; key is a catalog entry */
	void (*defect)(void *arg, uint32_t entry, const char *code, const char *text);
	void *arg;
	bool part; /* only the catalog's entries from @first on, up to @end */
	uint32_t first, end;
	uint64_t tensors, objects, bytes, checked_crcs; /* done */
};
/* 0 all was read (defects were reported), negative: could not go on. */
int sf_verify_deep(struct sf_deep *d, struct sf_error *err);

#endif
