#include "config.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/atomic_file.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/path.h"
#include "cli/cli.h"
#include "cli/common_state.h"
#include "cli/get_choice.h"
#include "cli/out_list.h"
#include "cli/terminal.h"
#include "cli/train_state.h"
#include "cli/text.h"
#include "tool/copy_out.h"
#include "tool/interrupt.h"

enum { PART_MAX = 64 }; /* bytes of a slice in a file's name */

struct get_options {
	const char *format, *out;
	bool force, train_state, common_state;
	unsigned rank; /* plus one; 0: not given */
};

static int parse_rank(void *dest, const char *value, struct sf_error *err)
{
	char *end;

	errno = 0;
	unsigned long v = strtoul(value, &end, 10);
	if (errno || end == value || *end || *value == '-' || v >= UINT_MAX - 1)
		return sf_fail(err, -EINVAL, "'%s' is not the number of a rank", value);
	((struct get_options *)dest)->rank = (unsigned)v + 1;
	return 0;
}

static const struct sf_opt options[] = {
	{ "format", 0, SF_OPT_STR, offsetof(struct get_options, format), NULL,
	  "npy|pt|safetensors|raw|json",
	  "default: npy for tensors; json, on stdout, for slices and everything else" },
	{ "output", 'O', SF_OPT_STR, offsetof(struct get_options, out), NULL, "DIR|FILE|-",
	  "a directory (default: the current one), a file ending in .npy .pt .safetensors .raw "
	  ".json, or stdout" },
	{ "force", 0, SF_OPT_FLAG, offsetof(struct get_options, force), NULL, NULL,
	  "overwrite existing files" },
	{ "common", 0, SF_OPT_FLAG, offsetof(struct get_options, common_state), NULL, NULL,
	  "the common state as one JSON document, in place of KEY (Megatron)" },
	{ "train-state", 0, SF_OPT_FLAG, offsetof(struct get_options, train_state), NULL, NULL,
	  "what the trainer kept of itself, in place of KEY (OLMo-core)" },
	{ "rank", 0, SF_OPT_CALL, 0, parse_rank, "R",
	  "with --train-state: that rank's, where it has its own (default: rank 0's)" },
	{ 0 },
};

/* What one get does. */
struct get {
	struct sf_session *s;
	const struct sf_get_choice *ch;
	int asked;        /* enum sf_out_format, or -1 */
	bool to_stdout;   /* -O - */
	bool to_file;     /* -O x.npy */
	bool dir_given;   /* -O, and no - */
	bool label;       /* values on stdout are "key = value" */
	const char *dir;  /* where files go */
	char *own_dir;    /* its memory if it is not "." */
	const char *file; /* to_file */
	struct sf_out_list files, out;
	uint32_t *shown; /* out.file[i] is ch->at[shown[i]] */
};

/* A name that says its format; a directory that is there is one whatever it is called. */
static int format_of_name(const char *path)
{
	static const struct {
		const char *suffix;
		enum sf_out_format format;
	} known[] = { { ".npy", SF_OUT_NPY }, { ".pt", SF_OUT_PT },
		      { ".pth", SF_OUT_PT },  { ".safetensors", SF_OUT_SAFETENSORS },
		      { ".raw", SF_OUT_RAW }, { ".json", SF_OUT_JSON } };
	struct stat st;

	for (size_t i = 0; i < SF_ARRAY_LEN(known); i++)
		if (sf_has_suffix(path, known[i].suffix))
			return stat(path, &st) == 0 && S_ISDIR(st.st_mode) ? -1
			                                                   : (int)known[i].format;
	return -1;
}

static enum sf_out_format format_of(const struct get *g, const struct sf_chosen *one)
{
	if (g->asked >= 0)
		return (enum sf_out_format)g->asked;
	return one->slice || g->s->catalog->entry[one->entry].tensor == SF_NONE ? SF_OUT_JSON
	                                                                        : SF_OUT_NPY;
}

