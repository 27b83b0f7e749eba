/* What a safetensors file cannot hold, and the words for it. */
#ifndef SF_VIEW_ST_ST_SKIPPED_H
#define SF_VIEW_ST_ST_SKIPPED_H

#include "base/buf.h"
#include "view/view.h"

#define SF_ST_SKIPPED_MAX (1u << 20) /* bytes of the list in a file's __metadata__ */

/* The name that position @pos of a selection has in a safetensors file. */
const char *sf_st_name(const struct sf_catalog *c, const struct sf_selection *sel, uint32_t pos,
                       size_t *ret_len);
/* Why the file leaves this position out, NULL: it holds it. */
const char *sf_st_refuses(const struct sf_catalog *c, const struct sf_selection *sel, uint32_t pos);
/* Why no file has a tensor of this dtype, or one of this name, NULL: it may. */
const char *sf_st_refuses_as(const struct sf_catalog *c, enum sf_dtype dtype, unsigned ndim);
const char *sf_st_refuses_name(const char *name, size_t len);
/* Grows a JSON list of {key, why}; what does not fit is counted and told at the end. */
struct sf_st_skipped {
	struct sf_buf text;
	uint32_t n, more;
};
void sf_st_skip(struct sf_st_skipped *s, const char *name, size_t len, const char *why);
/* A position of a selection, by the name that it would have in the file. */
void sf_st_skip_at(struct sf_st_skipped *s, const struct sf_catalog *c,
                   const struct sf_selection *sel, uint32_t pos, const char *why);
void sf_st_skipped_end(struct sf_st_skipped *s);

#endif
