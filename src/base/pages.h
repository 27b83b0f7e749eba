/* Memory of large things: from the kernel and back to it at once, so that what is freed is free. */
#ifndef SF_BASE_PAGES_H
#define SF_BASE_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * malloc keeps what is freed for the next one who asks, in as many arenas as there are threads: a
 * process that decodes items of 30 MiB side by side has them all resident for ever. Small ones are
 * malloc's all the same: a system call each would cost more than they do.
 */
#define SF_PAGES_MIN ((size_t)256 << 10) /* bytes from which it is pages */

struct sf_pages {
	uint8_t *at;
	size_t len; /* bytes it has: what was asked for, or whole pages */
	bool mapped;
};

int sf_pages_make(struct sf_pages *p, size_t len); /* -ENOMEM; @len may be 0; not cleared */
void sf_pages_cut(struct sf_pages *p, size_t len); /* what is behind @len goes; at may be another */
void sf_pages_release(struct sf_pages *p);         /* { 0 } again; { 0 } is fine */

#endif
