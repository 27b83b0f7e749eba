/* The files of a Hugging Face export as a set: what is written, in which order, and what goes. */
#ifndef SF_CLI_EXPORT_HF_H
#define SF_CLI_EXPORT_HF_H

#include "cli/old_files.h"
#include "cli/out_list.h"

/* Old weights in the target's directory that the set replaces. */
struct sf_hf_export {
	struct sf_old_files before, after; /* as sf_write_options has them */
};

/*
 * sf_hf_export_plan - the set @hf into @list, as files of directory @target; sets @o's set, before
 * and after.
 *
 * Never both forms (model.safetensors beside shards and their index): an old one goes with @o's
 * force; without it -EEXIST. -ENOMEM. Reads the directory, changes nothing.
 */
int sf_hf_export_plan(struct sf_hf_export *x, const struct sf_hf *hf, const char *target,
                      struct sf_out_list *list, struct sf_write_options *o, struct sf_error *err);
void sf_hf_export_release(struct sf_hf_export *x); /* after the list was written */

#endif
