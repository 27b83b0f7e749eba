/* export, by one process or by several together. */
#ifndef SF_CLI_EXPORT_H
#define SF_CLI_EXPORT_H

#include "cli/cli.h"
#include "cli/out_list.h"

struct sf_export_options {
	const char *format, *strategy;
	bool optim, no_optim, force;
	unsigned jobs; /* 0: one per core */
	unsigned ranks;
};
extern const struct sf_opt sf_export_option_table[]; /* into that */

/* The verb. @share NULL: this process alone; else rank 0 tells what is to be told, and one file for all is
 * refused. Returns the exit code. */
int sf_export(const struct sf_export_options *o, const struct sf_common *common, char **argv,
              const struct sf_out_share *share);

#endif
