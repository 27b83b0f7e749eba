#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "parse/pickle_put.h"

#define DEPTH_MAX 1000
#define PARTS_MAX 64 /* of a dotted name, which is written out at each use */
/* elements between MARK and APPENDS or SETITEMS, as Python's own writer has it */
#define BATCH 1000
/*
 * Values written in one call. Sharing is kept, so a tree costs what its pickle did, but for tuples
 * that hold themselves through a list: those are written anew at each level until the innermost is
 * done (Python's writer does the same).
 */
#define BUDGET ((uint64_t)1 << 30)

static int value(struct sf_pickle_writer *w, struct sf_pv *v, unsigned depth, struct sf_error *err);

/* Gives @v its number if another place will ask for it. Right behind what made it. */
static int remember(struct sf_pickle_writer *w, struct sf_pv *v, struct sf_error *err)
{
	struct sf_pw_private *p = w->interned;

	if (v->mark || !(v->shared || (p->in_sets && v->kind >= SF_PV_TUPLE)))
		return 0;
	if (w->next_memo == UINT32_MAX)
		return sf_fail(err, -E2BIG, "pickle writer: more than %u memo entries", UINT32_MAX);
	if (sf_pw_marked_push(&p->marked, v) < 0)
		return sf_fail(err, -ENOMEM, "pickle writer: memo of %zu entries", p->marked.n);
	sf_pw_put(w, w->next_memo++);
	v->mark = w->next_memo; /* number + 1: 0 is none */
	return 0;
}

/*
 * An immutable value whose parts are written may have been written whole meanwhile, by a list in it
 * that holds it. Then the parts are dropped for the finished one.
 */
static bool done_meanwhile(struct sf_pickle_writer *w, const struct sf_pv *v, unsigned nparts,
                           bool mark)
{
	if (!v->mark)
		return false;
	if (mark)
		sf_pw_op(w, '1');
	for (; !mark && nparts; nparts--)
		sf_pw_op(w, '0');
	sf_pw_get(w, v->mark - 1);
	return true;
}

static int values(struct sf_pickle_writer *w, struct sf_pv **at, size_t n, unsigned depth,
                  struct sf_error *err)
{
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++)
		r = value(w, at[i], depth + 1, err);
	return r;
}

static int tuple(struct sf_pickle_writer *w, struct sf_pv *v, unsigned depth, struct sf_error *err)
{
	size_t n = v->seq.n;
	int r;

	if (!n) {
		sf_pw_op(w, ')');
		return 0;
	}
	if (n > 3)
		sf_pw_op(w, '(');
	r = values(w, v->seq.at, n, depth, err);
	if (r < 0 || done_meanwhile(w, v, (unsigned)n, n > 3))
		return r;
	sf_pw_op(w, n > 3 ? 't' : (char)(0x84 + n));
	return remember(w, v, err);
}

/* Elements (per = 1) or keys and values (per = 2) for the list or dict that is on the stack, in
 * batches. */
static int fill(struct sf_pickle_writer *w, const struct sf_pv *from, size_t per, unsigned depth,
                struct sf_error *err)
{
	size_t n = from->seq.n, batch = BATCH * per;
	int r = 0;

	for (size_t at = 0; at < n && r == 0; at += batch) {
		size_t k = SF_MIN(batch, n - at);
		bool single = k == per;
		if (!single)
			sf_pw_op(w, '(');
		r = values(w, from->seq.at + at, k, depth, err);
		sf_pw_op(w, per == 2 ? (single ? 's' : 'u') : (single ? 'a' : 'e'));
	}
	return r;
}

/*
 * set([...]), frozenset([...]): protocol 2 makes them when their elements are there. One that an
 * element holds (protocol 4 could fetch it, so nothing else in the circle need be shared) is
 * written again inside, where that element has to be known by then.
 */
static int set(struct sf_pickle_writer *w, struct sf_pv *v, unsigned depth, struct sf_error *err)
{
	struct sf_pw_private *p = w->interned;
	int r;

	sf_pw_global(w, "__builtin__", v->kind == SF_PV_SET ? "set" : "frozenset");
	sf_pw_op(w, ']');
	p->in_sets += v->shared;
	r = fill(w, v, 1, depth, err);
	p->in_sets -= v->shared;
	if (r < 0 || done_meanwhile(w, v, 2, false))
		return r;
	sf_buf_str(w->out, "\x85R");
	return remember(w, v, err);
}

