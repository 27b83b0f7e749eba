#include "config.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/mem.h"
#include "parse/unpack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LIMIT ((size_t)1 << 20)

/* Any bytes as what they say they are, in pieces as the first of them says: it ends, and what comes out
 * does not depend on the pieces. */
static int unpack(enum sf_packing packing, const uint8_t *p, size_t len, size_t in_step,
                  size_t out_step, struct sf_buf *to)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_unpacker *u;
	uint8_t out[4096];
	int r = sf_unpacker_new(packing, &u, &err);

	if (r < 0)
		return r == -ENOTSUP ? 1 : r;
	for (size_t at = 0; at < len && r >= 0 && to->len < LIMIT; at += in_step) {
		const uint8_t *in = p + at;
		size_t left = SF_MIN(in_step, len - at), n;
		do {
			r = sf_unpacker_step(u, &in, &left, out, out_step, &n, &err);
			if (r >= 0 && n > out_step)
				abort();
			if (r >= 0)
				sf_buf_add(to, out, n);
		} while (r >= 0 && (left || n == out_step) && to->len < LIMIT);
	}
	if (r >= 0 && to->len < LIMIT)
		r = sf_unpacker_end(u, &err);
	else if (r >= 0)
		r = 1; /* a bomb, as far as it is known */
	if ((r < 0) != (err.msg[0] != '\0'))
		abort();
	sf_unpacker_free(u);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	SF_CLEANUP(sf_buf_release) struct sf_buf a = { 0 }, b = { 0 };
	enum sf_packing packing;
	int r, s;

	if (!size)
		return 0;
	packing = sf_packing_of(data + 1, size - 1);
	if (packing == SF_PACKING_NONE)
		return 0;
	r = unpack(packing, data + 1, size - 1, (size_t)data[0] + 1, 1 + data[0] % 100, &a);
	s = unpack(packing, data + 1, size - 1, size, 4096, &b);
	if (r == 0 && s == 0 && (a.len != b.len || (a.len && memcmp(a.at, b.at, a.len) != 0)))
		abort();
	return 0;
}
