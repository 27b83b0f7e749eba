#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "parse/pickle_build.h"

#define DEFAULT_MEMORY ((size_t)1 << 30)
#define DEFAULT_DEPTH 1000
#define DEFAULT_MEMO (1u << 28)
#define DEPTH_MAX 65000 /* heights are 16 bits */
#define STACK_FIRST 64  /* entries; the stack's memory is there even when nothing was pushed */

/* n bytes of an opcode's argument, or a failure. */
static int take(struct sf_pm *m, uint64_t n, const uint8_t **ret)
{
	if (n > m->len - m->pos)
		return sf_pm_fail(m, -EBADMSG, "an argument of %" PRIu64 " bytes, %zu left", n,
		                  m->len - m->pos);
	*ret = m->p + m->pos;
	m->pos += (size_t)n;
	return 0;
}

/* A little-endian length of @width bytes and that many bytes behind it. */
static int take_counted(struct sf_pm *m, unsigned width, const uint8_t **ret, size_t *ret_len)
{
	const uint8_t *p = m->p;
	uint64_t n;
	int r = take(m, width, &p);

	if (r < 0)
		return r;
	n = width == 1 ? p[0] : width == 4 ? sf_le32(p) : sf_le64(p);
	r = take(m, n, ret);
	if (r == 0)
		*ret_len = (size_t)n;
	return r;
}

/* Up to the end of the line, which is not counted in. */
static int take_line(struct sf_pm *m, const uint8_t **ret, size_t *ret_len)
{
	const uint8_t *at = m->p + m->pos,
		      *nl = m->pos < m->len ? memchr(at, '\n', m->len - m->pos) : NULL;

	if (!nl)
		return sf_pm_fail(m, -EBADMSG, "a line without an end");
	*ret = at;
	*ret_len = (size_t)(nl - at);
	m->pos += *ret_len + 1;
	return 0;
}

static int take_index(struct sf_pm *m, uint64_t *ret)
{
	const uint8_t *s = m->p;
	uint64_t u = 0;
	size_t len = 0;
	int r = take_line(m, &s, &len);

	if (r < 0)
		return r;
	if (!len || len > 10)
		return sf_pm_fail(m, -EBADMSG, "a number of %zu digits", len);
	for (size_t i = 0; i < len; i++) {
		if (s[i] < '0' || s[i] > '9')
			return sf_pm_fail(m, -EBADMSG, "byte 0x%02x in a decimal number", s[i]);
		u = u * 10 + (uint64_t)(s[i] - '0');
	}
	*ret = u;
	return 0;
}

static uint32_t le(const uint8_t *p, unsigned width)
{
	return width == 1 ? p[0] : width == 2 ? sf_le16(p) : sf_le32(p);
}

/* An int of @width bytes; one of four has a sign. */
static int short_int(struct sf_pm *m, unsigned width)
{
	const uint8_t *p = m->p;
	struct sf_pv *v;
	int r = take(m, width, &p);

	if (r < 0)
		return r;
	v = sf_pm_new(m, SF_PV_INT);
	if (v)
		v->i = width == 4 ? (int32_t)le(p, width) : (int64_t)le(p, width);
	return sf_pm_push(m, v);
}

/* One whose length has @width bytes. */
static int long_int(struct sf_pm *m, unsigned width)
{
	const uint8_t *p = m->p;
	size_t len = 0;
	int r = take_counted(m, width, &p, &len);

	if (r < 0)
		return r;
	if (len > INT32_MAX)
		return sf_pm_fail(m, -EBADMSG, "an integer of %zu bytes", len);
	return sf_pm_long(m, p, len);
}

/* Big-endian. */
static int binary_float(struct sf_pm *m)
{
	const uint8_t *p = m->p;
	struct sf_pv *v;
	uint64_t u;
	int r = take(m, 8, &p);

	if (r < 0)
		return r;
	u = __builtin_bswap64(sf_le64(p));
	v = sf_pm_new(m, SF_PV_FLOAT);
	if (v)
		memcpy(&v->f, &u, 8);
	return sf_pm_push(m, v);
}

/* c and i: module and name on two lines. */
static int global_lines(struct sf_pm *m)
{
	struct sf_pv **a = m->stack.at;
	const uint8_t *s = m->p;
	size_t len = 0;
	int r = 0;

	for (int i = 0; i < 2 && r == 0; i++) {
		r = take_line(m, &s, &len);
		/* here Python lets no surrogates pass */
		if (r == 0 && !sf_utf8_valid((const char *)s, len))
			r = sf_pm_fail(m, -EBADMSG, "a name of %zu bytes is not UTF-8", len);
		if (r == 0)
			r = sf_pm_push_text(m, SF_PV_STR, s, len);
	}
	if (r < 0)
		return r;
	m->stack.n -= 2; /* our own two: no fence in the way */
	a = m->stack.at + m->stack.n;
	return sf_pm_push_global(m, a[0], a[1]);
}

