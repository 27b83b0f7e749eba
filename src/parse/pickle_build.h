/* The machine a pickle runs on: stack, marks, memo and the making of values. Only pickle_*.c
 * include it. */
#ifndef SF_PARSE_PICKLE_BUILD_H
#define SF_PARSE_PICKLE_BUILD_H

#include "parse/pickle_read.h"

SF_VEC(sf_pvs, struct sf_pv *);
SF_VEC(sf_marks, size_t);

struct sf_memo_slot {
	uint32_t index; /* of the pickle's memo; value NULL: a free slot */
	struct sf_pv *value;
};

struct sf_pm {
	const uint8_t *p;
	size_t len, pos;
	size_t op_pos; /* where the opcode being run stands */
	uint8_t op;
	struct sf_pickle_limits limits; /* without zeros */
	struct sf_arena *arena;
	/* bytes of the last allocation, to tell a limit from a machine without memory */
	size_t asked;
	struct sf_error *err;

	struct sf_pvs stack;
	struct sf_marks marks;
	struct sf_pvs memo;       /* entries of small numbers; may hold NULLs */
	struct sf_memo_slot *far; /* the others: open addressing */
	size_t nfar, far_cap;     /* a power of two or 0 */
	uint32_t nmemo;           /* distinct entries, MEMOIZE's next number */
	struct sf_pv *none, *yes, *no;
};

/* Fails with the position and the opcode in front. */
int sf_pm_fail(struct sf_pm *m, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Memory was refused: the limit or the machine. */
int sf_pm_no_memory(struct sf_pm *m);
void *sf_pm_alloc(struct sf_pm *m, size_t n, size_t size); /* NULL: call sf_pm_no_memory() */

int sf_pm_charge(struct sf_pm *m); /* stack, marks and memo against the limit */
int sf_pm_push(struct sf_pm *m, struct sf_pv *v);
struct sf_pv *sf_pm_new(struct sf_pm *m, enum sf_pv_kind kind);
/* Bytes copied into a new value; -EBADMSG for a STR that is not UTF-8 (surrogates pass). */
int sf_pm_push_text(struct sf_pm *m, enum sf_pv_kind kind, const uint8_t *p, size_t len);
/* The first entry above the newest mark (or of the whole stack): what may be popped begins here. */
size_t sf_pm_fence(const struct sf_pm *m);

int sf_pm_memo_put(struct sf_pm *m, uint64_t index);
int sf_pm_memo_get(struct sf_pm *m, uint64_t index);
void sf_pm_release(struct sf_pm *m);

/* pickle_container.c. Popped values stay in place behind the stack's end until the next push. */
int sf_pm_pop(struct sf_pm *m, size_t n, struct sf_pv ***ret);           /* the n topmost */
int sf_pm_pop_mark(struct sf_pm *m, struct sf_pv ***ret, size_t *ret_n); /* all above it, and it */
int sf_pm_push_global(struct sf_pm *m, struct sf_pv *module, struct sf_pv *name);
int sf_pm_push_persid(struct sf_pm *m, struct sf_pv *id);
int sf_pm_push_instance(struct sf_pm *m, struct sf_pv *cls, struct sf_pv **at, size_t n);
/* Runs an opcode that makes or fills a value with those on the stack. 1: not one of these. */
int sf_pm_container(struct sf_pm *m);

/* Text forms of protocols 0 to 2: pickle_text.c */
int sf_pm_int_line(struct sf_pm *m, const uint8_t *s, size_t len, bool is_long);
int sf_pm_float_line(struct sf_pm *m, const uint8_t *s, size_t len);
int sf_pm_string_line(struct sf_pm *m, const uint8_t *s, size_t len);  /* repr with quotes */
int sf_pm_unicode_line(struct sf_pm *m, const uint8_t *s, size_t len); /* raw-unicode-escape */
int sf_pm_bytes_str(struct sf_pm *m, const uint8_t *s, size_t len);    /* a Python 2 str */
int sf_pm_long(struct sf_pm *m, const uint8_t *s, size_t len); /* two's complement, little-endian */
/* UTF-8 in which surrogates may stand, as Python's surrogatepass has it. */
bool sf_pm_utf8(const uint8_t *s, size_t len);

/* pickle_check.c: after STOP. Depth (-E2BIG), heights, and one entry for each str or int key of a
 * dict. */
int sf_pm_check(struct sf_pm *m, struct sf_pv *root);

#endif
