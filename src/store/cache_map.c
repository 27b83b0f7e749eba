#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32.h"
#include "base/mem.h"
#include "base/path.h"
#include "store/cache_map.h"
#include "store/http_range.h"

/*
 * The header, little-endian: magic, u32 CRC of what follows, u32 bytes of a block, u64 size of the
 * object, u32 bytes of the URL, u32 bytes of the version, both, zeros. The marks: u32 tag, u32 sum.
 */
#define MAGIC "sfcache1"
#define CRC_AT 8
#define BLOCK_AT 12
#define SIZE_AT 16
#define URL_LEN_AT 24
#define VERSION_LEN_AT 28
#define URL_AT 32
#define MARK_TAG 0x62634653u

_Static_assert(URL_AT + SF_CACHE_ID_MAX + 2 <= SF_CACHE_HEAD,
               "a header has room for what it names");

/* Written a moment ago by its date, which tells seconds apart and no less: it may be written once
 * more in the same second, and look the same. */
static bool is_fresh(const char *tag, int64_t now_s)
{
	int64_t at_s;

	return tag[0] != '"' && sf_http_date(tag, &at_s) && at_s > now_s - SF_CACHE_FRESH_S;
}

int sf_cache_version(uint64_t size, const struct sf_version *version, int64_t now_s,
                     char **ret_text)
{
	const char *tag = version->etag;
	int n;

	*ret_text = NULL;
	if (!size || size > SF_CACHE_OBJECT_MAX ||
	    (tag && (!*tag || strncmp(tag, "W/", 2) == 0 || is_fresh(tag, now_s))) ||
	    (!tag && !version->dev && !version->ino && !version->mtime_ns))
		return 0;
	if (tag)
		n = asprintf(ret_text, "%s", tag);
	else
		n = asprintf(ret_text, "%llx-%llx-%llx", (unsigned long long)version->dev,
		             (unsigned long long)version->ino,
		             (unsigned long long)version->mtime_ns);
	if (n >= 0)
		return 1;
	*ret_text = NULL;
	return -ENOMEM;
}

int sf_cache_head_put(const struct sf_cache_id *id, uint8_t ret[SF_CACHE_HEAD])
{
	size_t url = strlen(id->url), version = strlen(id->version);

	if (url > SF_CACHE_ID_MAX || version > SF_CACHE_ID_MAX - url)
		return -E2BIG;
	memset(ret, 0, SF_CACHE_HEAD);
	memcpy(ret, MAGIC, CRC_AT);
	sf_put_le32(ret + BLOCK_AT, (uint32_t)SF_CACHE_BLOCK);
	sf_put_le64(ret + SIZE_AT, id->size);
	sf_put_le32(ret + URL_LEN_AT, (uint32_t)url);
	sf_put_le32(ret + VERSION_LEN_AT, (uint32_t)version);
	memcpy(ret + URL_AT, id->url, url);
	memcpy(ret + URL_AT + url + 1, id->version, version); /* a NUL behind each */
	sf_put_le32(ret + CRC_AT, sf_crc32(0, ret + BLOCK_AT, SF_CACHE_HEAD - BLOCK_AT));
	return 0;
}

int sf_cache_head_get(const uint8_t head[SF_CACHE_HEAD], struct sf_cache_id *ret)
{
	const char *url = (const char *)head + URL_AT;
	uint32_t url_len = sf_le32(head + URL_LEN_AT), version_len = sf_le32(head + VERSION_LEN_AT);
	uint64_t size = sf_le64(head + SIZE_AT);

	if (memcmp(head, MAGIC, CRC_AT) != 0 || sf_le32(head + BLOCK_AT) != SF_CACHE_BLOCK ||
	    sf_le32(head + CRC_AT) != sf_crc32(0, head + BLOCK_AT, SF_CACHE_HEAD - BLOCK_AT) ||
	    !size || size > SF_CACHE_OBJECT_MAX || url_len > SF_CACHE_ID_MAX ||
	    version_len > SF_CACHE_ID_MAX - url_len || strnlen(url, url_len + 1) != url_len ||
	    strnlen(url + url_len + 1, version_len + 1) != version_len)
		return -EBADMSG;
	*ret = (struct sf_cache_id){ .url = url, .version = url + url_len + 1, .size = size };
	return 0;
}

int sf_cache_name(const struct sf_cache_id *id, char ret[SF_CACHE_NAME + 1])
{
	SF_FREE uint8_t *head = malloc(SF_CACHE_HEAD);
	uint8_t digest[SF_SHA256_BYTES];
	int r = head ? sf_cache_head_put(id, head) : -ENOMEM;

	if (r >= 0)
		r = sf_sha256(head, SF_CACHE_HEAD, digest);
	for (unsigned i = 0; i < SF_SHA256_BYTES && r >= 0; i++)
		snprintf(ret + 2 * i, 3, "%02x", digest[i]);
	return r;
}

uint32_t sf_cache_sum(const char *name, uint64_t i, const void *at, uint64_t len)
{
	uint8_t where[8];
	uint32_t seed = sf_crc32(0, name, SF_CACHE_NAME);

	sf_put_le64(where, i);
	return sf_crc32(sf_crc32(seed, where, sizeof(where)), at, (size_t)len);
}

void sf_cache_mark_put(uint32_t sum, uint8_t ret[SF_CACHE_MARK])
{
	sf_put_le32(ret, MARK_TAG);
	sf_put_le32(ret + 4, sum);
}

bool sf_cache_mark_get(const uint8_t mark[SF_CACHE_MARK], uint32_t *ret_sum)
{
	*ret_sum = sf_le32(mark + 4);
	return sf_le32(mark) == MARK_TAG;
}
