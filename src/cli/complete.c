#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "cli/complete.h"
#include "cli/expect.h"

#define MANY 200 /* names past which they are given up to the next dot */
#define SHOWN_MAX 2000

/* Values of options whose "arg" in --help is a word of its own; the others say "a|b|c". */
static const struct {
	const char *option, *values;
} values_of[] = {
	{ "log-level", "error|warn|info|debug" },
	{ "views", SF_VIEW_NAMES("|") },
	{ "strategy", "one_file|one_file_per_tensor|chunks" },
};

struct comp {
	FILE *out;
	const char *what;   /* "none", "files", "dirs" */
	const char *word;   /* CURRENT */
	const char *prefix; /* the end of it that is completed: "npy" of "--views=pt,npy" */
	struct sf_buf list; /* the triples */
	/* what was typed before CURRENT */
	const struct sf_cmd *cmd;
	char **words; /* all of them behind the verb */
	int nwords;
	const char *source; /* SOURCE, NULL: none yet */
	unsigned nargs;     /* positional arguments before CURRENT */
	bool only_args;     /* "--" was typed */
	size_t arg_len;     /* of the argument's name in the usage line */
	bool arg_repeats;
};

static void field(struct sf_buf *b, const char *s)
{
	sf_buf_add(b, s, strlen(s) + 1);
}

/* @text, whose first @len bytes may be all that is meant, in the place of prefix. */
static void offer_n(struct comp *c, const char *text, size_t len, const char *about, bool more)
{
	if (strncmp(text, c->prefix, strlen(c->prefix)) != 0 || len < strlen(c->prefix))
		return;
	sf_buf_add(&c->list, c->word, (size_t)(c->prefix - c->word));
	sf_buf_add(&c->list, text, len);
	sf_buf_byte(&c->list, 0);
	field(&c->list, about);
	field(&c->list, more ? "+" : "");
}

static void offer(struct comp *c, const char *text, const char *about, bool more)
{
	offer_n(c, text, strlen(text), about, more);
}

static void offer_names(struct comp *c, struct sf_names *l)
{
	sf_names_fold(l, c->prefix, MANY);
	for (size_t i = 0; i < l->n && i < SHOWN_MAX; i++)
		if (c->only_args || l->at[i].text[0] != '-' || c->prefix != c->word)
			offer(c, l->at[i].text, "", l->at[i].more);
	sf_names_release(l);
}

static bool takes_value(const struct sf_opt *o)
{
	return o->type != SF_OPT_FLAG && o->type != SF_OPT_NOFLAG;
}

/* The tables of a verb, NULL behind them. */
static void tables_of(const struct sf_cmd *cmd, const struct sf_opt *ret[4])
{
	size_t n = 0;

	if (cmd->options)
		ret[n++] = cmd->options;
	if (cmd->view)
		ret[n++] = sf_view_option_table;
	if (cmd->common)
		ret[n++] = sf_common_options;
	ret[n] = NULL;
}

/* What lists of a verb's own options hold. */
static void release_options(const struct sf_opt *table, void *dest)
{
	for (const struct sf_opt *o = table; o && o->name; o++) {
		struct sf_strs *l = (struct sf_strs *)((char *)dest + o->offset);
		if (o->type != SF_OPT_STRS && o->type != SF_OPT_LIST)
			continue;
		for (size_t i = 0; o->type == SF_OPT_LIST && i < l->n; i++)
			free((void *)(uintptr_t)l->at[i]);
		free(l->at);
	}
}

enum names { SHOWN_KEYS, STORED_KEYS, PATHS };

/*
 * Names of SOURCE, as the options typed before CURRENT show them; of those the verb would refuse,
 * as far as they go. No option changes a stored name, and one that an option leaves out may be
 * meant by the next.
 */
static void offer_of_source(struct comp *c, enum names what)
{
	const struct sf_opt *tables[4];
	void *own = calloc(1, c->cmd->opt_size + 1), *dests[4] = { own };
	SF_FREE char **word = sf_alloc_array((size_t)c->nwords, sizeof(*word));
	struct sf_common typed, use;
	struct sf_names l = { 0 };

	if (c->source && own && word) {
		memcpy(word, c->words, (size_t)c->nwords * sizeof(*word)); /* they are reordered */
		tables_of(c->cmd, tables);
		sf_common_init(&typed);
		for (size_t t = c->cmd->options ? 1 : 0; tables[t]; t++)
			dests[t] = tables[t] == sf_common_options ? (void *)&typed
			                                          : &typed.session.view;
		sf_options_parse(tables, dests, c->nwords, word, NULL);
		use = typed;
		use.session.log = NULL;
		if (what == STORED_KEYS)
			sf_view_options_init(&use.session.view);
		if (what == PATHS)
			sf_names_paths(&l, &use, c->source, c->prefix);
		else
			sf_names_keys(&l, &use, c->source, c->prefix, what == STORED_KEYS);
		sf_common_release(&typed);
		release_options(c->cmd->options, own);
	}
	free(own);
	offer_names(c, &l);
}

