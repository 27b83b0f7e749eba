#include "config.h"

#include <stdio.h>
#include <string.h>

#include "save/save_shard_name.h"

#define SUFFIX ".distcp"
#define TAG_DIGITS 8

void sf_shard_name(char ret[SF_SHARD_NAME_MAX], uint32_t rank, uint32_t file, const char *tag)
{
	snprintf(ret, SF_SHARD_NAME_MAX, "__%u_%u%s" SUFFIX, rank, file, tag);
}

void sf_shard_tag(char ret[SF_SHARD_TAG_MAX], const char *token)
{
	size_t len = strlen(token);

	snprintf(ret, SF_SHARD_TAG_MAX, "-%.*s", TAG_DIGITS,
	         token + (len > TAG_DIGITS ? len - TAG_DIGITS : 0));
}

/* Digits, one to ten; NULL: none. */
static const char *number(const char *p)
{
	size_t n = strspn(p, "0123456789");

	return n >= 1 && n <= 10 ? p + n : NULL;
}

bool sf_shard_is_tagged(const char *name, char ret_tag[SF_SHARD_TAG_MAX])
{
	const char *p = name;

	if (strncmp(p, "__", 2) != 0 || !(p = number(p + 2)) || *p != '_' || !(p = number(p + 1)) ||
	    *p != '-' || strspn(p + 1, "0123456789abcdef") != TAG_DIGITS ||
	    strcmp(p + 1 + TAG_DIGITS, SUFFIX) != 0)
		return false;
	memcpy(ret_tag, p, 1 + TAG_DIGITS);
	ret_tag[1 + TAG_DIGITS] = 0;
	return true;
}
