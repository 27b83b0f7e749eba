/* What is damaged among the shown keys: folded to a line per file and cause, or all of it. Notes
 * (sf_warning_is_note) are no damage. */
#ifndef SF_VIEW_DAMAGE_H
#define SF_VIEW_DAMAGE_H

#include "base/buf.h"
#include "catalog/catalog.h"

#define SF_DAMAGE_GROUPS 64 /* bits of groups; the last stands for all behind it too */

/* All damage of one kind in one file, or of one kind that is of no file. */
struct sf_damage {
	const char *code;           /* as in struct sf_warning, borrowed */
	const struct sf_file *file; /* NULL: not of one file */
	uint64_t need; /* truncated-file: bytes the file must have, as far as is known */
	uint32_t ntensors, nobjects; /* shown keys hit: one that two causes hit counts in both */
	uint32_t nothers;            /* warnings of no key */
	uint64_t groups;             /* a bit for each catalog group hit */
	uint32_t entry;              /* file NULL: catalog entry of the first, SF_NONE of no key */
	const char *text;            /* file NULL: the first one's words, borrowed */
};
struct sf_damage_list {
	struct sf_damage *at; /* files first, in stored order; then the rest as the load met it */
	uint32_t n;
};
/*
 * sf_damage_fold - the whole checkpoint's warnings and those of shown keys, folded.
 *
 * Counts are exact also where the load kept only the first warnings. -ENOMEM; @ret is to be
 * released in any case. Cost: nothing for a whole checkpoint, else O(chunks).
 */
int sf_damage_fold(const struct sf_catalog *c, struct sf_damage_list *ret);
void sf_damage_release(struct sf_damage_list *l);

/* damage_text.c: one of them for people, as it is (names too: escape it for a terminal), no newline:
 * "__2_0.distcp: 300,000,000 of 361,618,391 bytes; 61 tensors incomplete, all in optimizer". */
void sf_damage_text(struct sf_buf *out, const struct sf_catalog *c, const struct sf_damage *d);
/*
 * For people and a terminal: each a line behind @indent, escaped; of more than @max the last line
 * says how many more there are, and where.
 */
void sf_damage_lines(struct sf_buf *out, const struct sf_catalog *c, const struct sf_damage_list *l,
                     const char *indent, uint32_t max);
/* {"code", "file", "size", "needed", "tensors", "objects", "groups", "text"}; no newline. */
void sf_damage_json(struct sf_buf *out, const struct sf_catalog *c, const struct sf_damage *d);

/* One warning of the full list. */
struct sf_damage_one {
	uint32_t entry;             /* catalog entry, SF_NONE: of no key */
	const struct sf_file *file; /* NULL: of none, or of several */
	const char *code, *text;
};
/*
 * sf_damage_each - everything, also what the load only counted: the warnings of no key, then key by
 * key in stored order. Nonzero of @each ends it and is returned. -ENOMEM.
 */
int sf_damage_each(const struct sf_catalog *c,
                   int (*each)(void *arg, const struct sf_damage_one *one), void *arg);

#endif
