#include "config.h"

#include <inttypes.h>

#include "base/path.h"
#include "catalog/catalog_slice.h"
#include "catalog/view_wanted.h"
#include "view/slices_text.h"

#define NAMES_SHOWN 10

static const struct sf_entry *entry_at(const struct sf_catalog *c, uint32_t i)
{
	return &c->entry[c->by_group[c->slices->group.first + i]];
}

/* The first names of those that @why says, a line each. */
static void put_names(struct sf_buf *out, const struct sf_catalog *c, enum sf_slice_why why,
                      const char *indent)
{
	const struct sf_slices *s = c->slices;
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->group.n && n < NAMES_SHOWN; i++)
		if (s->cut[i].why == why) {
			const struct sf_entry *e = entry_at(c, i);
			sf_buf_printf(out, "%s    ", indent);
			sf_escape_text(out, e->name, e->len);
			sf_buf_byte(out, '\n');
			n++;
		}
	if (s->nwhy[why] > n)
		sf_buf_printf(out, "%s    and %" PRIu32 " more: \"slices\" of info.json\n", indent,
		              s->nwhy[why] - n);
}

void sf_slices_text(struct sf_buf *out, const struct sf_catalog *c, const char *indent)
{
	const struct sf_slices *s = c->slices;

	if (!s || !sf_view_wanted(c->opt, "slices"))
		return;
	sf_buf_printf(out,
	              "%ssafetensors.torch.load_file(\"MNT/slices/tp%" PRIu32
	              "/rank0/model.safetensors\")\n"
	              "%s# cut along the dimension that they were saved along: %" PRIu32
	              ", as a rule says: %" PRIu32 "\n",
	              indent, s->ranks, indent, s->nwhy[SF_SLICE_SAVED], s->nwhy[SF_SLICE_RULED]);
	if (s->nwhy[SF_SLICE_COPY]) {
		sf_buf_printf(out, "%s# whole in every rank, as a rule says: %" PRIu32 "\n", indent,
		              s->nwhy[SF_SLICE_COPY]);
		put_names(out, c, SF_SLICE_COPY, indent);
	}
	if (s->nwhy[SF_SLICE_UNKNOWN]) {
		sf_buf_printf(out,
		              "%s# whole in every rank, for they were not saved along one "
		              "dimension and no "
		              "rule knows them (--join-rules FILE): %" PRIu32 "\n",
		              indent, s->nwhy[SF_SLICE_UNKNOWN]);
		put_names(out, c, SF_SLICE_UNKNOWN, indent);
	}
	if (s->nmaybe_gated)
		sf_buf_printf(out,
		              "%s# linear_fc1 that are cut as plain rows: %" PRIu32
		              ". Of gated MLPs rank 0 has "
		              "gates alone then, unless a rule says \"*linear_fc1.weight gated\"\n",
		              indent, s->nmaybe_gated);
}

void sf_slices_json(struct sf_buf *out, const struct sf_catalog *c)
{
	const struct sf_slices *s = c->slices;
	const char *sep = "";

	sf_buf_printf(out, "{\"tp\": %" PRIu32 ", \"cut\": %" PRIu32 ", \"replicated\": [",
	              s->ranks, s->nwhy[SF_SLICE_SAVED] + s->nwhy[SF_SLICE_RULED]);
	for (uint32_t i = 0; i < s->group.n; i++)
		if (s->cut[i].why == SF_SLICE_COPY || s->cut[i].why == SF_SLICE_UNKNOWN) {
			const struct sf_entry *e = entry_at(c, i);
			sf_buf_str(out, sep);
			sf_escape_json(out, e->name, e->len);
			sep = ", ";
		}
	sf_buf_str(out, "]}");
}
