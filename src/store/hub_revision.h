/* The revision in the URL of a Hugging Face hub, and the commit that it stands for. Pure. */
#ifndef SF_STORE_HUB_REVISION_H
#define SF_STORE_HUB_REVISION_H

#include <stdbool.h>
#include <stddef.h>

/* The header in which a hub names the commit of what it answers, also that it has no such file. Source:
 * huggingface/huggingface_hub src/huggingface_hub/constants.py, file_download.py, 2.4. */
#define SF_HUB_COMMIT "x-repo-commit"

/* Where the revision of "https://HOST/ORG/REPO/resolve/REV/…" stands. False: it is no such URL, or REV
 * is a commit, which does not move. */
bool sf_hub_revision(const char *url, size_t *ret_at, size_t *ret_len);
/* @url with @commit in place of it, malloc'ed. NULL: that is no commit, or no memory. */
char *sf_hub_at_commit(const char *url, const char *commit);

#endif
