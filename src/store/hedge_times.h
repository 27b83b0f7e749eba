/* How long a server's requests take, and when one of them is slow. Pure; one caller at a time. */
#ifndef SF_STORE_HEDGE_TIMES_H
#define SF_STORE_HEDGE_TIMES_H

#include <stdbool.h>
#include <stdint.h>

#define SF_HEDGE_SIZES 8  /* classes of requests, by powers of two from 64 KiB */
#define SF_HEDGE_STEPS 64 /* of time, two for each power of two of microseconds */

/* All 0 at first. */
struct sf_hedge_times {
	struct {
		uint32_t n, at[SF_HEDGE_STEPS];
	} of[SF_HEDGE_SIZES];
	unsigned credit; /* what second requests are paid with */
};

/* A request of @len bytes took so long. What was long ago counts less and less. */
void sf_hedge_times_add(struct sf_hedge_times *t, uint64_t len, uint64_t ns);
/* Milliseconds after which 95 of 100 such requests had ended; 0: too few are known. */
unsigned sf_hedge_times_slow_ms(const struct sf_hedge_times *t, uint64_t len);
/* A request was made: a twentieth of a second one is earned, 16 of them at most are kept. */
void sf_hedge_times_earn(struct sf_hedge_times *t);
/* May a second request be made? It is paid for then. */
bool sf_hedge_times_spend(struct sf_hedge_times *t);

#endif
