#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "catalog/map_file.h"
#include "catalog/map_pick.h"
#include "catalog/map_shipped.h"

#define MAP_FILE_MAX (256 << 20) /* bytes: 10^6 rules of long names */

static int add(struct sf_map_rule **rules, size_t *n, const char *old_name, size_t old_len,
               const char *new_name, size_t new_len, struct sf_error *err)
{
	struct sf_map_rule *at = *rules, rule;

	if ((*n & (*n - 1)) == 0) { /* grows at powers of two */
		at = realloc(at, (*n ? *n * 2 : 1) * sizeof(*at));
		if (!at)
			return sf_fail(err, -ENOMEM, "%zu rules", *n);
		*rules = at;
	}
	rule = (struct sf_map_rule){ .new_name = strndup(new_name, new_len) };
	int r = rule.new_name ? sf_map_pick_parse(old_name, old_len, &rule, err)
	                      : sf_fail(err, -ENOMEM, "%zu rules", *n);
	if (r < 0) {
		free((void *)rule.new_name);
		return r;
	}
	at[(*n)++] = rule;
	return 0;
}

static int read_file(const char *path, struct sf_buf *text, struct sf_error *err)
{
	int shipped = sf_map_shipped(path, text, err);
	if (shipped)
		return shipped < 0 ? shipped : 0;
	FILE *f = fopen(path, "re");
	if (!f && errno == ENOENT && !strchr(path, '/'))
		return sf_fail(err, -ENOENT, "'%s': no file, and no mapping of this program (%s)",
		               path, SF_MAP_SHIPPED);
	if (!f)
		return sf_fail_errno(err, "'%s'", path);
	for (size_t got = 1; got > 0;) {
		size_t room = 65536;
		uint8_t *at = sf_buf_extend(text, room);
		got = at ? fread(at, 1, room, f) : 0;
		if (at)
			text->len -= room - got;
	}
	int r = ferror(f) ? sf_fail_errno(err, "'%s'", path) : 0; /* a directory, for one */
	fclose(f);
	if (r < 0)
		return r;
	r = sf_buf_check(text);
	return r < 0 ? sf_fail(err, r, "'%s': more than %d bytes", path, MAP_FILE_MAX) : 0;
}

static int from_json(const char *path, const struct sf_buf *text, struct sf_map_rule **rules,
                     size_t *n, struct sf_error *err)
{
	struct sf_json *json;
	int r = sf_json_parse((const char *)text->at, text->len, &json, err);
	if (r < 0)
		return sf_fail_ctx(err, r, "'%s'", path);
	const struct cJSON *root = sf_json_root(json);
	for (const struct cJSON *m = sf_json_next(root, NULL); m && r >= 0;
	     m = sf_json_next(root, m)) {
		const char *to = sf_json_str(m), *from = sf_json_name(m);
		if (!to || !from)
			r = sf_fail(err, -EINVAL,
			            "'%s': expected an object of strings {\"OLD\": \"NEW\"}", path);
		else
			r = add(rules, n, from, strlen(from), to, strlen(to), err);
	}
	sf_json_free(json);
	return r;
}

static int from_lines(const char *path, const struct sf_buf *text, struct sf_map_rule **rules,
                      size_t *n, struct sf_error *err)
{
	const char *at = (const char *)text->at, *end = at + text->len;

	for (unsigned line = 1; at < end; line++) {
		const char *eol = memchr(at, '\n', (size_t)(end - at));
		const char *stop = eol ? eol : end;
		const char *last = stop > at && stop[-1] == '\r' ? stop - 1 : stop;
		if (last > at && *at != '#') {
			const char *tab = memchr(at, '\t', (size_t)(last - at));
			if (!tab)
				return sf_fail(err, -EINVAL,
				               "'%s' line %u: expected OLD, a tab, NEW", path,
				               line);
			/* a rule's names end at one: it would be another rule */
			if (memchr(at, 0, (size_t)(last - at)))
				return sf_fail(err, -EINVAL,
				               "'%s' line %u: a NUL in a name (\"*\" matches any "
				               "component, also one with a NUL)",
				               path, line);
			int r = add(rules, n, at, (size_t)(tab - at), tab + 1,
			            (size_t)(last - tab - 1), err);
			if (r < 0)
				return r;
		}
		at = eol ? eol + 1 : end;
	}
	return 0;
}

int sf_map_rules_add(const char *value, struct sf_map_rule **rules, size_t *n, struct sf_error *err)
{
	if (*value == '@') {
		struct sf_buf text = { .limit = MAP_FILE_MAX };
		int r = read_file(value + 1, &text, err);
		size_t i = 0;
		while (r >= 0 && i < text.len && memchr(" \t\r\n", text.at[i], 4))
			i++;
		if (r >= 0)
			r = (i < text.len && text.at[i] == '{' ? from_json : from_lines)(
				value + 1, &text, rules, n, err);
		sf_buf_release(&text);
		return r;
	}
	const char *eq = strchr(value, '=');
	if (!eq)
		return sf_fail(err, -EINVAL, "'%s': expected OLD=NEW or @FILE", value);
	return add(rules, n, value, (size_t)(eq - value), eq + 1, strlen(eq + 1), err);
}

void sf_map_rules_free(struct sf_map_rule *rules, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free((void *)rules[i].old_name);
		free((void *)rules[i].new_name);
		free((void *)rules[i].whole);
	}
	free(rules);
}
