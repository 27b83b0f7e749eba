#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "base/path.h"
#include "view/entry_name.h"
#include "view/view.h"
#include "view/view_wanted.h"

struct readme {
	const struct sf_catalog *c;
	struct sf_buf text;
};

static void line(struct readme *d, const char *text)
{
	sf_buf_str(&d->text, text);
	sf_buf_byte(&d->text, '\n');
}

static void put_escaped(struct readme *d, const char *s, size_t len)
{
	sf_escape_text(&d->text, s, len);
}

static void put_flat(struct readme *d, const struct sf_entry *e)
{
	struct sf_buf name = { 0 };

	sf_name_encode(&name, e->name, e->len, e->name, e->len, strlen(SF_FLAT_SUFFIX));
	put_escaped(d, sf_buf_cstr(&name), name.len);
	sf_buf_release(&name);
}

static void put_state(struct readme *d, const struct sf_entry *e)
{
	struct sf_buf name = { 0 };

	for (size_t from = 0, i = 0; i <= e->len; i++)
		if (i == e->len || e->name[i] == '.') {
			sf_name_encode(&name, e->name + from, i - from, e->name, e->len, 0);
			sf_buf_byte(&name, '/');
			from = i + 1;
		}
	put_escaped(d, sf_buf_cstr(&name), name.len);
	sf_buf_release(&name);
}

/* The first tensor that .npy can hold, one of two dimensions if there is any near the front;
 * SF_NONE. */
static uint32_t example(const struct sf_catalog *c)
{
	uint32_t any = SF_NONE;

	for (uint32_t i = 0; i < c->n && i < 10000; i++) {
		if (c->entry[i].tensor == SF_NONE || sf_view_npy_refuses(c, i))
			continue;
		if (c->ckpt->tensor[c->entry[i].tensor].ndim == 2)
			return i;
		any = any == SF_NONE ? i : any;
	}
	return any;
}

static bool shows_dtype(const struct sf_catalog *c, enum sf_dtype dtype)
{
	for (uint32_t i = 0; i < c->n; i++)
		if (c->entry[i].tensor != SF_NONE && c->entry[i].dtype == dtype)
			return true;
	return false;
}

static void put_about(struct readme *d)
{
	const struct sf_catalog *c = d->c;
	const struct sf_ckpt *k = c->ckpt;

	sf_buf_printf(&d->text, "A %s checkpoint", k->format);
	if (k->step >= 0)
		sf_buf_printf(&d->text, " of step %" PRId64, k->step);
	sf_buf_str(&d->text, ", shown as ordinary files by shardfuse. Read-only.\nSource: ");
	put_escaped(d, k->source ? k->source : "", k->source ? strlen(k->source) : 0);
	sf_buf_printf(&d->text, "\nHolds %" PRIu32 " tensors and %" PRIu32 " other values.\n\n",
	              c->ntensors, c->nobjects);
	line(d, "Every view below repeats the same bytes: do not `cp -r` this directory.");
	line(d, "MNT stands for this directory.");
	line(d, "");
}

static void put_pt(struct readme *d, const char *stem)
{
	sf_buf_printf(&d->text, "    torch.load(\"MNT/%s.pt\", mmap=True)\n", stem);
}

static void put_st(struct readme *d, const char *stem)
{
	sf_buf_printf(&d->text, "    safetensors.safe_open(\"MNT/%s.safetensors\", \"pt\")\n",
	              stem);
}

static void put_whole(struct readme *d)
{
	const struct sf_catalog *c = d->c;

	line(d, "Everything in one file");
	put_pt(d, "checkpoint");
	if (c->ntensors)
		put_st(d, "checkpoint");
	line(d, "    (where torch refuses a class, `shardfuse info` names the key; then add "
	        "weights_only=False)");
	line(d, "");
}

static bool has_tensors(const struct sf_catalog *c, const struct sf_cat_group *g)
{
	for (uint32_t i = 0; i < g->n; i++)
		if (c->entry[c->by_group[g->first + i]].tensor != SF_NONE)
			return true;
	return false;
}

static void put_groups(struct readme *d)
{
	const struct sf_catalog *c = d->c;
	bool any = false;

	for (uint32_t g = 0; g < c->ngroups; g++) {
		const char *file = c->group[g].link ? c->group[g].link : c->group[g].stem;
		if (!file)
			continue;
		if (!any)
			line(d, "Parts of it");
		any = true;
		struct sf_buf stem = { 0 };
		sf_escape_text(&stem, file, strlen(file));
		put_pt(d, sf_buf_cstr(&stem));
		if (has_tensors(c, &c->group[g]))
			put_st(d, sf_buf_cstr(&stem));
		sf_buf_release(&stem);
	}
	if (any)
		line(d, "");
}

