#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "cli/put_damage.h"
#include "cli/info.h"
#include "cli/table.h"
#include "cli/text.h"
#include "view/advice.h"
#include "view/facts.h"

enum { LINES = 10, DTYPES_SHOWN = 6 };

static void put_escaped(struct sf_buf *out, const char *head, const char *text)
{
	sf_buf_str(out, head);
	sf_escape_text(out, text, strlen(text));
}

/* "bfloat16 62.1 %, float32 37.9 %"; of one dtype its name alone. */
static void put_dtypes(struct sf_buf *out, const struct sf_group_facts *g)
{
	enum sf_dtype dtype[SF_NDTYPES];
	unsigned n = sf_facts_dtypes(g, dtype);

	for (unsigned i = 0; i < n && i < DTYPES_SHOWN; i++) {
		double share = 100.0 * (double)g->dtype_bytes[dtype[i]] / (double)g->bytes;
		sf_buf_printf(out, "%s%s", i ? ", " : "", sf_dtype_info(dtype[i])->torch);
		if (n == 1)
			break;
		if (share < 0.05)
			sf_buf_str(out, " < 0.1 %");
		else if (share >= 99.95)
			sf_buf_str(out, " > 99.9 %");
		else
			sf_buf_printf(out, " %.1f %%", share);
	}
	if (n > DTYPES_SHOWN)
		sf_buf_printf(out, " and %u more", n - DTYPES_SHOWN);
}

static void put_layers(struct sf_buf *out, const struct sf_catalog *c, const struct sf_facts *f)
{
	if (!f->nlayers)
		return;
	sf_buf_str(out, "layers      ");
	for (uint32_t i = 0; i < f->nlayers; i++) {
		const struct sf_layers *l = &f->layers[i];
		sf_buf_printf(out, "%s%" PRIu32 " in ", i ? ", " : "", l->n);
		sf_escape_text(out, c->entry[l->entry].name, l->len);
	}
	sf_buf_byte(out, '\n');
}

static void put_facts(struct sf_buf *out, const struct sf_session *s, const struct sf_facts *f)
{
	const struct sf_ckpt *k = s->ckpt;
	uint64_t stored = 0;
	char a[32], when[40];

	for (uint32_t i = 0; i < k->nfiles; i++)
		if (!k->file[i].missing && !sf_add(stored, k->file[i].info.size, &stored))
			stored = UINT64_MAX;
	put_escaped(out, "source      ", k->source);
	put_escaped(out, "\nformat      ", k->format);
	if (k->writer)
		put_escaped(out, ", written by ", k->writer);
	if (k->mtime_ns) /* a server may not tell */
		sf_buf_printf(out, "\ncommitted   %s", sf_time_text(k->mtime_ns, when));
	sf_buf_byte(out, '\n');
	if (k->step >= 0)
		sf_buf_printf(out, "step        %" PRId64 "\n", k->step);
	if (k->ranks)
		sf_buf_printf(out, "ranks       %" PRIu32 "\n", k->ranks);
	if (f->all.ntensors)
		sf_buf_printf(out, "parameters  %s%s\n", sf_human_count(f->parameters, a),
		              s->catalog->model_group < 0 ? " in all tensors" : "");
	put_layers(out, s->catalog, f);
	sf_buf_printf(out, "tensors     %" PRIu32 ", %s\n", f->all.ntensors,
	              sf_human_size(f->all.bytes, a));
	if (f->all.ntensors && f->all.bytes) {
		sf_buf_str(out, "dtypes      ");
		put_dtypes(out, &f->all);
		sf_buf_byte(out, '\n');
	}
	sf_buf_printf(out, "objects     %" PRIu32 "\n", f->all.nobjects);
	sf_buf_printf(out, "files       %" PRIu32 ", %s\n", k->nfiles, sf_human_size(stored, a));
	if (k->content_metadata) {
		put_escaped(out, "content     ", k->content_metadata);
		sf_buf_byte(out, '\n');
	}
}

