#include "config.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fz_malloc.h"

static atomic_long countdown = -1, failed;
static atomic_bool all_fail;

long fz_malloc_fails(long nth, bool all)
{
	atomic_store(&countdown, -1);
	atomic_store(&all_fail, all);
	atomic_store(&countdown, nth);
	return atomic_exchange(&failed, 0);
}

static bool fails(void)
{
	long n = atomic_load(&countdown);

	if (n < 0)
		return false;
	if (n == 0 && atomic_load(&all_fail))
		atomic_fetch_add(&failed, 1);
	else if (atomic_fetch_sub(&countdown, 1) == 0)
		atomic_fetch_add(&failed, 1);
	else
		return false;
	return true;
}

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
char *__real_strdup(const char *s);
char *__real_strndup(const char *s, size_t n);
int __real_posix_memalign(void **p, size_t align, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
char *__wrap_strdup(const char *s);
char *__wrap_strndup(const char *s, size_t n);
int __wrap_posix_memalign(void **p, size_t align, size_t n);

/* A place for a breakpoint. */
__attribute__((noinline)) static void *none(void)
{
	errno = ENOMEM;
	return NULL;
}

void *__wrap_malloc(size_t n)
{
	return fails() ? none() : __real_malloc(n);
}
void *__wrap_calloc(size_t n, size_t size)
{
	return fails() ? none() : __real_calloc(n, size);
}
void *__wrap_realloc(void *p, size_t n)
{
	return fails() ? none() : __real_realloc(p, n);
}
char *__wrap_strdup(const char *s)
{
	return fails() ? none() : __real_strdup(s);
}
char *__wrap_strndup(const char *s, size_t n)
{
	return fails() ? none() : __real_strndup(s, n);
}
int __wrap_posix_memalign(void **p, size_t align, size_t n)
{
	return fails() ? ENOMEM : __real_posix_memalign(p, align, n);
}
