#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "parse/dtype.h"
#include "value/value_json.h"

/*
 * numpy values as their __reduce__ spells them
 * (numpy/_core/src/multiarray/{scalartypes,methods,descriptor}.c, numpy 1.26 and 2): scalar
 * [_]core.multiarray.scalar(dtype, bytes) array   [_]core.multiarray._reconstruct(ndarray, (0,),
 * b"b"), state (version, shape, dtype, is_fortran, bytes or list) dtype   numpy.dtype("f8", False,
 * True), state (version, byte order, …)
 */
static bool is_numpy(const struct sf_pv *f, const char *name)
{
	return f && (sf_pv_is_global(f, "numpy._core.multiarray", name) ||
	             sf_pv_is_global(f, "numpy.core.multiarray", name));
}

static const struct sf_pv *item(const struct sf_pv *seq, size_t i)
{
	return seq && (seq->kind == SF_PV_TUPLE || seq->kind == SF_PV_LIST) && i < seq->seq.n
	               ? seq->seq.at[i]
	               : NULL;
}

struct dtype {
	char order;    /* '<' or '|' are read as they are, '>' is swapped */
	char kind;     /* b i u f c S U V M m O */
	unsigned size; /* bytes */
	char text[24]; /* "<f8" */
};

static bool get_dtype(const struct sf_pv *v, struct dtype *ret)
{
	const struct sf_pv *name, *order;
	char end;

	if (!v || v->kind != SF_PV_CALL || !sf_pv_is_global(v->call.callable, "numpy", "dtype"))
		return false;
	name = item(v->call.args, 0);
	if (!name || name->kind != SF_PV_STR || name->str.len > 12 || name->str.len < 2)
		return false;
	order = item(v->call.state, 1);
	ret->order =
		order && order->kind == SF_PV_STR && order->str.len == 1 ? order->str.at[0] : '|';
	ret->kind = name->str.at[0];
	if (sscanf(name->str.at + 1, "%9u%c", &ret->size, &end) != 1)
		return false;
	snprintf(ret->text, sizeof(ret->text), "%c%c%u", ret->order, ret->kind, ret->size);
	return strchr("<>|=", ret->order) && strchr("biufcSUVMmO", ret->kind);
}

static bool is_number(const struct dtype *d)
{
	switch (d->kind) {
	case 'b':
		return d->size == 1;
	case 'i':
	case 'u':
		return d->size == 1 || d->size == 2 || d->size == 4 || d->size == 8;
	case 'f':
		return d->size == 2 || d->size == 4 || d->size == 8;
	case 'c':
		return d->size == 8 || d->size == 16;
	default:
		return false;
	}
}

static void put_float(struct sf_vj *j, const uint8_t *p, unsigned size)
{
	uint64_t bits = 0;
	double d;
	float f;

	for (unsigned i = size; i-- > 0;)
		bits = bits << 8 | p[i];
	if (size == 8) {
		memcpy(&d, &bits, 8);
		sf_vj_double(j, d, false);
		return;
	}
	if (size == 2) {
		uint16_t half = (uint16_t)bits;
		sf_dtype_cast(&f, SF_FLOAT32, &half, SF_FLOAT16, 1);
	} else {
		uint32_t single = (uint32_t)bits;
		memcpy(&f, &single, 4);
	}
	sf_vj_double(j, (double)f, true);
}

/* One element of @d's size at @p. */
static void put_element(struct sf_vj *j, const struct dtype *d, const char *at)
{
	unsigned unit = d->kind == 'c' ? d->size / 2 : d->size;
	uint64_t bits = 0;
	uint8_t p[16];

	for (unsigned i = 0; i < d->size; i++) {
		unsigned in = i % unit;
		p[i] = (uint8_t)at[i - in + (d->order == '>' ? unit - 1 - in : in)];
	}
	for (unsigned i = SF_MIN(unit, 8u); i-- > 0;)
		bits = bits << 8 | p[i];
	switch (d->kind) {
	case 'b':
		sf_buf_str(j->out, bits ? "true" : "false");
		break;
	case 'i':
		sf_vj_int(j, (int64_t)(bits << (64 - 8 * unit)) >> (64 - 8 * unit));
		break;
	case 'u':
		sf_vj_uint(j, bits);
		break;
	case 'f':
		put_float(j, p, unit);
		break;
	default: /* complex */
		sf_buf_byte(j->out, '[');
		put_float(j, p, unit);
		sf_buf_str(j->out, ", ");
		put_float(j, p + unit, unit);
		sf_buf_byte(j->out, ']');
	}
}

