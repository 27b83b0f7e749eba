#include "config.h"

#include <stddef.h>
#include <string.h>

#include "base/mem.h"
#include "base/page_pool.h"

static uint64_t reclaim(struct sf_budget_reclaim *rec, uint64_t bytes)
{
	struct sf_page_pool *pool = sf_container_of(rec, struct sf_page_pool, reclaim);
	struct sf_pages gone[SF_PAGE_POOL_KEPT];
	uint64_t sum;
	unsigned n;

	(void)bytes; /* all of them: they are soon made again */
	pthread_mutex_lock(&pool->locked.m);
	n = pool->locked.n;
	sum = pool->locked.bytes;
	memcpy(gone, pool->locked.at, n * sizeof(gone[0]));
	pool->locked.n = 0;
	pool->locked.bytes = 0;
	pthread_mutex_unlock(&pool->locked.m);
	for (unsigned i = 0; i < n; i++)
		sf_pages_release(&gone[i]);
	if (sum)
		sf_budget_give(pool->budget, SF_BUDGET_BUFFER, sum);
	return sum;
}

void sf_page_pool_init(struct sf_page_pool *pool, struct sf_budget *budget)
{
	*pool = (struct sf_page_pool){ .budget = budget, .reclaim.reclaim = reclaim };
	pthread_mutex_init(&pool->locked.m, NULL);
	sf_budget_reclaim_add(budget, &pool->reclaim);
}

void sf_page_pool_release(struct sf_page_pool *pool)
{
	if (!pool->budget)
		return;
	sf_budget_reclaim_remove(pool->budget, &pool->reclaim);
	reclaim(&pool->reclaim, 0);
	pthread_mutex_destroy(&pool->locked.m);
	pool->budget = NULL;
}

int sf_page_pool_take(struct sf_page_pool *pool, size_t len, struct sf_pages *ret)
{
	struct sf_pages *best = NULL;

	*ret = (struct sf_pages){ 0 };
	if (len >= SF_PAGES_MIN) {
		pthread_mutex_lock(&pool->locked.m);
		for (unsigned i = pool->locked.n; i-- > 0;) {
			struct sf_pages *p = &pool->locked.at[i];
			if (p->len >= len && p->len - len <= len / 4 &&
			    (!best || p->len < best->len))
				best = p;
		}
		if (best) {
			*ret = *best;
			pool->locked.bytes -= best->len;
			*best = pool->locked.at[--pool->locked.n];
		}
		pthread_mutex_unlock(&pool->locked.m);
	}
	if (!ret->at)
		return sf_pages_make(ret, len);
	sf_budget_give(pool->budget, SF_BUDGET_BUFFER, ret->len);
	return 0;
}

void sf_page_pool_give(struct sf_page_pool *pool, struct sf_pages *p)
{
	const uint64_t most = SF_MIN(sf_budget_limit(pool->budget) / 8, SF_PAGE_POOL_MOST);
	const uint64_t len = p->len;
	bool kept = false;

	if (p->mapped && len <= most && sf_budget_take_spare(pool->budget, SF_BUDGET_BUFFER, len)) {
		pthread_mutex_lock(&pool->locked.m);
		kept = pool->locked.n < SF_PAGE_POOL_KEPT && pool->locked.bytes + len <= most;
		if (kept) {
			pool->locked.at[pool->locked.n++] = *p;
			pool->locked.bytes += len;
		}
		pthread_mutex_unlock(&pool->locked.m);
		if (!kept)
			sf_budget_give(pool->budget, SF_BUDGET_BUFFER, len);
		else if (sf_budget_wanted(pool->budget))
			reclaim(&pool->reclaim, 0); /* whoever waits has not seen this one */
	}
	if (!kept)
		sf_pages_release(p);
	*p = (struct sf_pages){ 0 };
}
