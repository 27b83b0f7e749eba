#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "parse/torch_item.h"
#include "parse/torch_subclass.h"
#include "value/value_json.h"

/* A module's names in the pickles of other Pythons. */
static const char *module_of(const struct sf_pv *global)
{
	const struct sf_pv *m = global->global.module;

	if (sf_pv_is_str(m, "__builtin__"))
		return "builtins";
	if (sf_pv_is_str(m, "pathlib._local"))
		return "pathlib";
	return m->str.at;
}

/* "module.Name" of a class, as text in the buffer. */
static void put_name(struct sf_vj *j, const struct sf_pv *v)
{
	char name[4096] = "?"; /* so that want of memory makes no other name */
	size_t len = 1;

	if (v && v->kind == SF_PV_GLOBAL) {
		const struct sf_pv *n = v->global.name;
		size_t module = strlen(module_of(v));
		if (module < sizeof(name) && n->str.len < sizeof(name) - module) {
			memcpy(name, module_of(v), module);
			name[module] = '.';
			memcpy(name + module + 1, n->str.at, n->str.len);
			len = module + 1 + n->str.len;
		}
	}
	sf_vj_str(j, name, len);
}

static bool is(const struct sf_pv *v, const char *module, const char *name)
{
	return v && v->kind == SF_PV_GLOBAL && strcmp(module_of(v), module) == 0 &&
	       sf_pv_is_str(v->global.name, name);
}

static const struct sf_pv *arg(const struct sf_pv *v, size_t i)
{
	const struct sf_pv *args = v->call.args;
	return args && args->kind == SF_PV_TUPLE && i < args->seq.n ? args->seq.at[i] : NULL;
}

static size_t nargs(const struct sf_pv *v)
{
	return v->call.args && v->call.args->kind == SF_PV_TUPLE ? v->call.args->seq.n : 0;
}

static bool is_seq(const struct sf_pv *v)
{
	return v && (v->kind == SF_PV_TUPLE || v->kind == SF_PV_LIST || v->kind == SF_PV_SET ||
	             v->kind == SF_PV_FROZENSET);
}

bool sf_vj_get_bytes(const struct sf_pv *v, struct sf_buf *own, const char **ret, size_t *ret_len)
{
	if (!v || v->kind == SF_PV_BYTES) {
		if (v) {
			*ret = v->str.at;
			*ret_len = v->str.len;
		}
		return v != NULL;
	}
	const struct sf_pv *text = v->kind == SF_PV_CALL ? arg(v, 0) : NULL,
			   *how = text ? arg(v, 1) : NULL;
	if (v->kind == SF_PV_CALL && is(v->call.callable, "builtins", "bytes") && nargs(v) == 0) {
		*ret = "";
		*ret_len = 0;
		return true;
	}
	if (!how || !is(v->call.callable, "_codecs", "encode") || text->kind != SF_PV_STR ||
	    !(sf_pv_is_str(how, "latin1") || sf_pv_is_str(how, "latin-1")))
		return false;
	for (size_t i = 0; i < text->str.len; i++) {
		uint8_t c = (uint8_t)text->str.at[i];
		if (c >= 0x80) { /* U+0080 … U+00FF: C2 or C3 and one byte more */
			if ((c & 0xfe) != 0xc2 || i + 1 == text->str.len)
				return false;
			c = (uint8_t)(c << 6 | (text->str.at[++i] & 0x3f));
		}
		sf_buf_byte(own, c);
	}
	*ret = own->len ? (const char *)own->at : "";
	*ret_len = own->len;
	return sf_buf_check(own) == 0;
}

/* bytes, or a bytearray of bytes. 0: neither. */
static int put_bytes(struct sf_vj *j, const struct sf_pv *v)
{
	bool array = is(v->call.callable, "builtins", "bytearray");
	struct sf_buf own = { .limit = SF_VJ_BYTES, .charge = j->out->charge };
	const char *at = "";
	size_t len = 0;

	bool found =
		(array && nargs(v) == 0) || sf_vj_get_bytes(array ? arg(v, 0) : v, &own, &at, &len);
	if (found) {
		sf_buf_str(j->out, array ? "{\"$type\": \"bytearray\", \"value\": " : "");
		sf_vj_base64(j, at, len);
		sf_buf_str(j->out, array ? "}" : "");
	}
	sf_buf_release(&own);
	return found;
}

