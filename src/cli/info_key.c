#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "ckpt/place.h"
#include "cli/info.h"
#include "cli/key_slice.h"
#include "cli/object_line.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "cli/text.h"
#include "cli/values.h"
#include "view/entry_json.h"

enum { FIRST_VALUES = 8, WINDOW = 1024, VALUE_PIPE = 200 };

static void put_place(struct sf_buf *out, const struct sf_ckpt *k, uint32_t place)
{
	sf_place_put(out, k, place);
	sf_buf_str(out, sf_place_file(k, place)->missing ? " (missing)" : "");
}

static void put_item(struct sf_table *t, const struct sf_ckpt *k, uint32_t place, uint64_t off,
                     uint64_t len, bool filled)
{
	if (place == SF_NONE) {
		sf_table_cell(t, "-");
		sf_table_cell(t, "-");
		sf_table_cell(t, filled ? "(all one value)" : "not stored");
		return;
	}
	struct sf_buf name = { 0 };
	sf_table_cell(t, "%" PRIu64, off);
	sf_table_cell(t, "%" PRIu64, len);
	put_place(&name, k, place);
	sf_table_escaped(t, (const char *)name.at, name.len);
	sf_buf_release(&name);
}

static void put_numbers(struct sf_table *t, const uint64_t *at, unsigned n)
{
	struct sf_buf b = { 0 };

	sf_shape_text(&b, at, n);
	sf_table_cell(t, "%s", sf_buf_cstr(&b));
	sf_buf_release(&b);
}

/* "stride [1, 2], negated"; "dense" */
static void put_layout(struct sf_table *t, const struct sf_chunk_layout *l, unsigned ndim)
{
	struct sf_buf b = { 0 };

	for (unsigned d = 0; l->stride && d < ndim; d++)
		sf_buf_printf(&b, d ? ", %" PRId64 : "stride [%" PRId64, l->stride[d]);
	sf_buf_str(&b, l->stride ? (ndim ? "]" : "") : "dense");
	sf_buf_str(&b, l->conj ? ", conjugated" : "");
	sf_buf_str(&b, l->neg ? ", negated" : "");
	sf_table_cell(t, "%s", sf_buf_cstr(&b));
	sf_buf_release(&b);
}

static void put_shards(struct sf_buf *out, const struct sf_ckpt *k, const struct sf_tensor *t)
{
	static const char *const heads[] = { "chunk",  "origin", "extent", "part",
		                             "layout", "offset", "length", "file" };
	const struct sf_chunk_layout *layout = t->more ? t->more->layout : NULL;
	struct sf_table rows = { .align = t->part && layout   ? "rllllrrl"
		                          : t->part || layout ? "rlllrrl"
		                                              : "rllrrl" };

	for (size_t i = 0; i < SF_ARRAY_LEN(heads); i++)
		if ((i != 3 || t->part) && (i != 4 || layout))
			sf_table_cell(&rows, "%s", heads[i]);
	for (uint32_t i = 0; i < t->nchunks; i++) {
		struct sf_chunk ch;
		sf_tensor_chunk(t, i, &ch);
		sf_table_cell(&rows, "%" PRIu32, i);
		put_numbers(&rows, ch.origin, t->ndim);
		put_numbers(&rows, ch.extent, t->ndim);
		if (t->part)
			put_numbers(&rows, (const uint64_t[]){ ch.part_off, ch.part_len }, 2);
		if (layout)
			put_layout(&rows, &layout[i], t->ndim);
		put_item(&rows, k, ch.place, ch.off, ch.len, t->more && t->more->has_fill);
	}
	if (t->nchunks)
		sf_table_put(out, &rows, "  ");
	sf_table_release(&rows);
}

static void put_tensor(struct sf_buf *out, const struct sf_session *s, const struct sf_entry *e)
{
	const struct sf_tensor *t = &s->ckpt->tensor[e->tensor];
	const struct sf_group *g = s->catalog->group[e->group].of;
	char a[32];

	sf_buf_printf(out, "  %s ", sf_dtype_info(e->dtype)->torch);
	if (e->dtype != t->dtype)
		sf_buf_printf(out, "(stored as %s) ", sf_dtype_info(t->dtype)->torch);
	sf_shape_text(out, t->shape, t->ndim);
	sf_buf_printf(out, ", %s", sf_human_count(t->bytes / sf_dtype_info(t->dtype)->bytes, a));
	sf_buf_printf(out, " element%s, ", sf_plural(t->bytes / sf_dtype_info(t->dtype)->bytes));
	sf_buf_str(out, sf_human_size(t->bytes, a));
	if (g->len) {
		sf_buf_str(out, ", group ");
		sf_escape_text(out, g->name, g->len);
	}
	const uint32_t first = sf_tensor_storage(s->ckpt, e->tensor);
	if (first != e->tensor) {
		const struct sf_key *of = &s->ckpt->key[s->ckpt->tensor[first].key];
		sf_buf_str(out, ", tied to ");
		sf_escape_text(out, of->name, of->len);
	}
	sf_buf_byte(out, '\n');
}

/* What is read for it may fail: that is said, and the rest is shown. */
static void put_first_values(struct sf_buf *out, struct sf_session *s, const struct sf_entry *e)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_buf line = { 0 };
	int r = sf_values_line(&line, s->reader, e->tensor, e->dtype, FIRST_VALUES, &err);

	if (r < 0) {
		sf_buf_str(out, "  values cannot be read: ");
		sf_escape_text(out, err.msg, strlen(err.msg));
		sf_buf_byte(out, '\n');
	} else if (line.len) {
		sf_buf_printf(out, "  values %s\n", sf_buf_cstr(&line));
	}
	sf_buf_release(&line);
}

