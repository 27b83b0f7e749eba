#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "parse/pickle_build.h"

int sf_pm_fail(struct sf_pm *m, int code, const char *fmt, ...)
{
	char what[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	return sf_fail(m->err, code, "pickle: byte %zu, opcode 0x%02x: %s", m->op_pos, m->op, what);
}

int sf_pm_no_memory(struct sf_pm *m)
{
	const struct sf_arena *a = m->arena;

	if (a->limit &&
	    (a->used >= a->limit ||
	     a->limit - a->used < m->asked + 64)) /* 64: the arena's own head of a block */
		return sf_pm_fail(m, -E2BIG, "values need more than the limit of %zu bytes",
		                  m->limits.memory);
	return sf_pm_fail(m, -ENOMEM, "out of memory");
}

void *sf_pm_alloc(struct sf_pm *m, size_t n, size_t size)
{
	if (__builtin_mul_overflow(n, size, &m->asked))
		return NULL;
	return sf_arena_alloc(m->arena, m->asked);
}

struct sf_pv *sf_pm_new(struct sf_pm *m, enum sf_pv_kind kind)
{
	struct sf_pv *v = sf_pm_alloc(m, 1, sizeof(*v));

	if (v)
		*v = (struct sf_pv){ .kind = (uint8_t)kind };
	return v;
}

/* Stack and memo are malloc's; they count against the same limit. */
int sf_pm_charge(struct sf_pm *m)
{
	size_t bytes =
		(m->stack.cap + m->memo.cap + m->marks.cap) * 8 + m->far_cap * sizeof(*m->far);

	if (bytes > m->limits.memory)
		return sf_pm_fail(m, -E2BIG, "stack and memo need %zu bytes, limit %zu", bytes,
		                  m->limits.memory);
	return 0;
}

int sf_pm_push(struct sf_pm *m, struct sf_pv *v)
{
	if (!v)
		return sf_pm_no_memory(m);
	if (m->stack.n == m->stack.cap) {
		if (sf_pvs_reserve(&m->stack, m->stack.n + 1) < 0)
			return sf_pm_no_memory(m);
		int r = sf_pm_charge(m);
		if (r < 0)
			return r;
	}
	m->stack.at[m->stack.n++] = v;
	return 0;
}

int sf_pm_push_text(struct sf_pm *m, enum sf_pv_kind kind, const uint8_t *p, size_t len)
{
	struct sf_pv *v;

	if (kind == SF_PV_STR && !sf_pm_utf8(p, len))
		return sf_pm_fail(m, -EBADMSG, "text of %zu bytes is not UTF-8", len);
	v = sf_pm_new(m, kind);
	if (!v)
		return sf_pm_no_memory(m);
	m->asked = len;
	v->str.at = sf_arena_strdup(m->arena, (const char *)p, len);
	v->str.len = len;
	if (!v->str.at)
		return sf_pm_no_memory(m);
	return sf_pm_push(m, v);
}

size_t sf_pm_fence(const struct sf_pm *m)
{
	return m->marks.n ? m->marks.at[m->marks.n - 1] : 0;
}

/*
 * The memo is an array where numbers are dense, as Python's own writers give them, and a hash table
 * for others: one LONG_BINPUT of 4 billion must not cost an array.
 */
static struct sf_memo_slot *far_slot(const struct sf_pm *m, uint32_t index)
{
	size_t i = (size_t)sf_hash(&index, sizeof(index)) & (m->far_cap - 1);

	while (m->far[i].value && m->far[i].index != index)
		i = (i + 1) & (m->far_cap - 1);
	return &m->far[i];
}

static int far_grow(struct sf_pm *m)
{
	struct sf_memo_slot *old = m->far;
	size_t was = m->far_cap, cap = was ? was * 2 : 64;

	if (cap > SIZE_MAX / sizeof(*old) / 2)
		return sf_pm_no_memory(m);
	m->far = calloc(cap, sizeof(*m->far));
	if (!m->far) {
		m->far = old;
		return sf_pm_no_memory(m);
	}
	m->far_cap = cap;
	for (size_t i = 0; i < was; i++)
		if (old[i].value)
			*far_slot(m, old[i].index) = old[i];
	free(old);
	return sf_pm_charge(m);
}

static struct sf_pv *memo_find(const struct sf_pm *m, uint32_t index)
{
	if (index < m->memo.n && m->memo.at[index])
		return m->memo.at[index];
	return m->nfar ? far_slot(m, index)->value : NULL;
}

int sf_pm_memo_put(struct sf_pm *m, uint64_t index)
{
	struct sf_pv *v;
	int r;

	if (m->stack.n <= sf_pm_fence(m))
		return sf_pm_fail(m, -EBADMSG, "memo entry %" PRIu64 " of an empty stack", index);
	if (index > UINT32_MAX)
		return sf_pm_fail(m, -E2BIG, "memo number %" PRIu64 " is over 2^32", index);
	v = m->stack.at[m->stack.n - 1];
	if (!memo_find(m, (uint32_t)index)) {
		if (m->nmemo >= m->limits.memo)
			return sf_pm_fail(m, -E2BIG, "more than %u memo entries", m->limits.memo);
		m->nmemo++;
	}
	if (index < m->memo.n) {
		m->memo.at[index] = v;
		return 0;
	}
	if (index <= m->nmemo * UINT64_C(2) + 1024) {
		if (index >= m->memo.cap) {
			if (sf_pvs_reserve(&m->memo, index + 1) < 0)
				return sf_pm_no_memory(m);
			r = sf_pm_charge(m);
			if (r < 0)
				return r;
		}
		memset(m->memo.at + m->memo.n, 0, (index - m->memo.n) * sizeof(*m->memo.at));
		m->memo.at[index] = v;
		m->memo.n = index + 1;
		return 0;
	}
	if (m->nfar >= m->far_cap / 2) {
		r = far_grow(m);
		if (r < 0)
			return r;
	}
	struct sf_memo_slot *s = far_slot(m, (uint32_t)index);
	m->nfar += !s->value;
	*s = (struct sf_memo_slot){ (uint32_t)index, v };
	return 0;
}

int sf_pm_memo_get(struct sf_pm *m, uint64_t index)
{
	struct sf_pv *v = index <= UINT32_MAX ? memo_find(m, (uint32_t)index) : NULL;

	if (!v)
		return sf_pm_fail(m, -EBADMSG, "memo entry %" PRIu64 " was never put", index);
	v->shared = true;
	return sf_pm_push(m, v);
}

void sf_pm_release(struct sf_pm *m)
{
	sf_pvs_release(&m->stack);
	sf_marks_release(&m->marks);
	sf_pvs_release(&m->memo);
	free(m->far);
}
