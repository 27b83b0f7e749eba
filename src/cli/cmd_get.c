#include "config.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/buf.h"
#include "base/mem.h"
#include "base/path.h"
#include "cli/cli.h"
#include "cli/out_list.h"
#include "cli/terminal.h"
#include "tool/copy_out.h"
#include "view/key_index.h"
#include "view/key_near.h"
#include "tool/interrupt.h"

struct get_options {
	const char *format, *out;
	bool force;
};

static const struct sf_opt options[] = {
	{ "format", 0, SF_OPT_STR, offsetof(struct get_options, format), NULL,
	  "npy|pt|safetensors|raw|json",
	  "of the files (default npy, objects json; json goes to stdout)" },
	{ "output", 'O', SF_OPT_STR, offsetof(struct get_options, out), NULL, "DIR|-",
	  "where to (default: the current directory); - is stdout, for one key" },
	{ "force", 0, SF_OPT_FLAG, offsetof(struct get_options, force), NULL, NULL,
	  "replace files that are there" },
	{ 0 },
};

/* Entries matched by the KEYs, in the order given, each once. */
struct chosen {
	uint32_t *at;
	uint32_t n;
};

static int choose(const struct sf_catalog *c, int nkeys, char **keys, struct chosen *ret,
                  struct sf_error *err)
{
	SF_CLEANUP(sf_key_index_release) struct sf_key_index ix = { 0 };
	SF_FREE bool *seen = calloc(c->n + 1, sizeof(*seen));
	SF_FREE uint32_t *match = sf_alloc_array(c->n, sizeof(*match));

	ret->at = sf_alloc_array(c->n, sizeof(*ret->at));
	if (!seen || !match || !ret->at || sf_key_index_init(&ix, c) < 0)
		return sf_fail(err, -ENOMEM, "%u keys", c->n);
	for (int k = 0; k < nkeys; k++) {
		uint32_t n = sf_key_index_match(&ix, keys[k], match);
		if (!n)
			return sf_catalog_no_key(c, keys[k], strlen(keys[k]), err);
		for (uint32_t i = 0; i < n; i++) {
			if (!seen[match[i]])
				ret->at[ret->n++] = match[i];
			seen[match[i]] = true;
		}
	}
	return 0;
}

static enum sf_out_format format_of(const struct sf_catalog *c, uint32_t entry, int asked)
{
	if (asked >= 0)
		return (enum sf_out_format)asked;
	return c->entry[entry].tensor != SF_NONE ? SF_OUT_NPY : SF_OUT_JSON;
}

/* Can this entry be shown so? */
static int check_format(const struct sf_catalog *c, uint32_t entry, enum sf_out_format f,
                        struct sf_error *err)
{
	const struct sf_entry *e = &c->entry[entry];
	const char *why = NULL;

	if (e->tensor == SF_NONE && (f == SF_OUT_NPY || f == SF_OUT_RAW || f == SF_OUT_SAFETENSORS))
		why = "it is no tensor: json or pt";
	else if (f == SF_OUT_NPY)
		why = sf_view_npy_refuses(c, entry);
	else if (f == SF_OUT_SAFETENSORS)
		why = sf_view_safetensors_refuses(c, entry, true);
	return why ? sf_fail(err, -ENOTSUP, "'%s' as %s: %s", e->name, sf_out_format_names[f], why)
	           : 0;
}

static char *file_name(const char *dir, const struct sf_entry *e, enum sf_out_format f)
{
	struct sf_buf b = { 0 };
	sf_buf_str(&b, dir);
	sf_buf_byte(&b, '/');
	sf_name_encode(&b, e->name, e->len, e->name, e->len, strlen(".safetensors"));
	sf_buf_str(&b, sf_out_suffix(f));
	sf_buf_byte(&b, 0);
	return sf_buf_check(&b) < 0 ? NULL : (char *)b.at;
}

static int to_stdout(struct sf_session *s, const struct sf_out_file *f, struct sf_error *err)
{
	struct sf_vfile *file = NULL;
	int r = f->open(f->arg, f, &file, err);

	if (r >= 0)
		r = sf_vfile_prepare(file, err);
	if (r >= 0)
		r = sf_terminal_check(file, strrchr(f->path, '/') + 1, err);
	if (r >= 0) {
		fflush(stdout);
		r = sf_copy_out(s, file, STDOUT_FILENO, err);
	}
	sf_vfile_unref(file);
	return r;
}

