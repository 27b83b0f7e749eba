#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "base/path.h"
#include "view/damage.h"
#include "view/entry_json.h"
#include "view/facts.h"
#include "view/slices_text.h"

static void put_str(struct sf_buf *out, const char *name, const char *s, size_t len)
{
	sf_buf_printf(out, "\"%s\": ", name);
	sf_escape_json(out, s, len);
}

static void put_groups(struct sf_buf *out, const struct sf_catalog *c, const struct sf_facts *f)
{
	sf_buf_str(out, "\"groups\": [");
	for (uint32_t g = 0; g < c->ngroups; g++) {
		const struct sf_group *of = c->group[g].of;
		sf_buf_str(out, g ? ",\n  {" : "\n  {");
		put_str(out, "name", of->name, of->len);
		sf_buf_printf(out,
		              ", \"role\": \"%s\", \"tensors\": %" PRIu32 ", \"objects\": %" PRIu32
		              ", \"bytes\": %" PRIu64 ", \"elements\": %" PRIu64 "}",
		              sf_role_names[of->role], f->group[g].ntensors, f->group[g].nobjects,
		              f->group[g].bytes, f->group[g].elements);
	}
	sf_buf_str(out, "]");
}

/* Tensors that are shown and have the storage of an earlier one: "tied_to" of their entries. */
static uint32_t count_tied(const struct sf_catalog *c)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->n && c->ckpt->tied; i++) {
		const uint32_t t = c->entry[i].tensor;
		n += t != SF_NONE && sf_tensor_storage(c->ckpt, t) != t;
	}
	return n;
}

static void put_facts(struct sf_buf *out, const struct sf_catalog *c, const struct sf_facts *f)
{
	enum sf_dtype dtype[SF_NDTYPES];
	unsigned n = sf_facts_dtypes(&f->all, dtype);

	sf_buf_printf(out, "\"parameters\": %" PRIu64 ",\n \"dtypes\": [", f->parameters);
	for (unsigned i = 0; i < n; i++)
		sf_buf_printf(out, "%s{\"dtype\": \"%s\", \"bytes\": %" PRIu64 "}", i ? ", " : "",
		              sf_dtype_info(dtype[i])->torch, f->all.dtype_bytes[dtype[i]]);
	sf_buf_str(out, "],\n \"layers\": [");
	for (uint32_t i = 0; i < f->nlayers; i++) {
		sf_buf_str(out, i ? ", {" : "{");
		put_str(out, "container", c->entry[f->layers[i].entry].name, f->layers[i].len);
		sf_buf_printf(out, ", \"count\": %" PRIu32 "}", f->layers[i].n);
	}
	sf_buf_str(out, "]");
}

struct warnings {
	struct sf_buf *out;
	const struct sf_catalog *c;
	const char *sep;
};

static void put_warning(struct warnings *w, uint32_t key, const char *code, const char *text)
{
	const struct sf_ckpt *k = w->c->ckpt;

	sf_buf_printf(w->out, "%s\n  {", w->sep);
	w->sep = ",";
	if (key == SF_NONE)
		sf_buf_str(w->out, "\"key\": null");
	else
		put_str(w->out, "key", k->key[key].name, k->key[key].len);
	sf_buf_str(w->out, ", ");
	put_str(w->out, "code", code, strlen(code));
	sf_buf_str(w->out, ", ");
	put_str(w->out, "text", text, strlen(text));
	sf_buf_byte(w->out, '}');
}

static int put_one(void *arg, const struct sf_damage_one *one)
{
	struct warnings *w = arg;

	put_warning(w, one->entry == SF_NONE ? SF_NONE : w->c->entry[one->entry].key, one->code,
	            one->text);
	return sf_buf_check(w->out);
}

/* All of it, each with its key; the load keeps only the first. */
static void put_warnings(struct sf_buf *out, const struct sf_catalog *c)
{
	const struct sf_ckpt *k = c->ckpt;
	struct warnings w = { out, c, "" };

	sf_buf_str(out, "\"warnings\": [");
	for (uint32_t i = 0; i < k->nwarnings; i++)
		if (sf_warning_is_note(k->warning[i].code))
			put_warning(&w, k->warning[i].key, k->warning[i].code, k->warning[i].text);
	if (sf_damage_each(c, put_one, &w) < 0 && sf_buf_check(out) >= 0)
		out->failed = -ENOMEM;
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

	/* 0: nobody knows; servers do not always tell */
	if (ns && gmtime_r(&t, &tm) && strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm))
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
		sf_escape_json_text(out, text, strlen(text));
		sf_json_free(j);
	} else {
		sf_escape_json(out, text, strlen(text));
	}
}

void sf_ckpt_json(struct sf_buf *out, const struct sf_catalog *c)
{
	const struct sf_ckpt *k = c->ckpt;
	struct sf_facts f;

	if (sf_facts_init(&f, c) < 0) {
		sf_facts_release(&f);
		out->failed = -ENOMEM;
		return;
	}
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
	              ",\n \"tensors\": %" PRIu32 ",\n \"tied\": %" PRIu32
	              ",\n \"objects\": %" PRIu32 ",\n \"bytes\": %" PRIu64
	              ",\n \"files\": %" PRIu32 ",\n ",
	              c->ntensors, count_tied(c), c->nobjects, f.all.bytes, k->nfiles);
	put_facts(out, c, &f);
	sf_buf_str(out, ",\n ");
	put_groups(out, c, &f);
	sf_facts_release(&f);
	sf_buf_str(out, ",\n ");
	put_warnings(out, c);
	sf_buf_str(out, ",\n ");
	put_damage(out, c);
	sf_buf_str(out, ",\n ");
	if (c->slices) {
		sf_buf_str(out, "\"slices\": ");
		sf_slices_json(out, c);
		sf_buf_str(out, ",\n ");
	}
	put_content(out, k->content_metadata);
	sf_buf_str(out, "}\n");
}
