/* Protocol 4 pickle bytes, straight to a sink. Only dcp_meta_*.c include it. */
#ifndef SF_SAVE_DCP_META_PUT_H
#define SF_SAVE_DCP_META_PUT_H

#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"

/*
 * A pickle on its way. What is put goes to room that was asked for: p = dcp_put_room(), puts that move
 * p on, dcp_put_done(p). The first failure sticks; room is NULL from then on.
 *
 * A piece that goes to the sink is a FRAME, so that who unpickles from a file without a buffer reads it
 * at once.
 */
struct dcp_put {
	uint8_t *at;
	size_t len, cap;
	uint32_t nmemo;    /* MEMOIZE's next number */
	int failed;        /* 0 or negative errno, @err says what */
	struct sf_buf odd; /* a name that is no UTF-8, as sf_pw_name() spells it */
	int (*sink)(void *arg, const void *at, size_t len, struct sf_error *err);
	void *arg;
	struct sf_error *err;
};
int dcp_put_init(struct dcp_put *o, int (*sink)(void *, const void *, size_t, struct sf_error *),
                 void *arg, struct sf_error *err);
void dcp_put_release(struct dcp_put *o);
/* For @need bytes; may send what is there. NULL: it has failed. */
uint8_t *dcp_put_room(struct dcp_put *o, size_t need);
static inline void dcp_put_done(struct dcp_put *o, const uint8_t *p)
{
	o->len = (size_t)(p - o->at);
}
int dcp_put_end(struct dcp_put *o); /* STOP, and all is sent */

/* ---- p, moved on; the room is the caller's ---- */

static inline uint8_t *dcp_op(uint8_t *p, uint8_t op)
{
	*p = op;
	return p + 1;
}

static inline uint8_t *dcp_put_get(uint8_t *p, uint32_t memo)
{
	if (memo <= UINT8_MAX) {
		p[0] = 'h';
		p[1] = (uint8_t)memo;
		return p + 2;
	}
	p[0] = 'j';
	sf_put_le32(p + 1, memo);
	return p + 5;
}

#define DCP_INT_MAX 11 /* bytes */
static inline uint8_t *dcp_put_int(uint8_t *p, uint64_t v)
{
	unsigned n;

	if (v <= UINT8_MAX) {
		p[0] = 'K';
		p[1] = (uint8_t)v;
		return p + 2;
	}
	if (v <= UINT16_MAX) {
		p[0] = 'M';
		p[1] = (uint8_t)v;
		p[2] = (uint8_t)(v >> 8);
		return p + 3;
	}
	if (v <= INT32_MAX) {
		p[0] = 'J';
		sf_put_le32(p + 1, (uint32_t)v);
		return p + 5;
	}
	/* LONG1: two's complement, so the top bit of the last byte stays clear */
	n = (unsigned)(64 - __builtin_clzll(v)) / 8 + 1;
	p[0] = 0x8a;
	p[1] = (uint8_t)n;
	sf_put_le64(p + 2, v);
	p[10] = 0;
	return p + 2 + n;
}

/* A tuple of numbers. */
#define DCP_DIMS_MAX(ndim) ((size_t)(ndim)*DCP_INT_MAX + 2)
static inline uint8_t *dcp_put_dims(uint8_t *p, const uint64_t *dim, unsigned ndim)
{
	static const uint8_t op[] = { ')', 0x85, 0x86, 0x87 };

	if (ndim > 3)
		*p++ = '(';
	for (unsigned k = 0; k < ndim; k++)
		p = dcp_put_int(p, dim[k]);
	*p = ndim > 3 ? 't' : op[ndim];
	return p + 1;
}

/* A str; it is UTF-8. */
#define DCP_TEXT_MAX(len) ((size_t)(len) + 5)
static inline uint8_t *dcp_put_text(uint8_t *p, const char *s, size_t len)
{
	if (len <= UINT8_MAX) {
		*p++ = 0x8c;
		*p++ = (uint8_t)len;
	} else {
		*p++ = 'X';
		sf_put_le32(p, (uint32_t)len);
		p += 4;
	}
	memcpy(p, s, len);
	return p + len;
}

/* A str of any bytes, all by itself. @memo: with MEMOIZE behind. */
void dcp_put_name(struct dcp_put *o, const char *s, size_t len, bool memo);

#endif
