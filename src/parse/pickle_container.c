#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "parse/pickle_build.h"

int sf_pm_pop(struct sf_pm *m, size_t n, struct sf_pv ***ret)
{
	if (m->stack.n - sf_pm_fence(m) < n)
		return sf_pm_fail(m, -EBADMSG, "needs %zu values, the stack has %zu", n,
		                  m->stack.n - sf_pm_fence(m));
	m->stack.n -= n;
	*ret = m->stack.at + m->stack.n;
	return 0;
}

int sf_pm_pop_mark(struct sf_pm *m, struct sf_pv ***ret, size_t *ret_n)
{
	size_t at;

	if (!m->marks.n)
		return sf_pm_fail(m, -EBADMSG, "no mark on the stack");
	at = m->marks.at[--m->marks.n];
	*ret = m->stack.at + at;
	*ret_n = m->stack.n - at;
	m->stack.n = at;
	return 0;
}

/* Room that a container of @n values that may grow has: it is told by the count alone. */
static size_t room_for(size_t n)
{
	size_t room = n ? 1 : 0;

	while (room < n)
		room *= 2;
	return room;
}

/* A container of the values @at, which may lie behind the stack's end. */
static struct sf_pv *new_seq(struct sf_pm *m, enum sf_pv_kind kind, struct sf_pv **at, size_t n)
{
	bool grows = kind == SF_PV_LIST || kind == SF_PV_DICT || kind == SF_PV_SET;
	struct sf_pv *v = sf_pm_new(m, kind);

	if (!v || !n)
		return v;
	v->seq.at = sf_pm_alloc(m, grows ? room_for(n) : n, sizeof(*at));
	if (!v->seq.at)
		return NULL;
	memcpy(v->seq.at, at, n * sizeof(*at));
	v->seq.n = n;
	return v;
}

static int extend(struct sf_pm *m, struct sf_pv *v, struct sf_pv **at, size_t n)
{
	size_t have = v->seq.n,
	       room = room_for(have + n); /* both count bytes of input: no overflow */

	if (!n)
		return 0;
	if (room > room_for(have)) {
		struct sf_pv **bigger = sf_pm_alloc(m, room, sizeof(*bigger));
		if (!bigger)
			return sf_pm_no_memory(m);
		if (have)
			memcpy(bigger, v->seq.at, have * sizeof(*bigger));
		v->seq.at = bigger;
	}
	memcpy(v->seq.at + have, at, n * sizeof(*at));
	v->seq.n += n;
	return 0;
}

/* Values appended to what is on top of the stack: its own elements, or those of an object that is
 * list-like. */
static int append(struct sf_pm *m, struct sf_pv **at, size_t n, bool to_set)
{
	struct sf_pv *v;

	if (m->stack.n <= sf_pm_fence(m))
		return sf_pm_fail(m, -EBADMSG, "nothing to append to");
	v = m->stack.at[m->stack.n - 1];
	if (v->kind == (to_set ? SF_PV_SET : SF_PV_LIST))
		return extend(m, v, at, n);
	if (v->kind != SF_PV_CALL && v->kind != SF_PV_OBJECT)
		return sf_pm_fail(m, -EBADMSG, "appends to a value of kind %d", v->kind);
	if (!v->call.appends)
		v->call.appends = new_seq(m, SF_PV_LIST, NULL, 0);
	return v->call.appends ? extend(m, v->call.appends, at, n) : sf_pm_no_memory(m);
}

static int set_items(struct sf_pm *m, struct sf_pv **at, size_t n)
{
	struct sf_pv *v;

	if (n % 2)
		return sf_pm_fail(m, -EBADMSG, "%zu keys and values are not pairs", n);
	if (m->stack.n <= sf_pm_fence(m))
		return sf_pm_fail(m, -EBADMSG, "nothing to set items of");
	v = m->stack.at[m->stack.n - 1];
	if (v->kind == SF_PV_DICT)
		return extend(m, v, at, n);
	if (v->kind != SF_PV_CALL && v->kind != SF_PV_OBJECT)
		return sf_pm_fail(m, -EBADMSG, "sets items of a value of kind %d", v->kind);
	if (!v->call.items)
		v->call.items = new_seq(m, SF_PV_DICT, NULL, 0);
	return v->call.items ? extend(m, v->call.items, at, n) : sf_pm_no_memory(m);
}

static int build(struct sf_pm *m)
{
	struct sf_pv **a = m->stack.at, *v;
	int r = sf_pm_pop(m, 2, &a);

	if (r < 0)
		return r;
	v = a[0];
	if (v->kind != SF_PV_CALL && v->kind != SF_PV_OBJECT)
		return sf_pm_fail(m, -EBADMSG, "a state for a value of kind %d", v->kind);
	if (v->call.state)
		return sf_pm_fail(m, -ENOTSUP, "a second state for one object");
	v->call.state = a[1];
	m->stack.n++;
	return 0;
}

static int push_call(struct sf_pm *m, enum sf_pv_kind kind, struct sf_pv *callable,
                     struct sf_pv *args, struct sf_pv *kwargs)
{
	struct sf_pv *v;

