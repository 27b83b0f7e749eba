#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "tests/fuzz/fz_mutate.h"

#define OPS 65536 /* of one pickle; what follows stays as it is */
#define EDITS 4   /* at one time, at most */

/* An opcode with its argument, in the input or in new bytes. */
struct op {
	const uint8_t *at;
	uint32_t len;
};
struct ops {
	struct op at[OPS + 64];
	size_t n;
	uint8_t made[8192]; /* arguments of our own */
	size_t nmade;
};

/* Length of the opcode at @p with its argument; 0: there is none, or it is cut. */
static size_t op_len(const uint8_t *p, size_t left)
{
	static const struct {
		const char *ops;
		uint8_t fixed;
	} fixed[] = { { "Kqh\x82\x80", 1 }, { "M\x83", 2 }, { "Jrj\x84", 4 }, { "G\x95", 8 } };
	size_t n = 0, count = 0;
	unsigned lines = strchr("ILFSVpgP", *p) ? 1 : *p == 'c' || *p == 'i' ? 2 : 0;

	if (!*p)
		return 0;
	for (size_t i = 0; i < SF_ARRAY_LEN(fixed); i++)
		if (strchr(fixed[i].ops, *p))
			return left > fixed[i].fixed ? fixed[i].fixed + 1u : 0;
	for (n = 1; lines > 0; n++) {
		if (n >= left)
			return 0;
		lines -= p[n] == '\n';
	}
	if (n > 1)
		return n;
	if (strchr("UC\x8c\x8a", *p)) {
		if (left < 2)
			return 0;
		n = 2, count = p[1];
	} else if (strchr("TBX\x8b", *p)) {
		if (left < 5)
			return 0;
		n = 5, count = sf_le32(p + 1);
	} else if (strchr("\x8d\x8e\x96", *p)) {
		if (left < 9)
			return 0;
		n = 9, count = sf_le64(p + 1);
	}
	return count <= left - n ? n + count : 0;
}

/* Returns where the walk ended: behind STOP, or at what is no opcode. */
static size_t walk(struct ops *o, const uint8_t *at, size_t len)
{
	size_t i = 0, n;

	o->n = o->nmade = 0;
	while (i < len && o->n < OPS && (n = op_len(at + i, len - i)) > 0) {
		o->at[o->n++] = (struct op){ at + i, (uint32_t)n };
		i += n;
		if (at[i - n] == '.')
			break;
	}
	return i;
}

static bool is_int(const struct op *o)
{
	return strchr("KMJ\x8a", *o->at) != NULL;
}

/* 1, 4 or 8: the bytes of a string's length; 0: it is none. */
static unsigned str_head(const struct op *o)
{
	return strchr("U\x8c", *o->at) ? 1 : strchr("TX", *o->at) ? 4 : *o->at == 0x8d ? 8 : 0;
}

static bool is_get(const struct op *o)
{
	return *o->at == 'h' || *o->at == 'j';
}

static int64_t int_of(const struct op *o)
{
	uint8_t le[8] = { 0 };
	size_t n = *o->at == 0x8a ? SF_MIN((size_t)o->at[1], (size_t)8) : o->len - 1;

	memcpy(le, o->at + 1 + (*o->at == 0x8a), n);
	if (n && n < 8 && (*o->at == 'J' || *o->at == 0x8a) && le[n - 1] & 0x80)
		memset(le + n, 0xff, 8 - n);
	return (int64_t)sf_le64(le);
}

static uint8_t *room(struct ops *o, size_t n)
{
	if (n > sizeof(o->made) - o->nmade)
		return NULL;
	o->nmade += n;
	return o->made + o->nmade - n;
}

