#include "config.h"

#include "base/mem.h"
#include "lib/lib_cut.h"

#define PIECE (UINT64_C(8) << 20) /* bytes of one piece of a read */
#define PIECE_ROWS 65536 /* of a box whose elements do not lie side by side where they go */

static int check_box(struct sf_lib_cut *c, struct sf_error *err)
{
	const struct sf_tensor *t = c->t;
	uint64_t elements = PIECE / c->elem, inner = 1, dense = c->elem;
	unsigned d;

	c->any = true;
	for (d = 0; d < t->ndim; d++) {
		c->origin[d] = c->rd.origin ? c->rd.origin[d] : 0;
		if (c->origin[d] <= t->shape[d])
			c->extent[d] = c->rd.extent ? c->rd.extent[d] : t->shape[d] - c->origin[d];
		if (c->origin[d] > t->shape[d] || c->extent[d] > t->shape[d] - c->origin[d])
			return sf_fail(err, -EINVAL,
			               "'%.*s': dimension %u: %llu elements at %llu, it has %llu",
			               (int)SF_MIN(c->entry->len, 200u), c->entry->name, d,
			               (unsigned long long)(c->rd.extent ? c->rd.extent[d] : 0),
			               (unsigned long long)c->origin[d],
			               (unsigned long long)t->shape[d]);
		c->any = c->any && c->extent[d];
		c->at[d] = 0;
	}
	for (d = t->ndim; d-- > 0;) {
		c->stride[d] = c->rd.stride ? c->rd.stride[d] : (int64_t)dense;
		dense *= c->extent[d];
	}
	if (!c->any || !t->ndim)
		return 0;
	/* a copy for each run that is contiguous in both: few enough of them, too */
	if (c->stride[t->ndim - 1] != (int64_t)c->elem &&
	    c->extent[t->ndim - 1] < elements / PIECE_ROWS)
		elements = c->extent[t->ndim - 1] * PIECE_ROWS;
	for (d = t->ndim; d > 0 && inner * c->extent[d - 1] <= elements; d--)
		inner *= c->extent[d - 1];
	c->along = d ? d - 1 : 0;
	c->step = d ? SF_MAX(elements / inner, (uint64_t)1) : c->extent[0];
	return 0;
}

static int check_range(struct sf_lib_cut *c, uint64_t all, struct sf_error *err)
{
	c->off = c->rd.off;
	if (!sf_add(c->rd.off, c->rd.len, &c->end) || c->end > all)
		return sf_fail(err, -EINVAL, "'%.*s': %llu bytes at %llu, it has %llu",
		               (int)SF_MIN(c->entry->len, 200u), c->entry->name,
		               (unsigned long long)c->rd.len, (unsigned long long)c->rd.off,
		               (unsigned long long)all);
	c->any = c->rd.len > 0;
	return 0;
}

int sf_lib_cut_begin(struct sf_lib_cut *c, const struct shardfuse *h, const void *theirs,
                     struct sf_error *err)
{
	int r = sf_public_take(theirs, &c->rd, sizeof(c->rd), err);

	if (r >= 0)
		r = sf_lib_tensor(h, c->rd.tensor, &c->t, &c->entry, err);
	if (r < 0)
		return r;
	c->elem = sf_dtype_info(c->entry->dtype)->bytes;
	c->box = !c->rd.len && !c->rd.off;
	if (c->box)
		return check_box(c, err);
	if (c->rd.origin || c->rd.extent || c->rd.stride)
		return sf_fail(err, -EINVAL, "'%.*s': a read is a box or a range, this one is both",
		               (int)SF_MIN(c->entry->len, 200u), c->entry->name);
	return check_range(c, sf_lib_bytes(c->t, c->entry), err);
}

static int emit(void *arg, uint64_t off, uint64_t len, struct sf_parts *parts, struct sf_error *err)
{
	const struct sf_lib_piece *p = arg;
	const struct sf_read_box box = { p->origin, p->extent, p->at, p->stride };

	(void)err;
	return p->box ? sf_parts_box(parts, p->tensor, &box, p->cast)
	              : sf_parts_tensor(parts, p->tensor, off, len, p->cast);
}

void sf_lib_cut_next(struct sf_lib_cut *c, struct sf_lib_piece *p, struct sf_read *rd)
{
	const struct sf_tensor *t = c->t;
	int64_t to = 0;
	uint64_t n = c->elem;
	unsigned d;

	p->tensor = c->entry->tensor;
	p->cast = c->entry->dtype == t->dtype ? SF_DTYPE_NONE : (enum sf_dtype)c->entry->dtype;
	p->box = c->box;
	*rd = (struct sf_read){ .emit = emit, .arg = p };
	if (!c->box) {
		rd->off = c->off;
		rd->len = SF_MIN(PIECE, c->end - c->off);
		rd->buf = (char *)c->rd.buf + (c->off - c->rd.off);
		c->off += rd->len;
		c->any = c->off < c->end;
		return;
	}
	for (d = 0; d < t->ndim; d++) {
		p->origin[d] = c->origin[d] + c->at[d];
		p->extent[d] = d < c->along    ? 1
		               : d == c->along ? SF_MIN(c->step, c->extent[d] - c->at[d])
		                               : c->extent[d];
		to += (int64_t)c->at[d] * c->stride[d];
		n *= p->extent[d];
	}
	p->stride = c->stride; /* copied while the piece is started: read/reader.h */
	p->at = (char *)c->rd.buf + to;
	rd->len = n;
	c->any = false;
	if (!t->ndim)
		return;
	c->at[c->along] += c->step;
	for (d = c->along; c->at[d] >= c->extent[d]; d--) {
		c->at[d] = 0;
		if (!d)
			return;
		c->at[d - 1]++;
	}
	c->any = true;
}
