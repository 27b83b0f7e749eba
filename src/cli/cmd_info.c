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
#include "parse/pickle_write.h"
#include "view/entry_json.h"
#include "view/entry_name.h"
#include "view/key_near.h"
#include "view/object.h"

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

/* What weights_only=True refuses, by group: the first key and its class each. */
struct refusals {
	const struct sf_catalog *c;
	struct {
		uint32_t entry; /* SF_NONE: nothing */
		char what[160];
	} * group;
	uint32_t *entry_of; /* object -> entry */
};

static int look(void *arg, uint32_t object, struct sf_object_value *v, struct sf_error *err)
{
	struct refusals *f = arg;
	uint32_t entry = f->entry_of[object], g = f->c->entry[entry].group;
	(void)err;

	if (f->group[g].entry != SF_NONE)
		return 0;
	const char *what = sf_pv_weights_only(v->root, &v->arena);
	if (what) {
		f->group[g].entry = entry;
		snprintf(f->group[g].what, sizeof(f->group[g].what), "%s", what);
	}
	return 0;
}

static void left_out(void *arg, uint32_t object, int code, const struct sf_error *why)
{
	(void)arg, (void)object, (void)code, (void)why;
}

static int find_refusals(const struct sf_session *s, struct refusals *f, struct sf_error *err)
{
	const struct sf_catalog *c = s->catalog;
	SF_FREE uint32_t *objects = sf_alloc_array(c->nobjects, sizeof(*objects));
	uint32_t n = 0;

	f->c = c;
	f->group = calloc(c->ngroups + 1, sizeof(*f->group));
	f->entry_of = sf_alloc_array(c->ckpt->nobjects, sizeof(*f->entry_of));
	if (!objects || !f->group || !f->entry_of)
		return sf_fail(err, -ENOMEM, "%" PRIu32 " objects", c->nobjects);
	for (uint32_t g = 0; g < c->ngroups; g++)
		f->group[g].entry = SF_NONE;
	for (uint32_t i = 0; i < c->n; i++)
		if (c->entry[i].object != SF_NONE) {
			f->entry_of[c->entry[i].object] = i;
			objects[n++] = c->entry[i].object;
		}
	/* what cannot be read is not in the views */
	return sf_objects_load_whole(s->reader, objects, n, look, left_out, f, err);
}

static void print_load_line(const struct sf_session *s, const struct refusals *f, const char *file,
                            uint32_t group)
{
	uint32_t bad = SF_NONE;
	const char *what = "";

	for (uint32_t g = 0; f && g < s->catalog->ngroups; g++)
		if ((group == SF_NONE || g == group) && bad == SF_NONE &&
		    f->group[g].entry != SF_NONE) {
			bad = f->group[g].entry;
			what = f->group[g].what;
		}
	printf("  torch.load(\"MNT/");
	sf_put_name(stdout, file, strlen(file));
	printf("\", mmap=True%s)", !f               ? ""
	                           : bad == SF_NONE ? ", weights_only=True"
	                                            : ", weights_only=False");
	if (bad != SF_NONE) {
		const struct sf_entry *e = &s->catalog->entry[bad];
		printf("   # ");
		sf_put_name(stdout, e->name, e->len);
		printf(" is of class %s", what);
	}
	putchar('\n');
}

/* Views that are not there (views=, no tensor in them) get no line. */
static bool is_there(const struct sf_session *s, const char *path)
{
	sf_node n;

	return sf_tree_walk(s->tree, path, true, &n, NULL) >= 0;
}

static void print_safetensors_line(const struct sf_session *s, const char *file)
{
	if (!is_there(s, file))
		return;
	printf("  safetensors.safe_open(\"MNT/");
	sf_put_name(stdout, file, strlen(file));
	printf("\", \"pt\")\n");
}

/* The root's pair of .pt and .safetensors; @group SF_NONE: of everything. */
static void print_pair(const struct sf_session *s, const struct refusals *f, const char *stem,
                       uint32_t group)
{
	SF_FREE char *pt = sf_cli_text("%s.pt", stem);
	SF_FREE char *st = sf_cli_text("%s.safetensors", stem);

	if (pt && is_there(s, pt))
		print_load_line(s, f, pt, group);
	if (st)
		print_safetensors_line(s, st);
}

static void print_npy_line(const struct sf_session *s)
{
	const struct sf_catalog *c = s->catalog;
	struct sf_buf b = { 0 };
	uint32_t i = 0;

	while (i < c->n && c->entry[i].tensor == SF_NONE)
		i++;
	if (i == c->n || !is_there(s, "npy"))
		return;
	sf_name_encode(&b, c->entry[i].name, c->entry[i].len, c->entry[i].name, c->entry[i].len,
	               strlen(SF_FLAT_SUFFIX));
	printf("  numpy.load(\"MNT/npy/");
	sf_put_name(stdout, (const char *)b.at, b.len);
	sf_buf_release(&b);
	printf(".npy\", mmap_mode=\"r\")\n");
}

static void print_views(const struct sf_session *s)
{
	const struct sf_catalog *c = s->catalog;
	struct sf_error err = SF_ERROR_INIT;
	struct refusals f = { 0 };
	bool known = find_refusals(s, &f, &err) >= 0;

	printf("views (MNT is the mountpoint):\n");
	if (!known) {
		printf("  (whether weights_only=True will do is not known: ");
		sf_put_name(stdout, err.msg, strlen(err.msg));
		printf(")\n");
	}
	print_pair(s, known ? &f : NULL, "checkpoint", SF_NONE);
	for (uint32_t g = 0; g < c->ngroups; g++) {
		const char *stem = c->group[g].link ? c->group[g].link : c->group[g].stem;
		if (stem)
			print_pair(s, known ? &f : NULL, stem, g);
	}
	if (is_there(s, "hf"))
		printf("  AutoModelForCausalLM.from_pretrained(\"MNT/hf\")%s\n",
		       c->opt->hf_files_found ? "" : "   # no config.json: add -o hf_files=DIR");
	print_npy_line(s);
	free(f.group);
	free(f.entry_of);
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

static void print_whole(const struct sf_session *s)
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
	printf("\nformat      %s%s%s\n", k->format, k->writer ? ", written by " : "",
	       k->writer ? k->writer : "");
	printf("committed   %s\n", sf_time_text(k->mtime_ns, when));
	if (k->step >= 0)
		printf("step        %" PRId64 "\n", k->step);
	if (k->ranks)
		printf("ranks       %" PRIu32 "\n", k->ranks);
	printf("tensors     %" PRIu32 ", %s\n", c->ntensors, sf_human_size(bytes, a));
	printf("objects     %" PRIu32 "\n", c->nobjects);
	printf("files       %" PRIu32 ", %s\n", k->nfiles, sf_human_size(stored, b));
	if (k->content_metadata)
		printf("content     %s\n", k->content_metadata);
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
	print_views(s);
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
		print_whole(&s);
	}
	if (r < 0) {
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
