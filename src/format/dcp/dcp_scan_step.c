#include "config.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "format/dcp/dcp_scan_state.h"

/* @n bytes of argument at p, then p moves behind them by the caller. */
static inline int need(struct dcp_scan *s, size_t n)
{
	return (size_t)(s->end - s->p) >= n ? 0 : dcp_scan_fill(s, n);
}

/* Payload we never look at; it may be larger than any window. */
static int pass_over(struct dcp_scan *s, uint64_t n)
{
	uint64_t at = s->base + (uint64_t)(s->p - s->buf);

	if (n <= (uint64_t)(s->end - s->p)) {
		s->p += n;
		return 0;
	}
	if (n > s->size - at)
		return dcp_scan_bad(s, "its bytes reach past the end of the file");
	s->base = at + n;
	s->op = s->p = s->end = s->soft = s->buf;
	return 0;
}

static int push_string(struct dcp_scan *s, size_t len)
{
	uint32_t str;
	int r = need(s, len);

	if (r < 0)
		return r;
	if (!sf_utf8_valid((const char *)s->p, len))
		return DCP_UNKNOWN; /* surrogates are fine in a pickle, other bytes are not: the
		                       value reader tells them apart */
	r = dcp_meta_str(s->m, (const char *)s->p, len, &str);
	if (r == -E2BIG)
		return sf_fail(s->err, r, "dcp '%s': a string of %zu bytes, the limit is %u",
		               s->name, len, DCP_STRING_MAX);
	if (r < 0)
		return dcp_scan_no_memory(s);
	s->p += len;
	r = dcp_scan_push(s, dcp_v(V_STR, str));
	return r == 0 && str == W_ALL_LOCAL_PLANS && dcp_scan_is_enough(s) ? DCP_ENOUGH : r;
}

/* GLOBAL: two lines. */
static int read_global(struct dcp_scan *s)
{
	uint32_t str[2];

	for (int k = 0; k < 2; k++) {
		size_t len = 0;
		const uint8_t *nl;
		for (;;) {
			nl = memchr(s->p + len, '\n', (size_t)(s->end - s->p) - len);
			if (nl)
				break;
			len = (size_t)(s->end - s->p);
			if (len > 65536)
				return dcp_scan_bad(s, "a name of more than 65,536 bytes");
			int r = need(s, len + 1);
			if (r < 0)
				return r;
		}
		len = (size_t)(nl - s->p);
		if (!sf_utf8_valid((const char *)s->p, len))
			return DCP_UNKNOWN; /* as in push_string; every string of @m is checked */
		if (dcp_meta_str(s->m, (const char *)s->p, len, &str[k]) < 0)
			return dcp_scan_no_memory(s);
		s->p += len + 1;
	}
	return dcp_scan_push_global(s, str[0], str[1]);
}

static int new_cont(struct dcp_scan *s, enum dcp_tag tag)
{
	if (s->cont.n >= DCP_OBJECTS_MAX)
		return sf_fail(s->err, -E2BIG, "dcp '%s': more than %u containers", s->name,
		               DCP_OBJECTS_MAX);
	if (dcp_conts_push(&s->cont, (struct dcp_cont){ 0 }) < 0)
		return dcp_scan_no_memory(s);
	return dcp_scan_push(s, dcp_v(tag, s->cont.n - 1));
}

static int make_tuple(struct dcp_scan *s, uint32_t n)
{
	uint64_t at = s->word.n;

	if (!dcp_has(s, n))
		return dcp_scan_short(s);
	if (n == 0)
		return dcp_scan_push(s, dcp_v(V_TUPLE, 0)); /* word[0] is 0: the empty one */
	for (uint64_t i = s->stack.n - n; s->runs && i < s->stack.n; i++)
		if (dcp_tag(s->stack.at[i]) == V_RUN || s->stack.at[i] == V_RECORDS)
			return DCP_AGAIN;
	if (dcp_values_reserve(&s->word, s->word.n + n + 1) < 0)
		return dcp_scan_no_memory(s);
	s->word.at[s->word.n++] = n;
	memcpy(s->word.at + s->word.n, s->stack.at + s->stack.n - n, n * sizeof(dcp_value));
	s->word.n += n;
	s->stack.n -= n;
	return dcp_scan_push(s, dcp_v(V_TUPLE, at));
}

/* Pops the last mark: where its values begin; there must be a value below it. */
static int pop_mark(struct dcp_scan *s, uint32_t *ret)
{
	if (s->mark.n == 0)
		return dcp_scan_bad(s, "no MARK on the stack");
	*ret = s->mark.at[--s->mark.n];
	if (*ret == dcp_bottom(s))
		return dcp_scan_bad(s, "nothing below the MARK");
	return 0;
}

