/* Mutations that know what they change: of pickles, archives, safetensors headers, and of whole
 * checkpoints (fz_files.h). */
#ifndef SF_TESTS_FUZZ_FZ_MUTATE_H
#define SF_TESTS_FUZZ_FZ_MUTATE_H

#include <stddef.h>
#include <stdint.h>

/* libFuzzer's, or replay.c's where libFuzzer is not linked: some change of any bytes. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
/* What libFuzzer asks of a fuzzer that has its own. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size,
                                 uint8_t *out, size_t max_size, unsigned int seed);

/* splitmix64 */
static inline uint64_t fz_rand(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* From 0 to @n - 1; 0 for 0. */
static inline size_t fz_below(uint64_t *state, size_t n)
{
	return n ? (size_t)(fz_rand(state) % n) : 0;
}

/* A number where arithmetic breaks, or near @now. */
int64_t fz_number(int64_t now, uint64_t *rnd);
/* A name where names break. Static, NUL behind; *ret_len without it (it may hold one). */
const char *fz_word(uint64_t *rnd, size_t *ret_len);

/*
 * All work in place and return the new length, at most @max: numbers, strings, memo references and
 * opcodes of one pickle, FRAME lengths kept right; the same without changing any length (items of
 * which the metadata says where they lie); numbers and words of JSON.
 */
size_t fz_mutate_pickle(uint8_t *at, size_t len, size_t max, uint64_t *rnd);
void fz_mutate_pickle_inside(uint8_t *at, size_t len, uint64_t *rnd);
size_t fz_mutate_json(uint8_t *at, size_t len, size_t max, uint64_t *rnd);
/* A file of items: archives, safetensors blobs, frames; lengths stay. */
void fz_mutate_items(uint8_t *at, size_t len, uint64_t *rnd);
/* A safetensors file; the length of its header is kept right, mostly. */
size_t fz_mutate_safetensors(uint8_t *at, size_t len, size_t max, uint64_t *rnd);

#endif