/* The value of an option begins at prefix; lists go on behind @sep. */
static void offer_values(struct comp *c, const struct sf_opt *o, char sep)
{
	const char *values = o->arg && strchr(o->arg, '|') && !strchr(o->arg, '@') ? o->arg : NULL;

	if (o->type == SF_OPT_LIST) {
		const char *last = strrchr(c->prefix, sep);
		c->prefix = last ? last + 1 : c->prefix;
	}
	for (size_t i = 0; i < SF_ARRAY_LEN(values_of); i++)
		if (strcmp(o->name, values_of[i].option) == 0)
			values = values_of[i].values;
	if (strcmp(o->name, "key") == 0 || strcmp(o->name, "ignore") == 0) {
		offer_of_source(c, STORED_KEYS);
	} else if (strcmp(o->name, "strict") == 0) {
		for (size_t i = 0; sf_strict_name(i); i++)
			offer(c, sf_strict_name(i), "", false);
	} else if (o->arg && strncmp(o->arg, "DIR", 3) == 0) {
		c->what = "dirs";
	} else if (o->arg && strcmp(o->arg, "FILE") == 0) {
		c->what = "files";
	} else if (values) {
		for (const char *at = values;; at++) {
			size_t n = strcspn(at, "|");
			offer_n(c, at, n, "", false);
			at += n;
			if (!*at)
				break;
		}
	}
}

/* "--name", "-n", without what may follow '='. */
static const struct sf_opt *option(const struct sf_cmd *cmd, const char *word)
{
	const struct sf_opt *tables[4];

	tables_of(cmd, tables);
	for (size_t t = 0; tables[t]; t++)
		for (const struct sf_opt *o = tables[t]; o->name; o++)
			if (word[1] == '-'
			            ? strlen(o->name) == strcspn(word + 2, "=") &&
			                      strncmp(o->name, word + 2, strlen(o->name)) == 0
			            : o->letter && word[1] == o->letter && !word[2])
				return o;
	return NULL;
}

static void offer_options(struct comp *c)
{
	const struct sf_opt *tables[4];
	char text[80];

	tables_of(c->cmd, tables);
	for (size_t t = 0; tables[t]; t++)
		for (const struct sf_opt *o = tables[t]; o->name; o++) {
			snprintf(text, sizeof(text), "--%s", o->name);
			offer(c, text, o->help, false);
			snprintf(text, sizeof(text), "-%c", o->letter);
			if (o->letter)
				offer(c, text, o->help, false);
		}
	offer(c, "--help", "usage, options, an example", false);
}

/* The last word of -o's list: "name", "name=" or the value behind it. */
static void offer_words(struct comp *c)
{
	const struct sf_opt *const tables[] = { c->cmd->words, sf_view_option_table,
		                                sf_common_options };
	const char *eq;
	char text[80];

	for (const char *at = c->prefix; *at; at++)
		if (*at == '\\' && at[1])
			at++;
		else if (*at == ',')
			c->prefix = at + 1;
	eq = strchr(c->prefix, '=');
	for (size_t t = 0; t < SF_ARRAY_LEN(tables); t++)
		for (const struct sf_opt *o = tables[t]; o && o->name; o++) {
			snprintf(text, sizeof(text), "%s%s", o->name, takes_value(o) ? "=" : "");
			for (char *p = text; *p; p++)
				*p = *p == '-' ? '_' : *p;
			if (!eq) {
				offer(c, text, o->help, takes_value(o));
			} else if (takes_value(o) && strlen(text) == (size_t)(eq + 1 - c->prefix) &&
			           strncmp(text, c->prefix, strlen(text)) == 0) {
				c->prefix = eq + 1;
				offer_values(c, o, ':');
				return;
			}
		}
}

/* Behind the option at @at in a usage line: "-l]", "--format npy|pt]", "-o NAME[=VALUE],…]". */
static const char *behind_option(const char *at)
{
	for (int depth = 0; *at && depth >= 0; at++)
		depth += *at == '[' ? 1 : *at == ']' ? -1 : 0;
	return at;
}