static int push_obj(struct dcp_scan *s, dcp_value cls, dcp_value state)
{
	if (s->obj.n >= DCP_OBJECTS_MAX)
		return sf_fail(s->err, -E2BIG, "dcp '%s': more than %u instances", s->name,
		               DCP_OBJECTS_MAX);
	if (dcp_objs_push(&s->obj,
	                  (struct dcp_obj){ .global = (uint32_t)dcp_num(cls), .state = state }) < 0)
		return dcp_scan_no_memory(s);
	return dcp_scan_push(s, dcp_v(V_OBJ, s->obj.n - 1));
}

static int reduce(struct dcp_scan *s)
{
	dcp_value f, args, v = V_CALLED;

	if (!dcp_has(s, 2))
		return dcp_scan_short(s);
	args = s->stack.at[--s->stack.n];
	f = s->stack.at[--s->stack.n];
	if (dcp_tag(args) != V_TUPLE || dcp_tag(f) != V_GLOBAL)
		return DCP_UNKNOWN;
	const dcp_value *at = s->word.at + dcp_num(args);
	uint8_t cls = s->global.at[dcp_num(f)].cls;
	if (cls == C_SIZE) {
		if (at[0] != 1 || dcp_tag(at[1]) != V_TUPLE)
			return DCP_UNKNOWN;
		v = dcp_v(V_SIZE, dcp_num(at[1]));
	} else if (cls ==
	           C_PROPS) { /* called (our own writer): its arguments stand as its state does */
		return push_obj(s, f, args);
	} else if (cls == C_DICT && at[0] == 0) {
		return new_cont(s, V_DICT);
	}
	return dcp_scan_push(s, v);
}

static int new_obj(struct dcp_scan *s)
{
	dcp_value cls;

	if (!dcp_has(s, 2))
		return dcp_scan_short(s);
	cls = s->stack.at[s->stack.n - 2];
	s->stack.n -= 2;
	if (dcp_tag(cls) != V_GLOBAL || dcp_tag(s->stack.at[s->stack.n + 1]) != V_TUPLE)
		return DCP_UNKNOWN;
	return push_obj(s, cls, V_OPAQUE);
}

/* LONG1: little-endian two's complement. */
static int push_long(struct dcp_scan *s, unsigned n)
{
	uint64_t u = 0;
	int r = need(s, n);

	if (r < 0)
		return r;
	for (unsigned i = 0; i < n && i < 8; i++)
		u |= (uint64_t)s->p[i] << 8 * i;
	for (unsigned i = 8; i < n; i++)
		if (s->p[i])
			return DCP_UNKNOWN;
	if (n && n <= 8 && s->p[n - 1] & 0x80)
		return DCP_UNKNOWN; /* negative: nothing we need is */
	if (u >> 59)
		return DCP_UNKNOWN;
	s->p += n;
	return dcp_scan_push(s, dcp_v(V_INT, u));
}

/* The fixed argument of an opcode, 0 of one that has none. */
static int argument(struct dcp_scan *s, uint8_t op, uint64_t *ret)
{
	unsigned n = 0;
	const uint8_t *a;
	int r;

	switch (op) {
	case 0x80:
	case 'K':
	case 'h':
	case 'q':
	case 0x8c:
	case 'C':
	case 0x8a:
		n = 1;
		break;
	case 'M':
		n = 2;
		break;
	case 'J':
	case 'X':
	case 'j':
	case 'r':
	case 'B':
		n = 4;
		break;
	case 0x95:
	case 0x8d:
	case 0x8e:
	case 0x96:
	case 'G':
		n = 8;
		break;
	default:
		*ret = 0;
		return 0;
	}
	r = need(s, n);
	if (r < 0)
		return r;
	a = s->p;
	s->p += n;
	*ret = n == 1 ? a[0] : n == 2 ? sf_le16(a) : n == 4 ? sf_le32(a) : sf_le64(a);
	return 0;
}

static int push_text(struct dcp_scan *s, uint64_t len)
{
	if (len > DCP_STRING_MAX)
		return sf_fail(s->err, -E2BIG,
		               "dcp '%s': byte %llu: a string of %llu bytes, the limit is %u",
		               s->name, (unsigned long long)(s->base + (uint64_t)(s->op - s->buf)),
		               (unsigned long long)len, DCP_STRING_MAX);
	return push_string(s, (size_t)len);
}

static int push_mark(struct dcp_scan *s)
{
	if (dcp_u32s_push(&s->mark, (uint32_t)s->stack.n) < 0)
		return dcp_scan_no_memory(s);
	return s->mark.n > DCP_STACK_MAX ? dcp_scan_bad(s, "too many MARKs") : 0;
}

/* Back to the last mark, for what may stand alone above it. */
static int take_mark(struct dcp_scan *s, uint32_t *ret)
{
	if (s->mark.n == 0)
		return dcp_scan_bad(s, "no MARK on the stack");
	*ret = s->mark.at[--s->mark.n];
	return 0;
}

/* A module and a name, above each other. */
static int stack_global(struct dcp_scan *s)
{
	const dcp_value *at;

	if (!dcp_has(s, 2))
		return dcp_scan_short(s);
	s->stack.n -= 2;
	at = s->stack.at + s->stack.n;
	if (dcp_tag(at[0]) != V_STR || dcp_tag(at[1]) != V_STR)
		return DCP_UNKNOWN;
	return dcp_scan_push_global(s, (uint32_t)dcp_num(at[0]), (uint32_t)dcp_num(at[1]));
}