static void put_hf(struct readme *d)
{
	const struct sf_catalog *c = d->c;
	const struct sf_view_options *o = c->opt;

	if (!o->hf_group && (c->model_group < 0 || !has_tensors(c, &c->group[c->model_group])))
		return; /* there is no hf/ */
	line(d, "For transformers");
	line(d, "    AutoModelForCausalLM.from_pretrained(\"MNT/hf\", torch_dtype=\"auto\")");
	if (!o->hf_files_found)
		line(d, "    no config.json: add -o hf_files=DIR");
	line(d, "");
}

static void put_keys(struct readme *d)
{
	const struct sf_catalog *c = d->c;
	uint32_t i = example(c);

	if (i == SF_NONE)
		return;
	const struct sf_entry *e = &c->entry[i];
	line(d, "One tensor");
	if (sf_view_wanted(c->opt, "npy")) {
		sf_buf_str(&d->text, "    numpy.load(\"MNT/npy/");
		put_flat(d, e);
		line(d, ".npy\", mmap_mode=\"r\")");
	}
	if (sf_view_wanted(c->opt, "pt")) {
		sf_buf_str(&d->text, "    torch.load(\"MNT/pt/");
		put_flat(d, e);
		line(d, ".pt\", mmap=True)");
	}
	if (sf_view_wanted(c->opt, "safetensors") && !sf_view_safetensors_refuses(c, i, true)) {
		sf_buf_str(&d->text, "    safetensors.safe_open(\"MNT/safetensors/");
		put_flat(d, e);
		line(d, ".safetensors\", \"pt\")");
	}
	if (sf_view_wanted(c->opt, "state")) {
		sf_buf_str(&d->text, "    ls MNT/state/");
		put_state(d, e);
		line(d, "");
	}
	if (sf_view_wanted(c->opt, "npy") && c->opt->npy_bf16 == SF_NPY_VOID &&
	    shows_dtype(c, SF_BFLOAT16)) {
		line(d, "    .npy has no bfloat16: these load as two-byte voids. Two lines make "
		        "them float32:");
		line(d, "        a = numpy.load(FILE, mmap_mode=\"r\")");
		line(d, "        a = (a.view(\"<u2\").astype(\"<u4\") << 16).view(\"<f4\")");
		line(d, "    (or mount with -o npy_bf16=f4)");
	}
	if (sf_view_wanted(c->opt, "state")) {
		line(d, "    A directory of state/ has tensor.npy, tensor.safetensors, tensor.pt, "
		        "tensor.raw");
		line(d,
		     "    and info.json; a value that is no tensor has value.json and value.pt.");
	}
	line(d, "    Names spell / as %2F and % as %25.");
	line(d, "");
}

#define WARNINGS_SHOWN 20

static void put_warnings(struct readme *d)
{
	const struct sf_ckpt *k = d->c->ckpt;

	if (!k->nwarnings)
		return;
	sf_buf_printf(&d->text, "Warnings (%" PRIu32 "; all of them are in info.json)\n",
	              k->nwarnings);
	for (uint32_t i = 0; i < k->nwarnings && i < WARNINGS_SHOWN; i++) {
		sf_buf_printf(&d->text, "    %s: ", k->warning[i].code);
		put_escaped(d, k->warning[i].text, strlen(k->warning[i].text));
		line(d, "");
	}
	line(d, "");
}

int sf_view_readme(const struct sf_catalog *c, struct sf_reader *r, struct sf_vfile **ret,
                   struct sf_error *err)
{
	struct readme d = { .c = c };
	int res;

	put_about(&d);
	if (sf_view_wanted(c->opt, "checkpoint"))
		put_whole(&d);
	if (sf_view_wanted(c->opt, "groups"))
		put_groups(&d);
	if (sf_view_wanted(c->opt, "hf"))
		put_hf(&d);
	put_keys(&d);
	put_warnings(&d);
	line(&d, "info.json has the facts, tensors.json an entry per tensor with its shards.");
	if (sf_view_wanted(c->opt, "shards"))
		line(&d, "shards/ has the stored files as they are.");
	res = sf_buf_check(&d.text);
	if (res >= 0)
		res = sf_view_bytes(r, d.text.at, d.text.len, ret, err);
	else
		sf_fail(err, res, "README");
	sf_buf_release(&d.text);
	return res;
}
