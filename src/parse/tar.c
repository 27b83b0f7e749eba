#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "parse/tar.h"

/* A header's fields. Source: POSIX.1-2017 pax; those behind "magic" are GNU's and ustar's. */
enum {
	NAME = 0,
	NAME_LEN = 100,
	SIZE = 124,
	MTIME = 136,
	TIME_LEN = 12,
	SUM = 148,
	SUM_LEN = 8,
	TYPE = 156,
	LINK = 157,
	MAGIC = 257,
	PREFIX = 345,
	PREFIX_LEN = 155,
};
#define ANNOUNCED_MAX (UINT64_C(1) << 20) /* bytes of a long name, or of a pax header */
#define NONE UINT64_MAX

/* Octal text, or a binary number behind 0x80 (GNU). */
static bool number(const uint8_t *p, size_t len, uint64_t *ret)
{
	uint64_t v = 0;
	size_t i = 0;

	if (p[0] == 0x80) {
		for (i = 1; i < len; i++) {
			if (v >> 56)
				return false;
			v = v << 8 | p[i];
		}
		*ret = v;
		return true;
	}
	while (i < len && p[i] == ' ')
		i++;
	for (; i < len && p[i] >= '0' && p[i] <= '7'; i++) {
		if (v >> 60)
			return false;
		v = v * 8 + (uint64_t)(p[i] - '0');
	}
	*ret = v;
	return i == len || p[i] == ' ' || p[i] == '\0';
}

/* Its own field counts as blanks. Some old writers added signed bytes. */
static bool sum_is(const uint8_t *h, uint64_t want, uint64_t *ret)
{
	int64_t is_signed = 0;
	uint64_t sum = 0;

	for (int i = 0; i < SF_TAR_BLOCK; i++) {
		uint8_t c = i >= SUM && i < SUM + SUM_LEN ? ' ' : h[i];
		sum += c;
		is_signed += (int8_t)c;
	}
	*ret = sum;
	return sum == want || (int64_t)want == is_signed;
}

bool sf_tar_begins(const uint8_t *head, size_t len)
{
	uint64_t want, sum, size;

	return len >= SF_TAR_BLOCK && number(head + SUM, SUM_LEN, &want) && want &&
	       sum_is(head, want, &sum) && number(head + SIZE, TIME_LEN, &size);
}

void sf_tar_init(struct sf_tar *t, uint64_t len, struct sf_arena *arena)
{
	*t = (struct sf_tar){ .len = len, .want = SF_TAR_BLOCK, .arena = arena, .next_size = NONE };
}

void sf_tar_release(struct sf_tar *t)
{
	sf_tar_members_release(&t->member);
}

static int no_memory(const struct sf_tar *t, struct sf_error *err)
{
	return sf_fail(err, -ENOMEM, "tar: no memory for %zu members", t->member.n);
}

/* ---- the end ---- */

static int by_name(const void *a, const void *b)
{
	const struct sf_tar_member *x = a, *y = b;
	int c = strcmp(x->name, y->name);

	return c ? c : x->seq < y->seq ? -1 : x->seq > y->seq;
}

static int name_only(const void *a, const void *b)
{
	return strcmp(((const struct sf_tar_member *)a)->name,
	              ((const struct sf_tar_member *)b)->name);
}

/* Hard links have the bytes of the member that they name; those of what is none of ours go. */
static void follow_links(struct sf_tar_members *m)
{
	size_t n = 0;

	for (size_t i = 0; i < m->n; i++) {
		const struct sf_tar_member *to = NULL, key = { .name = m->at[i].link };
		if (m->at[i].link)
			to = bsearch(&key, m->at, m->n, sizeof(key), name_only);
		if (to && !to->link) {
			m->at[i].off = to->off;
			m->at[i].size = to->size;
		}
	}
	for (size_t i = 0; i < m->n; i++)
		if (!m->at[i].link || m->at[i].off)
			m->at[n++] = m->at[i];
	m->n = n;
}

/* A member that is written again later is that one: what `tar -r` leaves. */
static int finish(struct sf_tar *t)
{
	struct sf_tar_members *m = &t->member;
	size_t n = 0;

	if (m->n)
		qsort(m->at, m->n, sizeof(*m->at), by_name);
	for (size_t i = 0; i < m->n; i++) {
		if (n && strcmp(m->at[n - 1].name, m->at[i].name) == 0)
			n--;
		m->at[n++] = m->at[i];
	}
	m->n = n;
	follow_links(m);
	t->want = 0;
	return 0;
}

/* ---- what one header announces for the next ---- */

