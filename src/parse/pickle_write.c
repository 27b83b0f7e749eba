#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "parse/pickle_put.h"

int sf_pickle_writer_init(struct sf_pickle_writer *w, struct sf_buf *out, struct sf_arena *arena)
{
	struct sf_pw_private *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	*w = (struct sf_pickle_writer){
		.out = out, .next_memo = SF_PW_MEMO_FREE, .arena = arena, .interned = p
	};
	return 0;
}

void sf_pickle_writer_release(struct sf_pickle_writer *w)
{
	struct sf_pw_private *p = w->interned;

	if (p) {
		sf_pw_names_release(&p->names);
		sf_pw_marked_release(&p->marked);
		sf_map_release(&p->map);
	}
	free(p);
	w->interned = NULL;
}

void sf_pw_op(struct sf_pickle_writer *w, char op)
{
	sf_buf_byte(w->out, (uint8_t)op);
}

void sf_pw_proto(struct sf_pickle_writer *w)
{
	sf_buf_add(w->out, "\x80\x02", 2);
}

void sf_pw_stop(struct sf_pickle_writer *w)
{
	sf_pw_op(w, '.');
}

static void numbered(struct sf_pickle_writer *w, uint32_t memo, char small, char large)
{
	uint8_t b[5] = { (uint8_t)small, (uint8_t)memo };

	if (memo > UINT8_MAX) {
		b[0] = (uint8_t)large;
		sf_put_le32(b + 1, memo);
	}
	sf_buf_add(w->out, b, memo > UINT8_MAX ? 5 : 2);
}

void sf_pw_put(struct sf_pickle_writer *w, uint32_t memo)
{
	numbered(w, memo, 'q', 'r');
}

void sf_pw_get(struct sf_pickle_writer *w, uint32_t memo)
{
	numbered(w, memo, 'h', 'j');
}

void sf_pw_text(struct sf_pickle_writer *w, const char *s, size_t len)
{
	uint8_t head[5] = { 'X' };

	if (len > UINT32_MAX) { /* nobody's: values come from pickles that fit into memory limits
		                   far below */
		w->out->failed = -E2BIG;
		return;
	}
	sf_put_le32(head + 1, (uint32_t)len);
	sf_buf_add(w->out, head, 5);
	sf_buf_add(w->out, s, len);
}

/* Length of the UTF-8 sequence at @s, lone surrogates included (Python decodes with
 * "surrogatepass") but for those that stand for a byte: a name has the byte itself. 0: no such
 * thing. */
static size_t utf8_pass(const uint8_t *s, size_t len)
{
	size_t n = s[0] < 0x80                   ? 1
	           : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
	           : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
	           : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
	                                         : 0;

	if (n == 0 || n > len)
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90) ||
	    (s[0] == 0xf4 && s[1] >= 0x90) || (s[0] == 0xed && s[1] >= 0xb2))
		return 0;
	return n;
}

/* One bad name must not break the file. */
void sf_pw_name(struct sf_pickle_writer *w, const char *s, size_t len)
{
	const uint8_t *p = (const uint8_t *)s;
	struct sf_buf *out = w->out;
	size_t at = out->len + 1;

	if (sf_utf8_valid(s, len)) {
		sf_pw_text(w, s, len);
		return;
	}
	if (len > UINT32_MAX / 3) {
		sf_buf_fail(out, -E2BIG);
		return;
	}
	sf_buf_add(out, "X\0\0\0", 5);
	for (size_t i = 0, n; i < len; i += n) {
		n = utf8_pass(p + i, len - i);
		if (n > 0) {
			sf_buf_add(out, p + i, n);
			continue;
		}
		unsigned c = 0xdc00u + p[i];
		sf_buf_byte(out, 0xed);
		sf_buf_byte(out, (uint8_t)(0x80 | (c >> 6 & 0x3f)));
		sf_buf_byte(out, (uint8_t)(0x80 | (c & 0x3f)));
		n = 1;
	}
	if (sf_buf_check(out) == 0)
		sf_put_le32(out->at + at, (uint32_t)(out->len - at - 4));
}

static int same_name(void *arg, uint32_t value, const char *key, size_t len)
{
	const struct sf_pw_private *p = arg;
	const struct sf_pw_name *n = &p->names.at[value];

	return n->global == p->ask_global && n->len == len && memcmp(n->at, key, len) == 0;
}

/* Fetches what was written before; else remembers it under the next number and the caller writes
 * it: true. */
