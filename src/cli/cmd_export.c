#include "config.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/atomic_file.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/path.h"
#include "catalog/view_wanted.h"
#include "cli/cli.h"
#include "cli/export.h"
#include "cli/export_hf.h"
#include "cli/old_files.h"
#include "cli/out_list.h"
#include "cli/target_url.h"
#include "cli/text.h"
#include "cli/write_anew.h"
#include "tool/interrupt.h"
#include "view/view_size.h"

enum strategy { ONE_FILE, ONE_FILE_PER_TENSOR, CHUNKS };

static int parse_jobs(void *dest, const char *value, struct sf_error *err)
{
	struct sf_export_options *o = dest;
	char *end;

	errno = 0;
	unsigned long n = strtoul(value, &end, 10);
	if (errno || end == value || *end || *value == '-' || n > UINT_MAX)
		return sf_fail(err, -EINVAL, "'%s' is not a whole number", value);
	if (!n)
		return sf_fail(err, -EINVAL, "0 threads write nothing: at least 1");
	o->jobs = (unsigned)n;
	return 0;
}

#define AT(field) offsetof(struct sf_export_options, field)
const struct sf_opt sf_export_option_table[] = {
	{ "format", 0, SF_OPT_STR, AT(format), NULL, "pt|safetensors|hf|npy|dcp",
	  "default: from TARGET's name; *.pt gets everything, *.safetensors the model" },
	{ "strategy", 0, SF_OPT_STR, AT(strategy), NULL, "NAME",
	  "one_file (default), one_file_per_tensor, chunks" },
	{ "optim", 0, SF_OPT_FLAG, AT(optim), NULL, NULL,
	  "include the optimizer (default for pt one_file, not for others)" },
	{ "no-optim", 0, SF_OPT_FLAG, AT(no_optim), NULL, NULL, "leave out the optimizer" },
	{ "force", 0, SF_OPT_FLAG, AT(force), NULL, NULL, "overwrite existing files" },
	{ "jobs", 'j', SF_OPT_CALL, 0, parse_jobs, "N",
	  "threads that write (default: one per core)" },
	{ "ranks", 0, SF_OPT_UINT, AT(ranks), NULL, "N",
	  "of dcp: shards, as N ranks would write them (default 1)" },
	{ 0 },
};

/* What one export does. */
struct export
{
	struct sf_session *s;
	enum sf_out_format format;
	enum strategy strategy;
	bool optim, no_optim;
	const char *target; /* without slashes at its end */
	bool dir;           /* it had some */
	struct sf_out_list list;
	uint32_t *entries;       /* scratch: a selection being made */
	struct sf_old_files old; /* chunks of a larger export, which go when all is written */
};

/* The format that a name says, or -1. */
static int named_format(const char *target)
{
	return sf_has_suffix(target, ".pt") || sf_has_suffix(target, ".pth") ||
	                       sf_has_suffix(target, ".bin")
	               ? SF_OUT_PT
	       : sf_has_suffix(target, ".safetensors") ? SF_OUT_SAFETENSORS
	                                               : -1;
}

static bool is_file_target(const struct export *x)
{
	struct stat st;
	if (x->dir || x->strategy != ONE_FILE ||
	    (x->format != SF_OUT_PT && x->format != SF_OUT_SAFETENSORS))
		return false;
	if (stat(x->target, &st) == 0 && S_ISDIR(st.st_mode))
		return false;
	return named_format(x->target) == (int)x->format;
}

static bool is_optim(const struct sf_catalog *c, const struct sf_entry *e)
{
	return c->group[e->group].of->role == SF_ROLE_OPTIM;
}

/* Nothing else has tensors: it is then what is meant. */
static bool optim_is_all(const struct sf_catalog *c)
{
	bool any = false;

	for (uint32_t i = 0; i < c->nmain; i++) {
		if (c->entry[i].tensor == SF_NONE)
			continue;
		if (!is_optim(c, &c->entry[i]))
			return false;
		any = true;
	}
	return any;
}

/* Entries of everything but (unless asked for) the optimizer. */
static uint32_t all_entries(struct export *x)
{
	const struct sf_catalog *c = x->s->catalog;
	uint32_t n = 0;
	for (uint32_t i = 0; i < c->nmain; i++)
		if (x->optim || !is_optim(c, &c->entry[i]))
			x->entries[n++] = i;
	return n;
}

