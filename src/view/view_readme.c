#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "base/quote.h"
#include "catalog/view_wanted.h"
#include "view/advice.h"
#include "view/damage.h"
#include "view/view.h"

#define INDENT "    "
#define DAMAGE_SHOWN 10

/* Its text is made when it is first sized: what weights_only=True refuses stands in the objects. */
struct readme {
	struct sf_vfile f;
	const struct sf_catalog *c;
	struct sf_buf text;
	uint64_t start[2];
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

static bool shows_dtype(const struct sf_catalog *c, enum sf_dtype dtype)
{
	for (uint32_t i = 0; i < c->n; i++)
		if (c->entry[i].tensor != SF_NONE && c->entry[i].dtype == dtype)
			return true;
	return false;
}

static bool shows_pt(const struct sf_view_options *o)
{
	return sf_view_wanted(o, "checkpoint") || sf_view_wanted(o, "groups") ||
	       sf_view_wanted(o, "pt") || sf_view_wanted(o, "state");
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
	sf_buf_printf(&d->text, "\nHolds %" PRIu32 " tensor%s and %" PRIu32 " other value%s.\n\n",
	              c->ntensors, c->ntensors == 1 ? "" : "s", c->nobjects,
	              c->nobjects == 1 ? "" : "s");
	line(d, "Every view below repeats the same bytes: do not `cp -r` this directory.");
	line(d, "MNT stands for this directory.");
	line(d, "");
}

/* A heading and the lines below it, if there are any. */
static void put_section(struct readme *d, const struct sf_advice *a, const char *heading,
                        enum sf_advice_part part)
{
	size_t before = d->text.len, behind;

	line(d, heading);
	behind = d->text.len;
	sf_advice_put(&d->text, a, part, INDENT);
	if (d->text.len == behind)
		d->text.len = before;
	else
		line(d, "");
}

static void put_refused(struct readme *d, const struct sf_advice *a)
{
	size_t before = d->text.len;

	sf_advice_put_refused(&d->text, a, INDENT);
	if (d->text.len > before)
		line(d, "");
}

static void put_about_npy(struct readme *d)
{
	const struct sf_catalog *c = d->c;

	if (sf_view_wanted(c->opt, "npy") && c->opt->npy_bf16 == SF_NPY_VOID &&
	    shows_dtype(c, SF_BFLOAT16)) {
		line(d, ".npy has no bfloat16: these load as two-byte voids. Two lines make them "
		        "float32:");
		line(d, INDENT "a = numpy.load(FILE, mmap_mode=\"r\")");
		line(d, INDENT "a = (a.view(\"<u2\").astype(\"<u4\") << 16).view(\"<f4\")");
		line(d, "(or mount with -o npy_bf16=f4)");
		line(d, "");
	}
	if (sf_view_wanted(c->opt, "state")) {
		line(d, "A directory of state/ has tensor.npy, tensor.safetensors, tensor.pt, "
		        "tensor.raw and");
		line(d, "info.json; a value that is not a tensor has value.json and value.pt.");
	}
	line(d, "Names spell / as %2F and % as %25.");
	line(d, "");
}

static void put_handling(struct readme *d)
{
	const struct sf_ckpt *k = d->c->ckpt;

	line(d, "Real files instead of this mount");
	sf_buf_str(&d->text, INDENT "shardfuse export ");
	if (k->source)
		sf_quote_shell(&d->text, k->source, strlen(k->source));
	line(d, " model.safetensors");
	line(d, "When you no longer need it");
	line(d, INDENT "shardfuse umount MNT");
	line(d, "");
	if (!shows_pt(d->c->opt))
		return;
	line(d, "Zip tools report CRC errors for the .pt files here, torch does not care: a mount "
	        "writes 0 where");
	line(d, "the CRC of a tensor would cost reading it. Exported files have real ones.");
	line(d, "");
}

static int put_damage(struct readme *d)
{
	const struct sf_ckpt *k = d->c->ckpt;
	struct sf_damage_list l;
	int r = sf_damage_fold(d->c, &l);

	if (l.n)
		line(d, "Damage");
	sf_damage_lines(&d->text, d->c, &l, INDENT, DAMAGE_SHOWN);
	for (uint32_t i = 0, n = 0; i < k->nwarnings && n < DAMAGE_SHOWN; i++) {
		const struct sf_warning *w = &k->warning[i];
		if (!sf_warning_is_note(w->code))
			continue;
		if (n++ == 0)
			line(d, "Notes");
		sf_buf_str(&d->text, INDENT);
		put_escaped(d, w->text, strlen(w->text));
		line(d, "");
	}
	if (l.n || k->nwarnings)
		line(d, "");
	sf_damage_release(&l);
	return r;
}

static int prepare(struct sf_vfile *f, struct sf_error *err)
{
	struct readme *d = (struct readme *)f;
	struct sf_advice a;
	int r = sf_advice_init(&a, d->c, f->reader, err);

	/* `info` says that it is not known this time; a file is the same every time */
	if (r >= 0 && a.failed < 0)
		r = sf_fail(err, a.failed, "README: %s", a.unknown);
	sf_buf_reset(&d->text);
	if (r >= 0) {
		put_about(d);
		put_section(d, &a, "Everything in one file", SF_ADVICE_WHOLE);
		put_section(d, &a, "Parts of it", SF_ADVICE_GROUPS);
		put_refused(d, &a);
		put_section(d, &a, "For transformers", SF_ADVICE_HF);
		put_section(d, &a, "For tensor-parallel ranks, a file each", SF_ADVICE_SLICES);
		put_section(d, &a, "One tensor", SF_ADVICE_TENSOR);
		put_about_npy(d);
		put_handling(d);
		r = put_damage(d);
		line(d, "info.json has the facts, tensors.json an entry per tensor with its "
		        "shards.");
		if (sf_view_wanted(d->c->opt, "shards"))
			line(d, "shards/ has the stored files as they are.");
		if (r >= 0)
			r = sf_buf_check(&d->text);
		if (r < 0)
			sf_fail(err, r, "README");
	}
	sf_advice_release(&a);
	if (r < 0)
		return r;
	d->start[1] = d->text.len;
	f->start = d->start;
	f->nrec = 1;
	f->size = d->text.len;
	return 0;
}

static int emit(struct sf_vfile *f, uint32_t rec, uint64_t off, uint64_t len,
                struct sf_parts *parts, struct sf_error *err)
{
	const struct readme *d = (struct readme *)f;
	int r = sf_parts_bytes(parts, d->text.at + off, len);

	(void)rec;
	return r < 0 ? sf_fail(err, r, "README") : 0;
}

static void free_file(struct sf_vfile *f)
{
	sf_buf_release(&((struct readme *)f)->text);
	free(f);
}

int sf_view_readme(const struct sf_catalog *c, struct sf_reader *r, struct sf_vfile **ret,
                   struct sf_error *err)
{
	static const struct sf_vfile_ops ops = { .prepare = prepare,
		                                 .emit = emit,
		                                 .free = free_file };
	struct readme *d = calloc(1, sizeof(*d));

	if (!d)
		return sf_fail(err, -ENOMEM, "README");
	d->c = c;
	sf_vfile_init(&d->f, &ops, r);
	*ret = &d->f;
	return 0;
}
