#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "parse/pickle_read.h"
#include "parse/safetensors.h"
#include "parse/zip_read.h"
#include "parse/zip_write.h"
#include "tests/fuzz/whole_visit.h"

static bool ends(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && strcmp(s + n - m, end) == 0;
}

/* An archive with a directory that fits, a data.pkl that parses, CRCs of what is not a tensor. */
static void parse_pt(const char *path, const uint8_t *at, size_t len, bool real_crc)
{
	size_t tail = SF_MIN(len, (size_t)SF_ZIP_TAIL), used = 0;
	struct sf_arena arena = { 0 }, values = { 0 };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_zip_end end;
	struct sf_zip_dir dir;
	struct sf_pv *v;
	int r = sf_zip_find_end(at + len - tail, tail, len, &end, &err);

	if (r >= 0)
		r = sf_zip_parse_dir(at + end.dir_off, &end, len, &arena, &dir, &err);
	if (r < 0)
		whole_broken(path, err.msg, r, (long long)len);
	for (size_t i = 0; i < dir.n; i++) {
		const struct sf_zip_record *rec = &dir.at[i];
		bool pkl = sf_zip_find(&dir, "data.pkl") == rec;
		uint64_t off;
		if (rec->method != 0 || rec->size != rec->comp_size || len < 30 ||
		    rec->header_off > len - 30 ||
		    sf_zip_local_data(at + rec->header_off, rec->header_off, &off, NULL) < 0 ||
		    off > len || rec->size > len - off)
			whole_broken(path, "a record outside the archive", (long long)i,
			             (long long)rec->size);
		if ((pkl || real_crc) && sf_crc32(0, at + off, rec->size) != rec->crc)
			whole_broken(path, "a record's CRC", (long long)i, rec->crc);
		if (!pkl)
			continue;
		r = sf_pickle_parse(at + off, rec->size, NULL, &values, &v, &used, &err);
		if (r < 0 && r != -E2BIG)
			whole_broken(path, err.msg, r, (long long)off);
		if (r >= 0 && used != rec->size)
			whole_broken(path, "bytes behind the pickle", (long long)used,
			             (long long)rec->size);
	}
	if (!sf_zip_find(&dir, "data.pkl"))
		whole_broken(path, "no data.pkl", (long long)dir.n, 0);
	sf_arena_release(&arena);
	sf_arena_release(&values);
}

static void parse_safetensors(const char *path, const uint8_t *at, size_t len)
{
	struct sf_arena arena = { 0 };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_st_header h;
	uint64_t n = len < 8 ? UINT64_MAX : sf_le64(at);
	int r;

	if (n > len - 8)
		whole_broken(path, "a header past the end", (long long)n, (long long)len);
	r = sf_st_parse(at + 8, n, &arena, &h, &err);
	if (r < 0)
		whole_broken(path, err.msg, r, (long long)n);
	if (h.data_len != len - 8 - n)
		whole_broken(path, "data of another length", (long long)h.data_len,
		             (long long)(len - 8 - n));
	sf_arena_release(&arena);
}

/* The depth of brackets outside strings: our own reader takes 64. */
static unsigned depth(const uint8_t *at, size_t len)
{
	unsigned now = 0, most = 0;
	bool in = false;

	for (size_t i = 0; i < len; i++) {
		if (at[i] == '\\' && in)
			i++;
		else if (at[i] == '"')
			in = !in;
		else if (!in && (at[i] == '[' || at[i] == '{'))
			now++, most = SF_MAX(most, now);
		else if (!in && (at[i] == ']' || at[i] == '}'))
			now--;
	}
	return most;
}

static void parse_json(const char *path, const uint8_t *at, size_t len)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_json *j = NULL;
	int r;

	/* Python takes half a surrogate pair, which is how names that are not UTF-8 are spelt, and
	 * NULs; cJSON does not */
	if (depth(at, len) > 60 || memmem(at, len, "\\ud", 3) || memmem(at, len, "\\u0000", 6))
		return;
	r = sf_json_parse((const char *)at, len, &j, &err);
	if (r < 0)
		whole_broken(path, err.msg, r, (long long)len);
	sf_json_free(j);
}

static void parse_npy(const char *path, const uint8_t *at, size_t len)
{
	size_t n = len < 10 ? 0 : at[6] == 1 ? 10u + sf_le16(at + 8) : 12u + sf_le32(at + 8);

	if (len < 64 || memcmp(at, "\x93NUMPY", 6) != 0 || n > len || n % 64 != 0 ||
	    at[n - 1] != '\n')
		whole_broken(path, "no npy header", (long long)n, (long long)len);
}

void whole_parse(const char *path, const uint8_t *at, size_t len, bool real_crc)
{
	if (strncmp(path, "/shards/", 8) == 0)
		return; /* as they are stored */
	if (ends(path, ".pt"))
		parse_pt(path, at, len, real_crc);
	else if (ends(path, ".safetensors"))
		parse_safetensors(path, at, len);
	else if (ends(path, ".json"))
		parse_json(path, at, len);
	else if (ends(path, ".npy"))
		parse_npy(path, at, len);
}
