/* Targets that are templates: "runs/{run_name}/step{batch}". */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "save/save_priv.h"

#define TARGET_MAX 4096

/* Text of the variable in @name; NULL: unknown. @number is room for one that is counted. */
static const char *variable(const char *name, size_t len, const struct shardfuse_save_options *o,
                            uint32_t rank, uint32_t size, char number[16])
{
	for (size_t i = 0; i < o->nvariable; i++)
		if (strlen(o->variable[2 * i]) == len && memcmp(o->variable[2 * i], name, len) == 0)
			return o->variable[2 * i + 1];
	if (len == 4 && memcmp(name, "rank", 4) == 0)
		snprintf(number, 16, "%u", rank);
	else if (len == 10 && memcmp(name, "world_size", 10) == 0)
		snprintf(number, 16, "%u", size);
	else
		return NULL;
	return number;
}

static int unknown(const char *name, size_t len, const struct shardfuse_save_options *o,
                   struct sf_error *err)
{
	struct sf_buf b = { .limit = 900 };
	int r;

	sf_buf_str(&b, "target: unknown variable {");
	sf_escape_text(&b, name, len);
	sf_buf_str(&b, "}; known are {rank}, {world_size}");
	for (size_t i = 0; i < o->nvariable; i++) {
		sf_buf_str(&b, ", {");
		sf_escape_text(&b, o->variable[2 * i], strlen(o->variable[2 * i]));
		sf_buf_str(&b, "}");
	}
	r = sf_fail(err, -EINVAL, "%s",
	            sf_buf_check(&b) == 0 ? sf_buf_cstr(&b) : "target: unknown variable");
	sf_buf_release(&b);
	return r;
}

int sf_save_template(const char *target, const struct shardfuse_save_options *o, uint32_t rank,
                     uint32_t size, char **ret, struct sf_error *err)
{
	struct sf_buf out = { .limit = TARGET_MAX };
	const char *p = target;
	char number[16];

	if (!target || !*target)
		return sf_fail(err, -EINVAL, "target: a directory's path is needed");
	while (*p) {
		const char *close = o->nvariable && *p == '{' ? strchr(p, '}') : NULL;
		const char *text;
		if (!close) {
			sf_buf_byte(&out, (uint8_t)*p++);
			continue;
		}
		text = variable(p + 1, (size_t)(close - p - 1), o, rank, size, number);
		if (!text) {
			sf_buf_release(&out);
			return unknown(p + 1, (size_t)(close - p - 1), o, err);
		}
		sf_buf_str(&out, text);
		p = close + 1;
	}
	if (sf_buf_check(&out) < 0) {
		int r = sf_buf_check(&out);
		sf_buf_release(&out);
		return sf_fail(err, r, "target: longer than %d bytes", TARGET_MAX);
	}
	*ret = strdup(sf_buf_cstr(&out));
	sf_buf_release(&out);
	return *ret ? 0 : sf_fail(err, -ENOMEM, "no memory for the target's path");
}
