#include "config.h"
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#include "tool/progress.h"

static int64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

void sf_progress_init(struct sf_progress *p, bool quiet)
{
	*p = (struct sf_progress){ .on = !quiet && isatty(STDERR_FILENO), .begun_ns = now_ns() };
}

void sf_progress_add(struct sf_progress *p, uint64_t bytes)
{
	atomic_fetch_add_explicit(&p->bytes, bytes, memory_order_relaxed);
}

void sf_progress_show(struct sf_progress *p)
{
	int64_t now = now_ns();
	if (!p->on || now - p->shown_ns < 100000000)
		return;
	p->shown_ns = now;
	double gb = (double)atomic_load_explicit(&p->bytes, memory_order_relaxed) / 1e9;
	double rate = gb / ((double)(now - p->begun_ns) / 1e9 + 1e-9);
	if (p->total)
		fprintf(stderr, "\r%5.1f %%  %.2f of %.2f GB, %.2f GB/s ",
		        gb * 1e11 / (double)p->total, gb, (double)p->total / 1e9, rate);
	else
		fprintf(stderr, "\r%.2f GB, %.2f GB/s ", gb, rate);
	fflush(stderr);
}

void sf_progress_end(struct sf_progress *p)
{
	if (p->on && p->shown_ns)
		fprintf(stderr, "\r\033[K");
}
