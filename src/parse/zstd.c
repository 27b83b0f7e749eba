#include "config.h"

#include <zstd.h>
#include <zstd_errors.h>

#include "base/mem.h"
#include "parse/zstd.h"

#define STEP ((size_t)256 << 10)
#define WINDOW_LOG_MIN 10
/* 128 MiB, the reference tool's own limit: a frame may ask for memory before it gives a byte */
#define WINDOW_LOG_MAX 27

#define BETWEEN ((size_t)64 << 10)
#define BETWEEN_SLACK 65536 /* frames' headers, where little is inside */

struct sf_unzstd {
	ZSTD_DStream *stream;
	struct sf_unzstd *next; /* what comes out is its input; NULL for the innermost */
	uint8_t *between;       /* BETWEEN bytes, on the way to it … */
	uint64_t passed;        /* … and how many went there */
	size_t hint; /* 0: a frame has ended just here; else bytes zstd would like next */
	int failed;
};

int sf_unzstd_new(struct sf_unzstd **ret, struct sf_error *err)
{
	struct sf_unzstd *z = calloc(1, sizeof(*z));

	if (z)
		z->stream = ZSTD_createDStream();
	if (!z || !z->stream) {
		free(z);
		return sf_fail(err, -ENOMEM, "zstd: no memory for a decoder");
	}
	ZSTD_DCtx_setParameter(z->stream, ZSTD_d_windowLogMax, WINDOW_LOG_MAX);
	*ret = z;
	return 0;
}

int sf_unzstd_chain(unsigned streams, struct sf_unzstd **ret, struct sf_error *err)
{
	struct sf_unzstd *inner = NULL;
	int r = 0;

	for (unsigned i = 0; i < streams && r >= 0; i++) {
		struct sf_unzstd *z;
		r = sf_unzstd_new(&z, err);
		if (r < 0)
			break;
		z->next = inner;
		inner = z;
		if (i && !(z->between = malloc(BETWEEN)))
			r = sf_fail(err, -ENOMEM, "zstd: no memory for a decoder");
	}
	if (r < 0)
		sf_unzstd_free(inner);
	else
		*ret = inner;
	return r;
}

void sf_unzstd_window(struct sf_unzstd *z, uint64_t bytes)
{
	int log = WINDOW_LOG_MIN;

	while (log < WINDOW_LOG_MAX && UINT64_C(2) << log <= bytes)
		log++;
	for (; z; z = z->next)
		ZSTD_DCtx_setParameter(z->stream, ZSTD_d_windowLogMax, log);
}

void sf_unzstd_free(struct sf_unzstd *z)
{
	while (z) {
		struct sf_unzstd *next = z->next;
		ZSTD_freeDStream(z->stream);
		free(z->between);
		free(z);
		z = next;
	}
}

static int fail(struct sf_unzstd *z, struct sf_error *err, int code, const char *what)
{
	z->failed = code;
	return sf_fail(err, code, "zstd: %s", what);
}

static int fail_zstd(struct sf_unzstd *z, struct sf_error *err, size_t n)
{
	bool window = ZSTD_getErrorCode(n) == ZSTD_error_frameParameter_windowTooLarge;

	return fail(z, err, window ? -ENOBUFS : -EBADMSG, ZSTD_getErrorName(n));
}

/* An outer stream: what comes out goes through the next one. It cannot be much more than that makes
 * of it, or it is frames with nothing in them. */
static int feed_next(struct sf_unzstd *z, ZSTD_inBuffer in, struct sf_buf *out,
                     struct sf_error *err)
{
	bool full = false;

	while (in.pos < in.size || full) {
		ZSTD_outBuffer o = { z->between, BETWEEN, 0 };
		size_t n = ZSTD_decompressStream(z->stream, &o, &in);
		int r;
		if (ZSTD_isError(n))
			return fail_zstd(z, err, n);
		z->passed += o.pos;
		if (out->limit && z->passed > out->limit + out->limit / 64 + BETWEEN_SLACK)
			return fail(z, err, -E2BIG, "a stream inside a stream passes its limit");
		r = sf_unzstd_feed(z->next, z->between, o.pos, out, err);
		if (r < 0) {
			z->failed = r;
			return r;
		}
		z->hint = n;
		full = n && o.pos == o.size;
	}
	return 0;
}

int sf_unzstd_feed(struct sf_unzstd *z, const uint8_t *p, size_t len, struct sf_buf *out,
                   struct sf_error *err)
{
	ZSTD_inBuffer in = { p, len, 0 };
	bool full = false; /* zstd had more than fitted */