/* The next name of an argument in a usage line: in "[-l] SOURCE [KEY…]" SOURCE, KEY. */
static const char *next_arg(const char *at, size_t *ret_len, bool *ret_repeats)
{
	for (;;) {
		at += strspn(at, " []");
		if (*at == '-') {
			at = behind_option(at);
			continue;
		}
		*ret_len = strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_");
		*ret_repeats = strncmp(at + *ret_len, "…", strlen("…")) == 0;
		if (*ret_len)
			return at;
		if (!*at)
			return NULL;
		at += strcspn(at, " ");
	}
}

static bool is(const char *name, size_t len, const char *want)
{
	return strlen(want) == len && strncmp(name, want, len) == 0;
}

/* The argument behind those that were typed. */
static void offer_arg(struct comp *c)
{
	const char *name = next_arg(c->cmd->usage, &c->arg_len, &c->arg_repeats);
	bool with_source = name && is(name, c->arg_len, "SOURCE");
	struct sf_names l = { 0 };

	for (unsigned i = 0; name && i < c->nargs && !c->arg_repeats; i++)
		name = next_arg(name + c->arg_len, &c->arg_len, &c->arg_repeats);
	if (!name)
		return;
	if (is(name, c->arg_len, "KEY")) {
		offer_of_source(c, SHOWN_KEYS);
	} else if (is(name, c->arg_len, "PATH") && c->source) {
		offer_of_source(c, PATHS);
	} else if (is(name, c->arg_len, "MOUNTPOINT") && !with_source) {
		sf_names_mounts(&l, NULL, c->prefix);
		offer_names(c, &l);
	} else {
		bool dir = is(name, c->arg_len, "SOURCE") || is(name, c->arg_len, "MOUNTPOINT");
		c->what = dir ? "dirs" : "files";
	}
}

static const struct sf_cmd *find(const char *name, const struct sf_cmd *const *cmds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(cmds[i]->name, name) == 0)
			return cmds[i];
	return NULL;
}

static void offer_verbs(struct comp *c, const struct sf_cmd *const *cmds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		offer(c, cmds[i]->name, cmds[i]->about, false);
}

static void complete(struct comp *c, int argc, char **argv, const struct sf_cmd *const *cmds,
                     size_t ncmds)
{
	const struct sf_opt *pending = NULL; /* wants the next word */
	int i = 0;

	if (argc == 1) {
		offer_verbs(c, cmds, ncmds);
		offer(c, "help", "how a verb is used", false);
		offer(c, "--help", "the verbs", false);
		offer(c, "--version", "", false);
		c->what = "dirs";
		return;
	}
	if (strcmp(argv[0], "help") == 0) {
		offer_verbs(c, cmds, ncmds);
		return;
	}
	c->cmd = find(argv[0], cmds, ncmds);
	if (c->cmd)
		i++;
	else if (!(c->cmd = find("mount", cmds, ncmds)))
		return;
	c->words = argv + i;
	c->nwords = argc - 1 - i;
	for (; i < argc - 1; i++) {
		const char *w = argv[i];
		if (pending) {
			pending = NULL;
		} else if (c->only_args || w[0] != '-' || !w[1]) {
			if (c->nargs++ == 0)
				c->source = w;
		} else if (strcmp(w, "--") == 0) {
			c->only_args = true;
		} else {
			pending = option(c->cmd, w);
			if (pending && (!takes_value(pending) || strchr(w, '=')))
				pending = NULL;
		}
	}
	const char *eq = strchr(c->word, '=');
	const struct sf_opt *now = pending;
	if (!now && !c->only_args && strncmp(c->word, "--", 2) == 0 && eq) {
		now = option(c->cmd, c->word);
		c->prefix = eq + 1;
		if (!now)
			return;
	}
	if (now && c->cmd->words && strcmp(now->name, "options") == 0)
		offer_words(c);
	else if (now)
		offer_values(c, now, ',');
	else if (!c->only_args && c->word[0] == '-')
		offer_options(c);
	else
		offer_arg(c);
}

int sf_complete(FILE *out, int argc, char **argv, const struct sf_cmd *const *cmds, size_t ncmds)
{
	struct comp c = { .out = out, .what = "none", .word = argc ? argv[argc - 1] : "" };

	c.prefix = c.word;
	if (argc)
		complete(&c, argc, argv, cmds, ncmds);
	fwrite(c.what, 1, strlen(c.what) + 1, out);
	fwrite(c.word, 1, (size_t)(c.prefix - c.word), out);
	putc(0, out);
	if (sf_buf_check(&c.list) >= 0 && c.list.len)
		fwrite(c.list.at, 1, c.list.len, out);
	sf_buf_release(&c.list);
	return 0;
}