static int add_group(struct export *x, int32_t group, enum sf_out_format format, char *path)
{
	const struct sf_catalog *c = x->s->catalog;
	const struct sf_cat_group *g = &c->group[group];
	const struct sf_selection sel = { .entry = c->by_group + g->first,
		                          .n = g->n,
		                          .strip = g->of->strip,
		                          .cast = g->of->role == SF_ROLE_MODEL };
	return sf_out_add(&x->list, format, &sel, path);
}

/* TARGET is a file: checkpoint.pt, or model.safetensors; without a model role, or with --optim,
 * everything. */
static int plan_file(struct export *x)
{
	const struct sf_catalog *c = x->s->catalog;

	if (x->format == SF_OUT_SAFETENSORS && !x->optim && c->model_group >= 0)
		return add_group(x, c->model_group, x->format, strdup(x->target));
	const struct sf_selection sel = {
		.entry = x->entries, .n = all_entries(x), .cast = !x->optim, .stored = x->optim
	};
	return sf_out_add(&x->list, x->format, &sel, strdup(x->target));
}

static int plan_dir(struct export *x)
{
	const struct sf_catalog *c = x->s->catalog;
	const char *suffix = sf_out_suffix(x->format);
	int r;

	if (c->model_group < 0) {
		const struct sf_selection sel = { .entry = x->entries,
			                          .n = all_entries(x),
			                          .cast = !x->optim };
		return sf_out_add(&x->list, x->format, &sel,
		                  sf_cli_text("%s/checkpoint%s", x->target, suffix));
	}
	r = add_group(x, c->model_group, x->format, sf_cli_text("%s/model%s", x->target, suffix));
	if (r >= 0 && x->optim && c->optim_group >= 0)
		r = add_group(x, c->optim_group, SF_OUT_PT, sf_cli_text("%s/optim.pt", x->target));
	return r;
}

/* the directory of groups that have no file in the root; one may be called so */
#define OTHER "other"

/* The directory of a group: its file's stem. In a stem all dots are plain, for a suffix follows;
 * here two names would lead elsewhere: a checkpoint must not choose where we write. */
static const char *group_dir(const struct sf_catalog *c, uint32_t group)
{
	const struct sf_cat_group *g = &c->group[group];
	if (g->link)
		return g->link;
	if (!g->stem)
		return group == (uint32_t)c->model_group ? "model" : OTHER;
	return strcmp(g->stem, ".") == 0 ? "%2E" : strcmp(g->stem, "..") == 0 ? "%2E%2E" : g->stem;
}

static bool holds(const struct export *x, uint32_t entry)
{
	const struct sf_catalog *c = x->s->catalog;

	return (x->optim || !is_optim(c, &c->entry[entry])) && sf_out_holds(c, x->format, entry);
}

static int plan_per_tensor(struct export *x)
{
	const struct sf_catalog *c = x->s->catalog;
	int r = 0;

	for (uint32_t i = 0; i < c->n && r >= 0; i++) {
		const struct sf_entry *e = &c->entry[i];
		struct sf_selection sel = { .entry = &i, .n = 1, .cast = true, .flat = true };
		struct sf_buf name = { 0 };
		if (!holds(x, i))
			continue;
		sf_name_encode(&name, e->name, e->len, e->name, e->len, strlen(".safetensors"));
		if (x->strategy == ONE_FILE) /* npy has no other way */
			r = sf_out_add(&x->list, x->format, &sel,
			               sf_cli_text("%s/%s%s", x->target, sf_buf_cstr(&name),
			                           sf_out_suffix(x->format)));
		else
			r = sf_out_add(&x->list, x->format, &sel,
			               sf_cli_text("%s/%s/%s%s", x->target, group_dir(c, e->group),
			                           sf_buf_cstr(&name), sf_out_suffix(x->format)));
		sf_buf_release(&name);
	}
	return r;
}

/* GROUP/chunk-00000.EXT: filled in stored order up to max_shard_size; one larger tensor stands
 * alone. Who loads them takes all that are in a directory: none of an older export stays there. */