	if (callable->kind != SF_PV_GLOBAL && callable->kind != SF_PV_CALL &&
	    callable->kind != SF_PV_OBJECT)
		return sf_pm_fail(m, -EBADMSG, "a call of a value of kind %d", callable->kind);
	if (args->kind != SF_PV_TUPLE)
		return sf_pm_fail(m, -EBADMSG, "call arguments of kind %d, not a tuple",
		                  args->kind);
	if (kwargs && kwargs->kind != SF_PV_DICT)
		return sf_pm_fail(m, -EBADMSG, "keyword arguments of kind %d, not a dict",
		                  kwargs->kind);
	v = sf_pm_new(m, kind);
	if (v) {
		v->call.callable = callable;
		v->call.args = args;
		v->call.kwargs = kwargs;
	}
	return sf_pm_push(m, v);
}

int sf_pm_push_global(struct sf_pm *m, struct sf_pv *module, struct sf_pv *name)
{
	struct sf_pv *v;

	if (module->kind != SF_PV_STR || name->kind != SF_PV_STR)
		return sf_pm_fail(m, -EBADMSG, "a global whose names are of kinds %d, %d",
		                  module->kind, name->kind);
	if (module->str.len > SF_PICKLE_NAME_MAX || name->str.len > SF_PICKLE_NAME_MAX)
		return sf_pm_fail(m, -E2BIG, "a global's names have %zu and %zu bytes, limit %d",
		                  module->str.len, name->str.len, SF_PICKLE_NAME_MAX);
	v = sf_pm_new(m, SF_PV_GLOBAL);
	if (v) {
		v->global.module = module;
		v->global.name = name;
	}
	return sf_pm_push(m, v);
}

int sf_pm_push_persid(struct sf_pm *m, struct sf_pv *id)
{
	struct sf_pv *v = sf_pm_new(m, SF_PV_PERSID);

	if (v)
		v->persid = id;
	return sf_pm_push(m, v);
}

/*
 * INST and OBJ: an object of @cls. With arguments Python 3 calls the class, without it makes an
 * empty object.
 */
int sf_pm_push_instance(struct sf_pm *m, struct sf_pv *cls, struct sf_pv **at, size_t n)
{
	struct sf_pv *args = new_seq(m, SF_PV_TUPLE, at, n);

	return args ? push_call(m, n ? SF_PV_CALL : SF_PV_OBJECT, cls, args, NULL)
	            : sf_pm_no_memory(m);
}

/* Opcodes that make a value of those on the stack. 1: not one of these. */
int sf_pm_container(struct sf_pm *m)
{
	struct sf_pv **a = m->stack.at;
	enum sf_pv_kind kind;
	size_t n = 0;
	int r;

	switch (m->op) {
	case ')':
		return sf_pm_push(m, new_seq(m, SF_PV_TUPLE, NULL, 0));
	case ']':
		return sf_pm_push(m, new_seq(m, SF_PV_LIST, NULL, 0));
	case '}':
		return sf_pm_push(m, new_seq(m, SF_PV_DICT, NULL, 0));
	case 0x8f:
		return sf_pm_push(m, new_seq(m, SF_PV_SET, NULL, 0));
	case 0x85:
	case 0x86:
	case 0x87:
		n = m->op - 0x84u;
		r = sf_pm_pop(m, n, &a);
		return r < 0 ? r : sf_pm_push(m, new_seq(m, SF_PV_TUPLE, a, n));
	case 't':
	case 'l':
	case 'd':
	case 0x91: /* FROZENSET */
		kind = m->op == 't'   ? SF_PV_TUPLE
		       : m->op == 'l' ? SF_PV_LIST
		       : m->op == 'd' ? SF_PV_DICT
		                      : SF_PV_FROZENSET;
		r = sf_pm_pop_mark(m, &a, &n);
		if (r == 0 && m->op == 'd' && n % 2)
			r = sf_pm_fail(m, -EBADMSG, "%zu keys and values are not pairs", n);
		return r < 0 ? r : sf_pm_push(m, new_seq(m, kind, a, n));
	case 'a':
		r = sf_pm_pop(m, 1, &a);
		return r < 0 ? r : append(m, a, 1, false);
	case 'e':
	case 0x90: /* ADDITEMS */
		r = sf_pm_pop_mark(m, &a, &n);
		return r < 0 ? r : append(m, a, n, m->op == 0x90);
	case 's':
		r = sf_pm_pop(m, 2, &a);
		return r < 0 ? r : set_items(m, a, 2);
	case 'u':
		r = sf_pm_pop_mark(m, &a, &n);
		return r < 0 ? r : set_items(m, a, n);
	case 'R':
		r = sf_pm_pop(m, 2, &a);
		return r < 0 ? r : push_call(m, SF_PV_CALL, a[0], a[1], NULL);
	case 0x81: /* NEWOBJ */
		r = sf_pm_pop(m, 2, &a);
		return r < 0 ? r : push_call(m, SF_PV_OBJECT, a[0], a[1], NULL);
	case 0x92: /* NEWOBJ_EX */
		r = sf_pm_pop(m, 3, &a);
		return r < 0 ? r : push_call(m, SF_PV_OBJECT, a[0], a[1], a[2]);
	case 'o':
		r = sf_pm_pop_mark(m, &a, &n);
		if (r == 0 && !n)
			r = sf_pm_fail(m, -EBADMSG, "an object without a class");
		return r < 0 ? r : sf_pm_push_instance(m, a[0], a + 1, n - 1);
	case 'b':
		return build(m);
	case 0x93: /* STACK_GLOBAL */
		r = sf_pm_pop(m, 2, &a);
		return r < 0 ? r : sf_pm_push_global(m, a[0], a[1]);
	case 'Q':
		r = sf_pm_pop(m, 1, &a);
		return r < 0 ? r : sf_pm_push_persid(m, a[0]);
	default:
		return 1;
	}
}