/* Can this entry be shown so? */
static int check_format(const struct get *g, const struct sf_chosen *one, struct sf_error *err)
{
	const struct sf_catalog *c = g->s->catalog;
	const struct sf_entry *e = &c->entry[one->entry];
	enum sf_out_format f = format_of(g, one);
	const char *why = NULL;

	if (one->slice && f != SF_OUT_JSON)
		return sf_fail(err, -EINVAL, "'%.300s%.100s': a part of a tensor is shown as json",
		               e->name, one->part);
	if (e->tensor == SF_NONE && (f == SF_OUT_NPY || f == SF_OUT_RAW || f == SF_OUT_SAFETENSORS))
		why = sf_entry_subclass(c, one->entry)
		              ? "it is an instance of a tensor subclass: json or pt"
		              : "it is not a tensor: use json or pt";
	else if (f == SF_OUT_NPY)
		why = sf_view_npy_refuses(c, one->entry);
	else if (f == SF_OUT_SAFETENSORS)
		why = sf_view_safetensors_refuses(c, one->entry, true);
	return why ? sf_fail(err, -ENOTSUP, "'%s' as %s: %s", e->name, sf_out_format_names[f], why)
	           : 0;
}

static char *file_name(const struct get *g, const struct sf_chosen *one)
{
	const struct sf_entry *e = &g->s->catalog->entry[one->entry];
	size_t part = strlen(one->part);
	struct sf_buf b = { 0 };

	if (g->to_file)
		return strdup(g->file);
	sf_buf_str(&b, g->dir);
	sf_buf_byte(&b, '/');
	/* a name leaves room for its suffix, and for a part */
	sf_name_encode(&b, e->name, e->len, e->name, e->len,
	               strlen(".safetensors") + SF_MIN(part, (size_t)PART_MAX));
	sf_buf_add(&b, one->part, SF_MIN(part, (size_t)PART_MAX));
	sf_buf_str(&b, sf_out_suffix(format_of(g, one)));
	sf_buf_byte(&b, 0);
	return sf_buf_check(&b) < 0 ? NULL : (char *)b.at;
}

/* All keys in one file: {name: tensor}. */
static int add_all(struct get *g, enum sf_out_format f)
{
	SF_FREE uint32_t *entry = sf_alloc_array(g->ch->n, sizeof(*entry));
	char *path = NULL;

	if (!entry)
		return -ENOMEM;
	for (uint32_t i = 0; i < g->ch->n; i++)
		entry[i] = g->ch->at[i].entry;
	const struct sf_selection sel = {
		.entry = entry, .n = g->ch->n, .cast = true, .flat = f == SF_OUT_PT
	};
	if (g->to_file || g->ch->n == 1)
		path = file_name(g, &g->ch->at[0]);
	else
		path = sf_cli_text("%s/tensors.safetensors", g->dir);
	return sf_out_add(g->to_stdout ? &g->out : &g->files, f, &sel, path);
}

/* JSON goes to stdout unless it was told where to; everything does with -O -. */
static int add_one(struct get *g, uint32_t i)
{
	const struct sf_chosen *one = &g->ch->at[i];
	enum sf_out_format f = format_of(g, one);
	bool std = g->to_stdout || (f == SF_OUT_JSON && !g->dir_given);
	const struct sf_selection sel = {
		.entry = &one->entry, .n = 1, .cast = true, .bare = true
	};
	struct sf_out_list *to = std ? &g->out : &g->files;

	if (std)
		g->shown[g->out.n] = i;
	return f == SF_OUT_JSON ? sf_out_add_values(to, one->entry, one->slice, file_name(g, one))
	                        : sf_out_add(to, f, &sel, file_name(g, one));
}

