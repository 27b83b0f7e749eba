/* What all verbs and the mount take from the command line: a session's options, and how a program
 * talks. */
#ifndef SF_TOOL_COMMON_H
#define SF_TOOL_COMMON_H

#include "lib/session.h"
#include "tool/options.h"

struct sf_common {
	struct sf_session_options session;
	bool quiet;
	char *join_rules; /* session.join_rules, malloc'ed */
	const char *log_file;
	struct sf_log log;   /* set up by sf_common_init: stderr or log_file, level by name */
	struct sf_strs kept; /* lines of config files that the options point into; malloc'ed */
};
/* Their dest is the sf_common, and its session.view. */
extern const struct sf_opt sf_common_options[], sf_view_option_table[];
void sf_common_init(struct sf_common *o);
/* What only a program may do for its process: a SIGBUS handler (store/guard.h), its limit of open
 * files, the file named by SF_TRACE. After sf_common_init. */
void sf_common_program(struct sf_common *o);
void sf_common_release(struct sf_common *o);

#endif
