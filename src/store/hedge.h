/* Hedged requests: what a server is slow to answer is asked for a second time, and the first answer
 * counts. */
#ifndef SF_STORE_HEDGE_H
#define SF_STORE_HEDGE_H

#include "store/source.h"

/*
 * sf_store_hedge - @s, whose slow requests are made twice.
 *
 * @s is taken over, unless it fails. A request is slow when it takes longer than 95 of 100 of its size
 * did lately; a second one is made then, into memory of its own (of the budget: where there is none
 * to spare, there is no second one), and whichever ends first with all bytes ends the other. At most
 * one request in 20 has a second one, and 16 in a row. An error ends the request as it would have
 * alone. Counted as hedged in the counters, not as fetched. Threads: one more, for the clock.
 */
int sf_store_hedge(struct sf_store *s, struct sf_store **ret, struct sf_error *err);

#endif
