#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "parse/xxh32.h"

#define P1 UINT32_C(0x9e3779b1)
#define P2 UINT32_C(0x85ebca77)
#define P3 UINT32_C(0xc2b2ae3d)
#define P4 UINT32_C(0x27d4eb2f)
#define P5 UINT32_C(0x165667b1)

static uint32_t rotl(uint32_t v, unsigned n)
{
	return v << n | v >> (32 - n);
}

static void stripe(struct sf_xxh32 *x, const uint8_t *p)
{
	for (int i = 0; i < 4; i++)
		x->lane[i] = rotl(x->lane[i] + sf_le32(p + 4 * i) * P2, 13) * P1;
}

void sf_xxh32_begin(struct sf_xxh32 *x)
{
	*x = (struct sf_xxh32){ .lane = { P1 + P2, P2, 0, -P1 } };
}

void sf_xxh32_add(struct sf_xxh32 *x, const uint8_t *p, size_t len)
{
	const size_t have = x->len % 16;

	x->len += len;
	if (have) {
		const size_t n = SF_MIN(16 - have, len);
		memcpy(x->rest + have, p, n);
		p += n;
		len -= n;
		if (have + n < 16)
			return;
		stripe(x, x->rest);
	}
	for (; len >= 16; p += 16, len -= 16)
		stripe(x, p);
	if (len)
		memcpy(x->rest, p, len);
}

uint32_t sf_xxh32_end(const struct sf_xxh32 *x)
{
	const size_t n = x->len % 16;
	uint32_t h = x->len < 16 ? P5
	                         : rotl(x->lane[0], 1) + rotl(x->lane[1], 7) +
	                                   rotl(x->lane[2], 12) + rotl(x->lane[3], 18);
	size_t i = 0;

	h += (uint32_t)x->len;
	for (; i + 4 <= n; i += 4)
		h = rotl(h + sf_le32(x->rest + i) * P3, 17) * P4;
	for (; i < n; i++)
		h = rotl(h + x->rest[i] * P5, 11) * P1;
	h = (h ^ h >> 15) * P2;
	h = (h ^ h >> 13) * P3;
	return h ^ h >> 16;
}
