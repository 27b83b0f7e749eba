#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "base/quote.h"
#include "catalog/entry_name.h"
#include "catalog/view_wanted.h"
#include "parse/pickle_write.h"
#include "value/object.h"
#include "view/advice.h"
#include "view/slices_text.h"
#include "view/view.h"

struct look {
	struct sf_advice *a;
	uint32_t *entry_of; /* object -> entry */
};

static int look(void *arg, uint32_t object, struct sf_object_value *v, struct sf_error *err)
{
	const struct look *l = arg;
	uint32_t entry = l->entry_of[object];
	struct sf_refusal *f = &l->a->group[l->a->c->entry[entry].group];
	const char *what;

	(void)err;
	if (f->entry != SF_NONE && !f->torchao)
		return 0;
	what = sf_pv_weights_only(v->root, &v->arena);
	if (!what && v->raw) /* .pt shows it as that */
		what = "_io.BytesIO";
	if (!what)
		return 0;
	bool torchao = l->a->c->ckpt->object[object].subclass && strncmp(what, "torchao.", 8) == 0;
	if (f->entry == SF_NONE || !torchao) {
		f->entry = entry;
		f->torchao = torchao;
		snprintf(f->what, sizeof(f->what), "%s", what);
	}
	return 0;
}

static void left_out(void *arg, uint32_t object, int code, const struct sf_error *why)
{
	(void)arg, (void)object, (void)code, (void)why;
}

int sf_advice_init(struct sf_advice *a, const struct sf_catalog *c, struct sf_reader *r,
                   struct sf_error *err)
{
	SF_FREE uint32_t *objects = sf_alloc_array(c->nobjects, sizeof(*objects));
	SF_FREE uint32_t *entry_of = sf_alloc_array(c->ckpt->nobjects, sizeof(*entry_of));
	struct look l = { .a = a, .entry_of = entry_of };
	struct sf_error why = SF_ERROR_INIT;
	uint32_t n = 0;

	*a = (struct sf_advice){ .c = c, .group = calloc(c->ngroups + 1, sizeof(*a->group)) };
	if (!objects || !entry_of || !a->group)
		return sf_fail(err, -ENOMEM, "%" PRIu32 " objects", c->nobjects);
	for (uint32_t g = 0; g < c->ngroups; g++)
		a->group[g].entry = SF_NONE;
	if (c->opt->objects != SF_OBJECTS_KEEP ||
	    (!sf_view_wanted(c->opt, "checkpoint") && !sf_view_wanted(c->opt, "groups")))
		return 0;
	for (uint32_t i = 0; i < c->n; i++)
		if (c->entry[i].object != SF_NONE) {
			entry_of[c->entry[i].object] = i;
			objects[n++] = c->entry[i].object;
		}
	if (n)
		a->failed =
			SF_MIN(sf_objects_load_whole(r, objects, n, look, left_out, &l, &why), 0);
	if (a->failed < 0)
		snprintf(a->unknown, sizeof(a->unknown), "%.250s",
		         *why.msg ? why.msg : "no reason given");
	return 0;
}

void sf_advice_release(struct sf_advice *a)
{
	free(a->group);
	a->group = NULL;
}

/* An entry whose name is easy to read, a matrix that .npy can hold if there is one near the front;
 * SF_NONE: no tensor that .npy can hold. */
static uint32_t example(const struct sf_catalog *c)
{
	uint32_t best = SF_NONE;
	int most = -1;

	for (uint32_t i = 0; i < c->n && i < 10000 && most < 3; i++) {
		const struct sf_entry *e = &c->entry[i];
		if (e->tensor == SF_NONE || sf_view_npy_refuses(c, i))
			continue;
		int good = c->ckpt->tensor[e->tensor].ndim == 2;
		if (e->len && strspn(e->name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
		                              "0123456789._") == e->len)
			good += 2;
		if (good > most) {
			most = good;
			best = i;
		}
	}
	return best;
}

static bool has_tensors(const struct sf_catalog *c, const struct sf_cat_group *g)
{
	for (uint32_t i = 0; i < g->n; i++)
		if (c->entry[c->by_group[g->first + i]].tensor != SF_NONE)
			return true;
	return false;
}

/* "call(" and the path as a literal. */
static void put_call(struct sf_buf *out, const char *call, const char *dir, const char *name,
                     size_t len, const char *suffix)
{
	struct sf_buf path = { 0 };

	sf_buf_printf(&path, "MNT/%s", dir);
	sf_buf_add(&path, name, len);
	sf_buf_str(&path, suffix);
	sf_buf_printf(out, "%s(", call);
	sf_quote_python(out, (const char *)path.at, path.len);
	sf_buf_fail(out, path.failed);
	sf_buf_release(&path);
}

/* A refusal of one group, or of all (SF_NONE); one that no import mends if there is one. */
static const struct sf_refusal *refusal(const struct sf_advice *a, uint32_t group)
{
	const struct sf_refusal *found = NULL;

	for (uint32_t g = 0; g < a->c->ngroups; g++) {
		const struct sf_refusal *f = &a->group[g];
		bool meant = group == SF_NONE ? f->entry < a->c->nmain
		                              : g == group && f->entry != SF_NONE;
		if (meant && (!found || (found->torchao && !f->torchao)))
			found = f;
	}
	return found;
}

