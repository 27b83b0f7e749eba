#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "parse/zarr.h"

#define VALUES_MAX 1024 /* of a document */

/* numpy's "<f4", or a word. */
static enum sf_dtype dtype_of(const char *s)
{
	static const struct {
		const char *name;
		enum sf_dtype dtype;
	} known[] = {
		{ "b1", SF_BOOL },      { "i1", SF_INT8 },        { "u1", SF_UINT8 },
		{ "i2", SF_INT16 },     { "u2", SF_UINT16 },      { "i4", SF_INT32 },
		{ "u4", SF_UINT32 },    { "i8", SF_INT64 },       { "u8", SF_UINT64 },
		{ "f2", SF_FLOAT16 },   { "f4", SF_FLOAT32 },     { "f8", SF_FLOAT64 },
		{ "c8", SF_COMPLEX64 }, { "c16", SF_COMPLEX128 },
	};

	if (*s != '<' && *s != '|')
		return strcmp(s, "bfloat16") == 0 || strncmp(s, "float8_", 7) == 0
		               ? sf_dtype_by_torch(s, strlen(s))
		               : SF_DTYPE_NONE;
	for (size_t i = 0; i < SF_ARRAY_LEN(known); i++)
		if (strcmp(s + 1, known[i].name) == 0 &&
		    (*s == '<' || sf_dtype_info(known[i].dtype)->bytes == 1))
			return known[i].dtype;
	return SF_DTYPE_NONE;
}

static int take_dtype(const struct cJSON *root, struct sf_zarr *z, struct sf_error *err)
{
	const struct cJSON *item = sf_json_get(root, "dtype");
	const char *name = item ? sf_json_str(item) : NULL;

	if (!item)
		return sf_fail(err, -EBADMSG, "it has no dtype");
	z->dtype = name ? dtype_of(name) : SF_DTYPE_NONE;
	if (z->dtype == SF_DTYPE_NONE)
		return sf_fail(err, -ENOTSUP, "its dtype '%.40s' is not read",
		               name ? name : "(no text)");
	return 0;
}

/* shape, chunks, and what follows from them. */
static int take_shape(const struct cJSON *root, struct sf_zarr *z, struct sf_error *err)
{
	int n = sf_json_get_u64s(root, "shape", z->shape, SF_DIMS_MAX, err), chunks;
	uint64_t bytes;

	if (n < 0)
		return n;
	chunks = sf_json_get_u64s(root, "chunks", z->chunk, SF_DIMS_MAX, err);
	if (chunks < 0)
		return chunks;
	if (chunks != n)
		return sf_fail(err, -EBADMSG, "its shape has %d dimensions, its chunks have %d", n,
		               chunks);
	z->ndim = (unsigned)n;
	z->ncells = 1;
	z->chunk_bytes = bytes = sf_dtype_info(z->dtype)->bytes;
	for (unsigned d = 0; d < z->ndim; d++) {
		if (z->chunk[d] == 0)
			return sf_fail(err, -EBADMSG, "its chunks are empty in dimension %u", d);
		z->cells[d] = z->shape[d] / z->chunk[d] + (z->shape[d] % z->chunk[d] != 0);
		if (!sf_mul(z->chunk_bytes, z->chunk[d], &z->chunk_bytes) ||
		    !sf_mul(z->ncells, z->cells[d], &z->ncells))
			return sf_fail(err, -EBADMSG,
			               "dimension %u: %" PRIu64 " in chunks of %" PRIu64
			               ": chunks pass 2^64 bytes or in number",
			               d, z->shape[d], z->chunk[d]);
	}
	return 0;
}

static int take_codec(const struct cJSON *root, struct sf_zarr *z, struct sf_error *err)
{
	const struct cJSON *compressor = sf_json_get(root, "compressor"),
			   *filters = sf_json_get(root, "filters");
	const char *id;

	if (filters && !sf_json_is_null(filters) && sf_json_next(filters, NULL))
		return sf_fail(err, -ENOTSUP, "its chunks went through filters");
	z->codec = SF_CODEC_NONE;
	if (!compressor || sf_json_is_null(compressor))
		return 0;
	if (sf_json_get_str(compressor, "id", &id, NULL) < 0)
		return sf_fail(err, -EBADMSG, "its compressor has no id");
	if (strcmp(id, "zstd") == 0)
		z->codec = SF_CODEC_ZSTD;
	else if (strcmp(id, "blosc") == 0)
		z->codec = SF_CODEC_BLOSC;
	else
		return sf_fail(err, -ENOTSUP, "its compressor '%.40s' is not read", id);
	return 0;
}

/* A number as JSON or one of zarr's words for what JSON has none for. */
static bool number_of(const struct cJSON *item, double *ret)
{
	const char *word = sf_json_str(item);
	bool b;

	if (sf_json_is_bool(item, &b)) {
		*ret = b;
		return true;
	}
	if (!word)
		return sf_json_is_number(item, ret);
	if (strcmp(word, "NaN") == 0)
		*ret = NAN;
	else if (strcmp(word, "Infinity") == 0)
		*ret = INFINITY;
	else if (strcmp(word, "-Infinity") == 0)
		*ret = -INFINITY;
	else
		return false;
	return true;
}

