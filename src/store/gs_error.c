#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "store/gs_list.h"
#include "store/s3_list.h"

/* Into a field of @size bytes: the first line, cut at a character, control characters as '?'. */
static void show(char *to, size_t size, const char *text, size_t len)
{
	const char *line = memchr(text, '\n', len);
	size_t n = SF_MIN(line ? (size_t)(line - text) : len, size - 1);

	while (n > 0 && n < len && ((unsigned char)text[n] & 0xc0) == 0x80)
		n--;
	for (size_t i = 0; i < n; i++)
		to[i] = (unsigned char)text[i] < ' ' || text[i] == 0x7f ? '?' : text[i];
	to[n] = '\0';
}

static void show_member(char *to, size_t size, const struct cJSON *obj, const char *name)
{
	const char *s;

	if (sf_json_get_str(obj, name, &s, NULL) == 0)
		show(to, size, s, strlen(s));
}

/* {"error": {"message", "errors": [{"reason"}]}}, or OAuth's {"error", "error_description"} */
static bool from_json(const struct cJSON *root, struct sf_gs_error *ret)
{
	const struct cJSON *e, *list, *first;

	if (sf_json_get_obj(root, "error", &e, NULL) == 0) {
		show_member(ret->message, sizeof(ret->message), e, "message");
		show_member(ret->reason, sizeof(ret->reason), e, "status");
		if (sf_json_get_arr(e, "errors", &list, NULL) == 0 &&
		    (first = sf_json_next(list, NULL)))
			show_member(ret->reason, sizeof(ret->reason), first, "reason");
		return true;
	}
	show_member(ret->reason, sizeof(ret->reason), root, "error");
	show_member(ret->message, sizeof(ret->message), root, "error_description");
	return *ret->reason != '\0';
}

bool sf_gs_error_parse(const char *doc, size_t len, struct sf_gs_error *ret)
{
	struct sf_s3_error e;
	struct sf_json *j;
	bool is_error = false;
	size_t blank = 0;

	*ret = (struct sf_gs_error){ .reason = "" };
	while (blank < len && strchr(" \t\r\n", doc[blank]))
		blank++;
	doc += blank;
	len -= blank;
	if (len && *doc == '{') {
		if (sf_json_parse_most(doc, len, 1000, &j, NULL) < 0)
			return false;
		is_error = from_json(sf_json_root(j), ret);
		sf_json_free(j);
	} else if (len && *doc == '<') {
		is_error = sf_s3_error_parse(doc, len, &e);
		if (is_error) {
			snprintf(ret->reason, sizeof(ret->reason), "%s", e.code);
			snprintf(ret->message, sizeof(ret->message), "%s", e.message);
		} else {
			snprintf(ret->message, sizeof(ret->message), "a web page");
		}
	} else {
		show(ret->message, sizeof(ret->message), doc, len);
	}
	return is_error;
}
