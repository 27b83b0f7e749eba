#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "parse/unpack_priv.h"

static int no_lzop(void **ret, struct sf_error *err)
{
	(void)ret;
	return sf_fail(err, -ENOTSUP, "lzop: not supported by this version: lzop -d unpacks it");
}

static const struct sf_unpack_ops lzop = { .name = "lzop", .make = no_lzop };

static const struct sf_unpack_ops *const packings[SF_NPACKINGS] = {
	[SF_PACKING_GZIP] = &sf_unpack_gzip, [SF_PACKING_BZIP2] = &sf_unpack_bzip2,
	[SF_PACKING_XZ] = &sf_unpack_xz,     [SF_PACKING_LZMA] = &sf_unpack_lzma,
	[SF_PACKING_ZSTD] = &sf_unpack_zstd, [SF_PACKING_LZ4] = &sf_unpack_lz4,
	[SF_PACKING_LZOP] = &lzop,
};

struct sf_unpacker {
	const struct sf_unpack_ops *ops;
	void *own;
	bool any;   /* some stream has begun */
	bool ended; /* the last one has */
	bool zeros; /* what stands behind it */
	int failed;
};

/* Source: xz 5.4 doc/lzma-file-format.txt. Dictionaries of 2^n or 2^n + 2^(n-1) bytes, as all
 * writers choose them; a size that is not known or below 256 GiB. */
static bool is_lzma_alone(const uint8_t *h, size_t len)
{
	uint32_t dict, bit;
	uint64_t size;

	if (len < 13 || h[0] != 0x5d)
		return false;
	dict = sf_le32(h + 1);
	size = sf_le64(h + 5);
	bit = dict & -dict;
	return dict >= 4096 && (dict == bit || dict == bit * 3) &&
	       (size == UINT64_MAX || size < UINT64_C(1) << 38);
}

enum sf_packing sf_packing_of(const uint8_t *h, size_t len)
{
	static const struct {
		enum sf_packing packing;
		const char *magic;
		size_t len;
	} known[] = {
		{ SF_PACKING_GZIP, "\x1f\x8b\x08", 3 },
		{ SF_PACKING_XZ,
		  "\xfd"
		  "7zXZ",
		  6 },
		{ SF_PACKING_ZSTD, "\x28\xb5\x2f\xfd", 4 },
		{ SF_PACKING_LZ4, "\x04\x22\x4d\x18", 4 },
		{ SF_PACKING_LZOP, "\x89LZO\0\r\n\x1a\n", 9 },
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(known); i++)
		/* a safetensors file may be as long in its first bytes; behind them it has '{' */
		if (len >= known[i].len && memcmp(h, known[i].magic, known[i].len) == 0 &&
		    !(len > 8 && h[8] == '{' && sf_le64(h) < UINT64_C(1) << 32))
			return known[i].packing;
	if (len >= 10 && memcmp(h, "BZh", 3) == 0 && h[3] >= '1' && h[3] <= '9' &&
	    (memcmp(h + 4, "\x31\x41\x59\x26\x53\x59", 6) == 0 ||
	     memcmp(h + 4, "\x17\x72\x45\x38\x50\x90", 6) == 0))
		return SF_PACKING_BZIP2;
	return is_lzma_alone(h, len) ? SF_PACKING_LZMA : SF_PACKING_NONE;
}

const char *sf_packing_name(enum sf_packing packing)
{
	return packing > SF_PACKING_NONE && packing < SF_NPACKINGS ? packings[packing]->name
	                                                           : "none";
}

int sf_unpacker_new(enum sf_packing packing, struct sf_unpacker **ret, struct sf_error *err)
{
	struct sf_unpacker *u;
	int r;

	if (packing <= SF_PACKING_NONE || packing >= SF_NPACKINGS)
		return sf_fail(err, -ENOTSUP, "packing %d", (int)packing);
	u = calloc(1, sizeof(*u));
	if (!u)
		return sf_fail(err, -ENOMEM, "%s: no memory", packings[packing]->name);
	u->ops = packings[packing];
	r = u->ops->make(&u->own, err);
	if (r < 0)
		free(u);
	else
		*ret = u;
	return r;
}

void sf_unpacker_free(struct sf_unpacker *u)
{
	if (!u)
		return;
	u->ops->free(u->own);
	free(u);
}

static int fail(struct sf_unpacker *u, int r, struct sf_error *err)
{
	u->failed = r;
	return r;
}

/* Behind a stream: another one, or what fills up the file. 1: there is no more in @io. */
static int between(struct sf_unpacker *u, struct sf_unpack_io *io, struct sf_error *err)
{
	int r;

	while (u->ops->padded && io->in_len && !*io->in) {
		u->zeros = true;
		io->in++;
		io->in_len--;
	}
	if (!io->in_len)
		return 1;
	if (u->zeros)
		return sf_fail(err, -EBADMSG, "%s: bytes behind its end", u->ops->name);
	r = u->ops->again(u->own, err);
	if (r >= 0)
		u->ended = false;
	return r;
}

int sf_unpacker_step(struct sf_unpacker *u, const uint8_t **in, size_t *in_len, uint8_t *out,
                     size_t out_len, size_t *ret_out, struct sf_error *err)
{
	struct sf_unpack_io io = { *in, *in_len, out, out_len };
	int r = 0;

	if (u->failed)
		return sf_fail(err, u->failed, "%s: it has failed before", u->ops->name);
	for (;;) {
		const size_t had = io.in_len, room = io.out_len;
		if (u->ended)
			r = between(u, &io, err);
		if (r < 0)
			return fail(u, r, err);
		if (u->ended || !io.out_len)
			break;
		u->any = u->any || io.in_len;
		r = u->ops->step(u->own, &io, err);
		if (r < 0)
			return fail(u, r, err);
		u->ended = r > 0;
		r = 0;
		if (!u->ended && io.in_len == had && io.out_len == room)
			break;
	}
	*in = io.in;
	*in_len = io.in_len;
	*ret_out = out_len - io.out_len;
	return 0;
}

int sf_unpacker_end(struct sf_unpacker *u, struct sf_error *err)
{
	if (u->failed)
		return sf_fail(err, u->failed, "%s: it has failed before", u->ops->name);
	if (!u->ended)
		return sf_fail(err, -EBADMSG, u->any ? "%s: it is cut" : "%s: it is empty",
		               u->ops->name);
	return 0;
}