/* A code, of @width bytes, of copyreg's registry of extensions: no name is known, so it becomes one that no module
 * can have. */
static int extension(struct sf_pm *m, unsigned width)
{
	const uint8_t *p = m->p;
	struct sf_pv **a = m->stack.at;
	char name[32];
	uint32_t code;
	int r = take(m, width, &p), n;

	if (r < 0)
		return r;
	code = le(p, width);
	n = snprintf(name, sizeof(name), "extension %" PRIu32, code);
	if (!code || code > INT32_MAX)
		return sf_pm_fail(m, -EBADMSG, "extension code %" PRIu32, code);
	r = sf_pm_push_text(m, SF_PV_STR, (const uint8_t *)"copyreg", 7);
	if (r == 0)
		r = sf_pm_push_text(m, SF_PV_STR, (const uint8_t *)name, (size_t)n);
	if (r < 0)
		return r;
	m->stack.n -= 2;
	a = m->stack.at + m->stack.n;
	return sf_pm_push_global(m, a[0], a[1]);
}

/* Opcodes that make a value of the bytes behind them. 1: not one of these. */
static int run_atom(struct sf_pm *m)
{
	const uint8_t *p = m->p;
	size_t len = 0;
	int r;

	switch (m->op) {
	case 'N':
		return sf_pm_push(m, m->none);
	case 0x88:
		return sf_pm_push(m, m->yes);
	case 0x89:
		return sf_pm_push(m, m->no);
	case 'K':
		return short_int(m, 1);
	case 'M':
		return short_int(m, 2);
	case 'J':
		return short_int(m, 4);
	case 0x8a: /* LONG1 */
		return long_int(m, 1);
	case 0x8b: /* LONG4 */
		return long_int(m, 4);
	case 'I':
	case 'L':
		r = take_line(m, &p, &len);
		return r < 0 ? r : sf_pm_int_line(m, p, len, m->op == 'L');
	case 'F':
		r = take_line(m, &p, &len);
		return r < 0 ? r : sf_pm_float_line(m, p, len);
	case 'G':
		return binary_float(m);
	case 'S':
		r = take_line(m, &p, &len);
		return r < 0 ? r : sf_pm_string_line(m, p, len);
	case 'V':
		r = take_line(m, &p, &len);
		return r < 0 ? r : sf_pm_unicode_line(m, p, len);
	case 'U':
	case 'T':
		r = take_counted(m, m->op == 'U' ? 1 : 4, &p, &len);
		return r < 0 ? r : sf_pm_bytes_str(m, p, len);
	case 0x8c: /* SHORT_BINUNICODE */
	case 'X':
	case 0x8d: /* BINUNICODE8 */
		r = take_counted(m, m->op == 'X' ? 4 : m->op == 0x8c ? 1 : 8, &p, &len);
		return r < 0 ? r : sf_pm_push_text(m, SF_PV_STR, p, len);
	case 'C':
	case 'B':
	case 0x8e: /* BINBYTES8 */
		r = take_counted(m, m->op == 'B' ? 4 : m->op == 'C' ? 1 : 8, &p, &len);
		return r < 0 ? r : sf_pm_push_text(m, SF_PV_BYTES, p, len);
	case 0x96: /* BYTEARRAY8 */
		r = take_counted(m, 8, &p, &len);
		return r < 0 ? r : sf_pm_push_text(m, SF_PV_BYTEARRAY, p, len);
	case 'c':
		return global_lines(m);
	case 'P':
		r = take_line(m, &p, &len);
		if (r == 0)
			r = sf_pm_push_text(m, SF_PV_STR, p, len);
		return r < 0 ? r : sf_pm_push_persid(m, m->stack.at[--m->stack.n]);
	case 0x82: /* EXT1, 2, 4 */
		return extension(m, 1);
	case 0x83:
		return extension(m, 2);
	case 0x84:
		return extension(m, 4);
	case 0x97: /* NEXT_BUFFER */
	case 0x98: /* READONLY_BUFFER */
		return sf_pm_fail(m, -ENOTSUP, "buffers outside of the pickle");
	default:
		return 1;
	}
}