static const char *scalar_name(const struct dtype *d, char *buf, size_t size)
{
	static const struct {
		char kind;
		const char *name;
	} kinds[] = { { 'b', "bool" },
		      { 'i', "int" },
		      { 'u', "uint" },
		      { 'f', "float" },
		      { 'c', "complex" } };

	for (size_t i = 0; i < SF_ARRAY_LEN(kinds); i++)
		if (kinds[i].kind == d->kind) {
			if (d->kind == 'b')
				return "numpy.bool";
			snprintf(buf, size, "numpy.%s%u", kinds[i].name, d->size * 8);
			return buf;
		}
	return "numpy.generic";
}

/* 0 when it is not of the form (then it is shown as a call). */
static int put_scalar(struct sf_vj *j, const struct sf_pv *v)
{
	SF_CLEANUP(sf_buf_release)
	struct sf_buf own = { .limit = SF_VJ_BYTES, .charge = j->out->charge };
	const char *at;
	struct dtype d;
	char name[32];
	size_t len;

	if (!get_dtype(item(v->call.args, 0), &d) ||
	    !sf_vj_get_bytes(item(v->call.args, 1), &own, &at, &len))
		return 0;
	bool number = is_number(&d) && len == d.size;
	sf_buf_printf(j->out,
	              "{\"$type\": \"%s\", \"value\": ", scalar_name(&d, name, sizeof(name)));
	if (number) {
		put_element(j, &d, at);
	} else {
		sf_vj_base64(j, at, len);
		sf_buf_printf(j->out, ", \"dtype\": \"%s\"", d.text);
	}
	sf_buf_byte(j->out, '}');
	return 1;
}

/* Elements in row-major order, flat; what is no plain number, or too much, as its bytes. */
static int put_array(struct sf_vj *j, const struct sf_pv *v)
{
	const struct sf_pv *state = v->call.state, *shape = item(state, 1),
			   *fortran = item(state, 3), *data = item(state, 4);
	SF_CLEANUP(sf_buf_release)
	struct sf_buf own = { .limit = SF_VJ_BYTES, .charge = j->out->charge };
	uint64_t n = 1, dim, bytes;
	const char *at;
	struct dtype d;
	size_t len;

	if (!shape || shape->kind != SF_PV_TUPLE || !get_dtype(item(state, 2), &d) || !fortran ||
	    fortran->kind != SF_PV_BOOL || !data)
		return 0;
	for (size_t i = 0; i < shape->seq.n; i++)
		if (!sf_pv_u64(shape->seq.at[i], &dim) || !sf_mul(n, dim, &n))
			return 0;
	sf_buf_printf(j->out,
	              "{\"$type\": \"numpy.ndarray\", \"dtype\": \"%s\", \"shape\": ", d.text);
	int r = sf_vj_seq(j, shape);
	sf_buf_printf(j->out, "%s, \"value\": ", fortran->b ? ", \"fortran\": true" : "");
	if (!sf_vj_get_bytes(data, &own, &at, &len)) {
		r = r < 0 ? r : sf_vj_value(j, data); /* a list: objects */
	} else if (is_number(&d) && n <= SF_VJ_ARRAY && sf_mul(n, d.size, &bytes) && bytes == len) {
		sf_buf_byte(j->out, '[');
		for (uint64_t i = 0; i < n; i++) {
			if (i > 0)
				sf_buf_str(j->out, ", ");
			put_element(j, &d, at + i * d.size);
		}
		sf_buf_byte(j->out, ']');
		j->nodes += (uint32_t)n;
	} else {
		sf_vj_base64(j, at, len);
	}
	sf_buf_byte(j->out, '}');
	return r < 0 ? r : 1;
}

int sf_vj_numpy(struct sf_vj *j, const struct sf_pv *v)
{
	struct dtype d;

	if (is_numpy(v->call.callable, "scalar"))
		return put_scalar(j, v);
	if (is_numpy(v->call.callable, "_reconstruct"))
		return put_array(j, v);
	if (get_dtype(v, &d)) {
		sf_buf_printf(j->out, "{\"$type\": \"numpy.dtype\", \"value\": \"%s\"}", d.text);
		return 1;
	}
	return 0;
}
