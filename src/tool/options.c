#include "config.h"
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/columns.h"
#include "base/mem.h"
#include "base/near.h"
#include "catalog/view_options.h"
#include "tool/options.h"

static bool same_name(const char *a, size_t a_len, const char *b)
{
	size_t i;
	for (i = 0; i < a_len && b[i]; i++) {
		char x = a[i] == '_' ? '-' : a[i], y = b[i] == '_' ? '-' : b[i];
		if (x != y)
			return false;
	}
	return i == a_len && !b[i];
}

static const struct sf_opt *find(const struct sf_opt *const *tables, void *const *dests,
                                 const char *name, size_t len, char letter, void **ret_dest)
{
	for (size_t t = 0; tables[t]; t++) {
		for (const struct sf_opt *o = tables[t]; o->name; o++) {
			if (name ? same_name(name, len, o->name) : o->letter == letter) {
				*ret_dest = dests[t];
				return o;
			}
		}
	}
	return NULL;
}

const char *sf_options_near(const struct sf_opt *const *tables, const char *name, size_t len)
{
	enum { NAMES = 64 };
	char given[NAMES], known[NAMES];
	const char *near = NULL;
	unsigned best = 3;

	if (len >= NAMES)
		return NULL;
	for (size_t i = 0; i < len; i++)
		given[i] = name[i] == '_' ? '-' : name[i];
	for (size_t t = 0; tables[t]; t++)
		for (const struct sf_opt *o = tables[t]; o->name; o++) {
			size_t n = SF_MIN(strlen(o->name), (size_t)NAMES);
			for (size_t i = 0; i < n; i++)
				known[i] = o->name[i] == '_' ? '-' : o->name[i];
			unsigned d = sf_edits(given, len, known, n, best);
			if (d < best && d < n) {
				best = d;
				near = o->name;
			}
		}
	return near;
}

static int unknown(const struct sf_opt *const *tables, const char *shown, const char *name,
                   size_t len, struct sf_error *err)
{
	const char *near = sf_options_near(tables, name, len);

	if (near)
		return sf_fail(err, -EINVAL, "unknown option '%s': did you mean --%s?", shown,
		               near);
	return sf_fail(err, -EINVAL, "unknown option '%s'", shown);
}

int sf_parse_size(const char *s, uint64_t *ret, struct sf_error *err)
{
	static const struct {
		const char *unit;
		uint64_t factor;
	} units[] = {
		{ "", 1 },
		{ "B", 1 },
		{ "KB", 1000 },
		{ "MB", 1000000 },
		{ "GB", 1000000000 },
		{ "TB", 1000000000000 },
		{ "K", 1ULL << 10 },
		{ "M", 1ULL << 20 },
		{ "G", 1ULL << 30 },
		{ "T", 1ULL << 40 },
		{ "KiB", 1ULL << 10 },
		{ "MiB", 1ULL << 20 },
		{ "GiB", 1ULL << 30 },
		{ "TiB", 1ULL << 40 },
	};
	char *end;
	errno = 0;
	unsigned long long v = strtoull(s, &end, 10);
	if (errno == 0 && *s >= '0' && *s <= '9')
		for (size_t i = 0; i < SF_ARRAY_LEN(units); i++)
			if (strcmp(end, units[i].unit) == 0 && sf_mul(v, units[i].factor, ret))
				return 0;
	return sf_fail(err, -EINVAL,
	               "'%s' is not a valid size: use a number with KB MB GB TB (powers of 1000) "
	               "or K M G T KiB "
	               "… (of 1024)",
	               s);
}

static int strs_add(struct sf_strs *l, const char *s)
{
	const char **at = realloc(l->at, (l->n + 1) * sizeof(*at));
	if (!at)
		return -ENOMEM;
	l->at = at;
	l->at[l->n++] = s;
	return 0;
}

/* Splits at a character of @seps; "\" before it keeps it. Each part is malloc'ed: a list's strings
 * are its own, unlike those of other options. */
