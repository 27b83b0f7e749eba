/* Pages that large buffers leave for the next ones: the kernel clears a page, and takes a fault, each time it hands one out. */
#ifndef SF_BASE_PAGE_POOL_H
#define SF_BASE_PAGE_POOL_H

#include <pthread.h>
#include "base/budget.h"
#include "base/pages.h"

#define SF_PAGE_POOL_KEPT 16
#define SF_PAGE_POOL_MOST (UINT64_C(64) << 20) /* bytes kept; an eighth of the budget at most */

/*
 * What is kept is charged to the budget, takes only room that nobody else wants, and goes as soon
 * as somebody waits. What is handed out is the caller's to charge.
 *
 * Threads: take and give, any number of calls at once. Cost: O(SF_PAGE_POOL_KEPT): of those that are large enough the
 * smallest is handed out.
 */
struct sf_page_pool {
	struct sf_budget *budget;
	struct sf_budget_reclaim reclaim;
	struct {
		pthread_mutex_t m;
		struct sf_pages at[SF_PAGE_POOL_KEPT];
		unsigned n;
		uint64_t bytes;
	} locked;
};
void sf_page_pool_init(struct sf_page_pool *pool, struct sf_budget *budget);
/* All that was taken has been given back. */
void sf_page_pool_release(struct sf_page_pool *pool);

/* As sf_pages_make(): len may be a quarter more than was asked for; below SF_PAGES_MIN it is just
 * that. */
int sf_page_pool_take(struct sf_page_pool *pool, size_t len, struct sf_pages *ret);
/* { 0 } again; { 0 } is fine. What it was charged is the caller's to give back. */
void sf_page_pool_give(struct sf_page_pool *pool, struct sf_pages *p);

#endif