static int plan_chunks(struct export *x)
{
	const struct sf_catalog *c = x->s->catalog;
	uint32_t others = 0; /* groups that share a directory are numbered on */
	int r = 0;

	for (uint32_t g = 0; g < c->ngroups && r >= 0; g++) {
		const char *dir = group_dir(c, g);
		uint64_t bytes = 0;
		uint32_t n = 0, own = 0, *chunk = strcmp(dir, OTHER) == 0 ? &others : &own;
		for (uint32_t i = 0; i <= c->group[g].n && r >= 0; i++) {
			bool last = i == c->group[g].n;
			uint32_t entry = last ? 0 : c->by_group[c->group[g].first + i];
			if (!last && !holds(x, entry))
				continue;
			const struct sf_entry *e = last ? NULL : &c->entry[entry];
			uint64_t size = !e || e->tensor == SF_NONE
			                        ? 0
			                        : sf_tensor_bytes_as(&c->ckpt->tensor[e->tensor],
			                                             (enum sf_dtype)e->dtype);
			if (n && (last || bytes + size > c->opt->max_shard_size)) {
				const struct sf_selection sel = {
					.entry = x->entries, .n = n, .cast = true, .flat = true
				};
				r = sf_out_add(&x->list, x->format, &sel,
				               sf_cli_text("%s/%s/chunk-%05u%s", x->target, dir,
				                           (*chunk)++, sf_out_suffix(x->format)));
				n = 0;
				bytes = 0;
			}
			if (!last)
				x->entries[n++] = entry;
			bytes += size;
		}
		if (own && r >= 0)
			r = sf_old_chunks(&x->old, x->target, dir, own, sf_out_suffix(x->format));
	}
	if (others && r >= 0)
		r = sf_old_chunks(&x->old, x->target, OTHER, others, sf_out_suffix(x->format));
	return r;
}

static int plan(struct export *x, struct sf_error *err)
{
	int r;

	if (x->strategy == CHUNKS)
		r = plan_chunks(x);
	else if (x->strategy == ONE_FILE_PER_TENSOR || x->format == SF_OUT_NPY)
		r = plan_per_tensor(x);
	else
		r = is_file_target(x) ? plan_file(x) : plan_dir(x);
	return r < 0 ? sf_fail(err, r, "out of memory") : 0;
}

static int replace_old(const struct export *x, struct sf_write_options *w, struct sf_error *err)
{
	if (!w->force && x->old.n)
		return sf_old_files_refuse(&x->old, err);
	w->after = x->old.at;
	w->nafter = x->old.n;
	return 0;
}

static int nothing(const struct export *x, int r, struct sf_error *err)
{
	const struct sf_catalog *c = x->s->catalog;

	if (x->format == SF_OUT_HF)
		return sf_fail_ctx(err, r, "nothing to export");
	return sf_fail(err, r, "nothing to export: no key of this selection fits %s%s",
	               sf_out_format_names[x->format],
	               !x->optim && c->optim_group >= 0
	                       ? " (the optimizer is left out; --optim includes it)"
	                       : "");
}

/* "left out: optim (use --optim), cfg, step": groups of which no key was chosen, those without a
 * name by their keys. What the command line says itself is not told again. */
static void tell_left_out(const struct export *x)
{
	enum { NAMED = 8 };
	const struct sf_catalog *c = x->s->catalog;
	SF_FREE bool *in = calloc(c->n + 1, sizeof(*in));
	struct sf_buf text = { .limit = 1 << 16 };
	unsigned n = 0;

	for (uint64_t i = 0; in && i < x->list.nentries; i++)
		in[x->list.entry[i]] = true;
	for (uint32_t g = 0; in && g < c->ngroups; g++) {
		const struct sf_cat_group *group = &c->group[g];
		const uint32_t *entry = c->by_group + group->first;
		bool optim = group->of->role == SF_ROLE_OPTIM;
		uint32_t k = 0;
		while (k < group->n && !in[entry[k]])
			k++;
		if (k < group->n || (optim && x->no_optim))
			continue;
		for (k = 0; k < (group->of->len ? SF_MIN(group->n, 1u) : group->n); k++) {
			const struct sf_entry *e = &c->entry[entry[k]];
			if (n++ >= NAMED)
				continue;
			sf_buf_str(&text, n > 1 ? ", " : "");
			sf_escape_text(&text, group->of->len ? group->of->name : e->name,
			               group->of->len ? group->of->len : e->len);
			if (optim && x->format != SF_OUT_HF)
				sf_buf_str(&text, " (use --optim)");
		}
	}
	if (n > NAMED)
		sf_buf_printf(&text, " and %u more", n - NAMED);
	if (n)
		fprintf(stderr, "shardfuse: left out: %s\n", sf_buf_cstr(&text));
	sf_buf_release(&text);
}

