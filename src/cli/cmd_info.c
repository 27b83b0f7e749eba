#include "config.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cli/cli.h"
#include "base/mem.h"
#include "base/path.h"
#include "cli/damage.h"
#include "cli/text.h"
#include "view/advice.h"
#include "view/entry_json.h"
#include "view/key_near.h"

struct info_options {
	bool json;
};

static const struct sf_opt options[] = {
	{ "json", 0, SF_OPT_FLAG, offsetof(struct info_options, json), NULL, NULL, "for machines" },
	{ 0 },
};

static const char *const roles[] = { "other", "model", "optim" };

static int print_json(const struct sf_session *s, bool whole, uint32_t entry)
{
	struct sf_buf b = { 0 };
	if (whole)
		sf_ckpt_json(&b, s->catalog);
	else
		sf_entry_json(&b, s->catalog, entry);
	int r = sf_buf_check(&b);
	if (r >= 0) {
		fwrite(b.at, 1, b.len, stdout);
		if (!b.len || b.at[b.len - 1] != '\n')
			putchar('\n');
	}
	sf_buf_release(&b);
	return r;
}

static int print_views(const struct sf_session *s, struct sf_error *err)
{
	struct sf_buf b = { 0 };
	struct sf_advice a;
	int r = sf_advice_init(&a, s->catalog, s->reader, err);

	for (int part = SF_ADVICE_WHOLE; part <= SF_ADVICE_TENSOR && r >= 0; part++)
		sf_advice_put(&b, &a, (enum sf_advice_part)part, "  ");
	if (r >= 0)
		sf_advice_put_refused(&b, &a, "  ");
	if (r >= 0 && (r = sf_buf_check(&b)) < 0)
		sf_fail(err, r, "the views' lines");
	if (r >= 0)
		printf("views (MNT is the mountpoint):\n%s", sf_buf_cstr(&b));
	sf_advice_release(&a);
	sf_buf_release(&b);
	return r;
}

enum { LINES = 10 };

/* What is worth knowing of something that is whole. */
static void print_notes(const struct sf_ckpt *k)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < k->nwarnings; i++) {
		const struct sf_warning *w = &k->warning[i];
		if (!sf_warning_is_note(w->code) || n++ >= LINES)
			continue;
		printf("%s  ", n == 1 ? "notes\n" : "");
		if (w->key != SF_NONE) {
			sf_put_name(stdout, k->key[w->key].name, k->key[w->key].len);
			printf(": ");
		}
		sf_put_name(stdout, w->text, strlen(w->text));
		putchar('\n');
	}
	if (n > LINES)
		printf("  %u more (shardfuse info --json lists all)\n", n - LINES);
}

static void print_damage(const struct sf_catalog *c)
{
	struct sf_damage_list l;

	if (sf_damage_fold(c, &l) < 0)
		printf("warnings\n  out of memory\n");
	else if (l.n) {
		printf("warnings\n");
		sf_put_damage(stdout, c, &l, "  ", LINES);
	}
	sf_damage_release(&l);
	print_notes(c->ckpt);
}

static void print_escaped(const char *head, const char *text)
{
	struct sf_buf b = { 0 };

	sf_escape_text(&b, text, strlen(text));
	printf("%s%s\n", head, sf_buf_cstr(&b));
	sf_buf_release(&b);
}

static int print_whole(const struct sf_session *s, struct sf_error *err)
{
	const struct sf_ckpt *k = s->ckpt;
	const struct sf_catalog *c = s->catalog;
	uint64_t bytes = 0, stored = 0;
	char a[32], b[32], when[40];

	for (uint32_t i = 0; i < c->n; i++)
		if (c->entry[i].tensor != SF_NONE)
			bytes += k->tensor[c->entry[i].tensor].bytes;
	for (uint32_t i = 0; i < k->nfiles; i++)
		stored += k->file[i].missing ? 0 : k->file[i].info.size;
	printf("source      ");
	sf_put_name(stdout, k->source, strlen(k->source));
	printf("\nformat      %s%s", k->format, k->writer ? "" : "\n");
	if (k->writer)
		print_escaped(", written by ", k->writer);
	printf("committed   %s\n", sf_time_text(k->mtime_ns, when));
	if (k->step >= 0)
		printf("step        %" PRId64 "\n", k->step);
	if (k->ranks)
		printf("ranks       %" PRIu32 "\n", k->ranks);
	printf("tensors     %" PRIu32 ", %s\n", c->ntensors, sf_human_size(bytes, a));
	printf("objects     %" PRIu32 "\n", c->nobjects);
	printf("files       %" PRIu32 ", %s\n", k->nfiles, sf_human_size(stored, b));
	if (k->content_metadata)
		print_escaped("content     ", k->content_metadata);
	printf("groups\n");
	for (uint32_t g = 0; g < c->ngroups; g++) {
		const struct sf_group *of = c->group[g].of;
		printf("  ");
		if (of->len)
			sf_put_name(stdout, of->name, of->len);
		else
			printf("(unnamed)");
		printf("  role %s, %" PRIu32 " tensor%s, %" PRIu32 " object%s, %s\n",
		       roles[of->role], of->ntensors, sf_plural(of->ntensors), of->nobjects,
		       sf_plural(of->nobjects), sf_human_size(of->bytes, a));
	}
	print_damage(c);
	return print_views(s, err);
}