/* _codecs.encode(text, "latin1"): protocol 2 has no bytes */
static void bytes(struct sf_pickle_writer *w, const struct sf_pv *v)
{
	uint8_t head[5] = { 'X' }, *p;
	size_t len = v->str.len;

	for (size_t i = 0; i < v->str.len; i++)
		len += (uint8_t)v->str.at[i] >= 0x80;
	sf_pw_global(w, "_codecs", "encode");
	if (len > UINT32_MAX) {
		w->out->failed = -E2BIG;
		return;
	}
	sf_put_le32(head + 1, (uint32_t)len);
	sf_buf_add(w->out, head, 5);
	p = sf_buf_extend(w->out, len);
	for (size_t i = 0; p && i < v->str.len; i++) {
		uint8_t c = (uint8_t)v->str.at[i];
		if (c >= 0x80)
			*p++ = (uint8_t)(0xc0 | c >> 6);
		*p++ = c < 0x80 ? c : (uint8_t)(0x80 | (c & 0x3f));
	}
	sf_pw_text(w, "latin1", 6);
	sf_buf_str(w->out, "\x86R");
}

static bool strict_line(const struct sf_pv *s)
{
	const char *p = s->str.at;
	uint32_t c;

	if (!s->str.len || memchr(p, '\n', s->str.len))
		return false;
	for (size_t at = 0, n; at < s->str.len; at += n)
		if (!(n = sf_utf8_next(p + at, s->str.len - at, &c)))
			return false;
	return true;
}

/*
 * A global by its names. Those of protocol 3 and later get Python 2's module names, which every
 * unpickler of protocol 2 maps back; a dotted name (a class in a class) becomes getattr(outer,
 * name), as Python's writer does it below protocol 4.
 */
static int global(struct sf_pickle_writer *w, const struct sf_pv *v, struct sf_error *err)
{
	const struct sf_pv *module = v->global.module, *name = v->global.name;
	const char *mod = module->str.at, *at = name->str.at, *end = at + name->str.len, *dot;
	size_t modlen = module->str.len, parts = 0;
	unsigned long code;

	if (sf_pv_is_str(module, "copyreg") &&
	    sscanf(name->str.at, "extension %lu", &code) == 1) { /* EXT1, 2 and 4 */
		uint8_t b[5] = { (uint8_t)(code < 256 ? 0x82 : code < 65536 ? 0x83 : 0x84) };
		sf_put_le32(b + 1, (uint32_t)code);
		sf_buf_add(w->out, b, code < 256 ? 2 : code < 65536 ? 3 : 5);
		return 0;
	}
	if (!strict_line(module) || !strict_line(name))
		return sf_fail(err, -EBADMSG,
		               "pickle writer: protocol 2 cannot name the global '%.64s.%.64s'",
		               mod, at);
	if (sf_pv_is_str(module, "builtins"))
		mod = "__builtin__", modlen = strlen(mod);
	else if (sf_pv_is_str(module, "copyreg"))
		mod = "copy_reg", modlen = strlen(mod);
	for (const char *p = at; p < end; p++)
		parts += *p == '.';
	if (parts > PARTS_MAX)
		return sf_fail(err, -E2BIG, "pickle writer: a global of %zu parts, limit %d", parts,
		               PARTS_MAX);
	for (size_t i = 0; i < parts; i++)
		sf_pw_global(w, "__builtin__", "getattr");
	dot = parts ? memchr(at, '.', (size_t)(end - at)) : NULL;
	sf_pw_global_n(w, mod, modlen, at, (size_t)((dot ? dot : end) - at));
	while (dot) {
		at = dot + 1;
		dot = memchr(at, '.', (size_t)(end - at));
		sf_pw_text(w, at, (size_t)((dot ? dot : end) - at));
		sf_buf_str(w->out, "\x86R");
	}
	return 0;
}

/* The parts that make the object, then what fills it: the order of Python's writer. */
static int call(struct sf_pickle_writer *w, struct sf_pv *v, unsigned depth, struct sf_error *err)
{
	struct sf_pv *parts[] = { v->call.callable, v->call.args };
	int r;

	if (v->kind == SF_PV_OBJECT && v->call.kwargs) {
		/* copyreg.__newobj_ex__(cls, args, kwargs) */
		struct sf_pv *three[] = { v->call.callable, v->call.args, v->call.kwargs };
		sf_pw_global(w, "copy_reg", "__newobj_ex__");
		r = values(w, three, 3, depth, err);
		if (r < 0)
			return r;
		if (done_meanwhile(w, v, 4, false))
			return 0;
		sf_buf_str(w->out, "\x87R");
	} else {
		r = values(w, parts, 2, depth, err);
		if (r < 0)
			return r;
		if (done_meanwhile(w, v, 2, false))
			return 0;
		sf_pw_op(w, v->kind == SF_PV_OBJECT ? (char)0x81 : 'R');
	}
	r = remember(w, v, err);
	if (r == 0 && v->call.appends)
		r = fill(w, v->call.appends, 1, depth, err);
	if (r == 0 && v->call.items)
		r = fill(w, v->call.items, 2, depth, err);
	if (r == 0 && v->call.state) {
		r = value(w, v->call.state, depth + 1, err);
		sf_pw_op(w, 'b');
	}
	return r;
}

