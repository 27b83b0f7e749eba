/* Element types: one table that every format and view reads. */
#ifndef SF_PARSE_DTYPE_H
#define SF_PARSE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In torch's names. The numbers are ours and never stored. */
enum sf_dtype {
	SF_DTYPE_NONE, /* not one we know; never in a loaded checkpoint */
	SF_BOOL,
	SF_UINT8,
	SF_INT8,
	SF_INT16,
	SF_UINT16,
	SF_INT32,
	SF_UINT32,
	SF_INT64,
	SF_UINT64,
	SF_FLOAT16,
	SF_BFLOAT16,
	SF_FLOAT32,
	SF_FLOAT64,
	SF_COMPLEX32,
	SF_COMPLEX64,
	SF_COMPLEX128,
	SF_F8_E4M3FN,
	SF_F8_E5M2,
	SF_F8_E4M3FNUZ,
	SF_F8_E5M2FNUZ,
	SF_F8_E8M0FNU,
	SF_F4_E2M1FN_X2,
	SF_QINT8,
	SF_QUINT8,
	SF_QINT32,
	SF_QUINT4X2,
	SF_QUINT2X4,
	SF_BITS8,
	SF_BITS16,
	SF_BITS1X8,
	SF_BITS2X4,
	SF_BITS4X2,
	SF_BCOMPLEX32, /* complex of two bfloat16, by torch 2.14 */
	SF_NDTYPES
};

/*
 * Source: pytorch/pytorch torch/storage.py (storage classes) and torch/_tensor.py (which dtypes are
 * pickled with _rebuild_tensor_v3), 2.14; huggingface/safetensors tensor.rs 0.8 (names and their
 * order); numpy's format.py.
 */
struct sf_dtype_info {
	const char *torch; /* "bfloat16": the name behind "torch." */
	uint8_t bytes;     /* per element of torch's shape */
	/* rank in safetensors' own sort (higher comes first in a file), 0 = no name there */
	uint8_t st_order;
	/* named only by recent readers (complex64, fnuz): left out unless st_dtypes=all */
	uint8_t st_optional;
	uint8_t swap_bytes; /* width of the little-endian unit: 4 for complex64 */
	uint8_t is_float;   /* f16 bf16 f32 f64: what casts apply to */
	uint8_t is_complex;
	const char *safetensors; /* "BF16", NULL when the format has no name for it */
	const char *npy;         /* "<f4", "<V2"; NULL when .npy cannot hold it */
	/* typed storage class, "BFloat16Storage"; NULL: UntypedStorage and _rebuild_tensor_v3 */
	const char *storage;
};

const struct sf_dtype_info *sf_dtype_info(enum sf_dtype dtype);
/* An integer that arithmetic is done on: not bool, nor quantized, nor bits. */
static inline bool sf_dtype_is_int(enum sf_dtype dtype)
{
	return dtype >= SF_UINT8 && dtype <= SF_UINT64;
}
/* "float32"; old aliases too ("half") */
enum sf_dtype sf_dtype_by_torch(const char *name, size_t len);
enum sf_dtype sf_dtype_by_storage(const char *name, size_t len);     /* "FloatStorage" */
enum sf_dtype sf_dtype_by_safetensors(const char *name, size_t len); /* "F32" */

/*
 * sf_dtype_cast - @n elements from one float type to another (f64 f32 f16 bf16), round to nearest
 * even, NaN stays NaN.
 * @dst and @src may be unaligned and must not overlap.
 */
void sf_dtype_cast(void *dst, enum sf_dtype to, const void *src, enum sf_dtype from, size_t n);

#endif