/* Files and what goes to stdout: JSON does by default, everything with -O -. */
static int add(struct sf_out_list *files, struct sf_out_list *out, const struct get_options *o,
               enum sf_out_format f, const struct sf_selection *sel, char *path)
{
	bool std = o->out ? strcmp(o->out, "-") == 0 : f == SF_OUT_JSON;

	return sf_out_add(std ? out : files, f, sel, path);
}

static int get(struct sf_session *s, const struct get_options *o, int asked,
               const struct chosen *ch, struct sf_error *err)
{
	const struct sf_catalog *c = s->catalog;
	const char *dir = o->out ? o->out : ".";
	struct sf_out_list files = { .s = s }, out = { .s = s };
	struct sf_write_options w = { .force = o->force, .root = dir };
	int r = 0;

	for (uint32_t i = 0; i < ch->n && r >= 0; i++)
		r = check_format(c, ch->at[i], format_of(c, ch->at[i], asked), err);
	if (r >= 0 && asked == SF_OUT_SAFETENSORS) {
		/* one file for all */
		struct sf_selection sel = { .entry = ch->at, .n = ch->n, .cast = true };
		char *path = NULL;
		if (ch->n == 1)
			path = file_name(dir, &c->entry[ch->at[0]], SF_OUT_SAFETENSORS);
		else if (asprintf(&path, "%s/tensors.safetensors", dir) < 0)
			path = NULL;
		r = add(&files, &out, o, SF_OUT_SAFETENSORS, &sel, path);
	} else {
		for (uint32_t i = 0; i < ch->n && r >= 0; i++) {
			enum sf_out_format f = format_of(c, ch->at[i], asked);
			struct sf_selection sel = {
				.entry = &ch->at[i], .n = 1, .cast = true, .bare = true
			};
			r = add(&files, &out, o, f, &sel, file_name(dir, &c->entry[ch->at[i]], f));
		}
	}
	if (r == -ENOMEM)
		sf_fail(err, r, "%u files", ch->n);
	if (r >= 0 && o->out && out.n > 1 && asked != SF_OUT_JSON)
		r = sf_fail(err, -EINVAL, "-O - takes one key, %u match", ch->n);
	if (r >= 0)
		r = sf_out_check_claims(&out, err);
	for (size_t i = 0; i < out.n && r >= 0; i++)
		r = to_stdout(s, &out.file[i], err);
	if (r >= 0 && files.n)
		r = sf_out_write(&files, &w, err);
	sf_out_release(&files);
	sf_out_release(&out);
	return r;
}

static int run(const void *opt, const struct sf_common *common, int argc, char **argv)
{
	const struct get_options *o = opt;
	struct sf_error err = SF_ERROR_INIT;
	struct chosen ch = { 0 };
	struct sf_session s;
	int asked = -1;

	for (int f = 0; o->format && f <= SF_OUT_JSON; f++)
		if (strcmp(o->format, sf_out_format_names[f]) == 0)
			asked = f;
	if (o->format && asked < 0) {
		sf_fail(&err, -EINVAL, "--format %s: npy, pt, safetensors, raw or json", o->format);
		return sf_cli_error(SF_EXIT_USAGE, &err);
	}
	sf_interrupt_init();
	int r = sf_session_open(&s, common, argv[0], &err);
	if (r >= 0) {
		r = choose(s.catalog, argc - 1, argv + 1, &ch, &err);
		if (r >= 0)
			r = get(&s, o, asked, &ch, &err);
		free(ch.at);
		sf_session_close(&s);
	}
	return r < 0 ? sf_cli_error(r == -EINVAL ? SF_EXIT_USAGE : SF_EXIT_FAILED, &err)
	             : SF_EXIT_OK;
}

const struct sf_cmd sf_cmd_get = {
	.name = "get",
	.usage = "SOURCE KEY… [--format npy|pt|safetensors|raw|json] [-O DIR|-]",
	.about = "named keys as files, in the given order",
	.example = "shardfuse get /ckpt/step1000 model.embed.weight --format npy -O /tmp",
	.options = options,
	.common = true,
	.view = true,
	.min_args = 2,
	.max_args = -1,
	.opt_size = sizeof(struct get_options),
	.run = run,
};
