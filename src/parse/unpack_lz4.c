#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "parse/unpack_priv.h"
#include "parse/xxh32.h"

/* Frames of LZ4. Source: lz4/lz4 doc/lz4_Frame_format.md 1.6.4 and lz4_Block_format.md. */

#define MAGIC UINT32_C(0x184d2204)
#define SKIPPABLE UINT32_C(0x184d2a50) /* and the 15 behind it */
#define STORED UINT32_C(0x80000000)    /* of a block's size: it is not packed */
#define HISTORY ((size_t)64 << 10)     /* how far back a match may reach */
#define BLOCK_MOST ((size_t)4 << 20)

enum flag { DICT = 1, CONTENT_SUM = 4, CONTENT_SIZE = 8, BLOCK_SUM = 16, INDEPENDENT = 32 };
enum state { AT_MAGIC, AT_FLAGS, AT_HEAD, AT_SIZE, AT_BLOCK, AT_OUT, AT_SUM, AT_SKIP, AT_SKIPPED };

struct unlz4 {
	enum state state;
	size_t need, have; /* bytes of in: wanted and there */
	size_t stored;     /* the block, without its sum */
	bool packed;
	uint8_t flags;
	size_t block_max;
	uint64_t skip;
	size_t kept;       /* bytes of out that are history */
	size_t made, gone; /* bytes behind it; those that were put out */
	struct sf_xxh32 sum;
	uint8_t *in, *out;
};

static int bad(struct sf_error *err, const char *what)
{
	return sf_fail(err, -EBADMSG, "lz4: %s", what);
}

static void want(struct unlz4 *u, enum state state, size_t need)
{
	u->state = state;
	u->need = need;
	u->have = 0;
}

static int make(void **ret, struct sf_error *err)
{
	struct unlz4 *u = calloc(1, sizeof(*u));

	if (u) {
		u->in = malloc(BLOCK_MOST + 4);
		u->out = malloc(HISTORY + BLOCK_MOST);
	}
	if (!u || !u->in || !u->out) {
		if (u) {
			free(u->in);
			free(u->out);
		}
		free(u);
		return sf_fail(err, -ENOMEM, "lz4: no memory for a decoder");
	}
	want(u, AT_MAGIC, 4);
	*ret = u;
	return 0;
}

/* ---- one block ---- */

/* A length: 4 bits, then bytes as long as they are 255. */
static bool length(const uint8_t **p, const uint8_t *end, size_t *n)
{
	uint8_t c;

	if (*n != 15)
		return true;
	do {
		if (*p == end)
			return false;
		c = *(*p)++;
		*n += c;
	} while (c == 255 && *n < 2 * BLOCK_MOST);
	return c != 255;
}

static int unpack_block(struct unlz4 *u, struct sf_error *err)
{
	const uint8_t *p = u->in, *end = p + u->stored;
	uint8_t *from = u->out + u->kept, *to = from, *full = from + u->block_max;

	while (p < end) {
		const uint8_t token = *p++;
		size_t n = token >> 4, back;
		if (!length(&p, end, &n) || n > (size_t)(end - p) || n > (size_t)(full - to))
			return bad(err, "literals pass a block's end");
		memcpy(to, p, n);
		to += n;
		p += n;
		if (p == end)
			break; /* the last sequence has no match */
		if (end - p < 2)
			return bad(err, "a block is cut");
		back = sf_le16(p);
		p += 2;
		n = token & 15;
		if (!length(&p, end, &n))
			return bad(err, "a block is cut");
		n += 4;
		if (!back || back > (size_t)(to - u->out) || n > (size_t)(full - to))
			return bad(err, "a match passes its block");
		for (; n; n--, to++)
			*to = to[-(ptrdiff_t)back];
	}
	u->made = (size_t)(to - from);
	return 0;
}

/* What matches of the next block may reach moves to the front. */
static void keep_history(struct unlz4 *u)
{
	const size_t all = u->kept + u->made;
	const size_t keep = u->flags & INDEPENDENT ? 0 : SF_MIN(all, HISTORY);

	memmove(u->out, u->out + all - keep, keep);
	u->kept = keep;
	u->made = u->gone = 0;
}

static uint32_t sum_of(const uint8_t *p, size_t len)
{
	struct sf_xxh32 x;

	sf_xxh32_begin(&x);
	sf_xxh32_add(&x, p, len);
	return sf_xxh32_end(&x);
}

static int take_block(struct unlz4 *u, struct sf_error *err)
{
	int r = 0;

	if (u->flags & BLOCK_SUM && sum_of(u->in, u->stored) != sf_le32(u->in + u->stored))
		return bad(err, "a block's checksum is wrong");
	keep_history(u);
	if (u->packed) {
		r = unpack_block(u, err);
	} else {
		memcpy(u->out + u->kept, u->in, u->stored);
		u->made = u->stored;
	}
	if (r >= 0 && u->flags & CONTENT_SUM)
		sf_xxh32_add(&u->sum, u->out + u->kept, u->made);
	u->state = AT_OUT;
	return r;
}

