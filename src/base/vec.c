#include "config.h"

#include "base/mem.h"
#include "base/vec.h"

int sf_vec_grow(void **at, size_t *cap, size_t need, size_t elem)
{
	size_t want = *cap + *cap / 2, bytes;
	void *p;

	if (want < *cap || want < need)
		want = need;
	want = SF_MAX(want, (size_t)8);
	if (__builtin_mul_overflow(want, elem, &bytes))
		return -ENOMEM;
	p = realloc(*at, bytes);
	if (!p)
		return -ENOMEM;
	*at = p;
	*cap = want;
	return 0;
}
