#include "config.h"

#include <math.h>

#include "base/buf.h"
#include "base/mem.h"
#include "save/save_values.h"

enum { DEPTH_MAX = 1000 };

/* A tag and eight bytes: what it is, and how many or which. */
static void tagged(struct sf_buf *out, char tag, uint64_t n)
{
	uint8_t b[9] = { (uint8_t)tag };

	sf_put_le64(b + 1, n);
	sf_buf_add(out, b, sizeof(b));
}

static void text(struct sf_buf *out, char tag, const struct sf_pv *v)
{
	tagged(out, tag, v->str.len);
	sf_buf_add(out, v->str.at, v->str.len);
}

/* A float that is an integer is that integer: below zero 'i', else 'u'. */
static void number(struct sf_buf *out, double f)
{
	uint64_t bits;

	memcpy(&bits, &f, sizeof(bits));
	if (floor(f) == f && f >= -0x1p63 && f < 0)
		tagged(out, 'i', (uint64_t)(int64_t)f);
	else if (floor(f) == f && f >= 0 && f < 0x1p64)
		tagged(out, 'u', (uint64_t)f);
	else
		tagged(out, 'f', bits);
}

static int put(const struct sf_pv *v, unsigned depth, struct sf_buf *out)
{
	int r = 0;

	if (depth > DEPTH_MAX)
		return -E2BIG;
	switch (v->kind) {
	case SF_PV_NONE:
		tagged(out, 'n', 0);
		break;
	case SF_PV_BOOL:
		tagged(out, 'u', v->b);
		break;
	case SF_PV_INT:
		tagged(out, v->i < 0 ? 'i' : 'u', (uint64_t)v->i);
		break;
	case SF_PV_LONG: /* one of ours: 2^63 and more */
		tagged(out, 'u', sf_le64(v->str.at));
		break;
	case SF_PV_FLOAT:
		number(out, v->f);
		break;
	case SF_PV_STR:
		text(out, 's', v);
		break;
	case SF_PV_BYTES:
		text(out, 'b', v);
		break;
	case SF_PV_GLOBAL:
		text(out, 'g', v->global.name);
		break;
	case SF_PV_CALL: /* torch.Size: a tuple */
		return put(v->call.args->seq.at[0], depth, out);
	case SF_PV_TUPLE:
		tagged(out, 't', v->seq.n);
		for (size_t i = 0; i < v->seq.n && r == 0; i++)
			r = put(v->seq.at[i], depth + 1, out);
		break;
	default:
		return -EINVAL;
	}
	return r;
}

int sf_save_key_bytes(const struct sf_pv *key, struct sf_buf *out)
{
	int r = put(key, 0, out);

	return r < 0 ? r : sf_buf_check(out);
}
