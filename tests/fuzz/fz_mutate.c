#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "tests/fuzz/fz_mutate.h"

int64_t fz_number(int64_t now, uint64_t *rnd)
{
	uint64_t v = (uint64_t)now;

	switch (fz_below(rnd, 10)) {
	case 0:
		return (int64_t)(v + 1);
	case 1:
		return (int64_t)(v - 1);
	case 2:
		return (int64_t)(v * 2);
	case 3:
		return (int64_t)(v / 2);
	case 4:
		return (int64_t)fz_below(rnd, 300);
	case 5:
		return -1 - (int64_t)fz_below(rnd, 3);
	case 6: /* near a power of two */
		return (int64_t)((UINT64_C(1) << fz_below(rnd, 64)) + fz_below(rnd, 3) - 1);
	case 7:
		return (int64_t)(UINT64_C(0) - (UINT64_C(1) << fz_below(rnd, 64)));
	case 8:
		return (int64_t)(v ^ UINT64_C(1) << fz_below(rnd, 64));
	default:
		return now ? (int64_t)(UINT64_C(0) - v) : INT64_MAX;
	}
}

/* What names in checkpoints are, and should not be. */
#define WORD(s)                  \
	{                        \
		s, sizeof(s) - 1 \
	}
static const struct {
	const char *s;
	size_t len;
} words[] = {
	WORD(""),
	WORD("."),
	WORD(".."),
	WORD("../x"),
	WORD("/"),
	WORD("a/b"),
	WORD("a\0b"),
	WORD("%2F"),
	WORD("%"),
	WORD("~0123456789abcdef"),
	WORD(".metadata"),
	WORD("__0_0.distcp"),
	WORD("__1_0.distcp"),
	WORD("model"),
	WORD("model."),
	WORD("optim"),
	WORD("optimizer"),
	WORD("state"),
	WORD("app"),
	WORD("checkpoint"),
	WORD("_orig_mod."),
	WORD("_extra_state"),
	WORD("tensor.npy"),
	WORD("value.json"),
	WORD("info.json"),
	WORD("0"),
	WORD("18446744073709551616"),
	WORD("\xed\xb2\x80"), /* a byte that is not UTF-8, as pickled */
	WORD("\xff"),
	WORD("\n"),
	WORD("\x1b[2J"),
	WORD("\"$(x)`'\\"),
	WORD("torch"),
	WORD("float32"),
	WORD("bfloat16"),
	WORD("complex64"),
	WORD("float8_e4m3fn"),
	WORD("uint8"),
	WORD("bool"),
	WORD("FloatStorage"),
	WORD("_rebuild_tensor_v2"),
	WORD("_get_layout"),
	WORD("Metadata"),
	WORD("TensorStorageMetadata"),
	WORD("BytesStorageMetadata"),
	WORD("MetadataIndex"),
	WORD("_StorageInfo"),
	WORD("zstd"),
	WORD("collections"),
	WORD("OrderedDict"),
	WORD("builtins"),
	WORD("set"),
	WORD("numpy"),
	WORD("dtype"),
	WORD("BF16"),
	WORD("F8_E4M3"),
	WORD("F4"),
	WORD("I64"),
	WORD("DCP_SHARDING_INFO"),
	WORD("__metadata__"),
	WORD("data_offsets"),
	WORD("weight_map"),
};

const char *fz_word(uint64_t *rnd, size_t *ret_len)
{
	static char text[400];
	size_t i = fz_below(rnd, SF_ARRAY_LEN(words) + 2);

	if (i < SF_ARRAY_LEN(words)) {
		*ret_len = words[i].len;
		return words[i].s;
	}
	/* longer than a name may be, or as deep as a path may not */
	*ret_len = i == SF_ARRAY_LEN(words) ? 200 + fz_below(rnd, 80) : 2 * fz_below(rnd, 150);
	for (size_t k = 0; k < *ret_len; k++)
		text[k] = i == SF_ARRAY_LEN(words) || k % 2 ? 'x' : '.';
	text[*ret_len] = '\0';
	return text;
}

/* Puts @n bytes of @word where @was bytes were. Returns the new length. */
static size_t replace(uint8_t *at, size_t len, size_t max, size_t off, size_t was, const char *word,
                      size_t n)
{
	if (len - was + n > max)
		return len;
	memmove(at + off + n, at + off + was, len - off - was);
	memcpy(at + off, word, n);
	return len - was + n;
}