static bool first_time(struct sf_pickle_writer *w, const char *text, size_t len, bool global,
                       uint32_t *ret_memo)
{
	struct sf_pw_private *p = w->interned;
	uint32_t there;
	int failed = 0;
	char *copy;

	p->ask_global = global;
	there = sf_map_get(&p->map, text, len, same_name, p);
	if (there != SF_MAP_NONE) {
		sf_pw_get(w, p->names.at[there].memo);
		return false;
	}
	*ret_memo = w->next_memo++;
	copy = sf_arena_strdup(w->arena, text, len);
	if (!copy ||
	    sf_pw_names_push(&p->names, (struct sf_pw_name){ copy, len, *ret_memo, global }) < 0)
		failed = -ENOMEM;
	else
		sf_map_add(&p->map, copy, len, (uint32_t)p->names.n - 1, same_name, p, &failed);
	if (failed && !w->out->failed)
		w->out->failed = -ENOMEM;
	return !failed;
}

void sf_pw_global_n(struct sf_pickle_writer *w, const char *module, size_t module_len,
                    const char *name, size_t name_len)
{
	char text[2 * SF_PICKLE_NAME_MAX + 2];
	size_t len = module_len + name_len + 2;
	uint32_t memo;

	if (len > sizeof(text)) { /* none that was read */
		w->out->failed = -E2BIG;
		return;
	}
	memcpy(text, module, module_len);
	text[module_len] = '\n';
	memcpy(text + module_len + 1, name, name_len);
	text[len - 1] = '\n';
	if (first_time(w, text, len, true, &memo)) {
		sf_pw_op(w, 'c');
		sf_buf_add(w->out, text, len);
		sf_pw_put(w, memo);
	}
}

void sf_pw_global(struct sf_pickle_writer *w, const char *module, const char *name)
{
	sf_pw_global_n(w, module, strlen(module), name, strlen(name));
}

void sf_pw_str(struct sf_pickle_writer *w, const char *s, size_t len)
{
	/* Texts that stand in every tensor are fetched; another string equal to one is the same
	 * object then, as in torch's files. */
	static const char *const common[] = { "storage", "cpu" };
	uint32_t memo;

	for (size_t i = 0; i < SF_ARRAY_LEN(common); i++) {
		if (strlen(common[i]) != len || memcmp(common[i], s, len) != 0)
			continue;
		if (first_time(w, s, len, false, &memo)) {
			sf_pw_text(w, s, len);
			sf_pw_put(w, memo);
		}
		return;
	}
	sf_pw_text(w, s, len);
}

void sf_pw_long(struct sf_pickle_writer *w, const char *p, size_t len)
{
	uint8_t head[5] = { 0x8a, (uint8_t)len };

	if (len > UINT8_MAX) { /* LONG4: no other opcode has room, weights_only refuses it */
		head[0] = 0x8b;
		sf_put_le32(head + 1, (uint32_t)len);
	}
	sf_buf_add(w->out, head, len > UINT8_MAX ? 5 : 2);
	sf_buf_add(w->out, p, len);
}

void sf_pw_int(struct sf_pickle_writer *w, int64_t v)
{
	uint8_t b[8];
	size_t n = 8;

	sf_put_le64(b, (uint64_t)v);
	if (v >= 0 && v <= UINT8_MAX) {
		sf_pw_op(w, 'K');
		sf_buf_add(w->out, b, 1);
	} else if (v >= 0 && v <= UINT16_MAX) {
		sf_pw_op(w, 'M');
		sf_buf_add(w->out, b, 2);
	} else if (v >= INT32_MIN && v <= INT32_MAX) {
		sf_pw_op(w, 'J');
		sf_buf_add(w->out, b, 4);
	} else {
		while ((b[n - 1] == 0 && b[n - 2] < 0x80) || (b[n - 1] == 0xff && b[n - 2] >= 0x80))
			n--; /* ends at the fifth byte, which says more than the sign */
		sf_pw_long(w, (const char *)b, n);
	}
}

void sf_pw_uint(struct sf_pickle_writer *w, uint64_t v)
{
	char b[9] = { 0 }; /* two's complement: the top bit of the last byte stays clear */

	if (v <= INT64_MAX) {
		sf_pw_int(w, (int64_t)v);
		return;
	}
	sf_put_le64((uint8_t *)b, v);
	sf_pw_long(w, b, sizeof(b));
}

void sf_pw_float(struct sf_pickle_writer *w, double d)
{
	uint8_t b[9] = { 'G' };
	uint64_t u;

	memcpy(&u, &d, 8);
	sf_put_le64(b + 1, __builtin_bswap64(u));
	sf_buf_add(w->out, b, 9);
}