static int put_slice(struct sf_buf *out, struct sf_session *s, const struct sf_entry *e,
                     const struct sf_key_slice *slice, bool json, struct sf_error *err)
{
	const struct sf_tensor *t = &s->ckpt->tensor[e->tensor];
	struct sf_value_box box;
	int r = sf_key_slice_box(slice, t->shape, t->ndim, &box, err);

	if (r < 0)
		return sf_fail_ctx(err, r, "'%.300s'", e->name);
	if (json) {
		sf_buf_str(out, ", \"slice\": {\"origin\": ");
		sf_shape_text(out, box.origin, t->ndim);
		sf_buf_str(out, ", \"extent\": ");
		sf_shape_text(out, box.extent, t->ndim);
		sf_buf_str(out, "}, \"values\": ");
		r = sf_values_json(out, s->reader, e->tensor, e->dtype, &box, err);
	} else {
		r = sf_values_text(out, s->reader, e->tensor, e->dtype, &box, 2, err);
		sf_buf_byte(out, '\n');
	}
	return r < 0 ? sf_fail_ctx(err, r, "'%.300s'", e->name) : r;
}

static void put_object(struct sf_buf *out, const struct sf_session *s, const struct sf_entry *e)
{
	const struct sf_ckpt *k = s->ckpt;
	const struct sf_object *o = &k->object[e->object];

	sf_buf_str(out, "  object");
	if (o->place != SF_NONE) {
		sf_buf_str(out, " in ");
		put_place(out, k, o->place);
		sf_buf_printf(out, " at %" PRIu64 ", %" PRIu64 " byte%s", o->off, o->len,
		              sf_plural(o->len));
	}
	sf_buf_byte(out, '\n');
}

static int flush(struct sf_buf *b, struct sf_error *err)
{
	int r = sf_buf_check(b);

	if (r < 0)
		return sf_fail(err, r, "text of %zu bytes", b->len);
	if (b->len)
		fwrite(b->at, 1, b->len, stdout);
	sf_buf_reset(b);
	return 0;
}

static int text_of(struct sf_session *s, const struct sf_key_choice *ch, struct sf_error *err)
{
	SF_CLEANUP(sf_object_lines_release) struct sf_object_lines values = { 0 };
	SF_CLEANUP(sf_buf_release) struct sf_buf b = { 0 };
	size_t width = isatty(STDOUT_FILENO) ? sf_terminal_width(stdout) : VALUE_PIPE;
	int r = 0;

	for (uint32_t i = 0; i < ch->n && r >= 0; i++) {
		const struct sf_entry *e = &s->catalog->entry[ch->entry[i]];
		if (i % WINDOW == 0) {
			r = sf_object_lines_load(&values, s, ch->entry + i,
			                         SF_MIN(ch->n - i, (uint32_t)WINDOW), err);
			if (r < 0)
				break;
		}
		sf_escape_text(&b, e->name, e->len);
		sf_buf_byte(&b, '\n');
		if (e->tensor == SF_NONE) {
			const char *value = sf_object_line(&values, i % WINDOW);
			r = flush(&b, err);
			if (value) {
				printf("  = ");
				sf_put_line(stdout, value, SF_MAX(width, (size_t)24) - 4);
				putchar('\n');
			}
			put_object(&b, s, e);
		} else {
			put_tensor(&b, s, e);
			if (ch->slice.n)
				r = put_slice(&b, s, e, &ch->slice, false, err);
			else if (ch->n == 1)
				put_first_values(&b, s, e);
			if (!ch->slice.n)
				put_shards(&b, s->ckpt, &s->ckpt->tensor[e->tensor]);
		}
		if (r >= 0)
			r = flush(&b, err);
	}
	return r;
}

static int json_of(struct sf_session *s, const struct sf_key_choice *ch, struct sf_error *err)
{
	SF_CLEANUP(sf_buf_release) struct sf_buf b = { 0 };
	int r = 0;

	sf_buf_str(&b, "{\"schema\": 1, \"keys\": [");
	for (uint32_t i = 0; i < ch->n && r >= 0; i++) {
		const struct sf_entry *e = &s->catalog->entry[ch->entry[i]];
		sf_buf_str(&b, i ? ",\n " : "\n ");
		sf_entry_json(&b, s->catalog, ch->entry[i]);
		if (ch->slice.n && sf_buf_check(&b) >= 0) {
			b.len--; /* its brace */
			r = put_slice(&b, s, e, &ch->slice, true, err);
			sf_buf_byte(&b, '}');
		}
		/* what cannot be had is an error before anything was said */
		if (r >= 0 && !ch->slice.n)
			r = flush(&b, err);
	}
	sf_buf_str(&b, "\n]}\n");
	return r < 0 ? r : flush(&b, err);
}

int sf_info_keys(struct sf_session *s, const char *key, bool json, struct sf_error *err)
{
	struct sf_key_choice ch;
	int r = sf_key_choose(s->catalog, key, &ch, err);

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < ch.n && ch.slice.n && r >= 0; i++)
		if (s->catalog->entry[ch.entry[i]].tensor == SF_NONE)
			r = sf_fail(err, -EINVAL, "'%.300s' is not a tensor: it has no slices",
			            s->catalog->entry[ch.entry[i]].name);
	if (r >= 0)
		r = json ? json_of(s, &ch, err) : text_of(s, &ch, err);
	sf_key_choice_release(&ch);
	return r;
}
