#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "view/damage.h"
#include "view/entry_json_part.h"

static void put_str(struct sf_buf *out, const char *name, const char *s, size_t len)
{
	sf_buf_printf(out, "\"%s\": ", name);
	sf_escape_json(out, s, len);
}

static void put_numbers(struct sf_buf *out, const char *name, const uint64_t *at, unsigned n)
{
	sf_buf_printf(out, "\"%s\": [", name);
	for (unsigned i = 0; i < n; i++)
		sf_buf_printf(out, i ? ", %" PRIu64 : "%" PRIu64, at[i]);
	sf_buf_byte(out, ']');
}

static void put_item(struct sf_buf *out, const struct sf_ckpt *ckpt, uint32_t place, uint64_t off,
                     uint64_t len)
{
	if (place == SF_NONE) {
		sf_buf_str(out, "{\"file\": null, \"offset\": 0, \"length\": 0");
		return;
	}
	const struct sf_file *file = &ckpt->file[ckpt->place[place].file];
	sf_buf_byte(out, '{');
	put_str(out, "file", file->name, file->name_len);
	sf_buf_printf(out, ", \"offset\": %" PRIu64 ", \"length\": %" PRIu64, off, len);
}

static void put_shard(struct sf_buf *out, const struct sf_ckpt *ckpt, const struct sf_tensor *t,
                      uint32_t i)
{
	struct sf_chunk chunk;

	sf_tensor_chunk(t, i, &chunk);
	put_item(out, ckpt, chunk.place, chunk.off, chunk.len);
	sf_buf_str(out, ", ");
	put_numbers(out, "origin", chunk.origin, t->ndim);
	sf_buf_str(out, ", ");
	put_numbers(out, "extent", chunk.extent, t->ndim);
	if (t->part)
		sf_buf_printf(out, ", \"part\": [%" PRIu64 ", %" PRIu64 "]", chunk.part_off,
		              chunk.part_len);
	sf_buf_byte(out, '}');
}

/* Everything before the first shard. */
static void put_head(struct sf_buf *out, const struct sf_catalog *c, const struct sf_entry *e)
{
	const struct sf_key *k = &c->ckpt->key[e->key];
	const struct sf_group *g = c->group[e->group].of;

	sf_buf_byte(out, '{');
	put_str(out, "key", e->name, e->len);
	sf_buf_str(out, ", ");
	put_str(out, "stored_name", k->name, k->len);
	sf_buf_str(out, ", ");
	if (e->tensor == SF_NONE) {
		sf_buf_printf(out, "\"object\": true, \"bytes\": %" PRIu64 ", ",
		              c->ckpt->object[e->object].len);
	} else {
		const struct sf_tensor *t = &c->ckpt->tensor[e->tensor];
		sf_buf_printf(out, "\"dtype\": \"%s\", ", sf_dtype_info(t->dtype)->torch);
		if (e->dtype != t->dtype)
			sf_buf_printf(out, "\"shown_dtype\": \"%s\", ",
			              sf_dtype_info(e->dtype)->torch);
		put_numbers(out, "shape", t->shape, t->ndim);
		sf_buf_printf(out, ", \"bytes\": %" PRIu64 ", ", t->bytes);
	}
	put_str(out, "group", g->name, g->len);
	sf_buf_str(out, ", \"shards\": [");
}

uint32_t sf_entry_json_parts(const struct sf_catalog *c, uint32_t entry)
{
	const struct sf_entry *e = &c->entry[entry];
	uint32_t n = e->tensor == SF_NONE ? 1 : c->ckpt->tensor[e->tensor].nchunks;

	return n ? (n - 1) / SF_JSON_SHARDS + 1 : 1;
}

void sf_entry_json_part(struct sf_buf *out, const struct sf_catalog *c, uint32_t entry,
                        uint32_t part)
{
	const struct sf_entry *e = &c->entry[entry];

	if (part == 0)
		put_head(out, c, e);
	if (e->tensor == SF_NONE) {
		const struct sf_object *o = &c->ckpt->object[e->object];
		put_item(out, c->ckpt, o->place, o->off, o->len);
		if (o->member) {
			sf_buf_str(out, ", \"member\": ");
			sf_escape_json(out, o->member, o->member_len);
		}
		sf_buf_byte(out, '}');
	} else {
		const struct sf_tensor *t = &c->ckpt->tensor[e->tensor];
		uint32_t from = part * SF_JSON_SHARDS,
			 to = SF_MIN(t->nchunks, from + SF_JSON_SHARDS);
		for (uint32_t i = from; i < to; i++) {
			sf_buf_str(out, i ? ", " : "");
			put_shard(out, c->ckpt, t, i);
		}
	}
	if (part + 1 == sf_entry_json_parts(c, entry))
		sf_buf_str(out, "]}");
}

void sf_entry_json(struct sf_buf *out, const struct sf_catalog *c, uint32_t entry)
{
	uint32_t n = sf_entry_json_parts(c, entry);

	for (uint32_t part = 0; part < n; part++)
		sf_entry_json_part(out, c, entry, part);
}

