#include "config.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/columns.h"
#include "base/mem.h"
#include "base/path.h"
#include "cli/table.h"

static bool next_cell(struct sf_table *t)
{
	if (t->n == t->cap) {
		size_t cap = t->cap ? t->cap * 2 : 64;
		size_t *at = t->failed ? NULL : realloc(t->at, cap * sizeof(*at));
		if (!at) {
			t->failed = -ENOMEM;
			return false;
		}
		t->at = at;
		t->cap = cap;
	}
	t->at[t->n++] = t->text.len;
	return true;
}

void sf_table_name(struct sf_table *t, const char *s, size_t len)
{
	if (!next_cell(t))
		return;
	sf_escape_text(&t->text, s, len);
	sf_buf_byte(&t->text, 0);
}

void sf_table_escaped(struct sf_table *t, const char *s, size_t len)
{
	if (!next_cell(t))
		return;
	sf_buf_add(&t->text, s, len);
	sf_buf_byte(&t->text, 0);
}

void sf_table_cell(struct sf_table *t, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (!next_cell(t))
		return;
	sf_buf_add(&t->text, text, strlen(text) + 1);
}

static const char *cell(const struct sf_table *t, size_t i)
{
	return (const char *)t->text.at + t->at[i];
}

static void blanks(struct sf_buf *out, size_t n)
{
	while (n-- > 0)
		sf_buf_byte(out, ' ');
}

void sf_table_put(struct sf_buf *out, const struct sf_table *t, const char *indent)
{
	size_t columns = strlen(t->align);
	SF_FREE size_t *width = calloc(columns, sizeof(*width));

	if (t->failed || sf_buf_check(&t->text) < 0 || !width) {
		out->failed = -ENOMEM;
		return;
	}
	for (size_t i = 0; i < t->n; i++) {
		size_t w = sf_columns(cell(t, i), strlen(cell(t, i)));
		width[i % columns] = SF_MAX(width[i % columns], w);
	}
	for (size_t i = 0; i < t->n; i++) {
		const char *s = cell(t, i);
		size_t c = i % columns, room = width[c] - sf_columns(s, strlen(s));
		sf_buf_str(out, c ? "  " : indent);
		if (t->align[c] == 'r')
			blanks(out, room);
		sf_buf_str(out, s);
		if (c + 1 == columns) {
			while (out->len && out->at[out->len - 1] == ' ')
				out->len--; /* the last cells may be empty */
			sf_buf_byte(out, '\n');
		} else if (t->align[c] != 'r')
			blanks(out, room);
	}
}

void sf_table_release(struct sf_table *t)
{
	free(t->at);
	sf_buf_release(&t->text);
	t->at = NULL;
	t->n = t->cap = 0;
}