static int plan(struct get *g, struct sf_error *err)
{
	uint32_t n = g->ch->n;
	int r = 0;

	for (uint32_t i = 0; i < n && r >= 0; i++)
		r = check_format(g, &g->ch->at[i], err);
	if (r < 0)
		return r;
	g->shown = sf_alloc_array(n, sizeof(*g->shown));
	if (!g->shown)
		r = -ENOMEM;
	else if (g->asked == SF_OUT_SAFETENSORS || (g->asked == SF_OUT_PT && g->to_file && n > 1))
		r = add_all(g, (enum sf_out_format)g->asked);
	else if (g->to_file && n > 1)
		return sf_fail(err, -EINVAL, "'%s' holds one value, but %u keys match", g->file, n);
	else
		for (uint32_t i = 0; i < n && r >= 0; i++)
			r = add_one(g, i);
	if (r < 0)
		return sf_fail(err, r, "%u files", n);
	for (uint32_t i = 0; g->out.n > 1 && i < g->out.n; i++)
		if (format_of(g, &g->ch->at[g->shown[i]]) != SF_OUT_JSON)
			return sf_fail(err, -EINVAL, "-O - takes one key, but %u match", n);
	return sf_out_check_claims(&g->out, err);
}

/* "model.w[0:4]" */
static void put_label(const struct get *g, const struct sf_chosen *one, bool json)
{
	const struct sf_entry *e = &g->s->catalog->entry[one->entry];
	struct sf_buf name = { 0 };

	sf_buf_add(&name, e->name, e->len);
	sf_buf_str(&name, one->part);
	if (json)
		sf_put_json(stdout, (const char *)name.at, name.len);
	else
		sf_put_name(stdout, (const char *)name.at, name.len);
	sf_buf_release(&name);
	fputs(json ? ": " : " = ", stdout);
}

/* @i of several: the newline at its end is the list's. */
static int put_value(struct get *g, size_t i, struct sf_error *err)
{
	struct sf_out_file *f = &g->out.file[i];
	bool several = g->out.n > 1, last = i + 1 == g->out.n;
	int r = f->open(f->arg, f, &f->file, err);
	char end = 0;

	if (r >= 0)
		r = sf_vfile_prepare(f->file, err);
	if (r >= 0)
		r = sf_terminal_check(f->file, strrchr(f->path, '/') + 1, err);
	if (r >= 0 && several && f->file->size)
		r = (int)SF_MIN(0, sf_vfile_pread(f->file, f->file->size - 1, &end, 1, err));
	if (r >= 0 && several)
		put_label(g, &g->ch->at[g->shown[i]], !g->label);
	if (r >= 0) {
		fflush(stdout);
		r = sf_copy_out_some(g->s, f->file, f->file->size - (end == '\n'), STDOUT_FILENO,
		                     err);
	}
	if (r >= 0 && several)
		fputs(g->label || last ? "\n" : ",\n", stdout);
	sf_vfile_unref(f->file);
	f->file = NULL;
	return r;
}

static int get(struct get *g, bool force, struct sf_error *err)
{
	struct sf_write_options w = { .force = force };
	SF_FREE char *root = g->to_file ? sf_dir_of(g->file) : strdup(g->dir);
	int r = plan(g, err);
	bool object = g->out.n > 1 && !g->label;

	if (r >= 0 && !root)
		r = sf_fail(err, -ENOMEM, "'%s'", g->dir);
	if (r >= 0 && object)
		puts("{");
	for (size_t i = 0; i < g->out.n && r >= 0; i++)
		r = put_value(g, i, err);
	if (r >= 0 && object)
		puts("}");
	w.root = root;
	if (g->out.n)
		g->files.report = stderr; /* stdout has the values */
	if (r >= 0 && g->files.n)
		r = sf_out_write(&g->files, &w, err);
	return r;
}