static void print_entry(const struct sf_session *s, uint32_t entry)
{
	const struct sf_ckpt *k = s->ckpt;
	const struct sf_entry *e = &s->catalog->entry[entry];
	char a[32];

	sf_put_name(stdout, e->name, e->len);
	if (e->tensor == SF_NONE) {
		const struct sf_object *o = &k->object[e->object];
		printf("\n  object");
		if (o->place != SF_NONE) {
			const struct sf_file *f = &k->file[k->place[o->place].file];
			printf(" in ");
			sf_put_name(stdout, f->name, f->name_len);
			printf(" at %" PRIu64 ", %" PRIu64 " bytes", o->off, o->len);
		}
		putchar('\n');
		return;
	}
	const struct sf_tensor *t = &k->tensor[e->tensor];
	printf("\n  %s ", sf_dtype_info(t->dtype)->torch);
	sf_put_shape(stdout, t->shape, t->ndim);
	printf(", %s\n  %-10s %-24s %-24s %12s %12s  file\n", sf_human_size(t->bytes, a), "shard",
	       "origin", "extent", "offset", "length");
	for (uint32_t i = 0; i < t->nchunks; i++) {
		struct sf_chunk ch;
		sf_tensor_chunk(t, i, &ch);
		printf("  %-10" PRIu32 " ", i);
		sf_put_shape(stdout, ch.origin, t->ndim);
		putchar(' ');
		sf_put_shape(stdout, ch.extent, t->ndim);
		if (ch.place == SF_NONE) {
			printf(" not stored\n");
			continue;
		}
		printf(" %12" PRIu64 " %12" PRIu64 "  ", ch.off, ch.len);
		const struct sf_file *f = &k->file[k->place[ch.place].file];
		sf_put_name(stdout, f->name, f->name_len);
		printf("%s\n", f->missing ? " (missing)" : "");
	}
}

static bool matches(const struct sf_session *s, uint32_t entry, const char *key)
{
	const struct sf_entry *e = &s->catalog->entry[entry];

	return sf_key_match(key, e->name, e->len);
}

static int run(const void *opt, const struct sf_common *common, int argc, char **argv)
{
	const struct info_options *o = opt;
	struct sf_error err = SF_ERROR_INIT;
	struct sf_session s;
	int code = SF_EXIT_OK, r = 0;

	if (sf_session_open(&s, common, argv[0], &err) < 0)
		return sf_cli_error(SF_EXIT_FAILED, &err);
	if (argc > 1) {
		uint32_t found = 0, shown = 0;
		for (uint32_t i = 0; i < s.catalog->n; i++)
			found += matches(&s, i, argv[1]);
		/* one key is its own document; several are the list that keys --json prints */
		if (o->json && found > 1)
			printf("{\"schema\": 1, \"keys\": [\n");
		for (uint32_t i = 0; i < s.catalog->n && r >= 0; i++) {
			if (!matches(&s, i, argv[1]))
				continue;
			if (!o->json) {
				print_entry(&s, i);
				continue;
			}
			printf("%s", shown++ ? ", " : "");
			r = print_json(&s, false, i);
		}
		if (o->json && found > 1)
			printf("]}\n");
		if (!found) {
			sf_catalog_no_key(s.catalog, argv[1], strlen(argv[1]), &err);
			code = sf_cli_error(SF_EXIT_FAILED, &err);
		}
	} else if (o->json) {
		r = print_json(&s, true, 0);
	} else {
		r = print_whole(&s, &err);
	}
	if (r < 0) {
		if (!*err.msg)
			sf_fail(&err, r, "out of memory");
		code = sf_cli_error(SF_EXIT_FAILED, &err);
	}
	sf_session_close(&s);
	return code;
}

const struct sf_cmd sf_cmd_info = {
	.name = "info",
	.usage = "SOURCE [KEY] [--json]",
	.about = "the checkpoint in five seconds, or one tensor with its shard map",
	.example =
		"shardfuse info /ckpt/step1000\nshardfuse info /ckpt/step1000 model.embed.weight",
	.options = options,
	.common = true,
	.view = true,
	.min_args = 1,
	.max_args = 2,
	.opt_size = sizeof(struct info_options),
	.run = run,
};
