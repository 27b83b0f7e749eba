#include "config.h"

#include <stdbool.h>
#include <string.h>

#include "view/hf/hf_config.h"

/* Behind the string whose opening quote is at @at; @len when it does not end. */
static size_t string_end(const char *json, size_t len, size_t at)
{
	for (at++; at < len && json[at] != '"'; at++)
		if (json[at] == '\\')
			at++;
	return at < len ? at + 1 : len;
}

static size_t skip_space(const char *json, size_t len, size_t at)
{
	while (at < len &&
	       (json[at] == ' ' || json[at] == '\t' || json[at] == '\n' || json[at] == '\r'))
		at++;
	return at;
}

static bool is_key(const char *s, size_t len)
{
	static const char torch_dtype[] = "\"torch_dtype\"", dtype[] = "\"dtype\"";

	return (len == strlen(torch_dtype) && memcmp(s, torch_dtype, len) == 0) ||
	       (len == strlen(dtype) && memcmp(s, dtype, len) == 0);
}

void sf_hf_set_dtype(const char *json, size_t len, const char *dtype, struct sf_buf *out)
{
	unsigned depth = 0;

	for (size_t at = 0, end; at < len; at = end) {
		end = at + 1;
		if (json[at] == '{' || json[at] == '[')
			depth++;
		else if (json[at] == '}' || json[at] == ']')
			depth--;
		if (json[at] != '"') {
			sf_buf_byte(out, (uint8_t)json[at]);
			continue;
		}
		end = string_end(json, len, at);
		sf_buf_add(out, json + at, end - at);
		if (depth != 1 || !is_key(json + at, end - at))
			continue;
		size_t colon = skip_space(json, len, end), value;
		if (colon == len || json[colon] != ':')
			continue;
		value = skip_space(json, len, colon + 1);
		if (value == len || json[value] != '"')
			continue;
		sf_buf_add(out, json + end, value - end);
		sf_buf_printf(out, "\"%s\"", dtype);
		end = string_end(json, len, value);
	}
}
