/* What is said of a run directory: its README and info.json in a mount, find's --json. */
#ifndef SF_VIEW_RUN_TEXT_H
#define SF_VIEW_RUN_TEXT_H

#include "base/buf.h"
#include "format/run.h"

/* Which steps are told of: those without a mark are permanent. */
struct sf_run_choice {
	bool permanent, ephemeral; /* both false: all */
};
bool sf_run_chosen(const struct sf_run_choice *choice, const struct sf_run_step *step);

/* {"schema": 1, "source", "latest", "checkpoints": [{name, step, path, mtime, ephemeral}],
 * "incomplete": [{name, step, why}]}. @choice NULL: all. */
void sf_run_json(struct sf_buf *out, struct sf_run *run, const struct sf_run_choice *choice);
void sf_run_readme(struct sf_buf *out, struct sf_run *run);
/* Why a step is incomplete, without the path in front; escaped for a terminal. */
void sf_run_put_why(struct sf_buf *out, struct sf_run *run, uint32_t step);

#endif
