#include "config.h"

#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"
#include "parse/dtype_number.h"
#include "tool/numbers.h"

int sf_numbers_each(struct sf_reader *r, uint32_t tensor,
                    int (*each)(void *arg, const double *v, size_t n), void *arg,
                    struct sf_error *err)
{
	const struct sf_tensor *t = &sf_reader_ckpt(r)->tensor[tensor];
	const enum sf_dtype dtype = (enum sf_dtype)t->dtype;
	const unsigned per = sf_dtype_numbers(dtype);
	const uint64_t elem = sf_dtype_info(dtype)->bytes;
	const uint64_t slice = SF_NUMBERS_SLICE / elem * elem;
	SF_FREE uint8_t *at = NULL;
	double v[2 * SF_NUMBERS_BLOCK];
	int e = 0;

	if (!per)
		return sf_fail(err, -ENOTSUP, "elements of torch.%s are no numbers",
		               sf_dtype_info(dtype)->torch);
	at = malloc(SF_MIN(slice, SF_MAX(t->bytes, 1)));
	if (!at)
		return sf_fail(err, -ENOMEM, "no memory for a slice of a tensor");
	for (uint64_t off = 0; off < t->bytes && e >= 0; off += slice) {
		const uint64_t len = SF_MIN(slice, t->bytes - off), n = len / elem;
		e = sf_read_tensor(r, tensor, off, at, len, err);
		for (uint64_t i = 0; i < n && e >= 0; i += SF_NUMBERS_BLOCK) {
			size_t k = (size_t)SF_MIN(n - i, SF_NUMBERS_BLOCK);
			sf_dtype_doubles(v, dtype, at + i * elem, k);
			e = each(arg, v, k * per);
		}
	}
	return e < 0 ? e : 0;
}