static void begin_type(struct sf_vj *j, const char *type)
{
	sf_buf_printf(j->out, "{\"$type\": \"%s\", \"value\": ", type);
}

static int end_type(struct sf_vj *j, int r)
{
	sf_buf_byte(j->out, '}');
	return r;
}

/* A dtype's name: one we can show, or one of the 1 to 7 bits that torch has no tensors for. */
static bool is_dtype(const struct sf_pv *name)
{
	const char *s = name->str.at;
	size_t n = strncmp(s, "uint", 4) == 0 ? 4 : strncmp(s, "int", 3) == 0 ? 3 : 0;

	return sf_dtype_by_torch(s, name->str.len) != SF_DTYPE_NONE ||
	       (n && name->str.len == n + 1 && s[n] >= '1' && s[n] <= '7');
}

/* torch.float32 and the like; any other class, function or constant is named. */
static int put_global(struct sf_vj *j, const struct sf_pv *v)
{
	const struct sf_pv *name = v->global.name;

	if (sf_pv_is_str(v->global.module, "torch") && is_dtype(name)) {
		begin_type(j, "torch.dtype");
		sf_vj_str(j, name->str.at, name->str.len);
		return end_type(j, 0);
	}
	begin_type(j, "global");
	put_name(j, v);
	return end_type(j, 0);
}

static void put_tensor(struct sf_vj *j, const struct sf_torch_tensor *t)
{
	sf_buf_printf(j->out, "{\"$tensor\": {\"dtype\": \"%s\", \"shape\": [",
	              sf_dtype_info(t->dtype)->torch);
	for (unsigned d = 0; d < t->ndim; d++)
		sf_buf_printf(j->out, "%s%" PRIu64, d ? ", " : "", t->shape[d]);
	sf_buf_str(j->out, "]}}");
}

/* A tensor on the meta device: (dtype, size, stride, requires_grad), no bytes. 0: not that. */
static int put_meta_tensor(struct sf_vj *j, const struct sf_pv *v)
{
	const struct sf_pv *dtype = arg(v, 0), *size = arg(v, 1);

	if (!is(v->call.callable, "torch._utils", "_rebuild_meta_tensor_no_storage") || !dtype ||
	    dtype->kind != SF_PV_GLOBAL || !sf_pv_is_str(dtype->global.module, "torch") ||
	    !is_dtype(dtype->global.name))
		return 0;
	if (size && size->kind == SF_PV_CALL && is(size->call.callable, "torch", "Size"))
		size = arg(size, 0);
	if (!is_seq(size))
		return 0;
	sf_buf_str(j->out, "{\"$tensor\": {\"dtype\": ");
	sf_vj_str(j, dtype->global.name->str.at, dtype->global.name->str.len);
	sf_buf_str(j->out, ", \"shape\": ");
	int r = sf_vj_seq(j, size);
	sf_buf_str(j->out, "}}");
	return r < 0 ? r : 1;
}

/* An instance of a tensor subclass: what it pretends to be, and its attributes. 0: not that. */
static int put_subclass(struct sf_vj *j, const struct sf_pv *v)
{
	struct sf_torch_subclass s;
	int r;

	if (!sf_torch_subclass_from_pv(v, &s))
		return 0;
	sf_buf_str(j->out, "{\"$tensor\": {\"dtype\": ");
	sf_vj_str(j, s.dtype->global.name->str.at, s.dtype->global.name->str.len);
	sf_buf_str(j->out, ", \"shape\": ");
	r = sf_vj_seq(j, s.shape);
	sf_buf_str(j->out, "}, \"$class\": ");
	put_name(j, s.cls);
	sf_buf_str(j->out, ", \"state\": ");
	if (r >= 0)
		r = sf_vj_value(j, s.state);
	sf_buf_byte(j->out, '}');
	return r < 0 ? r : 1;
}

