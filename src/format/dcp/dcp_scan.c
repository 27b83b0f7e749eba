#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/mem.h"
#include "base/path.h"
#include "format/dcp/dcp_scan.h"
#include "format/dcp/dcp_scan_state.h"

/*
 * Values are numbers, containers are spent as soon as BUILD has made a record of them: after a
 * whole storage_data only columns are left. What is not understood is carried along as V_OPAQUE, or
 * the scanner gives up with DCP_UNKNOWN: it never guesses. Opcodes: CPython's Lib/pickletools.py;
 * those of protocols 0 and 1 are left to the value reader.
 */

#define RESERVE_FROM (UINT64_C(16) << 20)
#define RECORD_BYTES 130u /* a chunk and its item, of two dimensions, names fetched: at least */

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
	return dcp_scan_push(s, dcp_v(V_STR, str));
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
	if (s->obj.n >= DCP_OBJECTS_MAX)
		return sf_fail(s->err, -E2BIG, "dcp '%s': more than %u instances", s->name,
		               DCP_OBJECTS_MAX);
	if (dcp_objs_push(&s->obj, (struct dcp_obj){ .global = (uint32_t)dcp_num(cls) }) < 0)
		return dcp_scan_no_memory(s);
	return dcp_scan_push(s, dcp_v(V_OBJ, s->obj.n - 1));
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

/* One opcode, already taken from p. 0, DCP_UNKNOWN, DCP_AGAIN or negative; *stop at STOP. */
static int step(struct dcp_scan *s, uint8_t op, bool *stop)
{
	uint64_t n = 0;
	uint32_t at;
	int r;

	switch (op) { /* the fixed argument */
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
		break;
	}
	if (n) {
		r = need(s, n);
		if (r < 0)
			return r;
		const uint8_t *a = s->p;
		s->p += n;
		n = n == 1 ? a[0] : n == 2 ? sf_le16(a) : n == 4 ? sf_le32(a) : sf_le64(a);
	}
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
		if (dcp_u32s_push(&s->mark, (uint32_t)s->stack.n) < 0)
			return dcp_scan_no_memory(s);
		return s->mark.n > DCP_STACK_MAX ? dcp_scan_bad(s, "too many MARKs") : 0;
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
		if (n > DCP_STRING_MAX)
			return sf_fail(
				s->err, -E2BIG,
				"dcp '%s': byte %llu: a string of %llu bytes, the limit is %u",
				s->name, (unsigned long long)(s->base + (uint64_t)(s->op - s->buf)),
				(unsigned long long)n, DCP_STRING_MAX);
		return push_string(s, (size_t)n);
	case 'C':
	case 'B':
	case 0x8e:
	case 0x96:
		r = pass_over(s, n);
		return r < 0 ? r : dcp_scan_push(s, V_OPAQUE);
	case 'G':
		return dcp_scan_push(s, V_OPAQUE);
	case 0x8f:
		return dcp_scan_push(s, V_SET);
	case ')':
		return make_tuple(s, 0);
	case 0x85:
	case 0x86:
	case 0x87:
		return make_tuple(s, op - 0x84u);
	case 't':
		if (s->mark.n == 0)
			return dcp_scan_bad(s, "no MARK on the stack");
		at = s->mark.at[--s->mark.n];
		return make_tuple(s, (uint32_t)s->stack.n - at);
	case 0x91: /* FROZENSET */
		if (s->mark.n == 0)
			return dcp_scan_bad(s, "no MARK on the stack");
		s->stack.n = s->mark.at[--s->mark.n];
		return dcp_scan_push(s, V_OPAQUE);
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
	case 0x81:
		return new_obj(s);
	case 'b':
		return dcp_scan_build(s);
	case 'R':
		return reduce(s);
	case 'c':
		return read_global(s);
	case 0x93:
		if (!dcp_has(s, 2))
			return dcp_scan_short(s);
		s->stack.n -= 2;
		if (dcp_tag(s->stack.at[s->stack.n]) != V_STR ||
		    dcp_tag(s->stack.at[s->stack.n + 1]) != V_STR)
			return DCP_UNKNOWN;
		return dcp_scan_push_global(s, (uint32_t)dcp_num(s->stack.at[s->stack.n]),
		                            (uint32_t)dcp_num(s->stack.at[s->stack.n + 1]));
	case 0x94:
		return dcp_scan_put(s);
	case 'q':
	case 'r':
		return n == s->memo_next ? dcp_scan_put(s)
		                         : DCP_UNKNOWN; /* CPython numbers them in order */
	case 'h':
	case 'j':
		return dcp_scan_fetch(s, (uint32_t)n, op == 'j');
	default:
		return DCP_UNKNOWN;
	}
}

