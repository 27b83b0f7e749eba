#include "config.h"

#include "base/mem.h"
#include "store/hedge_times.h"

#define LEAST 32 /* requests from which something can be told */
#define MANY 512 /* from which on the old ones are forgotten */
#define PRICE 20 /* requests earn a second one */
#define SAVED 16 /* second ones at most */

static unsigned log2_of(uint64_t v)
{
	return v ? 63u - (unsigned)__builtin_clzll(v) : 0;
}

static unsigned size_class(uint64_t len)
{
	unsigned k = len > 65536 ? log2_of((len - 1) / 65536) + 1 : 0;

	return SF_MIN(k, SF_HEDGE_SIZES - 1u);
}

static unsigned step_of(uint64_t us)
{
	unsigned k = log2_of(us);

	return SF_MIN(2 * k + (k && us >> (k - 1) & 1), SF_HEDGE_STEPS - 1u);
}

/* Microseconds that all of the step are below. */
static uint64_t step_end(unsigned step)
{
	uint64_t from = UINT64_C(1) << (step / 2);

	return step % 2 ? 2 * from : from + from / 2 + !(from / 2);
}

void sf_hedge_times_add(struct sf_hedge_times *t, uint64_t len, uint64_t ns)
{
	unsigned c = size_class(len);

	if (t->of[c].n >= MANY) {
		t->of[c].n = 0;
		for (unsigned i = 0; i < SF_HEDGE_STEPS; i++)
			t->of[c].n += t->of[c].at[i] /= 2;
	}
	t->of[c].at[step_of(ns / 1000)]++;
	t->of[c].n++;
}

unsigned sf_hedge_times_slow_ms(const struct sf_hedge_times *t, uint64_t len)
{
	unsigned c = size_class(len), step = SF_HEDGE_STEPS;
	uint32_t slower = 0;

	if (t->of[c].n < LEAST)
		return 0;
	/* those in the steps from this one on are at most a twentieth */
	while (step && (slower + t->of[c].at[step - 1]) * 20 <= t->of[c].n)
		slower += t->of[c].at[--step];
	return (unsigned)(step_end(step ? step - 1 : 0) / 1000) + 1;
}

void sf_hedge_times_earn(struct sf_hedge_times *t)
{
	t->credit = SF_MIN(t->credit + 1, (unsigned)PRICE * SAVED);
}

bool sf_hedge_times_spend(struct sf_hedge_times *t)
{
	if (t->credit < PRICE)
		return false;
	t->credit -= PRICE;
	return true;
}
