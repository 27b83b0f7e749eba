#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/pages.h"

static size_t whole_pages(size_t len)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (len + page - 1) & ~(page - 1);
}

#define HUGE ((size_t)2 << 20)

/*
 * Where the kernel lends huge pages to who asks, one fault has 2 MiB: what is fetched is put into new memory
 * mostly, and 512 faults cost as much as copying the bytes there.
 */
static void *map(size_t len)
{
	size_t all = len >= HUGE ? len + HUGE : len, before;
	uint8_t *at;

	if (all < len)
		return MAP_FAILED;
	at = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED || all == len)
		return at;
	before = (HUGE - (uintptr_t)at % HUGE) % HUGE;
	if (before)
		munmap(at, before);
	if (HUGE - before)
		munmap(at + before + len, HUGE - before);
	madvise(at + before, len, MADV_HUGEPAGE); /* one that does not is none the worse */
	return at + before;
}

int sf_pages_make(struct sf_pages *p, size_t len)
{
	*p = (struct sf_pages){ .len = len, .mapped = len >= SF_PAGES_MIN };
	if (p->mapped) {
		p->len = whole_pages(len);
		p->at = p->len < len ? MAP_FAILED : map(p->len);
		if (p->at == MAP_FAILED)
			p->at = NULL;
	} else {
		p->at = malloc(len ? len : 1);
	}
	if (p->at)
		return 0;
	*p = (struct sf_pages){ 0 };
	return -ENOMEM;
}

void sf_pages_cut(struct sf_pages *p, size_t len)
{
	if (len >= p->len)
		return;
	if (p->mapped) {
		len = whole_pages(len ? len : 1);
		if (len < p->len && munmap(p->at + len, p->len - len) == 0)
			p->len = len;
		return;
	}
	uint8_t *at = realloc(p->at, len ? len : 1);
	if (at) {
		p->at = at;
		p->len = len;
	}
}

void sf_pages_release(struct sf_pages *p)
{
	if (p->mapped)
		munmap(p->at, p->len);
	else
		free(p->at);
	*p = (struct sf_pages){ 0 };
}
