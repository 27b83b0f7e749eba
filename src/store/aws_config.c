#include "config.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/vec.h"
#include "store/aws_config.h"

struct sf_aws_value {
	enum sf_aws_section in;
	bool credentials;            /* of that file */
	char *section, *key, *value; /* key NULL: the section is there */
};

void sf_aws_config_release(struct sf_aws_config *c)
{
	for (size_t i = 0; i < c->n; i++) {
		struct sf_aws_value *v = &c->at[i];

		if (v->value)
			explicit_bzero(v->value, strlen(v->value));
		free(v->section);
		free(v->key);
		free(v->value);
	}
	free(c->at);
	*c = (struct sf_aws_config){ .n = 0 };
}

static int push(struct sf_aws_config *c, const struct sf_aws_value *like, const char *key,
                size_t key_len, const char *value, size_t value_len)
{
	struct sf_aws_value v = *like;

	if (c->n == c->cap && sf_vec_grow((void **)&c->at, &c->cap, c->n + 1, sizeof(v)) < 0)
		return -ENOMEM;
	v.section = strdup(like->section);
	v.key = key ? strndup(key, key_len) : NULL;
	v.value = key ? strndup(value, value_len) : NULL;
	if (!v.section || (key && (!v.key || !v.value))) {
		free(v.section);
		free(v.key);
		free(v.value);
		return -ENOMEM;
	}
	for (char *k = v.key; k && *k; k++)
		*k = (char)tolower((unsigned char)*k);
	c->at[c->n++] = v;
	return 0;
}

/* A piece of the text. */
struct piece {
	const char *at;
	size_t len;
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v';
}

static struct piece trim(struct piece p)
{
	while (p.len && is_blank(p.at[p.len - 1]))
		p.len--;
	while (p.len && is_blank(*p.at))
		p.at++, p.len--;
	return p;
}

/* A name as it stands behind "profile": bare or in quotes. */
static struct piece unquote(struct piece p)
{
	p = trim(p);
	if (p.len >= 2 && (*p.at == '"' || *p.at == '\'') && p.at[p.len - 1] == *p.at)
		return (struct piece){ p.at + 1, p.len - 2 };
	return p;
}

/* What is between the brackets, as what section? False: none of those that we read. */
static bool section_of(struct piece p, bool credentials, enum sf_aws_section *ret_in,
                       struct piece *ret_name)
{
	static const struct {
		const char *word;
		enum sf_aws_section in;
	} kinds[] = { { "profile", SF_AWS_PROFILE },
		      { "sso-session", SF_AWS_SSO_SESSION },
		      { "services", SF_AWS_SERVICES } };

	*ret_in = SF_AWS_PROFILE;
	*ret_name = p;
	if (credentials || (p.len == 7 && memcmp(p.at, "default", 7) == 0))
		return true;
	for (size_t i = 0; i < SF_ARRAY_LEN(kinds); i++) {
		size_t n = strlen(kinds[i].word);

		if (p.len > n && memcmp(p.at, kinds[i].word, n) == 0 && is_blank(p.at[n])) {
			*ret_in = kinds[i].in;
			*ret_name = unquote((struct piece){ p.at + n, p.len - n });
			return true;
		}
	}
	return false;
}

/* "key = value" into both parts. False: it is not. */
static bool split(struct piece line, bool colon, struct piece *ret_key, struct piece *ret_value)
{
	size_t i = 0;

	while (i < line.len && line.at[i] != '=' && !(colon && line.at[i] == ':'))
		i++;
	if (i == line.len)
		return false;
	*ret_key = trim((struct piece){ line.at, i });
	*ret_value = trim((struct piece){ line.at + i + 1, line.len - i - 1 });
	return ret_key->len > 0;
}

struct reading {
	struct sf_aws_config *c;
	struct sf_aws_value like; /* the section that we are in; section NULL: none that we read */
	char *outer;              /* key with nothing behind it: indented lines are below it */
	bool in_section;
};