static int strs_split(struct sf_strs *l, const char *value, const char *seps)
{
	SF_FREE char *copy = strdup(value);
	char *from = copy, *to = copy, *start = to;
	int r = copy ? 0 : -ENOMEM;
	for (; r == 0; from++) {
		if (from[0] == '\\' && from[1] && strchr(seps, from[1])) {
			*to++ = *++from;
		} else if (!*from || strchr(seps, *from)) {
			bool last = !*from;
			*to = 0;
			char *part = to > start ? strdup(start) : NULL;
			if (to > start)
				r = part ? strs_add(l, part) : -ENOMEM;
			if (r < 0)
				free(part);
			start = ++to;
			if (last)
				break;
		} else {
			*to++ = *from;
		}
	}
	return r;
}

static int set(const struct sf_opt *o, void *dest, const char *value, const char *list_seps,
               struct sf_error *err)
{
	void *at = (char *)dest + o->offset;
	unsigned long v;
	char *end;
	int r = 0;

	switch (o->type) {
	case SF_OPT_FLAG:
		*(bool *)at = true;
		break;
	case SF_OPT_NOFLAG:
		*(bool *)at = false;
		break;
	case SF_OPT_STR:
		*(const char **)at = value;
		break;
	case SF_OPT_STRS:
		r = strs_add(at, value);
		break;
	case SF_OPT_LIST:
		r = strs_split(at, value, list_seps);
		break;
	case SF_OPT_UINT:
		errno = 0;
		v = strtoul(value, &end, 10);
		if (errno || end == value || *end || *value == '-' || v > UINT_MAX)
			return sf_fail(err, -EINVAL, "--%s: '%s' is not a whole number", o->name,
			               value);
		*(unsigned *)at = (unsigned)v;
		break;
	case SF_OPT_SIZE:
		r = sf_parse_size(value, at, err);
		return r < 0 ? sf_fail_ctx(err, r, "--%s", o->name) : 0;
	case SF_OPT_CALL:
		r = o->parse(dest, value, err);
		return r < 0 ? sf_fail_ctx(err, r, "--%s", o->name) : 0;
	}
	return r < 0 ? sf_fail(err, r, "--%s: out of memory", o->name) : 0;
}

static bool is_flag(const struct sf_opt *o)
{
	return o->type == SF_OPT_FLAG || o->type == SF_OPT_NOFLAG;
}

static int parse_long(const struct sf_opt *const *tables, void *const *dests, char **argv, int argc,
                      int *i, struct sf_error *err)
{
	const char *name = argv[*i] + 2, *eq = strchr(name, '='), *value = eq ? eq + 1 : NULL;
	size_t len = eq ? (size_t)(eq - name) : strlen(name);
	void *dest;
	const struct sf_opt *o = find(tables, dests, name, len, 0, &dest);

	if (!o)
		return unknown(tables, argv[*i], name, len, err);
	if (is_flag(o) && value)
		return sf_fail(err, -EINVAL, "--%s takes no value", o->name);
	if (!is_flag(o) && !value) {
		if (*i + 1 >= argc)
			return sf_fail(err, -EINVAL, "--%s needs %s", o->name, o->arg);
		value = argv[++*i];
	}
	return set(o, dest, value, ",:", err);
}

/* A letter that is none: another case of it may be, or it is mount's -o and its word a long option
 * here. @value is what stands behind it, or NULL. */
static int unknown_letter(const struct sf_opt *const *tables, void *const *dests, char letter,
                          const char *shown, const char *value, struct sf_error *err)
{
	const char other = (char)(islower((unsigned char)letter) ? toupper((unsigned char)letter)
	                                                         : tolower((unsigned char)letter));
	void *dest;
	const struct sf_opt *word = NULL;

	if (letter == 'o' && value)
		word = find(tables, dests, value, strcspn(value, "=,"), 0, &dest);
	if (word)
		return sf_fail(err, -EINVAL,
		               "unknown option '-o': only mount has it; here it is --%s",
		               word->name);
	if (find(tables, dests, NULL, 0, other, &dest))
		return sf_fail(err, -EINVAL, "unknown option '-%c' in '%s': did you mean -%c?",
		               letter, shown, other);
	return sf_fail(err, -EINVAL, "unknown option '-%c' in '%s'", letter, shown);
}

