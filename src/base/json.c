#include "config.h"

#include <cjson/cJSON.h>

#include "base/json.h"
#include "base/mem.h"

#define DEPTH_LIMIT 64
/* 2^53: from there on doubles skip integers, so it is refused itself */
#define INTEGER_LIMIT 9007199254740992.0

struct sf_json {
	cJSON *root;
};

/*
 * What cJSON would let through: nesting to 1,000 (its recursion is on a thread's stack), and NULs,
 * raw or as \u0000, which would cut its strings short without a word; values without number.
 */
static int check_text(const char *text, size_t len, size_t most, struct sf_error *err)
{
	unsigned depth = 0;
	size_t values = 1; /* every other one is behind one of "[{," */
	bool string = false;

	for (size_t i = 0; i < len; i++) {
		char c = text[i];
		if (c == '\0')
			return sf_fail(err, -EBADMSG, "JSON: a NUL at byte %zu of %zu", i, len);
		if (string) {
			if (c == '\\') {
				if (len - i >= 6 && memcmp(text + i, "\\u0000", 6) == 0)
					return sf_fail(
						err, -EBADMSG,
						"JSON: a string with \\u0000 at byte %zu of %zu", i,
						len);
				i++;
			} else if (c == '"') {
				string = false;
			}
		} else if (c == '"') {
			string = true;
		} else if (c == '[' || c == '{') {
			if (++depth > DEPTH_LIMIT)
				return sf_fail(err, -E2BIG,
				               "JSON: nested deeper than %d at byte %zu of %zu",
				               DEPTH_LIMIT, i, len);
			values++;
		} else if (c == ',') {
			values++;
		} else if ((c == ']' || c == '}') && depth > 0) {
			depth--;
		}
		if (values > most)
			return sf_fail(err, -E2BIG, "JSON: more than %zu values in %zu bytes", most,
			               len);
	}
	return 0;
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

int sf_json_parse(const char *text, size_t len, struct sf_json **ret, struct sf_error *err)
{
	return sf_json_parse_most(text, len, SIZE_MAX, ret, err);
}

int sf_json_parse_most(const char *text, size_t len, size_t most, struct sf_json **ret,
                       struct sf_error *err)
{
	const char *end = text;
	struct sf_json *j;
	int r;

	r = check_text(text, len, most, err);
	if (r < 0)
		return r;
	j = malloc(sizeof(*j));
	if (!j)
		return sf_fail(err, -ENOMEM, "JSON: no memory for a document of %zu bytes", len);
	j->root = len ? cJSON_ParseWithLengthOpts(text, len, &end, 0) : NULL;
	if (j->root) /* cJSON would allow anything behind the value */
		while (end < text + len && is_space(*end))
			end++;
	if (!j->root || end != text + len) {
		/* cJSON does not tell a lack of memory from a mistake in the text */
		r = sf_fail(err, -EBADMSG, "JSON: malformed at byte %zu of %zu",
		            (size_t)(end - text), len);
		sf_json_free(j);
		return r;
	}
	*ret = j;
	return 0;
}

void sf_json_free(struct sf_json *j)
{
	if (!j)
		return;
	cJSON_Delete(j->root);
	free(j);
}

static void wipe(struct cJSON *item)
{
	for (; item; item = item->next) {
		wipe(item->child); /* not deeper than DEPTH_LIMIT */
		if (item->valuestring)
			explicit_bzero(item->valuestring, strlen(item->valuestring));
	}
}

void sf_json_wipe(struct sf_json *j)
{
	if (j)
		wipe(j->root);
	sf_json_free(j);
}

const struct cJSON *sf_json_root(const struct sf_json *j)
{
	return j->root;
}

/* The last member of that name; cJSON's own lookups take the first, or ignore case. */
static int get(const struct cJSON *obj, const char *name, const struct cJSON **ret,
               struct sf_error *err)
{
	const struct cJSON *hit = NULL;

	if (!cJSON_IsObject(obj))
		return sf_fail(err, -EBADMSG, "JSON: '%s' asked of something that is no object",
		               name);
	for (const struct cJSON *c = obj->child; c; c = c->next)
		if (c->string && strcmp(c->string, name) == 0)
			hit = c;
	if (!hit)
		return sf_fail(err, -ENOENT, "JSON: no member '%s'", name);
	*ret = hit;
	return 0;
}

const struct cJSON *sf_json_get(const struct cJSON *obj, const char *name)
{
	const struct cJSON *item;

	return get(obj, name, &item, NULL) < 0 ? NULL : item;
}

bool sf_json_is_null(const struct cJSON *item)
{
	return cJSON_IsNull(item);
}

bool sf_json_is_bool(const struct cJSON *item, bool *ret)
{
	if (!cJSON_IsBool(item))
		return false;
	*ret = cJSON_IsTrue(item);
	return true;
}

bool sf_json_is_number(const struct cJSON *item, double *ret)
{
	if (!cJSON_IsNumber(item))
		return false;
	*ret = item->valuedouble;
	return true;
}

int sf_json_get_str(const struct cJSON *obj, const char *name, const char **ret,
                    struct sf_error *err)
{
	const struct cJSON *item;
	int r = get(obj, name, &item, err);

	if (r < 0)
		return r;
	if (!cJSON_IsString(item))
		return sf_fail(err, -EBADMSG, "JSON: '%s' is no string", name);
	*ret = item->valuestring;
	return 0;
}

static bool as_u64(const struct cJSON *item, uint64_t *ret)
{
	double d = item->valuedouble;

	if (!cJSON_IsNumber(item) || !(d >= 0 && d < INTEGER_LIMIT) || d != (double)(uint64_t)d)
		return false;
	*ret = (uint64_t)d;
	return true;
}

int sf_json_get_u64(const struct cJSON *obj, const char *name, uint64_t *ret, struct sf_error *err)
{
	const struct cJSON *item;
	int r = get(obj, name, &item, err);

	if (r < 0)
		return r;
	if (!as_u64(item, ret))
		return sf_fail(err, -EBADMSG, "JSON: '%s' is no whole number from 0 to 2^53 - 1",
		               name);
	return 0;
}

int sf_json_get_obj(const struct cJSON *obj, const char *name, const struct cJSON **ret,
                    struct sf_error *err)
{
	const struct cJSON *item;
	int r = get(obj, name, &item, err);

	if (r < 0)
		return r;
	if (!cJSON_IsObject(item))
		return sf_fail(err, -EBADMSG, "JSON: '%s' is no object", name);
	*ret = item;
	return 0;
}

int sf_json_get_arr(const struct cJSON *obj, const char *name, const struct cJSON **ret,
                    struct sf_error *err)
{
	const struct cJSON *item;
	int r = get(obj, name, &item, err);

	if (r < 0)
		return r;
	if (!cJSON_IsArray(item))
		return sf_fail(err, -EBADMSG, "JSON: '%s' is no array", name);
	*ret = item;
	return 0;
}

int sf_json_get_u64s(const struct cJSON *obj, const char *name, uint64_t *ret, size_t max,
                     struct sf_error *err)
{
	const struct cJSON *item;
	size_t n = 0;
	int r = sf_json_get_arr(obj, name, &item, err);

	if (r < 0)
		return r;
	for (const struct cJSON *c = item->child; c; c = c->next, n++) {
		uint64_t v;
		if (n == max)
			return sf_fail(err, -EBADMSG, "JSON: '%s' has more than %zu elements", name,
			               max);
		if (!as_u64(c, &v))
			return sf_fail(
				err, -EBADMSG,
				"JSON: '%s', element %zu is no whole number from 0 to 2^53 - 1",
				name, n);
		ret[n] = v;
	}
	return (int)n;
}

const struct cJSON *sf_json_next(const struct cJSON *parent, const struct cJSON *prev)
{
	return prev ? prev->next : parent->child;
}

const char *sf_json_name(const struct cJSON *item)
{
	return item->string;
}

const char *sf_json_str(const struct cJSON *item)
{
	return cJSON_IsString(item) ? item->valuestring : NULL;
}