static int export(struct export *x, const struct sf_export_options *o, struct sf_error *err)
{
	struct sf_write_options w = { .threads = o->jobs, .force = o->force };
	SF_CLEANUP(sf_hf_export_release) struct sf_hf_export old = { 0 };
	SF_FREE char *dir = NULL;
	struct sf_hf *hf = NULL;
	int r = 0;

	x->entries = sf_alloc_array(x->s->catalog->n, sizeof(*x->entries));
	if (!x->entries) {
		r = sf_fail(err, -ENOMEM, "%u keys", x->s->catalog->n);
	} else if (x->format == SF_OUT_HF) {
		r = sf_hf_new(x->s->catalog, &hf, err);
		if (r >= 0)
			r = sf_hf_export_plan(&old, hf, x->target, &x->list, &w, err);
	} else {
		r = plan(x, err);
		if (r >= 0)
			r = replace_old(x, &w, err);
	}
	if (r >= 0)
		r = sf_out_check_any(&x->list, err);
	if (r == -ENOENT)
		nothing(x, r, err);
	if (r >= 0 && hf && !x->s->view.hf_files_found && !x->list.quiet)
		fprintf(stderr, "shardfuse: no config.json: add --hf-files DIR\n");
	if (r >= 0) {
		dir = is_file_target(x) ? sf_dir_of(x->target) : strdup(x->target);
		w.root = dir;
		if (!dir)
			r = sf_fail(err, -ENOMEM, "'%s'", x->target);
	}
	if (x->list.share)
		r = x->list.share->agree(r, err);
	if (r >= 0)
		r = sf_out_write(&x->list, &w, err);
	sf_hf_free(hf);
	if (r >= 0 && !x->list.quiet)
		tell_left_out(x);
	return r;
}

/* Of ranks all have the message. */
static int failed(const struct sf_out_share *share, int code, const struct sf_error *err)
{
	return share && share->rank != 0 ? code : sf_cli_error(code, err);
}

/* A directory may be called anything if it is there. */
static bool contradicts(const struct export *x)
{
	int named = x->dir ? -1 : named_format(x->target);
	struct stat st;

	return named >= 0 && named != (int)x->format &&
	       !(stat(x->target, &st) == 0 && S_ISDIR(st.st_mode));
}

/* --format, or what the target's name says. */
static int choose_format(struct export *x, const struct sf_export_options *o, struct sf_error *err)
{
	int format = o->format ? -1 : named_format(x->target);

	for (int f = 0; o->format && f < SF_OUT_NFORMATS; f++)
		if (f != SF_OUT_RAW && f != SF_OUT_JSON &&
		    strcmp(o->format, sf_out_format_names[f]) == 0)
			format = f;
	if (format < 0)
		return sf_fail(err, -EINVAL,
		               o->format ? "--format %s: expected pt, safetensors, hf, npy or dcp"
		                         : "'%s' does not say the format: add --format pt, "
		                           "safetensors, hf, npy or dcp",
		               o->format ? o->format : x->target);
	x->format = (enum sf_out_format)format;
	if (contradicts(x))
		return sf_fail(err, -EINVAL, "'%s' is not the name of a file of --format %s",
		               x->target, o->format);
	return 0;
}

static int choose_strategy(struct export *x, const char *name, struct sf_error *err)
{
	static const char *const strategies[] = { "one_file", "one_file_per_tensor", "chunks" };
	unsigned i = 0;

	while (name && i < SF_ARRAY_LEN(strategies) && strcmp(name, strategies[i]) != 0)
		i++;
	if (i == SF_ARRAY_LEN(strategies))
		return sf_fail(err, -EINVAL,
		               "--strategy %s: expected one_file, one_file_per_tensor or chunks",
		               name);
	if (name)
		x->strategy = (enum strategy)i;
	if (x->format == SF_OUT_NPY && x->strategy == CHUNKS)
		return sf_fail(err, -EINVAL,
		               "--strategy chunks: an .npy file holds one array: use "
		               "one_file_per_tensor, or --format safetensors");
	return 0;
}

/* --optim, or what the format and --role make of it. */
static int choose_optim(struct export *x, const struct sf_export_options *o,
                        const struct sf_view_options *view, struct sf_error *err)
{
	if (o->optim && o->no_optim)
		return sf_fail(err, -EINVAL, "--optim and --no-optim exclude each other");
	x->no_optim = o->no_optim;
	x->optim =
		o->optim || (!o->no_optim && (view->role == SF_ROLE_OPTIM ||
	                                      (x->format == SF_OUT_PT && x->strategy == ONE_FILE &&
	                                       sf_role_wanted(view, SF_ROLE_OPTIM))));
	return 0;
}