/* ---- frames ---- */

static int take_magic(struct unlz4 *u, struct sf_error *err)
{
	const uint32_t magic = sf_le32(u->in);

	if ((magic & ~UINT32_C(15)) == SKIPPABLE)
		want(u, AT_SKIP, 4);
	else if (magic == MAGIC)
		want(u, AT_FLAGS, 2);
	else
		return bad(err, "no frame of it");
	return 0;
}

static int take_flags(struct unlz4 *u, struct sf_error *err)
{
	static const uint32_t most[8] = { 0, 0, 0, 0, 64 << 10, 256 << 10, 1 << 20, 4 << 20 };

	u->flags = u->in[0];
	u->block_max = most[u->in[1] >> 4 & 7];
	if (u->flags >> 6 != 1 || u->flags & 2 || u->in[1] & 0x8f || !u->block_max)
		return sf_fail(err, -ENOTSUP, "lz4: a frame of another version");
	if (u->flags & DICT)
		return sf_fail(err, -ENOTSUP, "lz4: it was packed with a dictionary");
	u->state = AT_HEAD; /* behind what is there already */
	u->need = 2 + (u->flags & CONTENT_SIZE ? 8u : 0u) + 1;
	return 0;
}

static int take_head(struct unlz4 *u, struct sf_error *err)
{
	if ((sum_of(u->in, u->need - 1) >> 8 & 0xff) != u->in[u->need - 1])
		return bad(err, "a frame's head has a wrong checksum");
	u->kept = u->made = u->gone = 0;
	sf_xxh32_begin(&u->sum);
	want(u, AT_SIZE, 4);
	return 0;
}

/* 1: the frame ends here. */
static int take_size(struct unlz4 *u, struct sf_error *err)
{
	const uint32_t size = sf_le32(u->in);

	if (!size && !(u->flags & CONTENT_SUM))
		return 1;
	if (!size) {
		want(u, AT_SUM, 4);
		return 0;
	}
	u->packed = !(size & STORED);
	u->stored = size & ~STORED;
	if (u->stored > u->block_max)
		return bad(err, "a block is longer than its frame says");
	want(u, AT_BLOCK, u->stored + (u->flags & BLOCK_SUM ? 4u : 0u));
	return 0;
}

/* What is wanted is there. 1: the frame ends here. */
static int take(struct unlz4 *u, struct sf_error *err)
{
	switch (u->state) {
	case AT_MAGIC:
		return take_magic(u, err);
	case AT_FLAGS:
		return take_flags(u, err);
	case AT_HEAD:
		return take_head(u, err);
	case AT_SIZE:
		return take_size(u, err);
	case AT_BLOCK:
		return take_block(u, err);
	case AT_SUM:
		return sf_le32(u->in) == sf_xxh32_end(&u->sum)
		               ? 1
		               : bad(err, "the checksum of what is inside is wrong");
	case AT_SKIP:
		u->skip = sf_le32(u->in);
		u->state = AT_SKIPPED;
		return 0;
	default:
		return 0;
	}
}

static int step(void *own, struct sf_unpack_io *io, struct sf_error *err)
{
	struct unlz4 *u = own;
	int r = 0;

	while (r == 0) {
		if (u->state == AT_OUT) {
			size_t n = SF_MIN(u->made - u->gone, io->out_len);
			memcpy(io->out, u->out + u->kept + u->gone, n);
			u->gone += n;
			io->out += n;
			io->out_len -= n;
			if (u->gone < u->made)
				return 0;
			want(u, AT_SIZE, 4);
		} else if (u->state == AT_SKIPPED) {
			size_t n = (size_t)SF_MIN(u->skip, (uint64_t)io->in_len);
			io->in += n;
			io->in_len -= n;
			u->skip -= n;
			if (u->skip)
				return 0;
			r = 1;
		} else {
			size_t n = SF_MIN(u->need - u->have, io->in_len);
			memcpy(u->in + u->have, io->in, n);
			u->have += n;
			io->in += n;
			io->in_len -= n;
			if (u->have < u->need)
				return 0;
			r = take(u, err);
		}
	}
	return r;
}

static int again(void *own, struct sf_error *err)
{
	(void)err;
	want(own, AT_MAGIC, 4);
	return 0;
}

static void lz4_free(void *own)
{
	struct unlz4 *u = own;

	free(u->in);
	free(u->out);
	free(u);
}

const struct sf_unpack_ops sf_unpack_lz4 = {
	.name = "lz4", .make = make, .step = step, .again = again, .free = lz4_free
};