static size_t edit_json(uint8_t *at, size_t len, size_t max, uint64_t *rnd)
{
	bool digits = fz_below(rnd, 3) > 0;
	size_t from = fz_below(rnd, len), off = 0, n = 0;
	const char *word;
	char number[32];

	for (size_t k = 0; k < len && !n; k++) {
		off = (from + k) % len;
		while (digits && off + n < len && at[off + n] >= '0' && at[off + n] <= '9')
			n++;
		if (!digits && at[off] == '"')
			while (++off + n < len && at[off + n] != '"' && n < 1000)
				n++, off--;
	}
	if (!n)
		return len;
	if (digits) {
		memcpy(number, at + off, SF_MIN(n, (size_t)19));
		number[SF_MIN(n, (size_t)19)] = '\0';
		snprintf(number, sizeof(number), "%lld",
		         (long long)fz_number(strtoll(number, NULL, 10), rnd));
		return replace(at, len, max, off, n, number, strlen(number));
	}
	word = fz_word(rnd, &n);
	return replace(at, len, max, off, fz_below(rnd, 2) ? 0 : SF_MIN(n, len - off), word, n);
}

size_t fz_mutate_json(uint8_t *at, size_t len, size_t max, uint64_t *rnd)
{
	for (size_t n = 1 + fz_below(rnd, 3); n > 0 && len; n--)
		len = edit_json(at, len, max, rnd);
	return len;
}

size_t fz_mutate_safetensors(uint8_t *at, size_t len, size_t max, uint64_t *rnd)
{
	uint64_t head = len < 8 ? UINT64_MAX : sf_le64(at);
	static uint8_t json[1 << 20];
	size_t n;

	if (head > len - 8 || head > sizeof(json) / 2 || max < len)
		return LLVMFuzzerMutate(at, len, max);
	if (fz_below(rnd, 12) == 0) {
		sf_put_le64(at, (uint64_t)fz_number((int64_t)head, rnd));
		return len;
	}
	memcpy(json, at + 8, head);
	n = fz_mutate_json(json, head, SF_MIN(sizeof(json), head + (max - len)), rnd);
	memmove(at + 8 + n, at + 8 + head, len - 8 - head);
	memcpy(at + 8, json, n);
	sf_put_le64(at, n);
	return len - head + n;
}

/* From a random place on, wrapping round; @len: not there. */
static size_t find(const uint8_t *at, size_t len, const char *what, size_t n, uint64_t *rnd)
{
	size_t from = fz_below(rnd, len);
	const uint8_t *hit = memmem(at + from, len - from, what, n);

	if (!hit)
		hit = memmem(at, len, what, n);
	return hit ? (size_t)(hit - at) : len;
}

/* A field of an archive's headers. */
static void edit_zip(uint8_t *at, size_t len, uint64_t *rnd)
{
	static const char *const magic[] = { "PK\3\4", "PK\1\2", "PK\5\6", "PK\6\6", "PK\6\7" };
	static const uint8_t head[] = { 30, 46, 22, 56, 20 };
	size_t kind = fz_below(rnd, SF_ARRAY_LEN(magic)), off = find(at, len, magic[kind], 4, rnd);
	size_t field = 4 + fz_below(rnd, head[kind] - 4u), wide = 1u << fz_below(rnd, 4);
	uint8_t le[8];

	field -= field % 2;
	if (off + field + 8 > len)
		return;
	sf_put_le64(le, (uint64_t)fz_number((int64_t)sf_le32(at + off + field), rnd));
	memcpy(at + off + field, le, wide);
}

void fz_mutate_items(uint8_t *at, size_t len, uint64_t *rnd)
{
	static const char *const starts[] = { "\x80\2", "\x80\4", "\x80\3", "{\"" };
	size_t what = fz_below(rnd, 8), off, n;
	uint8_t *json;

	if (!len)
		return;
	if (what == 0) {
		edit_zip(at, len, rnd);
	} else if (what < 6) {
		off = find(at, len, starts[what == 5 ? 3 : what < 3 ? 0 : what - 2], 2, rnd);
		if (off == len)
			off = find(at, len, starts[0], 2, rnd);
		if (off == len)
			off = fz_below(rnd, len);
		if (at[off] != '{') {
			fz_mutate_pickle_inside(at + off, len - off, rnd);
			return;
		}
		/* a blob's header: spaces make up for a shorter one, a longer one runs into the
		 * data */
		n = SF_MIN(len - off, (size_t)4096);
		json = malloc(n + 64);
		if (!json)
			return;
		memset(json + n, ' ', 64);
		memcpy(json, at + off, n);
		fz_mutate_json(json, n, n + 64, rnd);
		memcpy(at + off, json, n);
		free(json);
	} else {
		off = fz_below(rnd, len);
		n = 1 + fz_below(rnd, SF_MIN(len - off, (size_t)16));
		LLVMFuzzerMutate(at + off, n, n);
	}
}