/* A sharded checkpoint: of everything, as .pt in one file. */
static int export_dcp(const struct sf_export_options *o, const struct sf_common *common,
                      char *source, const char *target, const struct sf_out_share *share)
{
	const struct sf_anew_options anew = {
		.format = "dcp",
		.ranks = o->ranks ? o->ranks
		         : share  ? share->size
		                  : 1,
		.comm = share ? share->comm : NULL,
		.force = o->force,
		.no_optim = o->no_optim,
	};
	struct sf_error err = SF_ERROR_INIT;

	if (o->strategy)
		sf_fail(&err, -EINVAL, "--strategy: of pt, safetensors and npy alone");
	else if (o->jobs)
		sf_fail(&err, -EINVAL, "-j: --format dcp has a thread for each of its --ranks");
	else if (o->optim && o->no_optim)
		sf_fail(&err, -EINVAL, "--optim and --no-optim exclude each other");
	else if (share && o->ranks && o->ranks != share->size)
		sf_fail(&err, -EINVAL, "--ranks %u: the job has %u", o->ranks, share->size);
	else
		return sf_write_anew(common, &source, 1, target, &anew);
	return failed(share, SF_EXIT_USAGE, &err);
}

/* What --format, --strategy and the rest come to together. */
static int choose(struct export *x, const struct sf_export_options *o,
                  const struct sf_common *common, struct sf_error *err)
{
	int r = choose_format(x, o, err);

	if (r >= 0)
		r = choose_strategy(x, o->strategy, err);
	if (r >= 0)
		r = choose_optim(x, o, &common->session.view, err);
	if (r >= 0 && x->list.share && x->strategy == ONE_FILE && x->format != SF_OUT_HF &&
	    x->format != SF_OUT_NPY)
		r = sf_fail(err, -EINVAL,
		            "one file is written by one process (shardfuse export): add --strategy "
		            "chunks or one_file_per_tensor, or --format hf, npy or dcp");
	return r;
}

int sf_export(const struct sf_export_options *o, const struct sf_common *common, char **argv,
              const struct sf_out_share *share)
{
	char *source = argv[0], *target = argv[1];
	struct sf_error err = SF_ERROR_INIT;
	struct sf_session s;
	struct export x = {
		.s = &s,
		.target = target,
		.strategy = ONE_FILE,
		.list = { .s = &s,
		          .share = share,
		          .quiet = common->quiet || (share && share->rank != 0) },
	};
	int r, open;

	if (o->format && strcmp(o->format, "dcp") == 0)
		return export_dcp(o, common, source, target, share);
	if (strstr(target, "://"))
		return share && share->rank != 0 ? SF_EXIT_USAGE : sf_refuse_url(target);
	if (o->ranks) {
		sf_fail(&err, -EINVAL, "--ranks: of --format dcp alone");
		return failed(share, SF_EXIT_USAGE, &err);
	}
	for (size_t n = strlen(target); n > 1 && target[n - 1] == '/'; x.dir = true)
		target[--n] = '\0';
	r = choose(&x, o, common, &err);
	if (share) /* what lies at TARGET may be another thing on another host */
		r = share->agree(r, &err);
	if (r < 0)
		return failed(share, SF_EXIT_USAGE, &err);

	sf_interrupt_init();
	r = open = sf_session_open(&s, &common->session, source, &err);
	if (share)
		r = share->agree(r, &err);
	if (r >= 0) {
		x.optim |= !x.no_optim && optim_is_all(s.catalog);
		r = export(&x, o, &err);
		sf_out_release(&x.list);
		sf_old_files_release(&x.old);
		free(x.entries);
	}
	if (open >= 0)
		sf_session_close(&s);
	return r < 0 ? failed(share, SF_EXIT_FAILED, &err) : SF_EXIT_OK;
}

static int run(const void *opt, const struct sf_common *common, int argc, char **argv)
{
	(void)argc;
	return sf_export(opt, common, argv, NULL);
}

const struct sf_cmd sf_cmd_export = {
	.name = "export",
	.usage = "SOURCE TARGET [--format pt|safetensors|hf|npy|dcp] [--strategy NAME] "
		 "[--optim|--no-optim] [--ranks N] [--force] [-j N]",
	.about = "write the views as real files",
	.example = "shardfuse export /ckpt/step1000 model.safetensors\n  shardfuse export "
		   "/ckpt/step1000 /models/mine --format hf --dtype bf16",
	.options = sf_export_option_table,
	.common = true,
	.view = true,
	.min_args = 2,
	.max_args = 2,
	.opt_size = sizeof(struct sf_export_options),
	.run = run,
};
