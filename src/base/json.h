/* JSON in, checked: cJSON behind getters that test type and range. */
#ifndef SF_BASE_JSON_H
#define SF_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

struct cJSON;
struct sf_json; /* a parsed document */

/* Parses @len bytes (no NUL needed; trailing white space allowed, anything else refused). Depth
 * ≤ 64. Duplicate keys: the last wins. Numbers are cJSON's doubles: integers are exact below 2^53,
 * more is -EBADMSG. */
int sf_json_parse(const char *text, size_t len, struct sf_json **ret, struct sf_error *err);
/* The same of somebody else's: -E2BIG, before memory is taken, where it may have more than @most values
 * (each takes some 100 bytes). */
int sf_json_parse_most(const char *text, size_t len, size_t most, struct sf_json **ret,
                       struct sf_error *err);
void sf_json_free(struct sf_json *j);
void sf_json_wipe(struct sf_json *j); /* the same of secrets: strings are overwritten */
const struct cJSON *sf_json_root(const struct sf_json *j);

/* -ENOENT when the member is missing, -EBADMSG when of another type or out of range. Strings borrow
 * from the document. */
int sf_json_get_str(const struct cJSON *obj, const char *name, const char **ret,
                    struct sf_error *err);
int sf_json_get_u64(const struct cJSON *obj, const char *name, uint64_t *ret, struct sf_error *err);
int sf_json_get_obj(const struct cJSON *obj, const char *name, const struct cJSON **ret,
                    struct sf_error *err);
int sf_json_get_arr(const struct cJSON *obj, const char *name, const struct cJSON **ret,
                    struct sf_error *err);
/* An array of unsigned numbers into @ret (at most @max); returns how many. */
int sf_json_get_u64s(const struct cJSON *obj, const char *name, uint64_t *ret, size_t max,
                     struct sf_error *err);
/* Members of an object or elements of an array in order: first with NULL. name is NULL in
 * arrays. */
const struct cJSON *sf_json_next(const struct cJSON *parent, const struct cJSON *prev);
const char *sf_json_name(const struct cJSON *item);
const char *sf_json_str(const struct cJSON *item); /* NULL when it is no string */
/* The member, whatever it is; NULL: @obj has none, or is no object. */
const struct cJSON *sf_json_get(const struct cJSON *obj, const char *name);
/* What it is; the values only when it is that. */
bool sf_json_is_null(const struct cJSON *item);
bool sf_json_is_bool(const struct cJSON *item, bool *ret);
bool sf_json_is_number(const struct cJSON *item, double *ret);

#endif
