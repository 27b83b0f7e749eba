/* Pieces -> the fewest requests to a source: straight to their place where that is cheapest, else
 * through scratch memory. */
#ifndef SF_READ_COALESCE_H
#define SF_READ_COALESCE_H

#include <stdbool.h>
#include <sys/uio.h>
#include "base/vec.h"
#include "read/plan.h"
#include "store/source.h"

#define SF_RANGE_IOV 1024 /* iovecs of one request: IOV_MAX */
#define SF_TINY 64        /* runs shorter than this go through scratch memory */

SF_VEC(sf_iovs, struct iovec);

/* One request. */
struct sf_range {
	uint64_t off, len; /* bytes in the source */
	uint32_t source;   /* the caller's numbers, from sf_coalesce() */
	uint32_t item;
	uint32_t iov0, niov;         /* iovs.at[]: where they go */
	uint32_t scatter0, nscatter; /* a span: copies out of its one iovec when it is there */
	bool span;
	uint8_t kind; /* enum sf_fetch_kind */
};
SF_VEC(sf_ranges, struct sf_range);

/* for i in 0..count: dst[i * dst_step, +len) = span[src_off + i * src_step, +len) */
struct sf_scatter {
	uint8_t *dst;
	uint64_t src_off, len, count;
	int64_t src_step, dst_step;
};
SF_VEC(sf_scatters, struct sf_scatter);

struct sf_coalesce {
	struct sf_ranges ranges;
	struct sf_iovs iovs;
	struct sf_scatters scatters;
};

/*
 * sf_coalesce - requests for @n pieces of one item.
 *
 * @base: byte of the source where the item's payload begins; @dst: where byte 0 of the pieces'
 * output is (those of one run of SF_TINY bytes or more may lie anywhere: their dst_off is modulo
 * 2^64); @hints: the source's. Pieces that follow each other in the source become one request
 * with many iovecs, of at most range_max bytes; gaps up to gap_max are read over; runs too short
 * for an iovec, or that lie far apart (a transposed item), are read as spans and scattered. Errors:
 * -ENOMEM. Threads: one per struct.
 */
int sf_coalesce(struct sf_coalesce *c, const struct sf_source_hints *hints, uint32_t source,
                uint32_t item, uint8_t kind, uint64_t base, uint8_t *dst,
                const struct sf_piece *pieces, size_t n);
/* The same, until there are @most ranges, iovecs and scatters together or a little more; *ret_done: of how many
 * pieces, at least one. */
int sf_coalesce_some(struct sf_coalesce *c, const struct sf_source_hints *hints, uint32_t source,
                     uint32_t item, uint8_t kind, uint64_t base, uint8_t *dst,
                     const struct sf_piece *pieces, size_t n, size_t most, size_t *ret_done);
/* Scratch memory that a request needs while it is under way, for a span or for gaps: lent to it before, and taken
 * from it where it was not sent. Requests that are under way at once have one each. 0: it needs none. */
uint64_t sf_range_needs(const struct sf_coalesce *c, const struct sf_range *r);
void sf_range_lend(struct sf_coalesce *c, const struct sf_range *r, void *at);
void sf_range_unlend(struct sf_coalesce *c, const struct sf_range *r, const void *at);
void sf_range_scatter(const struct sf_coalesce *c,
                      const struct sf_range *r); /* when its bytes are there */
/* What was to go to the @len bytes at @from goes to @to instead. */
void sf_coalesce_move(struct sf_coalesce *c, const uint8_t *from, uint64_t len, uint8_t *to);
void sf_coalesce_reset(struct sf_coalesce *c); /* empty again, memory kept within reason */
void sf_coalesce_release(struct sf_coalesce *c);
uint64_t sf_coalesce_bytes(const struct sf_coalesce *c); /* of memory that it holds */

#endif
