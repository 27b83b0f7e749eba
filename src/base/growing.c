#include "config.h"

#include <string.h>

#include "base/growing.h"
#include "base/mem.h"
#include "shardfuse.h"

_Static_assert(sizeof(struct shardfuse_error) == sizeof(struct sf_error), "one layout");

int sf_public_fail(struct shardfuse_error *ret, const struct sf_error *err, int code)
{
	if (ret && code < 0)
		memcpy(ret->msg, err->msg, sizeof(ret->msg));
	return code;
}

static int check_size(size_t size, struct sf_error *err)
{
	if (size >= sizeof(size))
		return 0;
	return sf_fail(err, -EINVAL, "struct_size is %zu: it has to be set to the struct's sizeof",
	               size);
}

int sf_public_give(void *theirs, const void *ours, size_t ours_size, struct sf_error *err)
{
	size_t size;
	int r;

	memcpy(&size, theirs, sizeof(size));
	r = check_size(size, err);
	if (r < 0)
		return r;
	memcpy((char *)theirs + sizeof(size), (const char *)ours + sizeof(size),
	       SF_MIN(size, ours_size) - sizeof(size));
	return 0;
}

int sf_public_take(const void *theirs, void *ours, size_t ours_size, struct sf_error *err)
{
	size_t size = sizeof(size);
	int r;

	if (theirs)
		memcpy(&size, theirs, sizeof(size));
	r = check_size(size, err);
	if (r < 0)
		return r;
	memset(ours, 0, ours_size);
	if (theirs)
		memcpy(ours, theirs, SF_MIN(size, ours_size));
	return 0;
}
