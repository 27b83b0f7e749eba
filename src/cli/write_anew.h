/* What import, reshard and export --format dcp have in common. */
#ifndef SF_CLI_WRITE_ANEW_H
#define SF_CLI_WRITE_ANEW_H

#include "shardfuse_save.h"
#include "tool/common.h"

struct sf_anew_options {
	const char *format; /* NULL: dcp */
	unsigned ranks;
	bool force, no_optim; /* no_optim: without the optimizer's groups */
	/* This process is one rank of these, which do it together (tool/reshard.h): rank 0 alone prints.
	 * NULL: it is alone. */
	const struct shardfuse_comm *comm;
};

/* What the sources show is written as one sharded checkpoint. Prints "TARGET<tab>BYTES", unless quiet.
 * Returns the exit code; messages are on stderr already. */
int sf_write_anew(const struct sf_common *common, char *const *source, size_t n, const char *target,
                  const struct sf_anew_options *o);

#endif
