#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "parse/dtype.h"

#define F .is_float = 1
#define C .is_complex = 1
#define ST(name_, order_) .safetensors = name_, .st_order = order_
#define RECENT .st_optional = 1

/*
 * st_order counts the enum of safetensors' tensor.rs from its lowest: BOOL 1, F4 2, (F6_E2M3 3,
 * F6_E3M2 4, no dtype of torch's), U8 5 … U64 22. Quantized tensors show their integers in .npy;
 * two- and four-bit ones have no element there.
 */
static const struct sf_dtype_info table[SF_NDTYPES] = {
	[SF_BOOL] = { "bool", 1, .swap_bytes = 1, ST("BOOL", 1), .npy = "|b1",
	              .storage = "BoolStorage" },
	[SF_UINT8] = { "uint8", 1, .swap_bytes = 1, ST("U8", 5), .npy = "|u1",
	               .storage = "ByteStorage" },
	[SF_INT8] = { "int8", 1, .swap_bytes = 1, ST("I8", 6), .npy = "|i1",
	              .storage = "CharStorage" },
	[SF_INT16] = { "int16", 2, .swap_bytes = 2, ST("I16", 12), .npy = "<i2",
	               .storage = "ShortStorage" },
	[SF_UINT16] = { "uint16", 2, .swap_bytes = 2, ST("U16", 13), .npy = "<u2" },
	[SF_INT32] = { "int32", 4, .swap_bytes = 4, ST("I32", 16), .npy = "<i4",
	               .storage = "IntStorage" },
	[SF_UINT32] = { "uint32", 4, .swap_bytes = 4, ST("U32", 17), .npy = "<u4" },
	[SF_INT64] = { "int64", 8, .swap_bytes = 8, ST("I64", 21), .npy = "<i8",
	               .storage = "LongStorage" },
	[SF_UINT64] = { "uint64", 8, .swap_bytes = 8, ST("U64", 22), .npy = "<u8" },
	[SF_FLOAT16] = { "float16", 2, .swap_bytes = 2, F, ST("F16", 14), .npy = "<f2",
	                 .storage = "HalfStorage" },
	[SF_BFLOAT16] = { "bfloat16", 2, .swap_bytes = 2, F, ST("BF16", 15), .npy = "<V2",
	                  .storage = "BFloat16Storage" },
	[SF_FLOAT32] = { "float32", 4, .swap_bytes = 4, F, ST("F32", 18), .npy = "<f4",
	                 .storage = "FloatStorage" },
	[SF_FLOAT64] = { "float64", 8, .swap_bytes = 8, F, ST("F64", 20), .npy = "<f8",
	                 .storage = "DoubleStorage" },
	[SF_COMPLEX32] = { "complex32", 4, .swap_bytes = 2, C, .npy = "<V4" },
	[SF_COMPLEX64] = { "complex64", 8, .swap_bytes = 4, C, ST("C64", 19), RECENT, .npy = "<c8",
	                   .storage = "ComplexFloatStorage" },
	[SF_COMPLEX128] = { "complex128", 16, .swap_bytes = 8, C, .npy = "<c16",
	                    .storage = "ComplexDoubleStorage" },
	[SF_F8_E4M3FN] = { "float8_e4m3fn", 1, .swap_bytes = 1, ST("F8_E4M3", 8), .npy = "|V1" },
	[SF_F8_E5M2] = { "float8_e5m2", 1, .swap_bytes = 1, ST("F8_E5M2", 7), .npy = "|V1" },
	[SF_F8_E4M3FNUZ] = { "float8_e4m3fnuz", 1, .swap_bytes = 1, ST("F8_E4M3FNUZ", 10), RECENT,
	                     .npy = "|V1" },
	[SF_F8_E5M2FNUZ] = { "float8_e5m2fnuz", 1, .swap_bytes = 1, ST("F8_E5M2FNUZ", 11), RECENT,
	                     .npy = "|V1" },
	[SF_F8_E8M0FNU] = { "float8_e8m0fnu", 1, .swap_bytes = 1, ST("F8_E8M0", 9), .npy = "|V1" },
	[SF_F4_E2M1FN_X2] = { "float4_e2m1fn_x2", 1, .swap_bytes = 1, ST("F4", 2), .npy = "|V1" },
	[SF_QINT8] = { "qint8", 1, .swap_bytes = 1, .npy = "|i1", .storage = "QInt8Storage" },
	[SF_QUINT8] = { "quint8", 1, .swap_bytes = 1, .npy = "|u1", .storage = "QUInt8Storage" },
	[SF_QINT32] = { "qint32", 4, .swap_bytes = 4, .npy = "<i4", .storage = "QInt32Storage" },
	[SF_QUINT4X2] = { "quint4x2", 1, .swap_bytes = 1, .storage = "QUInt4x2Storage" },
	[SF_QUINT2X4] = { "quint2x4", 1, .swap_bytes = 1, .storage = "QUInt2x4Storage" },
	[SF_BITS8] = { "bits8", 1, .swap_bytes = 1, .npy = "|V1" },
	[SF_BITS16] = { "bits16", 2, .swap_bytes = 2, .npy = "<V2" },
	[SF_BITS1X8] = { "bits1x8", 1, .swap_bytes = 1, .npy = "|V1" },
	[SF_BITS2X4] = { "bits2x4", 1, .swap_bytes = 1, .npy = "|V1" },
	[SF_BITS4X2] = { "bits4x2", 1, .swap_bytes = 1, .npy = "|V1" },
	[SF_BCOMPLEX32] = { "bcomplex32", 4, .swap_bytes = 2, C, .npy = "<V4" },
};

/* Other names of torch's own for the same dtypes. */
static const struct {
	const char *name;
	enum sf_dtype dtype;
} aliases[] = {
	{ "half", SF_FLOAT16 },    { "float", SF_FLOAT32 },    { "double", SF_FLOAT64 },
	{ "short", SF_INT16 },     { "int", SF_INT32 },        { "long", SF_INT64 },
	{ "chalf", SF_COMPLEX32 }, { "cfloat", SF_COMPLEX64 }, { "cdouble", SF_COMPLEX128 },
};

const struct sf_dtype_info *sf_dtype_info(enum sf_dtype dtype)
{
	static const struct sf_dtype_info none = { .torch = "none" };

	return (unsigned)dtype < SF_NDTYPES && table[dtype].torch ? &table[dtype] : &none;
}

static bool is(const char *have, const char *name, size_t len)
{
	return have && strlen(have) == len &&
	       memcmp(have, name, len) == 0; /* a name may hold a NUL */
}

enum sf_dtype sf_dtype_by_torch(const char *name, size_t len)
{
	for (int i = 1; i < SF_NDTYPES; i++)
		if (is(table[i].torch, name, len))
			return (enum sf_dtype)i;
	for (size_t i = 0; i < SF_ARRAY_LEN(aliases); i++)
		if (is(aliases[i].name, name, len))
			return aliases[i].dtype;
	return SF_DTYPE_NONE;
}

enum sf_dtype sf_dtype_by_storage(const char *name, size_t len)
{
	for (int i = 1; i < SF_NDTYPES; i++)
		if (is(table[i].storage, name, len))
			return (enum sf_dtype)i;
	return SF_DTYPE_NONE;
}

enum sf_dtype sf_dtype_by_safetensors(const char *name, size_t len)
{
	for (int i = 1; i < SF_NDTYPES; i++)
		if (is(table[i].safetensors, name, len))
			return (enum sf_dtype)i;
	return SF_DTYPE_NONE;
}
