/* How each view is loaded: lines made to be copied, the same ones in `info` and in the mount's
 * README. */
#ifndef SF_VIEW_ADVICE_H
#define SF_VIEW_ADVICE_H

#include "base/buf.h"
#include "catalog/catalog.h"
#include "read/reader.h"

/* What torch.load(weights_only=True) refuses in the .pt files, a group's first each. */
struct sf_advice {
	const struct sf_catalog *c;
	struct sf_refusal {
		uint32_t entry; /* SF_NONE: nothing */
		char what[160]; /* the class, as the pickle spells it */
		/* all that is refused are tensor subclasses of torchao, which torch takes once that
		 * is imported: it registers them. (Verified with torchao 0.18, torch 2.13.) No
		 * other package is named, for a checkpoint may name any. */
		bool torchao;
	} * group;         /* by catalog group */
	char unknown[256]; /* why it is not known, "" when it is */
	int failed;        /* the code of that, 0 when it is */
};
/*
 * sf_advice_init - reads the objects that go into .pt files, unless the options leave out what is
 * refused.
 *
 * Objects that are not whole are in no .pt and are passed over; a read that fails otherwise only
 * makes the answer unknown. Errors: -ENOMEM. Memory: sf_advice_release, also after a failure.
 */
int sf_advice_init(struct sf_advice *a, const struct sf_catalog *c, struct sf_reader *r,
                   struct sf_error *err);
void sf_advice_release(struct sf_advice *a);

/* One line for each view of a part that is there, MNT standing for the mountpoint, behind
 * @indent. */
enum sf_advice_part {
	SF_ADVICE_WHOLE,
	SF_ADVICE_GROUPS,
	SF_ADVICE_HF,
	SF_ADVICE_SLICES,
	SF_ADVICE_TENSOR
};
void sf_advice_put(struct sf_buf *out, const struct sf_advice *a, enum sf_advice_part part,
                   const char *indent);
/* What to do about refused classes, if there are any: the safe way first. */
void sf_advice_put_refused(struct sf_buf *out, const struct sf_advice *a, const char *indent);

#endif