/* ("storage", class, number, "cpu", count) */
static int storage(struct sf_pickle_writer *w, struct sf_pv *v, struct sf_error *err)
{
	const struct sf_pv *id = v->persid;
	uint64_t number;
	char key[24];
	int r, n;

	if (id->kind != SF_PV_TUPLE || id->seq.n < 5 || !sf_pv_is_str(id->seq.at[0], "storage") ||
	    id->seq.at[1]->kind != SF_PV_GLOBAL || id->seq.at[2]->kind != SF_PV_STR ||
	    (id->seq.at[4]->kind != SF_PV_INT && id->seq.at[4]->kind != SF_PV_LONG) ||
	    (id->seq.n > 5 && id->seq.at[5]->kind != SF_PV_NONE) || !w->storage)
		return sf_fail(err, -EBADMSG,
		               "pickle writer: a persistent id that is not a storage");
	r = w->storage(w->storage_arg, id->seq.at[2]->str.at, id->seq.at[2]->str.len, &number, err);
	if (r < 0)
		return r;
	n = snprintf(key, sizeof(key), "%" PRIu64, number);
	sf_pw_op(w, '(');
	sf_pw_str(w, "storage", 7);
	r = global(w, id->seq.at[1], err);
	if (r < 0)
		return r;
	sf_pw_text(w, key, (size_t)n);
	sf_pw_str(w, "cpu", 3);
	if (id->seq.at[4]->kind == SF_PV_INT)
		sf_pw_int(w, id->seq.at[4]->i);
	else
		sf_pw_long(w, id->seq.at[4]->str.at, id->seq.at[4]->str.len);
	sf_buf_str(w->out, "tQ");
	return remember(w, v, err);
}

static int value(struct sf_pickle_writer *w, struct sf_pv *v, unsigned depth, struct sf_error *err)
{
	struct sf_pw_private *p = w->interned;
	int r;

	if (v->mark) {
		sf_pw_get(w, v->mark - 1);
		return sf_buf_check(w->out);
	}
	if (depth > DEPTH_MAX)
		return sf_fail(err, -E2BIG, "pickle writer: values nested deeper than %d",
		               DEPTH_MAX);
	if (!p->budget--)
		return sf_fail(err, -E2BIG, "pickle writer: more than %" PRIu64 " values", BUDGET);
	if (w->out->failed)
		return sf_fail(err, w->out->failed, "pickle writer: %s",
		               w->out->failed == -ENOMEM ? "out of memory"
		                                         : "output passes its limit");
	switch (v->kind) {
	case SF_PV_NONE:
		sf_pw_op(w, 'N');
		return 0;
	case SF_PV_BOOL:
		sf_pw_op(w, (char)(v->b ? 0x88 : 0x89));
		return 0;
	case SF_PV_INT:
		sf_pw_int(w, v->i);
		break;
	case SF_PV_LONG:
		sf_pw_long(w, v->str.at, v->str.len);
		break;
	case SF_PV_FLOAT:
		sf_pw_float(w, v->f);
		break;
	case SF_PV_STR:
		if (v->shared)
			sf_pw_text(w, v->str.at, v->str.len);
		else
			sf_pw_str(w, v->str.at, v->str.len);
		break;
	case SF_PV_BYTES:
		bytes(w, v);
		break;
	case SF_PV_BYTEARRAY:
		sf_pw_global(w, "__builtin__", "bytearray");
		bytes(w, v);
		sf_buf_str(w->out, "\x85R");
		break;
	case SF_PV_TUPLE:
		return tuple(w, v, depth, err);
	case SF_PV_SET:
	case SF_PV_FROZENSET:
		return set(w, v, depth, err);
	case SF_PV_LIST:
	case SF_PV_DICT:
		/* its number comes before what is in it, which may be itself */
		sf_pw_op(w, v->kind == SF_PV_LIST ? ']' : '}');
		r = remember(w, v, err);
		return r < 0 ? r : fill(w, v, v->kind == SF_PV_LIST ? 1 : 2, depth, err);
	case SF_PV_GLOBAL:
		return global(w, v, err);
	case SF_PV_CALL:
	case SF_PV_OBJECT:
		return call(w, v, depth, err);
	case SF_PV_PERSID:
		return storage(w, v, err);
	default:
		return sf_fail(err, -EBADMSG, "pickle writer: a value of kind %d", v->kind);
	}
	return remember(w, v, err);
}

int sf_pw_value(struct sf_pickle_writer *w, struct sf_pv *v, struct sf_error *err)
{
	struct sf_pw_private *p = w->interned;
	int r;

	p->budget = BUDGET;
	r = value(w, v, 0, err);
	/* So that the tree can be written again, also into another stream. */
	for (size_t i = 0; i < p->marked.n; i++)
		p->marked.at[i]->mark = 0;
	p->marked.n = 0;
	if (r == 0 && w->out->failed)
		return sf_fail(err, w->out->failed, "pickle writer: %s",
		               w->out->failed == -ENOMEM ? "out of memory"
		                                         : "output passes its limit");
	return r;
}