/* Where to, and in which format: --format and the name that -O gives must agree. */
static int where(struct get *g, const struct get_options *o, struct sf_error *err)
{
	int named = -1;

	g->asked = -1;
	for (int f = 0; o->format && f <= SF_OUT_JSON; f++)
		if (strcmp(o->format, sf_out_format_names[f]) == 0)
			g->asked = f;
	if (o->format && g->asked < 0)
		return sf_fail(err, -EINVAL,
		               "--format %s: expected npy, pt, safetensors, raw or json",
		               o->format);
	g->label = !o->format;
	g->dir = ".";
	if (!o->out)
		return 0;
	g->to_stdout = strcmp(o->out, "-") == 0;
	if (!g->to_stdout)
		named = format_of_name(o->out);
	if (named >= 0 && g->asked >= 0 && named != g->asked)
		return sf_fail(err, -EINVAL, "'%s' is not the name of a file of --format %s",
		               o->out, o->format);
	g->to_file = named >= 0;
	g->dir_given = !g->to_stdout;
	if (g->to_file) {
		g->asked = named;
		g->file = o->out;
	} else if (!g->to_stdout) {
		/* without the slashes at its end */
		size_t n = strlen(o->out);
		while (n > 1 && o->out[n - 1] == '/')
			n--;
		g->dir = g->own_dir = strndup(o->out, n);
		if (!g->dir)
			return sf_fail(err, -ENOMEM, "'%s'", o->out);
	}
	return 0;
}

/* KEY, --train-state and --common: one of them. */
static int check_keys(const struct get_options *o, int nkeys, struct sf_error *err)
{
	if (o->rank && !o->train_state)
		return sf_fail(err, -EINVAL, "--rank is of --train-state");
	if (o->train_state && nkeys)
		return sf_fail(err, -EINVAL, "--train-state stands in place of KEY");
	if (o->common_state && (nkeys || o->train_state || o->format || o->out))
		return sf_fail(err, -EINVAL,
		               "--common stands in place of KEY and is JSON, on stdout");
	if (!o->train_state && !o->common_state && !nkeys)
		return sf_fail(err, -EINVAL, "get: KEY is missing");
	return 0;
}

static int run(const void *opt, const struct sf_common *common, int argc, char **argv)
{
	const struct get_options *o = opt;
	struct sf_error err = SF_ERROR_INIT;
	struct sf_get_choice ch = { 0 };
	char train[64], *train_key[] = { train }, **keys = o->train_state ? train_key : argv + 1;
	int nkeys = o->train_state ? 1 : argc - 1;
	struct sf_session s;
	struct get g = { .s = &s,
		         .ch = &ch,
		         .files = { .s = &s, .quiet = common->quiet },
		         .out = { .s = &s, .quiet = common->quiet } };

	if (check_keys(o, argc - 1, &err) < 0 || where(&g, o, &err) < 0) {
		sf_cli_error(SF_EXIT_USAGE, &err);
		fprintf(stderr, "usage: shardfuse get %s (shardfuse get --help)\n",
		        sf_cmd_get.usage);
		free(g.own_dir);
		return SF_EXIT_USAGE;
	}
	sf_interrupt_init();
	int r = sf_session_open(&s, &common->session, argv[0], &err);
	if (r >= 0) {
		if (o->common_state)
			r = sf_common_state(&s, stdout, &err);
		if (o->train_state)
			r = sf_train_state(s.catalog, o->rank - 1, train, &err);
		if (r >= 0 && !o->common_state)
			r = sf_get_choose(s.catalog, nkeys, keys, &ch, &err);
		if (r >= 0 && !o->common_state)
			r = get(&g, o->force, &err);
		sf_out_release(&g.files);
		sf_out_release(&g.out);
		free(g.shown);
		sf_get_choice_release(&ch);
		sf_session_close(&s);
	}
	free(g.own_dir);
	return r < 0 ? sf_cli_error(r == -EINVAL ? SF_EXIT_USAGE : SF_EXIT_FAILED, &err)
	             : SF_EXIT_OK;
}

const struct sf_cmd sf_cmd_get = {
	.name = "get",
	.usage = "SOURCE KEY… [--format npy|pt|safetensors|raw|json] [-O DIR|FILE|-]",
	.about = "write keys to files or print their values, in the given order",
	.example = "shardfuse get /ckpt/step1000 model.embed.weight --format npy -O /tmp\n"
		   "  shardfuse get /ckpt/step1000 train_state 'model.norm.weight[0:4]'",
	.options = options,
	.common = true,
	.view = true,
	.min_args = 1,
	.max_args = -1,
	.opt_size = sizeof(struct get_options),
	.run = run,
};
