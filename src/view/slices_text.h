/* What slices/ has, in words and as JSON: which keys are cut, and which every rank has. */
#ifndef SF_VIEW_SLICES_TEXT_H
#define SF_VIEW_SLICES_TEXT_H

#include "base/buf.h"
#include "catalog/catalog.h"

/* Lines behind @indent, of a few keys by name; nothing where there are no slices. */
void sf_slices_text(struct sf_buf *out, const struct sf_catalog *c, const char *indent);
/* {"tp": N, "cut": how many, "replicated": [every key that each rank has whole]}; there are slices. */
void sf_slices_json(struct sf_buf *out, const struct sf_catalog *c);

#endif
