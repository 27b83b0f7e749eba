#include "config.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "parse/dtype_number.h"
#include "tool/value_diff.h"

#define SLICE (UINT64_C(1) << 20) /* bytes of the wider side */
#define BLOCK 1024                /* elements */

/* The distance of two numbers that are not the same, and by their magnitude. */
static double apart(double x, double y, double *ret_rel)
{
	double d = fabs(x - y), most = SF_MAX(fabs(x), fabs(y));

	if (isnan(d) || isinf(d) || isinf(most)) {
		*ret_rel = isnan(x) || isnan(y) || isinf(most) ? (double)INFINITY
		                                               : fabs(x / most - y / most);
		return (double)INFINITY;
	}
	*ret_rel = d / most;
	return d;
}

static void note(struct sf_value_diff *d, uint64_t at, double abs, double rel)
{
	if (abs > d->max_abs) {
		d->max_abs = abs;
		d->max_at = at;
	}
	d->max_rel = SF_MAX(d->max_rel, rel);
}

void sf_value_diff_add(struct sf_value_diff *d, const double *x, const double *y, size_t n,
                       unsigned per)
{
	for (size_t i = 0; i < n; i++) {
		bool differs = false;
		for (size_t k = i * per; k < (i + 1) * per; k++) {
			double rel, abs;
			if (x[k] == y[k] || (isnan(x[k]) && isnan(y[k])))
				continue;
			abs = apart(x[k], y[k], &rel);
			note(d, d->n + i, abs, rel);
			differs = true;
		}
		d->differ += differs;
	}
	d->n += n;
}

static void add_bytes(struct sf_value_diff *d, const uint8_t *x, const uint8_t *y, size_t n,
                      size_t elem)
{
	for (size_t i = 0; i < n; i++)
		d->differ += memcmp(x + i * elem, y + i * elem, elem) != 0;
	d->n += n;
}

struct sides {
	enum sf_dtype dtype[2];
	uint64_t elem[2];
	unsigned per;
	uint8_t *at[2];
};

/* @n elements that are in memory. */
static void compare(struct sf_value_diff *d, const struct sides *s, size_t n)
{
	double x[2 * BLOCK], y[2 * BLOCK];

	if (s->dtype[0] == s->dtype[1] && memcmp(s->at[0], s->at[1], n * s->elem[0]) == 0) {
		d->n += n;
		return;
	}
	if (!s->per) {
		add_bytes(d, s->at[0], s->at[1], n, s->elem[0]);
		return;
	}
	for (size_t i = 0, k; i < n; i += k) {
		k = SF_MIN(n - i, (size_t)BLOCK);
		sf_dtype_doubles(x, s->dtype[0], s->at[0] + i * s->elem[0], k);
		sf_dtype_doubles(y, s->dtype[1], s->at[1] + i * s->elem[1], k);
		sf_value_diff_add(d, x, y, k, s->per);
	}
}

static int begin(struct sides *s, const struct sf_tensor *const t[2], struct sf_error *err)
{
	for (int i = 0; i < 2; i++) {
		s->dtype[i] = (enum sf_dtype)t[i]->dtype;
		s->elem[i] = sf_dtype_info(s->dtype[i])->bytes;
	}
	s->per = sf_dtype_numbers(s->dtype[0]);
	if (s->per != sf_dtype_numbers(s->dtype[1]) || (!s->per && s->dtype[0] != s->dtype[1]))
		return sf_fail(err, -EINVAL, "torch.%s and torch.%s are not compared",
		               sf_dtype_info(s->dtype[0])->torch,
		               sf_dtype_info(s->dtype[1])->torch);
	for (int i = 0; i < 2; i++)
		if (!(s->at[i] = malloc(SLICE)))
			return sf_fail(err, -ENOMEM, "no memory for a slice of a tensor");
	return 0;
}

int sf_value_diff(const struct sf_diff_side *x, const struct sf_diff_side *y,
                  void (*read)(void *arg, uint64_t bytes), void *arg, struct sf_value_diff *ret,
                  struct sf_error *err)
{
	const struct sf_diff_side *side[2] = { x, y };
	const struct sf_tensor *const t[2] = { &sf_reader_ckpt(x->reader)->tensor[x->tensor],
		                               &sf_reader_ckpt(y->reader)->tensor[y->tensor] };
	struct sf_value_diff d = { 0 };
	struct sides s = { .at = { NULL, NULL } };
	int r = begin(&s, t, err);
	const uint64_t most = SLICE / SF_MAX(SF_MAX(s.elem[0], s.elem[1]), 1),
		       n = t[0]->bytes / s.elem[0];

	for (uint64_t i = 0; i < n && r >= 0; i += most) {
		size_t k = (size_t)SF_MIN(n - i, most);
		for (int j = 0; j < 2 && r >= 0; j++) {
			r = sf_read_tensor(side[j]->reader, side[j]->tensor, i * s.elem[j], s.at[j],
			                   k * s.elem[j], err);
			if (r >= 0 && read)
				read(arg, k * s.elem[j]);
		}
		if (r >= 0)
			compare(&d, &s, k);
	}
	free(s.at[0]);
	free(s.at[1]);
	if (r >= 0)
		*ret = d;
	return r < 0 ? r : 0;
}
