#include "config.h"

#include <pthread.h>
#include <sys/random.h>
#include <time.h>

#include "base/map.h"
#include "base/mem.h"

/* Drawn once, constant from then on: names come from checkpoints, which must not choose their own
 * collisions. */
static uint64_t seed[4];
static pthread_once_t seeded = PTHREAD_ONCE_INIT;

static void draw_seed(void)
{
	if (getrandom(seed, sizeof(seed), GRND_NONBLOCK) != (ssize_t)sizeof(seed)) {
		/* early boot or a sandbox: weaker, but still not known to who wrote the checkpoint */
		struct timespec now = { 0 };
		clock_gettime(CLOCK_REALTIME, &now);
		seed[0] ^= (uint64_t)now.tv_nsec * 0x9e3779b97f4a7c15;
		seed[1] ^= (uint64_t)(uintptr_t)&now;
		seed[2] ^= (uint64_t)now.tv_sec * 0xc2b2ae3d27d4eb4f;
		seed[3] ^= (uint64_t)(uintptr_t)&draw_seed;
	}
	for (size_t i = 0; i < SF_ARRAY_LEN(seed); i++)
		seed[i] |= 1; /* a zero factor would forget its partner */
}

/* 64 x 64 -> 128 bits, halves folded: every input bit reaches every output bit. */
static inline uint64_t mix(uint64_t a, uint64_t b)
{
	__extension__ unsigned __int128 p = (unsigned __int128)a * b;
	return (uint64_t)p ^ (uint64_t)(p >> 64);
}

/* Native byte order: hashes never leave the process. */
static inline uint64_t load64(const uint8_t *p)
{
	uint64_t v;
	memcpy(&v, p, sizeof(v));
	return v;
}

static inline uint64_t load32(const uint8_t *p)
{
	uint32_t v;
	memcpy(&v, p, sizeof(v));
	return v;
}

uint64_t sf_hash(const void *data, size_t len)
{
	const uint8_t *p = data;
	size_t left = len;
	uint64_t h, a, b;

	pthread_once(&seeded, draw_seed);
	h = seed[0];
	if (left > 48) { /* three chains, so that their multiplications overlap */
		uint64_t h1 = h, h2 = h;
		do {
			h = mix(load64(p) ^ seed[1], load64(p + 8) ^ h);
			h1 = mix(load64(p + 16) ^ seed[2], load64(p + 24) ^ h1);
			h2 = mix(load64(p + 32) ^ seed[3], load64(p + 40) ^ h2);
			p += 48;
			left -= 48;
		} while (left > 48);
		h ^= h1 ^ h2;
	}
	for (; left > 16; p += 16, left -= 16)
		h = mix(load64(p) ^ seed[1], load64(p + 8) ^ h);
	/* the last 0 to 16 bytes; loads may overlap, the length tells such inputs apart */
	if (left >= 8) {
		a = load64(p);
		b = load64(p + left - 8);
	} else if (left >= 4) {
		a = load32(p);
		b = load32(p + left - 4);
	} else if (left > 0) {
		a = (uint64_t)p[0] << 16 | (uint64_t)p[left / 2] << 8 | p[left - 1];
		b = 0;
	} else {
		a = b = 0;
	}
	return mix(seed[1] ^ len, mix(a ^ seed[2], b ^ h) ^ seed[3]);
}

uint64_t sf_fnv1a(uint64_t h, const void *p, size_t len)
{
	const uint8_t *b = p;

	for (size_t i = 0; i < len; i++)
		h = (h ^ b[i]) * UINT64_C(0x100000001b3);
	return h;
}
