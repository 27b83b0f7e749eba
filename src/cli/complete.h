/* What may stand where the cursor is: asked by the shells' completions (contrib/completions). */
#ifndef SF_CLI_COMPLETE_H
#define SF_CLI_COMPLETE_H

#include <stdio.h>
#include "cli/cli.h"

/*
 * sf_complete - `shardfuse --complete WORD … CURRENT`.
 *
 * The words are those behind the program's name, as the program would get them (quotes and
 * backslashes taken out), CURRENT the beginning of the one the cursor is in, "" for a new one. On
 * @out come fields that end in NUL each:
 *
 *   what      "none", or what the shell knows itself and offers besides: "files", "dirs"
 *   behind    how much of CURRENT stands before what those are ("--output=")
 *   then, for each that CURRENT may become, three: the whole word; a few words about it or ""; "+"
 * when it is a beginning and no blank follows ("npy/", "dtype="), else ""
 *
 * A checkpoint's names are data: the shells quote them and never expand them. They are read of a
 * checkpoint on this machine only, a remote one would make the key press wait. What was typed
 * before CURRENT counts: names are those that --map and the like make. Of many names those up to
 * the next dot are given. What begins with '-' is an option until "--" was typed. Never talks on
 * stderr; 0.
 */
int sf_complete(FILE *out, int argc, char **argv, const struct sf_cmd *const *cmds, size_t ncmds);

/* complete_names.c - names from outside, a list that is sorted before it is put. */
struct sf_names {
	struct sf_name {
		char *text;
		bool more; /* a beginning */
	} * at;
	size_t n, cap;
};
/* Names that begin with @prefix, as @common shows them. Failures give fewer, or none. */
void sf_names_keys(struct sf_names *ret, const struct sf_common *common, const char *source,
                   const char *prefix, bool stored);
void sf_names_paths(struct sf_names *ret, const struct sf_common *common, const char *source,
                    const char *prefix);
/* Our mounts in a text as /proc/self/mountinfo; NULL: in that. */
void sf_names_mounts(struct sf_names *ret, FILE *mountinfo, const char *prefix);
/* Sorts, drops doubles, and, of more than @many, cuts each behind the first dot (or slash) past
 * @prefix. */
void sf_names_fold(struct sf_names *l, const char *prefix, size_t many);
void sf_names_release(struct sf_names *l);

#endif
