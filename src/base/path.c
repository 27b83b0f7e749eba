#include "config.h"

#include "base/mem.h"
#include "base/path.h"
#include "base/utf8.h"

#define NAME_LIMIT 4096 /* bytes of a stored name, as PATH_MAX */
#define FILE_NAME_LIMIT 255
#define HASH_HEX 16
#define CUT_END (1 + HASH_HEX) /* '~' and the digits */
/* no suffix is longer: what is shorter than the rest cannot have been cut */
#define SUFFIX_LIMIT 64

static int refuse(struct sf_error *err, const char *name, size_t len, const char *why)
{
	struct sf_buf text = { .limit = 400 };
	int r;

	sf_escape_text(&text, name, SF_MIN(len, (size_t)80));
	r = sf_fail(err, -EBADMSG, "stored name '%s'%s: %s", sf_buf_cstr(&text),
	            len > 80 ? "..." : "", why);
	sf_buf_release(&text);
	return r;
}

int sf_path_check(const char *name, size_t len, struct sf_error *err)
{
	size_t start = 0;

	if (len > NAME_LIMIT)
		return sf_fail(err, -EBADMSG, "stored name of %zu bytes: at most %d are allowed",
		               len, NAME_LIMIT);
	if (len && name[0] == '/')
		return refuse(err, name, len, "is absolute");
	if (len && memchr(name, '\0', len))
		return refuse(err, name, len, "holds a NUL");
	for (size_t i = 0; i <= len; i++) {
		if (i < len && name[i] != '/')
			continue;
		if (i == start)
			return refuse(err, name, len, "has an empty component");
		if (i - start <= 2 && memcmp(name + start, "..", i - start) == 0)
			return refuse(err, name, len,
			              i - start == 2 ? "has a '..' component"
			                             : "has a '.' component");
		start = i + 1;
	}
	return 0;
}

/* How @s's first character is spelt in a file name; *ret_take is its bytes in @s. */
static size_t encode_unit(const char *s, size_t len, const char **ret, size_t *ret_take)
{
	uint32_t c = 0; /* gcc 14 does not see that it is always set */

	*ret_take = sf_utf8_unit(s, len, &c);
	*ret = c == '/' ? "%2F" : c == '\0' ? "%00" : c == '%' ? "%25" : s;
	return *ret == s ? *ret_take : 3;
}

void sf_name_encode(struct sf_buf *out, const char *part, size_t part_len, const char *key,
                    size_t key_len, size_t suffix_max)
{
	size_t whole = 0, n, take, room;
	const char *text;
	bool cut;

	if (part_len == 0) {
		sf_buf_byte(out, '%');
		return;
	}
	for (size_t i = 0; i < part_len; i += take)
		whole += encode_unit(part + i, part_len - i, &text, &take);
	cut = suffix_max > FILE_NAME_LIMIT || whole > FILE_NAME_LIMIT - suffix_max;
	room = cut ? FILE_NAME_LIMIT - CUT_END - SF_MIN(suffix_max, (size_t)SUFFIX_LIMIT) : whole;
	for (size_t i = 0; i < part_len; i += take) {
		n = encode_unit(part + i, part_len - i, &text, &take);
		if (n > room)
			break;
		room -= n;
		sf_buf_add(out, text, n);
	}
	if (cut) {
		uint8_t digest[SF_SHA256_BYTES];
		if (sf_sha256(key, key_len, digest) < 0) {
			out->failed = out->failed ? out->failed : -ENOMEM;
			return;
		}
		sf_buf_byte(out, '~');
		for (int i = 0; i < HASH_HEX / 2; i++)
			sf_buf_printf(out, "%02x", digest[i]);
	}
}

static bool looks_cut(const char *name, size_t len)
{
	if (len < FILE_NAME_LIMIT - SUFFIX_LIMIT || name[len - CUT_END] != '~')
		return false;
	for (size_t i = len - HASH_HEX; i < len; i++)
		if (!((name[i] >= '0' && name[i] <= '9') || (name[i] >= 'a' && name[i] <= 'f')))
			return false;
	return true;
}

bool sf_name_decode(struct sf_buf *out, const char *name, size_t len)
{
	static const struct {
		char text[4], byte;
	} escapes[] = { { "%2F", '/' }, { "%00", '\0' }, { "%25", '%' } };
	const size_t before = out->len;

	if (len == 1 && name[0] == '%')
		return true;
	if (len == 0 || len > FILE_NAME_LIMIT)
		return false;
	if (looks_cut(name, len)) {
		sf_buf_add(out, name, len);
		return true;
	}
	for (size_t i = 0, e; i < len;) {
		if (name[i] == '%') {
			for (e = 0; e < SF_ARRAY_LEN(escapes); e++)
				if (len - i >= 3 && memcmp(name + i, escapes[e].text, 3) == 0)
					break;
			if (e == SF_ARRAY_LEN(escapes))
				goto no;
			sf_buf_byte(out, (uint8_t)escapes[e].byte);
			i += 3;
		} else if (name[i] == '/' || name[i] == '\0') {
			goto no;
		} else {
			sf_buf_byte(out, (uint8_t)name[i++]);
		}
	}
	return true;
no:
	out->len = SF_MIN(out->len, before);
	return false;
}
