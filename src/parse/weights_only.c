#include "config.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "parse/pickle_write.h"

#define DEPTH_MAX 1000

/*
 * What torch.load(weights_only=True) takes without being told more. Source: pytorch/pytorch
 * torch/_weights_only_unpickler.py 2.13, _get_allowed_globals() and the opcodes of
 * Unpickler.load(). torch.<dtype>, storages and tensor classes are told by their form, the rest is
 * here.
 */
static const char *const allowed[] = {
	"_codecs.encode",
	"builtins.bytearray",
	"builtins.complex",
	"builtins.set",
	"collections.Counter",
	"collections.OrderedDict",
	"torch.Size",
	"torch.Tensor",
	"torch._tensor._rebuild_from_type_v2",
	"torch._utils._rebuild_device_tensor_from_cpu_tensor",
	"torch._utils._rebuild_device_tensor_from_numpy",
	"torch._utils._rebuild_meta_tensor_no_storage",
	"torch._utils._rebuild_nested_tensor",
	"torch._utils._rebuild_parameter",
	"torch._utils._rebuild_parameter_with_state",
	"torch._utils._rebuild_qtensor",
	"torch._utils._rebuild_sparse_tensor",
	"torch._utils._rebuild_tensor",
	"torch._utils._rebuild_tensor_v2",
	"torch._utils._rebuild_tensor_v3",
	"torch._utils._rebuild_wrapper_subclass",
	"torch.device",
	"torch.nn.parameter.Parameter",
	"torch.per_channel_affine",
	"torch.per_channel_affine_float_qparams",
	"torch.per_channel_symmetric",
	"torch.per_tensor_affine",
	"torch.per_tensor_symmetric",
	"torch.serialization._get_layout",
	"torch.storage.TypedStorage",
	"torch.storage.UntypedStorage",
};

struct slot {
	const struct sf_pv *v;
	bool open; /* its parts are being looked at, and it is made of them */
};
struct look {
	struct sf_arena *arena;
	struct slot *seen; /* shared values looked at: open addressing by address */
	size_t n, cap;
	const char *found;
};

/* Words, and a name "a.b". */
static const char *say(struct look *l, const char *words, const char *a, const char *b)
{
	char text[512];
	int n = snprintf(text, sizeof(text), "%s%s%s%s", words, a, b ? "." : "", b ? b : "");
	size_t len = SF_MIN((size_t)n, sizeof(text) - 1);
	const char *copy = sf_arena_strdup(l->arena, text, len);

	return copy ? copy : "(out of memory)";
}

/* torch.FloatStorage, torch.cuda.sparse.FloatTensor, torch.int4 … */
static bool allowed_by_form(const char *module, const char *name)
{
	size_t len = strlen(name), kind = 0;
	bool cuda = strcmp(module, "torch.cuda") == 0, sparse = false;

	if (strcmp(module, "torch.sparse") == 0 || strcmp(module, "torch.cuda.sparse") == 0)
		sparse = true;
	else if (strcmp(module, "torch") != 0 && !cuda)
		return false;
	if (!cuda && !sparse) {
		const char *digits = strncmp(name, "uint", 4) == 0  ? name + 4
		                     : strncmp(name, "int", 3) == 0 ? name + 3
		                                                    : NULL;
		enum sf_dtype d = sf_dtype_by_torch(name, len);
		if (digits && digits[0] >= '1' && digits[0] <= '7' && !digits[1])
			return true;
		/* by its proper name: "half" is an alias, never pickled; 2.13 does not know
		 * bcomplex32 */
		if (d && d != SF_BCOMPLEX32 && strcmp(sf_dtype_info(d)->torch, name) == 0)
			return true;
	}
	if (len > 7 && strcmp(name + len - 7, "Storage") == 0 && !sparse)
		kind = 7;
	else if (len > 6 && strcmp(name + len - 6, "Tensor") == 0)
		kind = 6;
	if (!kind)
		return false;
	char storage[32]; /* XTensor exists where XStorage does, but for complex and quantized;
	                     sparse has no bool */
	enum sf_dtype d;
	if (len - kind > 20)
		return false;
	snprintf(storage, sizeof(storage), "%.*sStorage", (int)(len - kind), name);
	d = sf_dtype_by_storage(storage, strlen(storage));
	if (!d || (cuda && d >= SF_QINT8))
		return false;
	if (kind == 6 &&
	    (d >= SF_QINT8 || sf_dtype_info(d)->is_complex || (sparse && d == SF_BOOL)))
		return false;
	return true;
}

/* NULL, or the name that is refused. Python 2's names are mapped as the unpickler does before it
 * looks. */
static const char *refused_global(struct look *l, const struct sf_pv *g)
{
	const char *module = g->global.module->str.at, *name = g->global.name->str.at;
	char full[256];

	if (strcmp(module, "__builtin__") == 0)
		module = "builtins";
	snprintf(full, sizeof(full), "%s.%s", module, name);
	for (size_t i = 0; i < SF_ARRAY_LEN(allowed); i++)
		if (strcmp(allowed[i], full) == 0)
			return NULL;
	return allowed_by_form(module, name) ? NULL : say(l, "", module, name);
}