static void put_groups(struct sf_buf *out, const struct sf_catalog *c)
{
	static const char *const roles[] = { "other", "model", "optim" };

	sf_buf_str(out, "\"groups\": [");
	for (uint32_t g = 0; g < c->ngroups; g++) {
		const struct sf_cat_group *group = &c->group[g];
		uint32_t tensors = 0;
		uint64_t bytes = 0;
		for (uint32_t i = group->first; i < group->first + group->n; i++) {
			const struct sf_entry *e = &c->entry[c->by_group[i]];
			if (e->tensor == SF_NONE)
				continue;
			tensors++;
			bytes += c->ckpt->tensor[e->tensor].bytes;
		}
		sf_buf_str(out, g ? ",\n  {" : "\n  {");
		put_str(out, "name", group->of->name, group->of->len);
		sf_buf_printf(out,
		              ", \"role\": \"%s\", \"tensors\": %" PRIu32 ", \"objects\": %" PRIu32
		              ", \"bytes\": %" PRIu64 "}",
		              roles[group->of->role], tensors, group->n - tensors, bytes);
	}
	sf_buf_str(out, "]");
}

static void put_warnings(struct sf_buf *out, const struct sf_ckpt *ckpt)
{
	sf_buf_str(out, "\"warnings\": [");
	for (uint32_t i = 0; i < ckpt->nwarnings; i++) {
		const struct sf_warning *w = &ckpt->warning[i];
		sf_buf_str(out, i ? ",\n  {" : "\n  {");
		if (w->key == SF_NONE)
			sf_buf_str(out, "\"key\": null");
		else
			put_str(out, "key", ckpt->key[w->key].name, ckpt->key[w->key].len);
		sf_buf_str(out, ", ");
		put_str(out, "code", w->code, strlen(w->code));
		sf_buf_str(out, ", ");
		put_str(out, "text", w->text, strlen(w->text));
		sf_buf_byte(out, '}');
	}
	sf_buf_str(out, "]");
}

/* The same as a line per file and cause, with exact counts. */
static void put_damage(struct sf_buf *out, const struct sf_catalog *c)
{
	struct sf_damage_list l;

	if (sf_damage_fold(c, &l) < 0)
		out->failed = -ENOMEM;
	sf_buf_str(out, "\"damage\": [");
	for (uint32_t i = 0; i < l.n; i++) {
		sf_buf_str(out, i ? ",\n  " : "\n  ");
		sf_damage_json(out, c, &l.at[i]);
	}
	sf_buf_str(out, "]");
	sf_damage_release(&l);
}

/* UTC, so that the same checkpoint has the same text everywhere. */
static void put_time(struct sf_buf *out, int64_t ns)
{
	time_t t = (time_t)(ns / 1000000000);
	char when[40];
	struct tm tm;

	if (gmtime_r(&t, &tm) && strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm))
		sf_buf_printf(out, "\"committed\": \"%s\"", when);
	else
		sf_buf_str(out, "\"committed\": null");
}

/* JSON of others' making goes in as it is when it is JSON, else as a string. */
static void put_content(struct sf_buf *out, const char *text)
{
	struct sf_json *j = NULL;

	sf_buf_str(out, "\"content_metadata\": ");
	if (!text) {
		sf_buf_str(out, "null");
	} else if (sf_json_parse(text, strlen(text), &j, NULL) >= 0) {
		sf_buf_str(out, text);
		sf_json_free(j);
	} else {
		sf_escape_json(out, text, strlen(text));
	}
}

void sf_ckpt_json(struct sf_buf *out, const struct sf_catalog *c)
{
	const struct sf_ckpt *k = c->ckpt;
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < c->n; i++)
		if (c->entry[i].tensor != SF_NONE)
			bytes += k->tensor[c->entry[i].tensor].bytes;
	sf_buf_str(out, "{\"schema\": 1,\n ");
	put_str(out, "format", k->format, strlen(k->format));
	sf_buf_str(out, ",\n ");
	if (k->writer)
		put_str(out, "writer", k->writer, strlen(k->writer));
	else
		sf_buf_str(out, "\"writer\": null");
	sf_buf_str(out, ",\n ");
	put_time(out, k->mtime_ns);
	if (k->step >= 0)
		sf_buf_printf(out, ",\n \"step\": %" PRId64 ",\n ", k->step);
	else
		sf_buf_str(out, ",\n \"step\": null,\n ");
	put_str(out, "source", k->source ? k->source : "", k->source ? strlen(k->source) : 0);
	sf_buf_str(out, ",\n \"version\": \"");
	for (size_t i = 0; i < sizeof(k->version_hash); i++)
		sf_buf_printf(out, "%02x", k->version_hash[i]);
	if (k->ranks)
		sf_buf_printf(out, "\",\n \"ranks\": %" PRIu32, k->ranks);
	else
		sf_buf_str(out, "\",\n \"ranks\": null");
	sf_buf_printf(out,
	              ",\n \"tensors\": %" PRIu32 ",\n \"objects\": %" PRIu32
	              ",\n \"bytes\": %" PRIu64 ",\n \"files\": %" PRIu32 ",\n ",
	              c->ntensors, c->nobjects, bytes, k->nfiles);
	put_groups(out, c);
	sf_buf_str(out, ",\n ");
	put_warnings(out, k);
	sf_buf_str(out, ",\n ");
	put_damage(out, c);
	sf_buf_str(out, ",\n ");
	put_content(out, k->content_metadata);
	sf_buf_str(out, "}\n");
}