/* As Python would pickle it, or (sometimes) wider than it needs. */
static void set_int(struct ops *o, size_t i, int64_t v, uint64_t *rnd)
{
	uint8_t *p = room(o, 11), le[8];
	size_t n = 0;

	if (!p)
		return;
	sf_put_le64(le, (uint64_t)v);
	if (fz_below(rnd, 16) == 0) { /* unsigned 64 bits, or more than any reader takes */
		p[n++] = 0x8a;
		p[n++] = 9;
		memcpy(p + n, le, 8);
		p[10] = fz_below(rnd, 4) == 0;
		n = 11;
	} else if (v >= 0 && v < 256 && fz_below(rnd, 8)) {
		p[n++] = 'K';
		p[n++] = le[0];
	} else if (v >= 0 && v < 65536 && fz_below(rnd, 8)) {
		p[n++] = 'M';
		memcpy(p + n, le, 2), n += 2;
	} else if (v >= INT32_MIN && v <= INT32_MAX) {
		p[n++] = 'J';
		memcpy(p + n, le, 4), n += 4;
	} else {
		p[n++] = 0x8a;
		p[n++] = 8;
		memcpy(p + n, le, 8), n += 8;
	}
	o->at[i] = (struct op){ p, (uint32_t)n };
}

static void set_str(struct ops *o, size_t i, const char *s, size_t len)
{
	uint8_t *p = room(o, len + 5);

	if (!p)
		return;
	p[0] = len < 256 && *o->at[i].at == 0x8c ? 0x8c : 'X';
	if (p[0] == 'X')
		sf_put_le32(p + 1, (uint32_t)len);
	else
		p[1] = (uint8_t)len;
	memcpy(p + (p[0] == 'X' ? 5 : 2), s, len);
	o->at[i] = (struct op){ p, (uint32_t)len + (p[0] == 'X' ? 5 : 2) };
}

/* Some op of that kind, from a random place on; o->n: none. */
static size_t pick(const struct ops *o, bool (*is)(const struct op *), uint64_t *rnd)
{
	size_t from = fz_below(rnd, o->n);

	for (size_t k = 0; k < o->n; k++)
		if (is(&o->at[(from + k) % o->n]))
			return (from + k) % o->n;
	return o->n;
}

static bool is_str(const struct op *o)
{
	return str_head(o) > 0;
}

static void edit_str(struct ops *o, size_t i, uint64_t *rnd)
{
	unsigned head = 1 + str_head(&o->at[i]);
	size_t len = SF_MIN((size_t)o->at[i].len - head, (size_t)1024), n, other;
	char text[1536];
	const char *word;

	memcpy(text, o->at[i].at + head, len);
	switch (fz_below(rnd, 6)) {
	case 0: /* another one of this pickle */
		other = pick(o, is_str, rnd);
		o->at[i] = o->at[other];
		return;
	case 1:
		word = fz_word(rnd, &n);
		set_str(o, i, word, n);
		return;
	case 2: /* something behind it */
		word = fz_word(rnd, &n);
		memcpy(text + len, word, n);
		set_str(o, i, text, len + n);
		return;
	case 3:
		if (len)
			text[fz_below(rnd, len)] = (char)fz_rand(rnd);
		set_str(o, i, text, len);
		return;
	case 4:
		set_str(o, i, text, fz_below(rnd, len + 1));
		return;
	default: /* a digit, a dot: numbers of ranks and layers, one path for another */
		for (size_t k = 0; k < len; k++)
			if ((text[k] >= '0' && text[k] <= '9') && fz_below(rnd, 2))
				text[k] = (char)('0' + fz_below(rnd, 10));
			else if (text[k] == '.' && fz_below(rnd, 4) == 0)
				text[k] = '/';
		set_str(o, i, text, len);
	}
}

static void edit_get(struct ops *o, size_t i, uint64_t *rnd)
{
	uint8_t *p = room(o, 5);
	size_t puts = 0;

	if (!p)
		return;
	for (size_t k = 0; k < o->n; k++)
		puts += strchr("qr\x94", *o->at[k].at) != NULL;
	p[0] = 'j';
	sf_put_le32(p + 1, (uint32_t)fz_below(rnd, puts + 2));
	o->at[i] = (struct op){ p, 5 };
}

static void insert(struct ops *o, size_t to, size_t from, size_t n)
{
	static struct op run[64];

	n = SF_MIN(SF_MIN(n, o->n - from), SF_MIN((size_t)64, OPS - o->n));
	memcpy(run, o->at + from, n * sizeof(*run));
	memmove(o->at + to + n, o->at + to, (o->n - to) * sizeof(*o->at));
	memcpy(o->at + to, run, n * sizeof(*run));
	o->n += n;
}