static struct slot *slot_of(const struct look *l, const struct sf_pv *v)
{
	size_t i = (size_t)sf_hash(&v, sizeof(v)) & (l->cap - 1);

	while (l->seen[i].v && l->seen[i].v != v)
		i = (i + 1) & (l->cap - 1);
	return &l->seen[i];
}

static bool grow(struct look *l)
{
	struct slot *old = l->seen;
	size_t was = l->cap;

	l->cap = was ? was * 2 : 256;
	l->seen = calloc(l->cap, sizeof(*l->seen));
	if (!l->seen) {
		l->seen = old;
		l->cap = was;
		l->found = "(out of memory)";
		return false;
	}
	for (size_t k = 0; k < was; k++)
		if (old[k].v)
			*slot_of(l, old[k].v) = old[k];
	free(old);
	return true;
}

/* True the first time. Only shared values are asked about: others have one place. */
static bool first_look(struct look *l, const struct sf_pv *v)
{
	struct slot *s;

	if (l->n >= l->cap / 2 && !grow(l))
		return false;
	s = slot_of(l, v);
	if (s->v &&
	    s->open) /* the writer has to POP what it began, an opcode that is not known there */
		l->found = "a value that is made of itself";
	if (s->v)
		return false;
	*s = (struct slot){ v, v->kind != SF_PV_LIST && v->kind != SF_PV_DICT };
	l->n++;
	return true;
}

/* From here on @v has its memo entry in what is written. */
static void made(struct look *l, const struct sf_pv *v)
{
	if (v->shared && v->kind >= SF_PV_TUPLE && !l->found)
		slot_of(l, v)->open = false;
}

static void look(struct look *l, const struct sf_pv *v, unsigned depth);

static void look_seq(struct look *l, const struct sf_pv *v, unsigned depth)
{
	for (size_t i = 0; v && i < v->seq.n && !l->found; i++)
		look(l, v->seq.at[i], depth + 1);
}

static void look_call(struct look *l, const struct sf_pv *v, unsigned depth)
{
	const struct sf_pv *c = v->call.callable;
	bool dict = sf_pv_is_global(c, "collections", "OrderedDict") ||
	            sf_pv_is_global(c, "collections", "Counter");

	look(l, c, depth + 1);
	if (l->found)
		return;
	if (c->kind != SF_PV_GLOBAL)
		l->found = "(a call of no global)";
	else if (v->call.kwargs)
		l->found = "copyreg.__newobj_ex__";
	else if (v->call.appends || (v->call.items && !dict))
		l->found = say(l, "items of ", c->global.module->str.at, c->global.name->str.at);
	else if (v->call.state && !dict && strncmp(c->global.name->str.at, "_rebuild_", 9) != 0 &&
	         !sf_pv_is_str(c->global.name, "Parameter") &&
	         !sf_pv_is_str(c->global.name, "Tensor"))
		l->found = say(l, "a state for ", c->global.module->str.at, c->global.name->str.at);
	if (l->found)
		return;
	look_seq(l, v->call.args, depth + 1);
	made(l, v);
	look_seq(l, v->call.items, depth + 1);
	if (v->call.state && !l->found)
		look(l, v->call.state, depth + 1);
}

static void look(struct look *l, const struct sf_pv *v, unsigned depth)
{
	char text[32];

	if (l->found || (v->shared && v->kind >= SF_PV_TUPLE && !first_look(l, v)))
		return;
	if (depth > DEPTH_MAX) {
		l->found = "(nested too deep)";
		return;
	}
	switch (v->kind) {
	case SF_PV_LONG:
		if (v->str.len > UINT8_MAX) {
			snprintf(text, sizeof(text), "%zu bytes", v->str.len);
			l->found = say(l, "an integer of ", text, NULL);
		}
		break;
	case SF_PV_FROZENSET:
		l->found = "builtins.frozenset";
		break;
	case SF_PV_TUPLE:
	case SF_PV_LIST:
	case SF_PV_DICT:
	case SF_PV_SET:
		look_seq(l, v, depth);
		break;
	case SF_PV_GLOBAL:
		l->found = refused_global(l, v);
		break;
	case SF_PV_CALL:
	case SF_PV_OBJECT:
		look_call(l, v, depth);
		break;
	case SF_PV_PERSID:
		if (v->persid->kind != SF_PV_TUPLE || !v->persid->seq.n ||
		    !sf_pv_is_str(v->persid->seq.at[0], "storage"))
			l->found = "a persistent id that is not a storage";
		else
			look_seq(l, v->persid, depth);
		break;
	default:
		break;
	}
	made(l, v);
}

const char *sf_pv_weights_only(const struct sf_pv *v, struct sf_arena *arena)
{
	struct look l = { .arena = arena };

	look(&l, v, 0);
	free(l.seen);
	return l.found;
}