/* Whole pages of @at in large ones, if the system gives them. */
static void large_pages(void *at, size_t bytes)
{
#ifdef MADV_HUGEPAGE
	const uintptr_t page = 4096, from = ((uintptr_t)at + page - 1) & ~(page - 1),
			to = ((uintptr_t)at + bytes) & ~(page - 1);

	if (at && from < to)
		(void)madvise((void *)from, to - from, MADV_HUGEPAGE);
#else
	(void)at;
	(void)bytes;
#endif
}

/* Columns of a large file at once: grown bit by bit they would be moved, and their page faults
 * are a sixth of the time. Untouched memory costs nothing, and not getting it is no error. */
static void reserve_columns(struct dcp_scan *s)
{
	const size_t chunks = (size_t)(s->size / RECORD_BYTES);
	struct dcp_meta *m = s->m;

	if (s->size < RESERVE_FROM)
		return;
	if (dcp_items_reserve(&m->item, chunks) >= 0)
		large_pages(m->item.at, m->item.cap * sizeof(*m->item.at));
	if (dcp_u32s_reserve(&m->coord, 4 * chunks) >= 0)
		large_pages(m->coord.at, m->coord.cap * sizeof(*m->coord.at));
}

static int run(struct dcp_scan *s)
{
	static const char *const words[W_NWORDS] = {
		"offsets",      "sizes",         "fqn",          "index",
		"offset",       "relative_path", "length",       "transform_descriptors",
		"properties",   "size",          "chunks",       "state_dict_metadata",
		"planner_data", "storage_data",  "storage_meta", "version",
		"modules",      "dtype"
	};
	bool stop = false;
	uint32_t str;
	int r = 0;

	s->m->facts.version = DCP_NONE;
	s->m->room = s->src->size;
	for (uint32_t i = 0; i < W_NWORDS; i++)
		if (dcp_meta_str(s->m, words[i], strlen(words[i]), &str) < 0)
			return dcp_scan_no_memory(s);
	s->buf = malloc(DCP_WINDOW);
	/* coords: so that there is a place to point at where nothing has dimensions */
	if (!s->buf || dcp_values_push(&s->word, 0) < 0 || dcp_u64s_reserve(&s->coords, 1) < 0)
		return dcp_scan_no_memory(s);
	s->cap = DCP_WINDOW;
	s->size = s->src->size;
	reserve_columns(s);
	s->op = s->p = s->end = s->soft = s->buf;
	while (r == 0 && !stop) {
		s->op = s->p;
		if (s->p >= s->soft) {
			r = dcp_scan_fill(s, 1);
			if (r < 0)
				return r;
		}
		r = step(s, *s->p++, &stop);
	}
	return r == 0 ? dcp_scan_root(s) : r;
}

static void release(struct dcp_scan *s)
{
	for (size_t i = 0; i < s->cont.n; i++)
		free(s->cont.at[i].at);
	free(s->buf);
	free(s->next_str);
	dcp_values_release(&s->stack);
	dcp_values_release(&s->word);
	dcp_values_release(&s->memo);
	dcp_u32s_release(&s->mark);
	dcp_segs_release(&s->seg);
	dcp_memo_strs_release(&s->memo_str);
	dcp_memo_sizes_release(&s->memo_size);
	dcp_globals_release(&s->global);
	dcp_conts_release(&s->cont);
	dcp_objs_release(&s->obj);
	dcp_recs_release(&s->rec);
	dcp_u64s_release(&s->coords);
}

/* First lean; when something fetches what was passed over, again with more of it kept, then with
 * nothing passed over. */
int dcp_scan(struct dcp_meta *m, struct sf_source *src, const char *name, struct sf_error *err)
{
	int r = DCP_AGAIN;

	for (int again = 0; again < 3 && r == DCP_AGAIN; again++) {
		struct dcp_scan s = { .m = m,
			              .src = src,
			              .name = name,
			              .err = err,
			              .runs = again < 2,
			              .keep_sizes = again == 1,
			              .items_in = DCP_NONE,
			              .last_fqn = DCP_NONE };
		memset(s.known, 0xff, sizeof(s.known));
		memset(&s.known_size, 0xff, sizeof(s.known_size));
		memset(s.word_ref, 0xff, sizeof(s.word_ref));
		memset(s.class_ref, 0xff, sizeof(s.class_ref));
		dcp_meta_release(m);
		r = run(&s);
		release(&s);
	}
	return r < 0 ? r : r != 0;
}