static int parse_letters(const struct sf_opt *const *tables, void *const *dests, char **argv,
                         int argc, int *i, struct sf_error *err)
{
	for (const char *c = argv[*i] + 1; *c; c++) {
		void *dest;
		const struct sf_opt *o = find(tables, dests, NULL, 0, *c, &dest);
		const char *value = NULL;

		if (!o)
			return unknown_letter(tables, dests, *c, argv[*i],
			                      c[1]            ? c + 1
			                      : *i + 1 < argc ? argv[*i + 1]
			                                      : NULL,
			                      err);
		if (!is_flag(o)) {
			if (c[1])
				value = c + 1;
			else if (*i + 1 < argc)
				value = argv[++*i];
			else
				return sf_fail(err, -EINVAL, "-%c needs %s", *c, o->arg);
		}
		int r = set(o, dest, value, ",:", err);
		if (r < 0)
			return r;
		if (value)
			break;
	}
	return 0;
}

int sf_options_parse(const struct sf_opt *const *tables, void *const *dests, int argc, char **argv,
                     struct sf_error *err)
{
	bool only_args = false;
	int n = 0;

	for (int i = 0; i < argc; i++) {
		char *a = argv[i];
		int r = 0;
		if (only_args || a[0] != '-' || !a[1])
			argv[n++] = a;
		else if (strcmp(a, "--") == 0)
			only_args = true;
		else if (a[1] == '-')
			r = parse_long(tables, dests, argv, argc, &i, err);
		else
			r = parse_letters(tables, dests, argv, argc, &i, err);
		if (r < 0)
			return r;
	}
	return n;
}

int sf_options_word(const struct sf_opt *const *tables, void *const *dests, char *word,
                    struct sf_error *err)
{
	char *eq = strchr(word, '=');
	size_t len = eq ? (size_t)(eq - word) : strlen(word);
	const char *value = eq ? eq + 1 : NULL;
	void *dest;
	const struct sf_opt *o = find(tables, dests, word, len, 0, &dest);

	if (!o)
		return 0;
	if (is_flag(o) && value) {
		bool yes = strcmp(value, "yes") == 0 || strcmp(value, "1") == 0 ||
		           strcmp(value, "true") == 0;
		if (!yes && strcmp(value, "no") != 0 && strcmp(value, "0") != 0 &&
		    strcmp(value, "false") != 0)
			return sf_fail(err, -EINVAL, "%s=%s: expected yes or no", o->name, value);
		*(bool *)((char *)dest + o->offset) = yes == (o->type == SF_OPT_FLAG);
		return 1;
	}
	if (!is_flag(o) && !value)
		return sf_fail(err, -EINVAL, "option '%s' needs =%s", o->name, o->arg);
	int r = set(o, dest, value, ":", err);
	return r < 0 ? r : 1;
}

/* "  -k, --key KEY"; a word of -o: "      uid=USER" */
static void name_text(const struct sf_opt *o, bool word, char text[128])
{
	char letter[8] = "    ";

	if (word) {
		snprintf(text, 128, "      %s%s%s", o->name, o->arg ? "=" : "",
		         o->arg ? o->arg : "");
		return;
	}
	if (o->letter)
		snprintf(letter, sizeof(letter), "-%c, ", o->letter);
	snprintf(text, 128, "  %s--%s%s%s", letter, o->name, o->arg ? " " : "",
	         o->arg ? o->arg : "");
}

size_t sf_options_width(const struct sf_opt *table)
{
	size_t width = 0;
	char text[128];

	for (const struct sf_opt *o = table; o && o->name; o++) {
		name_text(o, false, text);
		size_t n = sf_columns(text, strlen(text));
		if (n <= SF_HELP_COLUMN)
			width = SF_MAX(width, n);
	}
	return width;
}

static void help(const struct sf_opt *table, bool words, size_t width, FILE *f)
{
	char text[128];

	for (const struct sf_opt *o = table; o->name; o++) {
		name_text(o, words, text);
		size_t n = sf_columns(text, strlen(text));
		fputs(text, f);
		if (n > width) {
			putc('\n', f);
			n = 0;
		}
		fprintf(f, "%*s  %s\n", (int)(width - n), "", o->help);
	}
}

void sf_options_help(const struct sf_opt *table, size_t width, void *file)
{
	help(table, false, width, file);
}

void sf_options_help_words(const struct sf_opt *table, size_t width, void *file)
{
	help(table, true, width, file);
}
