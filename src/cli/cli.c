#include "config.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/buf.h"
#include "base/mem.h"
#include "base/near.h"
#include "base/path.h"
#include "base/quote.h"
#include "catalog/view_wanted.h"
#include "cli/cli.h"
#include "cli/complete.h"
#include "tool/progress.h"

static const struct sf_cmd *const verbs[] = {
	&sf_cmd_info,    &sf_cmd_keys,   &sf_cmd_ls,      &sf_cmd_cat,    &sf_cmd_get,
	&sf_cmd_export,  &sf_cmd_verify, &sf_cmd_diff,    &sf_cmd_stats,  &sf_cmd_explain,
	&sf_cmd_rm_keys, &sf_cmd_warm,   &sf_cmd_drop,    &sf_cmd_doctor, &sf_cmd_find,
	&sf_cmd_latest,  &sf_cmd_import, &sf_cmd_reshard,
};

static void section(const char *title, const struct sf_opt *table, size_t width, FILE *f)
{
	fprintf(f, "\n%s:\n", title);
	sf_options_help(table, width, f);
}

/* "KEY and MOUNTPOINT are missing": what @usage names outside of brackets, but for the first @have.
 * "[-z] MOUNTPOINT…", "SOURCE KEY… [-l]" */
static int missing_args(const struct sf_cmd *cmd, int have, struct sf_error *err)
{
	struct sf_buf names = { .limit = 256 };
	int depth = 0, n = 0;

	for (const char *c = cmd->usage; *c; c++) {
		size_t len = strspn(c, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
		depth += *c == '[' ? 1 : *c == ']' ? -1 : 0;
		/* letters of options are in brackets, other words have small ones */
		if (depth || !len || n >= cmd->min_args)
			continue;
		if (n++ >= have) {
			sf_buf_str(&names, names.len ? " and " : "");
			sf_buf_add(&names, c, len);
		}
		c += len - 1;
	}
	sf_fail(err, -EINVAL, "%s: %s %s missing", cmd->name, sf_buf_cstr(&names),
	        cmd->min_args - have > 1 ? "are" : "is");
	sf_buf_release(&names);
	return -EINVAL;
}

static const char *program(const struct sf_cmd *cmd)
{
	return cmd->program ? cmd->program : "shardfuse";
}

/* A verb's own options; those that all verbs know with @all. */
static void help_cmd(const struct sf_cmd *cmd, bool all, FILE *f)
{
	size_t width = sf_options_width(cmd->options);

	if (all && cmd->view)
		width = SF_MAX(width, sf_options_width(sf_view_option_table));
	if (all && cmd->common)
		width = SF_MAX(width, sf_options_width(sf_common_options));
	fprintf(f, "usage: %s %s %s\n\n%c%s.\n", program(cmd), cmd->name, cmd->usage,
	        toupper((unsigned char)cmd->about[0]), cmd->about + 1);
	if (cmd->options)
		section("options", cmd->options, width, f);
	if (cmd->words) {
		fprintf(f, "\nonly with -o:\n");
		sf_options_help_words(cmd->words, width, f);
	}
	if (all && cmd->view)
		section("what is shown", sf_view_option_table, width, f);
	if (all && cmd->common)
		section("common options", sf_common_options, width, f);
	if (!all && (cmd->view || cmd->common))
		fprintf(f,
		        "\n%s %s --help-all also lists the options that all verbs share: "
		        "what is shown, memory, log …%s\n",
		        program(cmd), cmd->name,
		        cmd->words ? "\nEach is also a word of -o, without its dashes." : "");
	if (!cmd->example)
		return;
	fprintf(f, "\nexample:\n");
	for (const char *line = cmd->example, *end; *line; line = end + (*end == '\n')) {
		line += strspn(line, " ");
		end = line + strcspn(line, "\n");
		fprintf(f, "  %.*s\n", (int)(end - line), line);
	}
}

/* --help or --help-all before "--", or -h where that is no option of the verb's; 0: neither. */
static int asks_for_help(const struct sf_cmd *cmd, int argc, char **argv)
{
	bool taken = false;

	for (const struct sf_opt *o = cmd->options; o && o->name; o++)
		taken |= o->letter == 'h';
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (strcmp(argv[i], "--help-all") == 0)
			return 2;
		else if (strcmp(argv[i], "--help") == 0 || (!taken && strcmp(argv[i], "-h") == 0))
			return 1;
	return 0;
}

static void own_options(const struct sf_cmd *cmd, FILE *f)
{
	char title[64];

	snprintf(title, sizeof(title), "options of %s", cmd->name);
	if (cmd->options && cmd->options->name)
		section(title, cmd->options, SF_HELP_COLUMN, f);
	if (cmd->words) {
		fprintf(f, "\nof %s, only with -o:\n", cmd->name);
		sf_options_help_words(cmd->words, SF_HELP_COLUMN, f);
	}
}

/* The program's help; with @all every option: mount's words and what all verbs share. */
static void help_program(const struct sf_cmd *const *more, size_t nmore, bool all, FILE *f)
{
	fprintf(f, "usage: shardfuse SOURCE MOUNTPOINT [-o NAME[=VALUE],…]\n"
	           "       shardfuse VERB … (shardfuse VERB --help; --help-all: every option)\n"
	           "       shardfuse --version | --help | --help-all\n\n"
	           "Shows a sharded checkpoint as unsharded .pt, .safetensors and .npy files, "
	           "without converting it.\n\nverbs:\n");
	for (size_t i = 0; i < nmore; i++)
		fprintf(f, "  %-8s %s\n", more[i]->name, more[i]->about);
	for (size_t i = 0; i < SF_ARRAY_LEN(verbs); i++)
		fprintf(f, "  %-8s %s\n", verbs[i]->name, verbs[i]->about);
	fprintf(f, "  %-8s %s\n", "help", "the help of a verb: shardfuse help VERB");
	for (size_t i = 0; all && i < nmore + SF_ARRAY_LEN(verbs); i++)
		own_options(i < nmore ? more[i] : verbs[i - nmore], f);
	if (all) {
		section("what is shown, of every verb that reads SOURCE", sf_view_option_table,
		        SF_HELP_COLUMN, f);
		section("common options", sf_common_options, SF_HELP_COLUMN, f);
	}
	fprintf(f, "\nexample:\n  shardfuse /ckpt/step1000 /mnt/c\n  python -c 'import torch; "
	           "torch.load(\"/mnt/c/model.pt\", mmap=True)'\n");
}

static int usage(const struct sf_cmd *cmd, const struct sf_error *err)
{
	sf_cli_error(SF_EXIT_USAGE, err);
	fprintf(stderr, "usage: %s %s %s (%s %s --help)\n", program(cmd), cmd->name, cmd->usage,
	        program(cmd), cmd->name);
	return SF_EXIT_USAGE;
}

/* A full disk or a closed pipe behind our output is a failure of the verb. */
static int end_output(int code)
{
	struct sf_error err = SF_ERROR_INIT;

	if ((fflush(stdout) != 0 || ferror(stdout)) && code == SF_EXIT_OK) {
		sf_fail_errno(&err, "writing to stdout");
		return sf_cli_error(SF_EXIT_FAILED, &err);
	}
	return code;
}

int sf_cli_run(const struct sf_cmd *cmd, int argc, char **argv)
{
	const struct sf_opt *tables[4] = { NULL };
	void *dests[4] = { NULL };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_common common;
	size_t n = 0;
	int code;

	int asks = asks_for_help(cmd, argc, argv);
	if (asks) {
		help_cmd(cmd, asks == 2, stdout);
		return end_output(SF_EXIT_OK);
	}
	void *opt = calloc(1, cmd->opt_size + 1);
	if (!opt) {
		sf_fail(&err, -ENOMEM, "options");
		return sf_cli_error(SF_EXIT_FAILED, &err);
	}
	sf_common_init(&common);
	sf_common_program(&common);
	if (cmd->options) {
		tables[n] = cmd->options;
		dests[n++] = opt;
	}
	if (cmd->common) {
		tables[n] = sf_common_options;
		dests[n++] = &common;
	}
	if (cmd->view) {
		tables[n] = sf_view_option_table;
		dests[n++] = &common.session.view;
	}
	int args = sf_options_parse(tables, dests, argc - 1, argv + 1, &err);
	if (args >= 0 && args < cmd->min_args)
		args = missing_args(cmd, args, &err);
	else if (args >= 0 && cmd->max_args >= 0 && args > cmd->max_args)
		args = sf_fail(&err, -EINVAL, "%s: too many arguments", cmd->name);
	if (args >= 0 && (sf_views_check(&common.session.view, &err) < 0 ||
	                  sf_roles_check(&common.session.view, &err) < 0))
		args = -EINVAL;
	if (args < 0)
		code = usage(cmd, &err);
	else
		code = cmd->run(opt, &common, args, argv + 1);
	code = end_output(code);
	sf_common_release(&common);
	free(opt);
	return code;
}

static const struct sf_cmd *find(const char *name, const struct sf_cmd *const *more, size_t nmore)
{
	for (size_t i = 0; i < nmore; i++)
		if (strcmp(more[i]->name, name) == 0)
			return more[i];
	for (size_t i = 0; i < SF_ARRAY_LEN(verbs); i++)
		if (strcmp(verbs[i]->name, name) == 0)
			return verbs[i];
	return NULL;
}

/* The verb nearest to a misspelt one, or NULL. */
static const char *near_verb(const char *name, const struct sf_cmd *const *more, size_t nmore)
{
	const char *near = NULL;
	unsigned best = SF_MAX(sf_edits_allowed(strlen(name)), 1u);

	for (size_t i = 0; i <= nmore + SF_ARRAY_LEN(verbs); i++) {
		const char *verb = i < nmore                         ? more[i]->name
		                   : i - nmore < SF_ARRAY_LEN(verbs) ? verbs[i - nmore]->name
		                                                     : "help";
		unsigned d = sf_edits(name, strlen(name), verb, strlen(verb), best);
		if (d < strlen(verb) && (d < best || (d == best && !near))) {
			best = d;
			near = verb;
		}
	}
	return near;
}

static int no_verb(const char *name, bool may_be_source, const struct sf_cmd *const *more,
                   size_t nmore)
{
	const char *near = near_verb(name, more, nmore);
	struct sf_error err = SF_ERROR_INIT;

	sf_fail(&err, -EINVAL, "'%s' is %s%s", name,
	        may_be_source ? "neither a verb nor a SOURCE that exists" : "not a verb",
	        near ? "" : " (shardfuse --help lists the verbs)");
	if (near)
		sf_fail(&err, -EINVAL, "%s: did you mean %s?", err.msg, near);
	return sf_cli_error(SF_EXIT_USAGE, &err);
}

static int complete(int argc, char **argv, const struct sf_cmd *const *more, size_t nmore)
{
	const struct sf_cmd *all[64];
	size_t n = 0;

	for (size_t i = 0; i < nmore && n < SF_ARRAY_LEN(all); i++)
		all[n++] = more[i];
	for (size_t i = 0; i < SF_ARRAY_LEN(verbs) && n < SF_ARRAY_LEN(all); i++)
		all[n++] = verbs[i];
	return sf_complete(stdout, argc, argv, all, n);
}

/* --verison; NULL: it is near none of the program's own options, of which mount knows none. */
static const char *near_option(const char *given)
{
	static const char *const known[] = { "--version", "--help", "--help-all" };

	for (size_t i = 0; i < SF_ARRAY_LEN(known) && strncmp(given, "--", 2) == 0; i++)
		if (sf_edits(given, strlen(given), known[i], strlen(known[i]), 2) <= 2)
			return known[i];
	return NULL;
}

int sf_cli_main(int argc, char **argv, const struct sf_cmd *const *more, size_t nmore)
{
	const char *first = argc > 1 ? argv[1] : "";
	struct sf_error err = SF_ERROR_INIT;
	const struct sf_cmd *cmd = find(first, more, nmore);

	if (cmd)
		return sf_cli_run(cmd, argc - 1, argv + 1);
	if (strcmp(first, "--complete") == 0)
		return complete(argc - 2, argv + 2, more, nmore);
	if (strcmp(first, "--version") == 0 || strcmp(first, "-V") == 0) {
		printf("shardfuse %s\n", PACKAGE_VERSION);
		return end_output(SF_EXIT_OK);
	}
	if (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0 ||
	    strcmp(first, "--help-all") == 0 || strcmp(first, "help") == 0) {
		cmd = argc > 2 ? find(argv[2], more, nmore) : NULL;
		if (cmd)
			help_cmd(cmd, strcmp(first, "--help-all") == 0, stdout);
		else if (argc > 2 && argv[2][0] != '-')
			return no_verb(argv[2], false, more, nmore);
		else
			help_program(more, nmore, strcmp(first, "--help-all") == 0, stdout);
		return end_output(SF_EXIT_OK);
	}
	if (argc < 2) {
		help_program(more, nmore, false, stderr);
		return SF_EXIT_USAGE;
	}
	if (argc == 2 && near_option(first)) {
		sf_fail(&err, -EINVAL, "unknown option '%s': did you mean %s?", first,
		        near_option(first));
		return sf_cli_error(SF_EXIT_USAGE, &err);
	}
	/* one word that is neither a verb nor followed by a mountpoint */
	if (argc == 2 && access(first, F_OK) == 0) {
		SF_CLEANUP(sf_buf_release) struct sf_buf word = { 0 };
		sf_quote_shell_message(&word, first, "SOURCE");
		sf_fail(&err, -EINVAL,
		        "'%.300s': add a mountpoint behind it, or a verb before it (shardfuse info "
		        "%s)",
		        first, sf_buf_cstr(&word));
		return sf_cli_error(SF_EXIT_USAGE, &err);
	}
	if (first[0] != '-' && !strchr(first, '/') && !strchr(first, ':') &&
	    access(first, F_OK) != 0)
		return no_verb(first, true, more, nmore);
	return -1;
}
