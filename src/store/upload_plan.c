#include "config.h"

#include "base/mem.h"
#include "store/upload_plan.h"

#define MIB (UINT64_C(1) << 20)
#define STEPS 10

int sf_upload_plan_init(struct sf_upload_plan *p, uint64_t size, uint64_t part_bytes,
                        const struct sf_put_ops *limits, struct sf_error *err)
{
	struct sf_upload_plan to = { .size = size, .parts_max = limits->parts_max };

	to.part_max = limits->part_max;
	to.part = SF_MIN(SF_MAX(part_bytes, limits->part_min), limits->part_max);
	to.step = SF_MAX(to.parts_max / STEPS, 1u);
	if (size) {
		uint64_t least = size / to.parts_max + (size % to.parts_max != 0);
		if (least > to.part) /* whole MiB: parts of the same kind of objects are alike */
			to.part = least + (MIB - least % MIB) % MIB;
		if (least > to.part_max)
			return sf_fail(
				err, -EFBIG,
				"%llu bytes are more than the %u parts of %llu bytes that the "
				"server puts together",
				(unsigned long long)size, to.parts_max,
				(unsigned long long)to.part_max);
		to.part = SF_MIN(to.part, to.part_max);
	}
	*p = to;
	return 0;
}

/* Of a known size. */
static uint32_t even_part(const struct sf_upload_plan *p, uint64_t off, uint64_t *ret_start,
                          uint64_t *ret_len)
{
	uint64_t n = off / p->part;

	if (off >= p->size)
		return UINT32_MAX;
	*ret_start = n * p->part;
	*ret_len = SF_MIN(p->part, p->size - *ret_start);
	return (uint32_t)n;
}

uint32_t sf_upload_plan_part(const struct sf_upload_plan *p, uint64_t off, uint64_t *ret_start,
                             uint64_t *ret_len)
{
	uint64_t start = 0, len = p->part;
	uint32_t first = 0, n;

	if (p->size)
		return even_part(p, off, ret_start, ret_len);
	while (first < p->parts_max) { /* at most one round more than there are sizes */
		n = len < p->part_max ? SF_MIN(p->step, p->parts_max - first)
		                      : p->parts_max - first;
		if ((off - start) / len < n) {
			first += (uint32_t)((off - start) / len);
			*ret_start = off - (off - start) % len;
			*ret_len = len;
			return first;
		}
		start += n * len;
		first += n;
		len = len < p->part_max / 2 ? len * 2 : p->part_max;
	}
	return UINT32_MAX;
}

uint64_t sf_upload_plan_most(const struct sf_upload_plan *p)
{
	uint64_t start = 0, len = p->part;

	if (p->size)
		return p->size;
	for (uint32_t first = 0, n; first < p->parts_max; first += n) {
		n = len < p->part_max ? SF_MIN(p->step, p->parts_max - first)
		                      : p->parts_max - first;
		start += n * len;
		len = len < p->part_max / 2 ? len * 2 : p->part_max;
	}
	return start;
}