/*
 * A subclass of str without attributes (torch's TorchVersion): cls.__new__(cls, text), by protocols
 * 0 and 1 copyreg._reconstructor(cls, str, text). Its text.
 */
static const struct sf_pv *str_subclass(const struct sf_pv *v)
{
	if (v->call.state || v->call.items || v->call.appends || v->call.kwargs)
		return NULL;
	if (v->kind == SF_PV_OBJECT && nargs(v) == 1 && arg(v, 0)->kind == SF_PV_STR)
		return arg(v, 0);
	if (v->kind == SF_PV_CALL && nargs(v) == 3 &&
	    (is(v->call.callable, "copyreg", "_reconstructor") ||
	     is(v->call.callable, "copy_reg", "_reconstructor")) &&
	    (is(arg(v, 1), "builtins", "str") || is(arg(v, 1), "builtins", "unicode")) &&
	    arg(v, 2)->kind == SF_PV_STR)
		return arg(v, 2);
	return NULL;
}

/* "cuda:0" of torch.device("cuda", 0). */
static int put_device(struct sf_vj *j, const struct sf_pv *type, const struct sf_pv *index)
{
	struct sf_buf name = { .limit = 4096 };

	begin_type(j, "torch.device");
	sf_buf_add(&name, type->str.at, type->str.len);
	if (index && index->kind == SF_PV_INT)
		sf_buf_printf(&name, ":%" PRId64, index->i);
	sf_vj_str(j, (const char *)name.at, name.len);
	sf_buf_release(&name);
	return end_type(j, 0);
}

/* The parts of a path, joined: "/" alone is the root. */
static int put_path(struct sf_vj *j, const struct sf_pv *v)
{
	struct sf_buf text = { .limit = 64 << 10 };

	sf_buf_str(j->out, "{\"$type\": ");
	put_name(j, v->call.callable);
	sf_buf_str(j->out, ", \"value\": ");
	for (size_t i = 0; i < nargs(v); i++) {
		const struct sf_pv *part = arg(v, i);
		if (part->kind != SF_PV_STR)
			continue;
		if (text.len > 0 && text.at[text.len - 1] != '/')
			sf_buf_byte(&text, '/');
		sf_buf_add(&text, part->str.at, part->str.len);
	}
	sf_vj_str(j, text.len ? (const char *)text.at : ".", text.len ? text.len : 1);
	sf_buf_release(&text);
	return end_type(j, 0);
}

/* An OrderedDict: items by SETITEM, or pairs as the argument. 0: none of these forms. */
static int put_ordered(struct sf_vj *j, const struct sf_pv *v)
{
	const struct sf_pv *items = v->call.items, *pairs = arg(v, 0);

	if (items && nargs(v) == 0) {
		int r = sf_vj_dict(j, items);
		return r < 0 ? r : 1;
	}
	if (nargs(v) == 0) {
		sf_buf_str(j->out, "{}");
		return 1;
	}
	if (items || nargs(v) != 1 || !is_seq(pairs))
		return 0;
	for (size_t i = 0; i < pairs->seq.n; i++)
		if (!is_seq(pairs->seq.at[i]) || pairs->seq.at[i]->seq.n != 2)
			return 0;
	sf_buf_str(j->out, "{\"$dict\": ");
	int r = sf_vj_seq(j, pairs);
	sf_buf_byte(j->out, '}');
	return r < 0 ? r : 1;
}