static int begin_section(struct reading *r, struct piece line)
{
	const char *end = memchr(line.at, ']', line.len);
	struct piece name;
	bool ours;

	free(r->like.section);
	r->like.section = NULL;
	free(SF_STEAL(r->outer));
	if (!end)
		return -EBADMSG;
	r->in_section = true;
	ours = section_of(trim((struct piece){ line.at + 1, (size_t)(end - line.at) - 1 }),
	                  r->like.credentials, &r->like.in, &name);
	if (!ours)
		return 0;
	r->like.section = strndup(name.at, name.len);
	return r->like.section ? push(r->c, &r->like, NULL, 0, NULL, 0) : -ENOMEM;
}

static int take_line(struct reading *r, struct piece line)
{
	bool indented = line.len && is_blank(*line.at);
	struct piece key, value;
	int e = 0;

	line = trim(line);
	if (!line.len || *line.at == '#' || *line.at == ';')
		return 0;
	if (!indented && *line.at == '[')
		return begin_section(r, line);
	if (!r->in_section)
		return -EBADMSG;
	if (indented && r->outer) {
		char *both;

		if (!split(line, false, &key, &value))
			return -EBADMSG;
		if (asprintf(&both, "%s.%.*s", r->outer, (int)key.len, key.at) < 0)
			return -ENOMEM;
		if (r->like.section)
			e = push(r->c, &r->like, both, strlen(both), value.at, value.len);
		free(both);
		return e;
	}
	if (!split(line, true, &key, &value))
		return indented ? 0 : -EBADMSG; /* a value that goes on: none of ours does */
	free(SF_STEAL(r->outer));
	if (!value.len && !(r->outer = strndup(key.at, key.len)))
		return -ENOMEM;
	return r->like.section ? push(r->c, &r->like, key.at, key.len, value.at, value.len) : 0;
}

int sf_aws_config_add(struct sf_aws_config *c, const char *text, size_t len, bool credentials,
                      const char *file, struct sf_error *err)
{
	struct reading r = { .c = c, .like.credentials = credentials };
	size_t at = 0, line = 0;
	int e = 0;

	if (len > SF_AWS_CONFIG_BYTES)
		return sf_fail(err, -E2BIG, "'%.400s' is longer than %zu bytes", file,
		               SF_AWS_CONFIG_BYTES);
	if (memchr(text, '\0', len))
		return sf_fail(err, -EBADMSG, "'%.400s' has a NUL byte in it", file);
	if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		at = 3;
	while (e == 0 && at < len) {
		const char *nl = memchr(text + at, '\n', len - at);
		size_t n = nl ? (size_t)(nl - text) - at : len - at;

		line++;
		e = take_line(&r, (struct piece){ text + at, n });
		at += n + 1;
	}
	free(r.like.section);
	free(r.outer);
	if (e == -EBADMSG)
		return sf_fail(err, e,
		               "'%.400s': line %zu is no section and no 'key = value' in one", file,
		               line);
	return e < 0 ? sf_fail(err, e, "'%.400s': no memory", file) : 0;
}

/* The last one: what stands later holds. */
static const struct sf_aws_value *find(const struct sf_aws_config *c, enum sf_aws_section in,
                                       int credentials, const char *name, const char *key)
{
	for (size_t i = c->n; i-- > 0;) {
		const struct sf_aws_value *v = &c->at[i];

		if (v->in == in && (credentials < 0 || v->credentials == credentials) &&
		    strcmp(v->section, name) == 0 && (key ? v->key && strcmp(v->key, key) == 0 : 1))
			return v;
	}
	return NULL;
}

const char *sf_aws_config_get_of(const struct sf_aws_config *c, bool credentials,
                                 const char *profile, const char *key)
{
	const struct sf_aws_value *v = find(c, SF_AWS_PROFILE, credentials, profile, key);

	return v ? v->value : NULL;
}

const char *sf_aws_config_get(const struct sf_aws_config *c, enum sf_aws_section in,
                              const char *name, const char *key)
{
	const struct sf_aws_value *v = find(c, in, true, name, key);

	if (!v)
		v = find(c, in, false, name, key);
	return v ? v->value : NULL;
}

bool sf_aws_config_has(const struct sf_aws_config *c, enum sf_aws_section in, const char *name)
{
	return find(c, in, -1, name, NULL) != NULL;
}
