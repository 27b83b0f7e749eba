#include "config.h"

#include <sys/mman.h>

#include "base/mem.h"
#include "save/save_stage.h"

#define HUGE_PAGE ((size_t)2 << 20)

/* Large ones begin at a huge page's border and ask for huge pages: a buffer is written once, and a fault for
 * each 4 KiB of it costs as much as the copy does. */
static void *host_alloc(const struct sf_device *d, size_t len)
{
	(void)d;
	if (len < HUGE_PAGE) {
		void *at = NULL;
		return posix_memalign(&at, 4096, len ? len : 1) == 0 ? at : NULL;
	}
	if (len > SIZE_MAX - 2 * HUGE_PAGE)
		return NULL;
	size_t whole = (len + 4095) & ~(size_t)4095, more = whole + HUGE_PAGE;
	uint8_t *at = mmap(NULL, more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return NULL;
	size_t before = (HUGE_PAGE - ((uintptr_t)at & (HUGE_PAGE - 1))) & (HUGE_PAGE - 1);
	if (before)
		munmap(at, before);
	if (more - before > whole)
		munmap(at + before + whole, more - before - whole);
	(void)madvise(at + before, whole, MADV_HUGEPAGE); /* else it is small pages */
	return at + before;
}

static void host_free(const struct sf_device *d, void *at, size_t len)
{
	(void)d;
	if (at && len >= HUGE_PAGE)
		munmap(at, (len + 4095) & ~(size_t)4095);
	else
		free(at);
}

static int host_copy(const struct sf_device *d, const struct sf_device_rows *rows, size_t n,
                     void *stream, void **copy, struct sf_error *err)
{
	(void)d, (void)stream, (void)copy, (void)err;
	for (const struct sf_device_rows *w = rows; w < rows + n; w++)
		for (uint64_t i = 0; i < w->n; i++)
			memcpy((uint8_t *)w->to + i * w->run,
			       (const uint8_t *)w->from + i * w->step, w->run);
	return 0;
}

static int host_wait(const struct sf_device *d, void *copy, struct sf_error *err)
{
	(void)d, (void)copy, (void)err;
	return 0;
}

const struct sf_device *sf_device_host(void)
{
	static const struct sf_device host = {
		.name = "host",
		.alloc = host_alloc,
		.free = host_free,
		.copy = host_copy,
		.wait = host_wait,
	};

	return &host;
}