/* Calls of classes with a reading of their own. 1 written, 0 not one of them. */
static int known_call(struct sf_vj *j, const struct sf_pv *v)
{
	const struct sf_pv *f = v->call.callable, *first = arg(v, 0);
	struct sf_torch_tensor t;
	int r;

	if (sf_torch_tensor_from_pv(v, &t, NULL) == 1) {
		put_tensor(j, &t);
		return 1;
	}
	r = sf_vj_numpy(j, v);
	if (r == 0)
		r = put_bytes(j, v);
	if (r == 0)
		r = put_meta_tensor(j, v);
	if (r == 0)
		r = put_subclass(j, v);
	if (r != 0)
		return r;
	if (!f || f->kind != SF_PV_GLOBAL)
		return 0;
	if (is(f, "torch", "Size") && is_seq(first)) {
		begin_type(j, "torch.Size");
		r = end_type(j, sf_vj_seq(j, first));
	} else if (is(f, "torch", "device") && first && first->kind == SF_PV_STR) {
		r = put_device(j, first, arg(v, 1));
	} else if (is(f, "torch.serialization", "_get_layout") && first &&
	           first->kind == SF_PV_STR) {
		begin_type(j, "torch.layout");
		sf_vj_str(j, first->str.at, first->str.len);
		r = end_type(j, 0);
	} else if (is(f, "collections", "OrderedDict")) {
		return put_ordered(j, v);
	} else if ((is(f, "builtins", "set") || is(f, "builtins", "frozenset")) &&
	           (nargs(v) == 0 || is_seq(first))) {
		begin_type(j, f->global.name->str.at);
		if (first)
			r = sf_vj_seq(j, first);
		else
			sf_buf_str(j->out, "[]");
		r = end_type(j, r);
	} else if ((is(f, "builtins", "complex") && nargs(v) == 2) || is(f, "builtins", "slice") ||
	           is(f, "builtins", "range") || is(f, "builtins", "xrange")) {
		begin_type(j, is(f, "builtins", "xrange") ? "range" : f->global.name->str.at);
		r = end_type(j, sf_vj_seq(j, v->call.args));
	} else if (is(f, "collections", "deque")) {
		begin_type(j, "collections.deque");
		const struct sf_pv *items = v->call.appends ? v->call.appends : first;
		if (is_seq(items))
			r = sf_vj_seq(j, items);
		else
			sf_buf_str(j->out, "[]");
		r = end_type(j, r);
	} else if (strcmp(module_of(f), "pathlib") == 0) {
		r = put_path(j, v);
	} else {
		return 0;
	}
	return r < 0 ? r : 1;
}

static int member(struct sf_vj *j, const char *name, const struct sf_pv *v)
{
	sf_buf_printf(j->out, ", \"%s\": ", name);
	return sf_vj_value(j, v);
}

/* {"$class": "module.Name", …}: what is known of an instance of a class nobody imports. */
static int put_instance(struct sf_vj *j, const struct sf_pv *v)
{
	const struct sf_pv *cls = v->call.callable, *args = v->call.args;
	int r = 0;

	/* copyreg._reconstructor(cls, object, None) is how protocols 0 and 1 say cls.__new__(cls) */
	if (v->kind == SF_PV_CALL &&
	    (is(cls, "copyreg", "_reconstructor") || is(cls, "copy_reg", "_reconstructor")) &&
	    nargs(v) == 3) {
		cls = arg(v, 0);
		args = NULL;
	}
	sf_buf_str(j->out, "{\"$class\": ");
	put_name(j, cls);
	if (cls && cls->kind != SF_PV_GLOBAL) /* a method of a value, a class made by a call */
		r = member(j, "of", cls);
	if (r >= 0 && args && (!is_seq(args) || args->seq.n > 0))
		r = member(j, "args", args);
	if (r >= 0 && v->call.kwargs)
		r = member(j, "kwargs", v->call.kwargs);
	if (r >= 0 && v->call.items)
		r = member(j, "items", v->call.items);
	if (r >= 0 && v->call.appends)
		r = member(j, "appends", v->call.appends);
	if (r >= 0 && (v->call.state || (!v->call.items && !v->call.appends)))
		r = member(j, "state", v->call.state);
	sf_buf_byte(j->out, '}');
	return r;
}

int sf_vj_class(struct sf_vj *j, const struct sf_pv *v)
{
	const struct sf_pv *text;
	int r;

	switch (v->kind) {
	case SF_PV_GLOBAL:
		return put_global(j, v);
	case SF_PV_PERSID: /* a storage by itself */
		begin_type(j, "persistent_id");
		return end_type(j, sf_vj_value(j, v->persid));
	case SF_PV_CALL:
		r = known_call(j, v);
		if (r != 0)
			return r < 0 ? r : 0;
		break;
	default:
		break;
	}
	text = str_subclass(v);
	if (!text)
		return put_instance(j, v);
	sf_vj_str(j, text->str.at, text->str.len);
	return 0;
}
