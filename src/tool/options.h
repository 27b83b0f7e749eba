/* Command-line options: one table per verb that parses, checks and prints --help; the same names in
 * mount's -o. */
#ifndef SF_TOOL_OPTIONS_H
#define SF_TOOL_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

enum sf_opt_type {
	SF_OPT_FLAG,   /* bool: set true; in -o also "name" alone or name=yes|no */
	SF_OPT_NOFLAG, /* bool: set false (--no-optim) */
	SF_OPT_STR,    /* const char *: the last wins */
	SF_OPT_STRS,   /* struct sf_strs: repeats add up; never split */
	SF_OPT_LIST,   /* struct sf_strs of malloc'ed strings: also split at ':', and on the command
	                  line at ',' */
	SF_OPT_UINT,   /* unsigned */
	SF_OPT_SIZE,   /* uint64_t bytes: KB MB GB TB powers of 1000; K M G T and KiB … of 1024 */
	SF_OPT_CALL,   /* parse(dest, value, err) */
};
struct sf_opt {
	const char *name; /* "cache-dir"; dashes and underscores are the same */
	char letter;      /* 'l' for -l, 0 none */
	enum sf_opt_type type;
	size_t offset; /* into dest */
	int (*parse)(void *dest, const char *value, struct sf_error *err);
	const char *arg; /* "DIR" in --help; NULL for flags */
	const char *help;
};
/*
 * Tables are chained by pointer (a verb's own, then the common ones), NULL-terminated list of
 * tables each ending in { 0 }. Strings are kept by pointer into argv. Positional arguments are
 * moved to the front of argv in order; options may come anywhere before "--". Returns how many
 * positional ones, or -EINVAL with a message that names the option and, if one is near, the one
 * probably meant.
 */
int sf_options_parse(const struct sf_opt *const *tables, void *const *dests, int argc, char **argv,
                     struct sf_error *err);
/* One -o word "name" or "name=value" (already split at unescaped commas). 1 known and set, 0
 * unknown, negative wrong value. */
int sf_options_word(const struct sf_opt *const *tables, void *const *dests, char *word,
                    struct sf_error *err);
/* The option whose name is nearest to a misspelt one, or NULL. */
const char *sf_options_near(const struct sf_opt *const *tables, const char *name, size_t len);
/* Columns that the names take in --help, at most SF_HELP_COLUMN. */
#define SF_HELP_COLUMN 34
size_t sf_options_width(const struct sf_opt *table);
/* The options part of --help: what each does begins at column @width, below a name that is
 * wider. */
void sf_options_help(const struct sf_opt *table, size_t width, void *file);
/* The same for names that are words of -o alone: without dashes, "uid=USER". */
void sf_options_help_words(const struct sf_opt *table, size_t width, void *file);
int sf_parse_size(const char *s, uint64_t *ret, struct sf_error *err);

#endif
