/* The verbs: one cmd_*.c each, one table. */
#ifndef SF_CLI_CLI_H
#define SF_CLI_CLI_H

#include "tool/common.h"

enum { SF_EXIT_OK = 0, SF_EXIT_FAILED = 1, SF_EXIT_USAGE = 2 };

struct sf_cmd {
	const char *program; /* NULL: "shardfuse" */
	const char *name;
	const char *usage;   /* "SOURCE KEY… [--format npy|pt|…]" */
	const char *about;   /* one line */
	const char *example; /* lines shown, indented, at the end of --help */
	const struct sf_opt
		*options; /* its own, NULL for none; the common ones follow where common is set, in
	                     --help-all */
	const struct sf_opt *words; /* mount's -o knows these besides; only --help looks here */
	bool common, view;          /* takes the common options; those that choose what is shown */
	int min_args, max_args;     /* positional; max -1 any */
	size_t opt_size;            /* of the struct its options are parsed into */
	/* argv[0..argc) are the positional arguments; returns an exit code, messages are on stderr
	 * already */
	int (*run)(const void *opt, const struct sf_common *common, int argc, char **argv);
};
extern const struct sf_cmd sf_cmd_info, sf_cmd_keys, sf_cmd_ls, sf_cmd_cat, sf_cmd_get,
	sf_cmd_export, sf_cmd_verify, sf_cmd_diff, sf_cmd_stats, sf_cmd_explain, sf_cmd_rm_keys,
	sf_cmd_warm, sf_cmd_drop, sf_cmd_doctor, sf_cmd_find, sf_cmd_latest, sf_cmd_import,
	sf_cmd_reshard;

/*
 * sf_cli_main - find argv[1] in the verbs (ours, then @more) and run it. "--help", "--version",
 * "help VERB" are answered here. Returns -1 when argv[1] is no verb and is not misspelt for one:
 * the program then mounts.
 */
int sf_cli_main(int argc, char **argv, const struct sf_cmd *const *more, size_t nmore);
/* Run one verb's argv (argv[0] is the verb). */
int sf_cli_run(const struct sf_cmd *cmd, int argc, char **argv);
/* "shardfuse: MESSAGE" on stderr, escaped for a terminal. Returns @code. */
int sf_cli_error(int code, const struct sf_error *err);

#endif