/* Stack, memo and frame. */
static int run_machine(struct sf_pm *m)
{
	const uint8_t *p = m->p;
	struct sf_pv **a = m->stack.at, *cls;
	uint64_t index = 0;
	size_t n = 0;
	int r;

	switch (m->op) {
	case '(':
		if (sf_marks_push(&m->marks, m->stack.n) < 0)
			return sf_pm_no_memory(m);
		return sf_pm_charge(m);
	case '0': /* POP takes a mark, too */
		if (m->marks.n && m->marks.at[m->marks.n - 1] == m->stack.n) {
			m->marks.n--;
			return 0;
		}
		return sf_pm_pop(m, 1, &a);
	case '1':
		return sf_pm_pop_mark(m, &a, &n);
	case '2':
		r = sf_pm_pop(m, 1, &a);
		if (r < 0)
			return r;
		a[0]->shared = true;
		m->stack.n++;
		return sf_pm_push(m, m->stack.at[m->stack.n - 1]);
	case 'i': /* INST: the class by lines, its arguments above the mark */
		r = global_lines(m);
		if (r < 0)
			return r;
		cls = m->stack.at[--m->stack.n];
		r = sf_pm_pop_mark(m, &a, &n);
		return r < 0 ? r : sf_pm_push_instance(m, cls, a, n);
	case 'p':
	case 'g':
		r = take_index(m, &index);
		return r < 0          ? r
		       : m->op == 'p' ? sf_pm_memo_put(m, index)
		                      : sf_pm_memo_get(m, index);
	case 'q':
	case 'h':
		r = take(m, 1, &p);
		return r < 0 ? r : m->op == 'q' ? sf_pm_memo_put(m, p[0]) : sf_pm_memo_get(m, p[0]);
	case 'r':
	case 'j':
		r = take(m, 4, &p);
		return r < 0          ? r
		       : m->op == 'r' ? sf_pm_memo_put(m, sf_le32(p))
		                      : sf_pm_memo_get(m, sf_le32(p));
	case 0x94: /* MEMOIZE */
		return sf_pm_memo_put(m, m->nmemo);
	case 0x80: /* PROTO */
		r = take(m, 1, &p);
		return r < 0      ? r
		       : p[0] > 5 ? sf_pm_fail(m, -ENOTSUP, "protocol %u, not 0 to 5", p[0])
		                  : 0;
	case 0x95: /* FRAME: only a hint for readers of files */
		r = take(m, 8, &p);
		if (r == 0 && sf_le64(p) > m->len - m->pos)
			r = sf_pm_fail(m, -EBADMSG, "a frame of %" PRIu64 " bytes, %zu left",
			               sf_le64(p), m->len - m->pos);
		return r;
	default:
		return sf_pm_fail(m, -EBADMSG, "not an opcode of protocols 0 to 5");
	}
}

static int run(struct sf_pm *m, struct sf_pv **ret)
{
	struct sf_pv **a = m->stack.at;
	int r;

	for (;;) {
		m->op_pos = m->pos;
		if (m->pos >= m->len)
			return sf_fail(m->err, -EBADMSG,
			               "pickle: ends without STOP after %zu bytes", m->len);
		m->op = m->p[m->pos++];
		if (m->op == '.')
			break;
		r = run_atom(m);
		if (r == 1)
			r = sf_pm_container(m);
		if (r == 1)
			r = run_machine(m);
		if (r < 0)
			return r;
	}
	r = sf_pm_pop(m, 1, &a);
	if (r < 0)
		return r;
	r = sf_pm_check(m, a[0]);
	if (r == 0)
		*ret = a[0];
	return r;
}

int sf_pickle_parse(const uint8_t *p, size_t len, const struct sf_pickle_limits *limits,
                    struct sf_arena *arena, struct sf_pv **ret, size_t *ret_used,
                    struct sf_error *err)
{
	struct sf_pm m = { .p = p, .len = len, .arena = arena, .err = err };
	size_t outer = arena->limit, ours;
	struct sf_pv *v = NULL;
	int r;

	if (limits)
		m.limits = *limits;
	if (!m.limits.memory)
		m.limits.memory = DEFAULT_MEMORY;
	if (!m.limits.depth)
		m.limits.depth = DEFAULT_DEPTH;
	if (!m.limits.memo)
		m.limits.memo = DEFAULT_MEMO;
	m.limits.depth = SF_MIN(m.limits.depth, (uint32_t)DEPTH_MAX);

	/* the arena's own limit stays in force; the first block of an empty one is let through */
	if (!__builtin_add_overflow(arena->used, m.limits.memory, &ours) &&
	    (!outer || ours < outer))
		arena->limit = ours;
	m.none = sf_pm_new(&m, SF_PV_NONE);
	m.yes = sf_pm_new(&m, SF_PV_BOOL);
	m.no = sf_pm_new(&m, SF_PV_BOOL);
	if (m.none && m.yes && m.no && sf_pvs_reserve(&m.stack, STACK_FIRST) == 0) {
		m.yes->b = true;
		r = run(&m, &v);
	} else {
		r = sf_pm_no_memory(&m);
	}
	arena->limit = outer;
	sf_pm_release(&m);
	if (r < 0)
		return r;
	*ret = v;
	if (ret_used)
		*ret_used = m.pos;
	return 0;
}