static void drop(struct ops *o, size_t at, size_t n)
{
	n = SF_MIN(n, o->n - at);
	memmove(o->at + at, o->at + at + n, (o->n - at - n) * sizeof(*o->at));
	o->n -= n;
}

static void edit(struct ops *o, uint64_t *rnd)
{
	static const uint8_t lone[] = "N()]}\x85\x86\x87\x88\x89\x8f\x90\x91\x92\x93\x94"
				      "01e2abouRstl.";
	size_t what = fz_below(rnd, 20), i, k;
	struct op swap;

	if (!o->n)
		return;
	if (what < 8) {
		i = pick(o, is_int, rnd);
		if (i < o->n) {
			k = pick(o, is_int, rnd);
			set_int(o, i,
			        what == 0 ? int_of(&o->at[k]) : fz_number(int_of(&o->at[i]), rnd),
			        rnd);
		}
	} else if (what < 13) {
		i = pick(o, is_str, rnd);
		if (i < o->n)
			edit_str(o, i, rnd);
	} else if (what < 14) {
		i = pick(o, is_get, rnd);
		if (i < o->n)
			edit_get(o, i, rnd);
	} else if (what < 15) {
		i = fz_below(rnd, o->n), k = fz_below(rnd, o->n);
		swap = o->at[i], o->at[i] = o->at[k], o->at[k] = swap;
	} else if (what < 17) {
		i = fz_below(rnd, o->n);
		insert(o, fz_below(rnd, o->n), i, fz_below(rnd, 4) ? 1 : fz_below(rnd, 40));
	} else if (what < 19) {
		drop(o, fz_below(rnd, o->n), fz_below(rnd, 4) ? 1 : fz_below(rnd, 40));
	} else {
		o->at[fz_below(rnd, o->n)] =
			(struct op){ lone + fz_below(rnd, sizeof(lone) - 1), 1 };
	}
}

/* A frame reaches to the next one, or to the end. */
static void fix_frames(uint8_t *at, size_t len)
{
	uint8_t *frame = NULL;
	size_t n;

	for (size_t i = 0; i < len && (n = op_len(at + i, len - i)) > 0; i += n) {
		if (frame && (at[i] == 0x95 || i + n == len))
			sf_put_le64(frame + 1,
			            (uint64_t)(at + i + (at[i] == 0x95 ? 0 : n) - frame - 9));
		if (at[i] == 0x95)
			frame = at + i;
	}
}

size_t fz_mutate_pickle(uint8_t *at, size_t len, size_t max, uint64_t *rnd)
{
	static struct ops o;
	struct sf_buf out = { .limit = max };
	size_t end = walk(&o, at, len), pickle;

	for (size_t n = 1 + fz_below(rnd, EDITS); n > 0; n--)
		edit(&o, rnd);
	for (size_t i = 0; i < o.n; i++)
		sf_buf_add(&out, o.at[i].at, o.at[i].len);
	pickle = out.len;
	if (len > end)
		sf_buf_add(&out, at + end, len - end);
	if (!out.failed && out.len) {
		memcpy(at, out.at, out.len);
		len = out.len;
		if (fz_below(rnd, 16))
			fix_frames(at, pickle);
	}
	sf_buf_release(&out);
	return len;
}

void fz_mutate_pickle_inside(uint8_t *at, size_t len, uint64_t *rnd)
{
	static struct ops o;
	size_t i, n, head;
	const char *word;
	uint8_t le[8];

	walk(&o, at, len);
	if (!o.n)
		return;
	if (fz_below(rnd, 3)) {
		i = pick(&o, is_int, rnd);
		if (i == o.n)
			return;
		head = *o.at[i].at == 0x8a ? 2 : 1;
		sf_put_le64(le, (uint64_t)fz_number(int_of(&o.at[i]), rnd));
		memcpy(at + (o.at[i].at - at) + head, le, SF_MIN(o.at[i].len - head, (size_t)8));
	} else {
		i = pick(&o, is_str, rnd);
		if (i == o.n)
			return;
		head = 1 + str_head(&o.at[i]);
		word = fz_word(rnd, &n);
		memcpy(at + (o.at[i].at - at) + head, word, SF_MIN(o.at[i].len - head, n));
	}
}
