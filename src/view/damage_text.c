#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "view/damage.h"

/* "361,618,391" */
static void put_number(struct sf_buf *out, uint64_t v)
{
	char digits[24];
	int n = snprintf(digits, sizeof(digits), "%" PRIu64, v);

	for (int i = 0; i < n; i++) {
		if (i && (n - i) % 3 == 0)
			sf_buf_byte(out, ',');
		sf_buf_byte(out, (uint8_t)digits[i]);
	}
}

static void put_count(struct sf_buf *out, uint32_t n, const char *what, const char *state)
{
	put_number(out, n);
	sf_buf_printf(out, " %s%s%s", what, n == 1 ? "" : "s", state);
}

/* ", all in optimizer", ", in model and optimizer", ", in model, optimizer, ema and others" */
static void put_groups(struct sf_buf *out, const struct sf_catalog *c, uint64_t groups)
{
	enum { NAMED = 3 };
	unsigned n = (unsigned)__builtin_popcountll(groups), shown = 0;

	if (!n || c->ngroups < 2)
		return;
	sf_buf_str(out, n == 1 ? ", all in " : ", in ");
	for (uint32_t g = 0; g < SF_MIN(c->ngroups, SF_DAMAGE_GROUPS - 1u) && shown < NAMED; g++) {
		const struct sf_group *of = c->group[g].of;
		if (!(groups >> g & 1))
			continue;
		sf_buf_str(out, !shown ? "" : shown + 1 == n ? " and " : ", ");
		if (of->len)
			sf_buf_add(out, of->name, of->len);
		else
			sf_buf_str(out, "the unnamed group");
		shown++;
	}
	if (shown < n)
		sf_buf_str(out, shown ? " and others" : "other groups");
}

static void put_keys(struct sf_buf *out, const struct sf_catalog *c, const struct sf_damage *d,
                     bool partly)
{
	if (d->ntensors)
		put_count(out, d->ntensors, "tensor", partly ? " incomplete" : "");
	if (d->nobjects) {
		sf_buf_str(out, d->ntensors ? ", " : "");
		put_count(out, d->nobjects, "object", partly ? " unreadable" : "");
	}
	if (!d->ntensors && !d->nobjects && partly)
		sf_buf_str(out, "no key shown here is in it");
	put_groups(out, c, d->groups);
}

void sf_damage_text(struct sf_buf *out, const struct sf_catalog *c, const struct sf_damage *d)
{
	uint32_t n = d->ntensors + d->nobjects;

	if (d->file) {
		sf_buf_add(out, d->file->name, d->file->name_len);
		sf_buf_str(out, ": ");
		if (d->file->missing) {
			sf_buf_str(out, d->file->odd ? "not a regular file" : "missing");
		} else if (d->need) {
			put_number(out, d->file->info.size);
			sf_buf_str(out, " of ");
			put_number(out, d->need);
			sf_buf_str(out, " bytes");
		} else {
			sf_buf_str(out,
			           strcmp(d->code, "outside-member") == 0
			                   ? "items that pass the end of their member or stream"
			                   : "items shorter than their tensors need");
		}
		sf_buf_str(out, "; ");
		put_keys(out, c, d, true);
		return;
	}
	sf_buf_printf(out, "%s: ", d->code);
	if (!d->text) {
		sf_buf_str(out, "metadata names no stored item; ");
		put_keys(out, c, d, true);
	} else if (n + d->nothers > 1) {
		if (d->nothers)
			put_count(out, d->nothers, "warning", n ? ", " : "");
		put_keys(out, c, d, false);
		sf_buf_str(out, "; first ");
	}
	if (d->text && d->entry != SF_NONE) {
		sf_buf_add(out, c->entry[d->entry].name, c->entry[d->entry].len);
		sf_buf_str(out, ": ");
	}
	sf_buf_str(out, d->text ? d->text : "");
}

void sf_damage_lines(struct sf_buf *out, const struct sf_catalog *c, const struct sf_damage_list *l,
                     const char *indent, uint32_t max)
{
	uint32_t n = l->n <= max ? l->n : max - 1;

	for (uint32_t i = 0; i < n; i++) {
		struct sf_buf text = { 0 };
		sf_damage_text(&text, c, &l->at[i]);
		sf_buf_str(out, indent);
		if (sf_buf_check(&text) < 0)
			sf_buf_fail(out, sf_buf_check(&text));
		else
			sf_escape_text(out, (const char *)text.at, text.len);
		sf_buf_byte(out, '\n');
		sf_buf_release(&text);
	}
	if (n < l->n)
		sf_buf_printf(out, "%s%" PRIu32 " more of this kind (shardfuse verify lists all)\n",
		              indent, l->n - n);
}

void sf_damage_json(struct sf_buf *out, const struct sf_catalog *c, const struct sf_damage *d)
{
	struct sf_buf text = { 0 };
	const char *sep = "";

	sf_buf_printf(out, "{\"code\": \"%s\", \"file\": ", d->code);
	if (d->file)
		sf_escape_json(out, d->file->name, d->file->name_len);
	else
		sf_buf_str(out, "null");
	if (d->file && !d->file->missing)
		sf_buf_printf(out, ", \"size\": %" PRIu64, d->file->info.size);
	if (d->need)
		sf_buf_printf(out, ", \"needed\": %" PRIu64, d->need);
	sf_buf_printf(out, ", \"tensors\": %" PRIu32 ", \"objects\": %" PRIu32 ", \"groups\": [",
	              d->ntensors, d->nobjects);
	for (uint32_t g = 0; g < SF_MIN(c->ngroups, SF_DAMAGE_GROUPS - 1u); g++)
		if (d->groups >> g & 1) {
			sf_buf_str(out, sep);
			sf_escape_json(out, c->group[g].of->name, c->group[g].of->len);
			sep = ", ";
		}
	sf_buf_str(out, "], \"text\": ");
	sf_damage_text(&text, c, d);
	sf_escape_json(out, text.len ? (const char *)text.at : "", text.len);
	if (sf_buf_check(&text) < 0) /* what there is of it is not the text */
		sf_buf_fail(out, sf_buf_check(&text));
	sf_buf_release(&text);
	sf_buf_byte(out, '}');
}