	if (z->failed)
		return fail(z, err, z->failed, "decoder has failed before");
	if (z->next)
		return feed_next(z, in, out, err);
	while (in.pos < in.size || full) {
		size_t step = STEP, before = out->len, n;
		if (out->limit && out->limit - out->len < step)
			step = out->limit - out->len;
		/* At the limit one byte on the side tells "just fits" from a bomb. */
		uint8_t over[1];
		uint8_t *at = step ? sf_buf_extend(out, step) : over;
		if (!at)
			return fail(z, err, sf_buf_check(out), "no memory for its output");
		ZSTD_outBuffer o = { at, step ? step : sizeof(over), 0 };
		n = ZSTD_decompressStream(z->stream, &o, &in);
		out->len = before + (step ? o.pos : 0);
		if (ZSTD_isError(n))
			return fail_zstd(z, err, n);
		if (!step && o.pos)
			return fail(z, err, -E2BIG, "output passes its limit");
		z->hint = n;
		full = n && o.pos == o.size; /* after a frame's end, zstd would ask for the next
		                                one's head */
	}
	return 0;
}

int sf_unzstd_step(struct sf_unzstd *z, const uint8_t **in, size_t *in_len, uint8_t *out,
                   size_t out_len, size_t *ret_out, struct sf_error *err)
{
	ZSTD_inBuffer i = { *in, *in_len, 0 };
	ZSTD_outBuffer o = { out, out_len, 0 };

	z->hint = ZSTD_decompressStream(z->stream, &o, &i);
	if (ZSTD_isError(z->hint))
		return fail_zstd(z, err, z->hint);
	*in += i.pos;
	*in_len -= i.pos;
	*ret_out = o.pos;
	return !z->hint;
}

int sf_unzstd_end(struct sf_unzstd *z, struct sf_error *err)
{
	if (z->failed)
		return fail(z, err, z->failed, "decoder has failed before");
	if (z->hint)
		return fail(z, err, -EBADMSG, "the last frame is cut");
	return z->next ? sf_unzstd_end(z->next, err) : 0;
}

struct sf_zstd {
	ZSTD_CStream *stream;
};

static int said(size_t code, struct sf_error *err)
{
	return sf_fail(err,
	               ZSTD_getErrorCode(code) == ZSTD_error_memory_allocation ? -ENOMEM : -EINVAL,
	               "zstd: %s", ZSTD_getErrorName(code));
}

int sf_zstd_new(int level, struct sf_zstd **ret, struct sf_error *err)
{
	struct sf_zstd *z;

	if (level < 1 || level > SF_ZSTD_LEVEL_MAX)
		return sf_fail(err, -EINVAL, "zstd: a level of %d is not between 1 and %d", level,
		               SF_ZSTD_LEVEL_MAX);
	z = calloc(1, sizeof(*z));
	if (z)
		z->stream = ZSTD_createCStream();
	if (!z || !z->stream) {
		free(z);
		return sf_fail(err, -ENOMEM, "zstd: no memory for an encoder");
	}
	ZSTD_CCtx_setParameter(z->stream, ZSTD_c_compressionLevel, level);
	ZSTD_CCtx_setParameter(z->stream, ZSTD_c_checksumFlag, 1);
	*ret = z;
	return 0;
}

void sf_zstd_free(struct sf_zstd *z)
{
	if (z)
		ZSTD_freeCStream(z->stream);
	free(z);
}

int sf_zstd_begin(struct sf_zstd *z, uint64_t len, struct sf_error *err)
{
	size_t r = ZSTD_CCtx_reset(z->stream, ZSTD_reset_session_only);

	if (!ZSTD_isError(r))
		r = ZSTD_CCtx_setPledgedSrcSize(z->stream, len);
	return ZSTD_isError(r) ? said(r, err) : 0;
}

int sf_zstd_feed(struct sf_zstd *z, const void *p, size_t len, bool last, struct sf_buf *out,
                 struct sf_error *err)
{
	const size_t step = ZSTD_CStreamOutSize();
	ZSTD_inBuffer in = { p, len, 0 };

	for (size_t left = 1; in.pos < in.size || (last && left > 0);) {
		uint8_t *at = sf_buf_extend(out, step);
		ZSTD_outBuffer to = { at, step, 0 };
		if (!at)
			return sf_fail(err, sf_buf_check(out),
			               "zstd: no memory for what comes out");
		left = ZSTD_compressStream2(z->stream, &to, &in,
		                            last ? ZSTD_e_end : ZSTD_e_continue);
		out->len -= step - to.pos;
		if (ZSTD_isError(left))
			return said(left, err);
	}
	return 0;
}