static int keep(struct sf_tar *t, const char *s, size_t len, const char **ret, struct sf_error *err)
{
	*ret = sf_arena_strdup(t->arena, s, strnlen(s, len));
	return *ret ? 0 : no_memory(t, err);
}

/* "LEN KEY=VALUE\n", one after the other. */
static int take_pax(struct sf_tar *t, const char *p, size_t len, struct sf_error *err)
{
	int r = 0;

	while (len && *p && r >= 0) {
		size_t n = 0, digits = 0;
		while (digits < len && digits < 8 && p[digits] >= '0' && p[digits] <= '9')
			n = n * 10 + (size_t)(p[digits++] - '0');
		if (!digits || n < digits + 2 || n > len || p[digits] != ' ' || p[n - 1] != '\n')
			return sf_fail(err, -EBADMSG,
			               "tar: pax header before %" PRIu64
			               ": a record without its length",
			               t->at);
		const char *key = p + digits + 1, *eq = memchr(key, '=', n - digits - 2);
		if (!eq)
			return sf_fail(err, -EBADMSG,
			               "tar: pax header before %" PRIu64 ": a record without '='",
			               t->at);
		const size_t klen = (size_t)(eq - key), vlen = (size_t)(p + n - 1 - (eq + 1));
		if (klen == 4 && memcmp(key, "path", 4) == 0)
			r = keep(t, eq + 1, vlen, &t->next_name, err);
		else if (klen == 8 && memcmp(key, "linkpath", 8) == 0)
			r = keep(t, eq + 1, vlen, &t->next_link, err);
		else if (klen == 4 && memcmp(key, "size", 4) == 0) {
			t->next_size = 0;
			for (const char *c = eq + 1; c < p + n - 1; c++)
				if (*c < '0' || *c > '9' ||
				    !sf_mul(t->next_size, 10, &t->next_size) ||
				    !sf_add(t->next_size, (uint64_t)(*c - '0'), &t->next_size))
					return sf_fail(err, -EBADMSG,
					               "tar: pax header before %" PRIu64
					               ": a size that is no number",
					               t->at);
		} else if (klen > 11 && memcmp(key, "GNU.sparse.", 11) == 0) {
			return sf_fail(err, -ENOTSUP, "tar: sparse member at %" PRIu64, t->at);
		}
		p += n;
		len -= n;
	}
	return r;
}

static int take_announced(struct sf_tar *t, const uint8_t *at, struct sf_error *err)
{
	const int kind = t->next_kind;
	const size_t len = (size_t)t->want;
	int r = 0;

	t->at += t->want + (-t->want & (SF_TAR_BLOCK - 1)); /* inside: it was looked at */
	t->want = SF_TAR_BLOCK;
	t->next_kind = 0;
	if (kind == 'L')
		r = keep(t, (const char *)at, len, &t->next_name, err);
	else if (kind == 'K')
		r = keep(t, (const char *)at, len, &t->next_link, err);
	else
		r = take_pax(t, (const char *)at, len, err);
	return r < 0 ? r : 1;
}

/* ---- members ---- */

/* Without what stands before it in all of them, as `tar -x` takes it. */
static const char *relative(const char *name)
{
	for (;;) {
		if (name[0] == '/')
			name++;
		else if (name[0] == '.' && name[1] == '/')
			name += 2;
		else
			return name;
	}
}

static int name_of(struct sf_tar *t, const uint8_t *h, const char **ret, struct sf_error *err)
{
	char name[PREFIX_LEN + NAME_LEN + 2];
	size_t n = 0;

	if (t->next_name) {
		*ret = relative(t->next_name);
		return 0;
	}
	/* GNU has other things there: its magic ends in a blank */
	if (memcmp(h + MAGIC, "ustar\0", 6) == 0 && h[PREFIX])
		n = (size_t)snprintf(name, sizeof(name), "%.*s/", PREFIX_LEN,
		                     (const char *)h + PREFIX);
	snprintf(name + n, sizeof(name) - n, "%.*s", NAME_LEN, (const char *)h + NAME);
	*ret = sf_arena_strdup(t->arena, name, strlen(name));
	if (!*ret)
		return no_memory(t, err);
	*ret = relative(*ret);
	return 0;
}

static int link_of(struct sf_tar *t, const uint8_t *h, const char **ret, struct sf_error *err)
{
	int r = 0;

	*ret = t->next_link;
	if (!*ret)
		r = keep(t, (const char *)h + LINK, NAME_LEN, ret, err);
	if (r >= 0)
		*ret = relative(*ret);
	return r;
}

static int add(struct sf_tar *t, const uint8_t *h, uint64_t off, uint64_t size,
               struct sf_error *err)
{
	struct sf_tar_member m = { .size = size, .seq = (uint32_t)t->member.n };
	uint64_t mtime = 0;
	int r = name_of(t, h, &m.name, err);

