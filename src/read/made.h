/* Bytes that a view makes out of objects: charged to the budget, kept while there is room, made
 * again when somebody wants them who finds them gone. */
#ifndef SF_READ_MADE_H
#define SF_READ_MADE_H

#include "base/buf.h"
#include "read/reader.h"

struct sf_cached;
struct sf_made;
struct sf_made_ops {
	/*
	 * All of them, into @out, which is empty and charged: what making takes beside it is
	 * charged to @out->charge too. The same bytes each time. On a thread of its own that may
	 * wait, one at a time for one sf_made; called anew when the charge refused something.
	 */
	int (*make)(struct sf_made *m, struct sf_buf *out, struct sf_error *err);
	/* The view's: held while a read of it is under way, and while it is made. */
	void (*ref)(struct sf_made *m);
	void (*unref)(struct sf_made *m);
};
struct sf_made {
	const struct sf_made_ops *ops;
	const char *what; /* for messages: "value.json" */
	uint64_t guess;   /* bytes of memory that making takes: more are taken when it needs them */
	uint64_t number;  /* the reader's */
};
void sf_made_init(struct sf_reader *r, struct sf_made *m, const struct sf_made_ops *ops,
                  const char *what, uint64_t guess);
void sf_made_release(struct sf_reader *r, struct sf_made *m); /* what is kept of it goes */

/* A reference to the bytes, made if they are not there; waits. The caller must hold no buffer or
 * other bytes of the budget (budget.h: kinds) but those of a read. */
int sf_made_hold(struct sf_reader *r, struct sf_made *m, const struct sf_cached **ret,
                 struct sf_error *err);
void sf_made_let_go(struct sf_reader *r, const struct sf_cached *held); /* NULL is fine */

/* [off, off+len) of them. One sf_made in a read. */
int sf_parts_made(struct sf_parts *p, struct sf_made *m, uint64_t off, uint64_t len);

#endif
