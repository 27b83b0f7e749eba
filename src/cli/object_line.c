#include "config.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/buf.h"
#include "base/columns.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/utf8.h"
#include "cli/object_line.h"
#include "cli/text.h"
#include "value/object.h"
#include "value/value_json.h"

enum { KEPT = 512, LARGE = 1 << 20 }; /* bytes of a value's text; of an item */

static void add(struct sf_object_lines *l, uint32_t i, const char *s, size_t len)
{
	l->at[i] = l->text.len;
	sf_buf_add(&l->text, s, len);
	sf_buf_byte(&l->text, 0);
}

static int take(void *arg, uint32_t object, struct sf_object_value *v, struct sf_error *err)
{
	struct sf_object_lines *l = arg;
	struct sf_buf json = { .limit = KEPT };
	struct sf_error why = SF_ERROR_INIT;
	(void)object, (void)err;

	int r = sf_value_json(&json, v->root, &why);
	size_t len = json.len;
	if (r < 0 && len) { /* cut: where a character ends */
		while (len && !sf_utf8_valid((const char *)json.at, len))
			len--;
		sf_buf_reset(&json);
		json.len = len;
		json.limit = KEPT + 8;
		sf_buf_str(&json, "…");
		len = json.len;
	}
	if (len)
		add(l, l->turn[l->next++], (const char *)json.at, len);
	else
		add(l, l->turn[l->next++], "(cannot be shown)", 17);
	sf_buf_release(&json);
	return sf_buf_check(&l->text);
}

static void unreadable(void *arg, uint32_t object, int code, const struct sf_error *why)
{
	struct sf_object_lines *l = arg;
	const char *text = strstr(why->msg, "': "); /* behind the key, which stands beside it */
	struct sf_buf b = { 0 };
	(void)object, (void)code;

	text = text ? text + 3 : why->msg;
	sf_buf_str(&b, "(unreadable: ");
	sf_escape_text(&b, text, strnlen(text, KEPT));
	sf_buf_byte(&b, ')');
	add(l, l->turn[l->next++], sf_buf_cstr(&b), sf_buf_bytes(&b));
	sf_buf_release(&b);
}

static int reserve(struct sf_object_lines *l, uint32_t n)
{
	if (n <= l->cap)
		return 0;
	free(l->at);
	free(l->turn);
	l->at = sf_alloc_array(n, sizeof(*l->at));
	l->turn = sf_alloc_array(n, sizeof(*l->turn));
	l->cap = l->at && l->turn ? n : 0;
	return l->cap ? 0 : -ENOMEM;
}

int sf_object_lines_load(struct sf_object_lines *l, struct sf_session *s, const uint32_t *entry,
                         uint32_t n, struct sf_error *err)
{
	SF_FREE uint32_t *objects = sf_alloc_array(n, sizeof(*objects));
	const struct sf_catalog *c = s->catalog;
	uint32_t k = 0;

	sf_buf_reset(&l->text);
	l->next = 0;
	if (!objects || reserve(l, n) < 0)
		return sf_fail(err, -ENOMEM, "%" PRIu32 " objects", n);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t object = c->entry[entry[i]].object;
		char size[32], text[64];
		l->at[i] = SIZE_MAX;
		if (object == SF_NONE)
			continue;
		const uint64_t bytes = sf_object_bytes(&c->ckpt->object[object]);
		if (bytes > LARGE) {
			int len = snprintf(text, sizeof(text), "(%s)", sf_human_size(bytes, size));
			add(l, i, text, (size_t)len);
			continue;
		}
		l->turn[k] = i;
		objects[k++] = object;
	}
	int r = k ? sf_objects_load_whole(s->reader, objects, k, take, unreadable, l, err) : 0;
	for (uint32_t i = 0; i < n && r < 0; i++)
		l->at[i] = SIZE_MAX;
	return r;
}

const char *sf_object_line(const struct sf_object_lines *l, uint32_t i)
{
	return l->cap && l->at[i] != SIZE_MAX ? (const char *)l->text.at + l->at[i] : NULL;
}

void sf_object_lines_release(struct sf_object_lines *l)
{
	sf_buf_release(&l->text);
	free(l->at);
	free(l->turn);
	*l = (struct sf_object_lines){ 0 };
}

size_t sf_columns_shown(FILE *f, const char *s, size_t len)
{
	struct sf_buf b = { 0 };

	if (!isatty(fileno(f)))
		return sf_columns(s, len);
	sf_escape_text(&b, s, len);
	size_t n = sf_columns(sf_buf_cstr(&b), sf_buf_bytes(&b));
	sf_buf_release(&b);
	return n;
}

void sf_put_line(FILE *f, const char *s, size_t columns)
{
	size_t len = strlen(s), used = 0, n, at = 0;
	bool whole = sf_columns(s, len) <= columns;
	uint32_t c;

	for (; (n = sf_utf8_unit(s + at, len - at, &c)) > 0; at += n) {
		size_t w = sf_columns(s + at, n);
		if (!whole && used + w + 1 > columns)
			break;
		used += w;
		if (!sf_char_is_shown(c))
			putc(' ', f);
		else
			fwrite(s + at, 1, n, f);
	}
	fputs(whole ? "" : "…", f);
}