/* A whole number of an element's width. */
static bool put_int(uint8_t *at, enum sf_dtype dtype, double d)
{
	const unsigned bits = 8u * sf_dtype_info(dtype)->bytes;
	const bool is_signed =
		dtype == SF_INT8 || dtype == SF_INT16 || dtype == SF_INT32 || dtype == SF_INT64;
	const double least = is_signed ? -ldexp(1, (int)bits - 1) : 0,
		     end = ldexp(1, is_signed ? (int)bits - 1 : (int)bits);
	uint64_t u;

	if (!(d >= least && d < (dtype == SF_BOOL ? 2 : end)) || d != floor(d))
		return false;
	u = d < 0 ? (uint64_t)(int64_t)d : (uint64_t)d;
	for (unsigned i = 0; i < bits / 8; i++)
		at[i] = (uint8_t)(u >> 8 * i);
	return true;
}

static bool put_number(uint8_t *at, enum sf_dtype dtype, double d)
{
	if (sf_dtype_info(dtype)->is_float) {
		sf_dtype_cast(at, dtype, &d, SF_FLOAT64, 1);
		return true;
	}
	if (dtype == SF_BOOL || sf_dtype_is_int(dtype))
		return put_int(at, dtype, d);
	return d == 0; /* the bytes of a small float's 0 are 0 */
}

static int take_fill(const struct cJSON *root, struct sf_zarr *z, struct sf_error *err)
{
	const struct cJSON *item = sf_json_get(root, "fill_value"), *part = NULL;
	const bool is_complex = z->dtype == SF_COMPLEX64 || z->dtype == SF_COMPLEX128;
	const unsigned half = sf_dtype_info(z->dtype)->bytes / 2;
	bool ok;
	double d;

	if (!item || sf_json_is_null(item))
		return 0;
	if (is_complex && !sf_json_is_number(item, &d)) {
		ok = true;
		for (unsigned i = 0; i < 2 && ok; i++) {
			part = sf_json_next(item, part);
			ok = part && number_of(part, &d) &&
			     put_number(z->fill + i * half,
			                z->dtype == SF_COMPLEX64 ? SF_FLOAT32 : SF_FLOAT64, d);
		}
	} else {
		ok = number_of(item, &d) && put_number(z->fill,
		                                       z->dtype == SF_COMPLEX64    ? SF_FLOAT32
		                                       : z->dtype == SF_COMPLEX128 ? SF_FLOAT64
		                                                                   : z->dtype,
		                                       d);
	}
	if (!ok)
		return sf_fail(err, -ENOTSUP, "its fill_value is none of %s",
		               sf_dtype_info(z->dtype)->torch);
	z->has_fill = true;
	return 0;
}

static int take_words(const struct cJSON *root, struct sf_zarr *z, struct sf_error *err)
{
	const char *order = "C", *separator = ".";
	uint64_t version;
	int r = sf_json_get_u64(root, "zarr_format", &version, err);

	if (r < 0)
		return r;
	if (version != 2)
		return sf_fail(err, -ENOTSUP, "zarr_format is %" PRIu64 ", 2 is read", version);
	sf_json_get_str(root, "order", &order, NULL);
	sf_json_get_str(root, "dimension_separator", &separator, NULL);
	if (strcmp(order, "C") != 0 && strcmp(order, "F") != 0)
		return sf_fail(err, -EBADMSG, "its order is '%.10s', neither C nor F", order);
	if (strcmp(separator, ".") != 0 && strcmp(separator, "/") != 0)
		return sf_fail(err, -EBADMSG, "its dimension_separator is '%.10s', neither . nor /",
		               separator);
	z->column_major = *order == 'F';
	z->separator = *separator;
	return 0;
}

int sf_zarr_parse(const char *text, size_t len, struct sf_zarr *ret, struct sf_error *err)
{
	struct sf_zarr z = { .ndim = 0 };
	const struct cJSON *root;
	struct sf_json *json;
	int r = sf_json_parse_most(text, len, VALUES_MAX, &json, err);

	if (r < 0)
		return r;
	root = sf_json_root(json);
	r = take_words(root, &z, err);
	if (r >= 0)
		r = take_dtype(root, &z, err);
	if (r >= 0)
		r = take_shape(root, &z, err);
	if (r >= 0)
		r = take_codec(root, &z, err);
	if (r >= 0)
		r = take_fill(root, &z, err);
	sf_json_free(json);
	if (r < 0)
		return r == -ENOENT || r == -E2BIG ? -EBADMSG : r;
	*ret = z;
	return 0;
}

size_t sf_zarr_chunk_name(const struct sf_zarr *z, const uint64_t *cell, char *text)
{
	size_t n = 0;

	if (!z->ndim)
		n = (size_t)snprintf(text, SF_ZARR_NAME, "0");
	for (unsigned d = 0; d < z->ndim; d++) {
		if (d)
			text[n++] = z->separator;
		n += (size_t)snprintf(text + n, SF_ZARR_NAME - n, "%" PRIu64, cell[d]);
	}
	return n;
}
