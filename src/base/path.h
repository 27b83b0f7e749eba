/* Names: checks on names from metadata, escapes for file names, terminals and JSON, globs. */
#ifndef SF_BASE_PATH_H
#define SF_BASE_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "base/buf.h"
#include "base/error.h"

/* A stored name from metadata: relative, no "..", no "." or empty component, no NUL, ≤ 4096 bytes.
 * 0 or -EBADMSG. */
int sf_path_check(const char *name, size_t len, struct sf_error *err);

/*
 * sf_name_encode - a key (or one dot-separated part of it) as a file name component, as design
 * section 3 spells it.
 *
 * '/', NUL and '%' become %2F %00 %25, the empty name is "%". If that and @suffix_max bytes pass
 * 255, it is cut at a character and ended with '~' and 16 hex digits of SHA-256 of the full key.
 * Without the file suffix.
 */
void sf_name_encode(struct sf_buf *out, const char *part, size_t part_len, const char *key,
                    size_t key_len, size_t suffix_max);
/* The inverse of an encoding that was not cut: false if @name is no encoding. A cut one ("~" + 16
 * hex) decodes to itself; the caller looks such names up by hash. */
bool sf_name_decode(struct sf_buf *out, const char *name, size_t len);

/* Is it seen as itself? Not what a terminal may take for an order (C0, DEL, C1), what turns or
 * hides text beside it (directions, zero width), other blanks than ' ', and what is no character.
 */
bool sf_char_is_shown(uint32_t c);
/* Text for a terminal or a log line: what is not shown (above) and bytes that are not UTF-8 as
 * \xHH, backslash doubled. */
void sf_escape_text(struct sf_buf *out, const char *s, size_t len);
/*
 * A JSON string with its quotes; bytes that are not UTF-8 as \udcXX (Python's surrogateescape), a
 * surrogate that escapes no byte (U+D800 ... U+DC7F as three bytes, which sf_surrogates_to_bytes
 * leaves) as itself, \ud8xx. What is not shown (above) as \uXXXX, so that JSON may be looked at on
 * a terminal.
 */
void sf_escape_json(struct sf_buf *out, const char *s, size_t len);
/* JSON that others made, as it is but for what is not shown: \uXXXX in its strings, a blank between
 * them. */
void sf_escape_json_text(struct sf_buf *out, const char *s, size_t len);
/* Does @s hold U+DC80 ... U+DCFF as three bytes (ED B2 80 ... ED B3 BF)? */
bool sf_surrogates_any(const char *s, size_t len);
/*
 * sf_surrogates_to_bytes - a str as pickled (surrogatepass) -> the bytes os.fsencode() makes of it
 * (surrogateescape).
 *
 * U+DC80 ... U+DCFF become the byte 80 ... FF they stand for; all else, other surrogates too, is
 * copied. Writes at most
 * @len bytes to @out, which may be @s, and returns how many.
 */
size_t sf_surrogates_to_bytes(const char *s, size_t len, char *out);
/* fnmatch of Python: * and ? cross dots and slashes, [seq] and [!seq]; lengths, no NUL needed. */
bool sf_glob_match(const char *pattern, size_t pattern_len, const char *s, size_t len);
/* Does it end so? The whole of it may be the end. */
static inline bool sf_has_suffix(const char *s, const char *suffix)
{
	size_t n = strlen(s), m = strlen(suffix);

	return n >= m && memcmp(s + n - m, suffix, m) == 0;
}
bool sf_utf8_valid(const char *s, size_t len); /* strict: no surrogates, no overlong forms */

#define SF_SHA256_BYTES 32
/* 0, or -ENOMEM: OpenSSL allocates its context */
int sf_sha256(const void *p, size_t len, uint8_t digest[SF_SHA256_BYTES]);
/* The same of bytes that come in pieces; one that failed says so at its end. */
struct sf_sha256_run;
struct sf_sha256_run *sf_sha256_begin(void); /* NULL: no memory */
void sf_sha256_feed(struct sf_sha256_run *run, const void *p, size_t len);
int sf_sha256_end(struct sf_sha256_run *run, uint8_t digest[SF_SHA256_BYTES]); /* frees it */
void sf_sha256_drop(struct sf_sha256_run *run); /* frees it; NULL is fine */

#endif