/* Opcodes that make a container, or put into one. */
static int step_container(struct dcp_scan *s, uint8_t op)
{
	uint32_t at = 0;
	int r;

	switch (op) {
	case ')':
		return make_tuple(s, 0);
	case 0x85:
	case 0x86:
	case 0x87:
		return make_tuple(s, op - 0x84u);
	case 't':
		r = take_mark(s, &at);
		return r < 0 ? r : make_tuple(s, (uint32_t)s->stack.n - at);
	case 0x91: /* FROZENSET */
		r = take_mark(s, &at);
		if (r < 0)
			return r;
		s->stack.n = at;
		return dcp_scan_push(s, V_OPAQUE);
	case 0x8f:
		return dcp_scan_push(s, V_SET);
	case ']':
		return new_cont(s, V_LIST);
	case '}':
		return new_cont(s, V_DICT);
	case 'a':
		if (!dcp_has(s, 2))
			return dcp_scan_short(s);
		return dcp_scan_append_items(s, (uint32_t)s->stack.n - 1, (uint32_t)s->stack.n - 2,
		                             false);
	case 's':
		if (!dcp_has(s, 3))
			return dcp_scan_short(s);
		return dcp_scan_set_items(s, (uint32_t)s->stack.n - 2, (uint32_t)s->stack.n - 3);
	case 'e':
	case 0x90:
		r = pop_mark(s, &at);
		return r < 0 ? r : dcp_scan_append_items(s, at, at - 1, op == 0x90);
	case 'u':
		r = pop_mark(s, &at);
		return r < 0 ? r : dcp_scan_set_items(s, at, at - 1);
	default:
		return DCP_UNKNOWN;
	}
}

/* Opcodes that push one value; @n: their argument. */
static int step_value(struct dcp_scan *s, uint8_t op, uint64_t n)
{
	int r;

	switch (op) {
	case 'N':
		return dcp_scan_push(s, V_NONE);
	case 0x88:
	case 0x89:
		return dcp_scan_push(s, dcp_v(V_BOOL, op == 0x88));
	case 'K':
	case 'M':
		return dcp_scan_push(s, dcp_v(V_INT, n));
	case 'J':
		return dcp_scan_push(s, (dcp_value)((uint64_t)(int64_t)(int32_t)n << 4 | V_INT));
	case 0x8a:
		return push_long(s, (unsigned)n);
	case 0x8c:
	case 'X':
	case 0x8d:
		return push_text(s, n);
	case 'C':
	case 'B':
	case 0x8e:
	case 0x96:
		r = pass_over(s, n);
		return r < 0 ? r : dcp_scan_push(s, V_OPAQUE);
	case 'G':
		return dcp_scan_push(s, V_OPAQUE);
	case 'c':
		return read_global(s);
	default:
		return step_container(s, op);
	}
}

/* Our own writer memoises words ahead of their use. */
static int pop(struct dcp_scan *s)
{
	dcp_value v;

	if (!dcp_has(s, 1))
		return dcp_scan_short(s);
	v = s->stack.at[--s->stack.n];
	return dcp_tag(v) == V_STR || dcp_tag(v) == V_GLOBAL || v == V_CALLED ? 0 : DCP_UNKNOWN;
}

/* One opcode, already taken from p; *stop at STOP. */
static int step(struct dcp_scan *s, uint8_t op, bool *stop)
{
	uint64_t n;
	int r = argument(s, op, &n);

	if (r < 0)
		return r;
	switch (op) {
	case 0x80:
		s->m->facts.protocol = (uint8_t)n;
		return n > 5 ? DCP_UNKNOWN : 0;
	case 0x95: /* FRAME: only a promise about length */
		return 0;
	case '.':
		*stop = true;
		return 0;
	case '(':
		return push_mark(s);
	case '0':
		return pop(s);
	case 0x94:
		return dcp_scan_put(s);
	case 'q':
	case 'r':
		/* CPython numbers them in order */
		return n == s->memo_next ? dcp_scan_put(s) : DCP_UNKNOWN;
	case 'h':
	case 'j':
		return dcp_scan_fetch(s, (uint32_t)n, op == 'j');
	case 0x81:
		return new_obj(s);
	case 'b':
		return dcp_scan_build(s);
	case 'R':
		return reduce(s);
	case 0x93:
		return stack_global(s);
	default:
		return step_value(s, op, n);
	}
}

int dcp_scan_steps(struct dcp_scan *s)
{
	bool stop = false;
	int r = 0;

	while (r == 0 && !stop) {
		s->op = s->p;
		if (s->p >= s->soft) {
			r = dcp_scan_fill(s, 1);
			if (r < 0)
				return r;
		}
		r = step(s, *s->p++, &stop);
	}
	return r;
}