static void put_pair(struct sf_buf *out, const struct sf_advice *a, const char *indent,
                     const char *stem, uint32_t group, bool tensors)
{
	const struct sf_refusal *f = refusal(a, group);

	sf_buf_str(out, indent);
	put_call(out, "torch.load", "", stem, strlen(stem), ".pt");
	sf_buf_str(out, ", mmap=True, weights_only=True)");
	if (f) {
		const struct sf_entry *e = &a->c->entry[f->entry];
		sf_buf_printf(out, "   # refused unless -o objects=plain%s: ",
		              f->torchao ? " or after import torchao" : "");
		sf_escape_text(out, e->name, e->len);
		sf_buf_str(out, " is of class ");
		sf_escape_text(out, f->what, strlen(f->what));
	}
	sf_buf_byte(out, '\n');
	if (!tensors)
		return;
	sf_buf_str(out, indent);
	put_call(out, "safetensors.safe_open", "", stem, strlen(stem), ".safetensors");
	sf_buf_str(out, ", \"pt\")\n");
}

static void put_groups(struct sf_buf *out, const struct sf_advice *a, const char *indent)
{
	const struct sf_catalog *c = a->c;

	for (uint32_t g = 0; g < c->ngroups; g++) {
		const char *stem = c->group[g].link ? c->group[g].link : c->group[g].stem;
		if (stem)
			put_pair(out, a, indent, stem, g, has_tensors(c, &c->group[g]));
	}
}

static void put_hf(struct sf_buf *out, const struct sf_advice *a, const char *indent)
{
	const struct sf_catalog *c = a->c;
	struct sf_hf *hf = NULL;
	int r = sf_hf_new(c, &hf, NULL);

	if (r == -ENOMEM)
		sf_buf_fail(out, r);
	if (r < 0) /* there is no hf/ */
		return;
	sf_hf_free(hf);
	sf_buf_printf(out, "%sAutoModelForCausalLM.from_pretrained(\"MNT/hf\")%s\n", indent,
	              c->opt->hf_files_found ? "" : "   # no config.json: add -o hf_files=DIR");
}

static void put_state_path(struct sf_buf *out, const struct sf_entry *e)
{
	sf_buf_str(out, "MNT/state/");
	for (size_t from = 0, i = 0; i <= e->len; i++)
		if (i == e->len || e->name[i] == '.') {
			sf_name_encode(out, e->name + from, i - from, e->name, e->len, 0);
			sf_buf_byte(out, '/');
			from = i + 1;
		}
}

/* One tensor, four ways. */
static void put_tensor(struct sf_buf *out, const struct sf_advice *a, const char *indent)
{
	static const struct {
		const char *view, *call, *suffix, *rest;
	} ways[] = {
		{ "npy", "numpy.load", ".npy", ", mmap_mode=\"r\")" },
		{ "pt", "torch.load", ".pt", ", mmap=True, weights_only=True)" },
		{ "safetensors", "safetensors.safe_open", ".safetensors", ", \"pt\")" },
	};
	uint32_t i = example(a->c);
	struct sf_buf name = { 0 };
	char dir[16];

	if (i == SF_NONE)
		return;
	const struct sf_entry *e = &a->c->entry[i];
	sf_name_encode(&name, e->name, e->len, e->name, e->len, strlen(SF_FLAT_SUFFIX));
	for (size_t k = 0; k < SF_ARRAY_LEN(ways); k++) {
		if (!sf_view_wanted(a->c->opt, ways[k].view) ||
		    (k == 2 && sf_view_safetensors_refuses(a->c, i, true)))
			continue;
		snprintf(dir, sizeof(dir), "%s/", ways[k].view);
		sf_buf_str(out, indent);
		put_call(out, ways[k].call, dir, (const char *)name.at, name.len, ways[k].suffix);
		sf_buf_printf(out, "%s\n", ways[k].rest);
	}
	sf_buf_fail(out, name.failed);
	sf_buf_reset(&name);
	if (sf_view_wanted(a->c->opt, "state")) {
		put_state_path(&name, e);
		sf_buf_printf(out, "%sls ", indent);
		sf_quote_shell(out, (const char *)name.at, name.len);
		sf_buf_byte(out, '\n');
		sf_buf_fail(out, name.failed);
	}
	sf_buf_release(&name);
}

void sf_advice_put(struct sf_buf *out, const struct sf_advice *a, enum sf_advice_part part,
                   const char *indent)
{
	const struct sf_view_options *o = a->c->opt;

	switch (part) {
	case SF_ADVICE_WHOLE:
		if (sf_view_wanted(o, "checkpoint"))
			put_pair(out, a, indent, "checkpoint", SF_NONE, a->c->ntensors > 0);
		break;
	case SF_ADVICE_GROUPS:
		if (sf_view_wanted(o, "groups"))
			put_groups(out, a, indent);
		break;
	case SF_ADVICE_HF:
		if (sf_view_wanted(o, "hf"))
			put_hf(out, a, indent);
		break;
	case SF_ADVICE_SLICES:
		sf_slices_text(out, a->c, indent);
		break;
	case SF_ADVICE_TENSOR:
		put_tensor(out, a, indent);
		break;
	}
}

void sf_advice_put_refused(struct sf_buf *out, const struct sf_advice *a, const char *indent)
{
	if (*a->unknown) {
		sf_buf_printf(out,
		              "%s# it is unknown whether weights_only=True accepts every object: ",
		              indent);
		sf_escape_text(out, a->unknown, strlen(a->unknown));
		sf_buf_byte(out, '\n');
	}
	if (!refusal(a, SF_NONE))
		return;
	sf_buf_printf(out,
	              "%s# -o objects=plain (export: --objects plain) leaves out of .pt what "
	              "weights_only=True "
	              "refuses.\n"
	              "%s# weights_only=False runs what the checkpoint's objects say: only if you "
	              "trust its author.\n",
	              indent, indent);
}