	if (r < 0)
		return r;
	if (!*m.name || m.name[strlen(m.name) - 1] == '/')
		return 0; /* a directory, as the oldest write it */
	if (sf_path_check(m.name, strlen(m.name), NULL) < 0)
		return sf_fail(err, -EBADMSG,
		               "tar: the member at %" PRIu64
		               " is called '%.200s', which is no name "
		               "below a directory",
		               off, m.name);
	if (h[TYPE] == '1')
		r = link_of(t, h, &m.link, err);
	if (r < 0)
		return r;
	m.off = m.link ? 0 : off;
	if (number(h + MTIME, TIME_LEN, &mtime) && mtime < INT64_MAX / 1000000000)
		m.mtime_s = (int64_t)mtime;
	if (t->member.n >= SF_TAR_MEMBERS_MAX)
		return sf_fail(err, -E2BIG, "tar: more than %u members", SF_TAR_MEMBERS_MAX);
	return sf_tar_members_push(&t->member, m) < 0 ? no_memory(t, err) : 0;
}

static bool all_zero(const uint8_t *p)
{
	for (int i = 0; i < SF_TAR_BLOCK; i++)
		if (p[i])
			return false;
	return true;
}

static int passes_end(const struct sf_tar *t, const uint8_t *h, uint64_t size, struct sf_error *err)
{
	return sf_fail(err, -EBADMSG,
	               "tar: the member '%.100s' has %" PRIu64 " bytes at %" PRIu64
	               " by its header, the archive ends at %" PRIu64,
	               t->next_name ? t->next_name : (const char *)h, size, t->at + SF_TAR_BLOCK,
	               t->len);
}

static int take_header(struct sf_tar *t, const uint8_t *h, struct sf_error *err)
{
	const uint64_t off = t->at + SF_TAR_BLOCK;
	uint64_t want, sum, size;
	int r = 0;

	if (all_zero(h))
		return finish(t);
	if (!number(h + SUM, SUM_LEN, &want) || !sum_is(h, want, &sum))
		return sf_fail(err, -EBADMSG,
		               "tar: no header at %" PRIu64 " of %" PRIu64
		               ", or a damaged one: its sum is not what it says",
		               t->at, t->len);
	if (!number(h + SIZE, TIME_LEN, &size))
		return sf_fail(err, -EBADMSG,
		               "tar: header at %" PRIu64 ": a size that is no number", t->at);
	const char type = (char)h[TYPE];
	const bool announces = type == 'L' || type == 'K' || type == 'x' || type == 'g';
	if (!announces && t->next_size != NONE)
		size = t->next_size;
	if (type >= '1' && type <= '6')
		size = 0; /* links, devices, directories: whatever they say */
	if (size > t->len - off)
		return passes_end(t, h, size, err);
	if (announces) {
		if (size > ANNOUNCED_MAX)
			return sf_fail(err, -E2BIG,
			               "tar: header at %" PRIu64 ": a name of %" PRIu64 " bytes",
			               t->at, size);
		t->at = off;
		t->want = size;
		t->next_kind = type;
		if (type == 'g' || !size) { /* of all: neither names nor sizes */
			t->at += size + (-size & (SF_TAR_BLOCK - 1));
			t->want = SF_TAR_BLOCK;
			t->next_kind = 0;
		}
		return 1;
	}
	if (type == 'S')
		return sf_fail(err, -ENOTSUP, "tar: '%.100s' at %" PRIu64 " is a sparse member",
		               (const char *)h, t->at);
	if (type == '0' || type == '\0' || type == '7' || type == '1')
		r = add(t, h, off, size, err);
	t->next_name = t->next_link = NULL;
	t->next_size = NONE;
	t->at = off + size + (-size & (SF_TAR_BLOCK - 1));
	return r < 0 ? r : 1;
}

int sf_tar_take(struct sf_tar *t, const uint8_t *at, size_t len, struct sf_error *err)
{
	const uint64_t from = t->at;
	int r = 1;

	while (r > 0) {
		/* the last member need not be filled up */
		if (t->at > t->len || t->len - t->at < t->want)
			return sf_fail(err, -EBADMSG,
			               "tar: it ends at %" PRIu64 ", without the mark of its end: "
			               "it was cut",
			               t->len);
		if (t->at - from > len || len - (t->at - from) < t->want)
			return 1;
		r = t->next_kind ? take_announced(t, at + (t->at - from), err)
		                 : take_header(t, at + (t->at - from), err);
	}
	return r;
}
