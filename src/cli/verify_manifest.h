/* verify --deep of a checkpoint with a manifest: each file's size and SHA-256 are what its writer had. */
#ifndef SF_CLI_VERIFY_MANIFEST_H
#define SF_CLI_VERIFY_MANIFEST_H

#include "lib/session.h"
#include "tool/progress.h"

/* save/save_manifest.c writes it */
#define SF_MANIFEST_NAME ".shardfuse-manifest.json"

struct sf_manifest_check {
	struct sf_session *s;
	struct sf_progress *progress;
	void (*defect)(void *arg, const char *code, const char *text);
	void *arg;
	uint32_t part, parts; /* every @parts'th file, from number @part on; 0, 0: all */
	uint64_t files;       /* checked */
};
/* 0: there is none, or all of it was looked at (defects were reported); negative: could not go on. A
 * manifest that is malformed is a defect. */
int sf_verify_manifest(struct sf_manifest_check *m, struct sf_error *err);

#endif