static void put_groups(struct sf_buf *out, const struct sf_catalog *c, const struct sf_facts *f)
{
	struct sf_table t = { .align = "llrrrl" };
	char size[32];

	if (!c->ngroups)
		return;
	for (size_t i = 0; i < 6; i++)
		sf_table_cell(&t, "%s",
		              (const char *const[]){ "name", "role", "tensors", "objects", "size",
		                                     "dtypes" }[i]);
	for (uint32_t g = 0; g < c->ngroups; g++) {
		const struct sf_group *of = c->group[g].of;
		struct sf_buf dtypes = { 0 };
		if (of->len)
			sf_table_name(&t, of->name, of->len);
		else
			sf_table_cell(&t, "(unnamed)");
		sf_table_cell(&t, "%s", sf_role_names[of->role]);
		sf_table_cell(&t, "%" PRIu32, f->group[g].ntensors);
		sf_table_cell(&t, "%" PRIu32, f->group[g].nobjects);
		sf_table_cell(&t, "%s", sf_human_size(f->group[g].bytes, size));
		put_dtypes(&dtypes, &f->group[g]);
		sf_table_cell(&t, "%s", sf_buf_cstr(&dtypes));
		sf_buf_release(&dtypes);
	}
	sf_buf_str(out, "groups\n");
	sf_table_put(out, &t, "  ");
	sf_table_release(&t);
}

static void put_largest(struct sf_buf *out, const struct sf_catalog *c, const struct sf_facts *f)
{
	struct sf_table t = { .align = "llrl" };
	char size[32];

	if (f->nlargest < 2)
		return;
	for (uint32_t i = 0; i < f->nlargest; i++) {
		const struct sf_entry *e = &c->entry[f->largest[i]];
		const struct sf_tensor *tensor = &c->ckpt->tensor[e->tensor];
		struct sf_buf shape = { 0 };
		sf_table_cell(&t, "%s", sf_dtype_info(tensor->dtype)->torch);
		sf_shape_text(&shape, tensor->shape, tensor->ndim);
		sf_table_cell(&t, "%s", sf_buf_cstr(&shape));
		sf_buf_release(&shape);
		sf_table_cell(&t, "%s", sf_human_size(tensor->bytes, size));
		sf_table_name(&t, e->name, e->len);
	}
	sf_buf_printf(out, "largest tensors%s\n", c->model_group < 0 ? "" : " of the model");
	sf_table_put(out, &t, "  ");
	sf_table_release(&t);
}

/* What is worth knowing of something that is whole. */
static void put_notes(struct sf_buf *out, const struct sf_ckpt *k)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < k->nwarnings; i++) {
		const struct sf_warning *w = &k->warning[i];
		if (!sf_warning_is_note(w->code) || n++ >= LINES)
			continue;
		sf_buf_str(out, n == 1 ? "notes\n  " : "  ");
		if (w->key != SF_NONE) {
			sf_escape_text(out, k->key[w->key].name, k->key[w->key].len);
			sf_buf_str(out, ": ");
		}
		put_escaped(out, "", w->text);
		sf_buf_byte(out, '\n');
	}
	if (n > LINES)
		sf_buf_printf(out, "  %u more (shardfuse info --json lists all)\n", n - LINES);
}

/* A line per file and cause, ten at most. */
static int put_damage(struct sf_buf *out, const struct sf_catalog *c)
{
	struct sf_damage_list l;
	int r = sf_damage_fold(c, &l);

	if (l.n) {
		sf_buf_str(out, "warnings\n");
		sf_damage_lines(out, c, &l, "  ", LINES);
	}
	sf_damage_release(&l);
	return r;
}

static int put_views(struct sf_buf *out, const struct sf_session *s, struct sf_error *err)
{
	struct sf_advice a;
	int r = sf_advice_init(&a, s->catalog, s->reader, err);

	sf_buf_str(out, "views (MNT is the mountpoint):\n");
	for (int part = SF_ADVICE_WHOLE; part <= SF_ADVICE_TENSOR && r >= 0; part++)
		sf_advice_put(out, &a, (enum sf_advice_part)part, "  ");
	if (r >= 0)
		sf_advice_put_refused(out, &a, "  ");
	sf_advice_release(&a);
	return r;
}

int sf_info_whole(struct sf_session *s, struct sf_error *err)
{
	SF_CLEANUP(sf_buf_release) struct sf_buf out = { 0 };
	struct sf_facts f;
	int r = sf_facts_init(&f, s->catalog);

	if (r >= 0) {
		put_facts(&out, s, &f);
		put_groups(&out, s->catalog, &f);
		put_largest(&out, s->catalog, &f);
		r = put_damage(&out, s->catalog);
		put_notes(&out, s->ckpt);
	}
	sf_facts_release(&f);
	if (r < 0)
		return sf_fail(err, r, "%" PRIu32 " keys", s->catalog->n);
	r = put_views(&out, s, err);
	if (r >= 0 && (r = sf_buf_check(&out)) < 0)
		sf_fail(err, r, "'%s'", s->ckpt->source);
	if (r >= 0)
		fwrite(out.at, 1, out.len, stdout);
	return r;
}
