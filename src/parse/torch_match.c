#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "parse/torch_tensor.h"

/*
 * A plain tensor's pickle as torch 1.6 to 2.14 writes it has one shape: no memo entry is fetched in
 * it, so its values stand where they are used. Everything else (parameters, other protocols, other
 * writers) is 0 here and goes the long way, over a value tree.
 */
struct cursor {
	const uint8_t *p, *end;
	bool bad; /* sticks */
};

static uint8_t peek(const struct cursor *c)
{
	return c->bad || c->p == c->end ? 0 : *c->p;
}

static const uint8_t *take(struct cursor *c, size_t n)
{
	const uint8_t *p = c->p;

	if (c->bad || (size_t)(c->end - p) < n) {
		c->bad = true;
		return NULL;
	}
	c->p += n;
	return p;
}

static void put(struct cursor *c) /* BINPUT, LONG_BINPUT or none */
{
	uint8_t op = peek(c);

	if (op == 'q')
		take(c, 2);
	else if (op == 'r')
		take(c, 5);
}

static void bytes(struct cursor *c, const char *s, size_t len)
{
	const uint8_t *p = take(c, len);

	if (p && memcmp(p, s, len) != 0)
		c->bad = true;
}

static void op(struct cursor *c, uint8_t want)
{
	const uint8_t *p = take(c, 1);

	if (p && *p != want)
		c->bad = true;
}

struct text {
	const char *s;
	size_t len;
};

static struct text line(struct cursor *c)
{
	const uint8_t *nl = c->bad ? NULL : memchr(c->p, '\n', (size_t)(c->end - c->p));
	struct text t = { (const char *)c->p, 0 };

	if (!nl) {
		c->bad = true;
		return t;
	}
	t.len = (size_t)(nl - c->p);
	c->p = nl + 1;
	return t;
}

static struct text str(struct cursor *c)
{
	struct text t = { "", 0 };
	const uint8_t *p;

	op(c, 'X');
	p = take(c, 4);
	if (p) {
		t.len = sf_le32(p);
		t.s = (const char *)take(c, t.len);
	}
	put(c);
	return t;
}

static bool is_int(uint8_t code)
{
	return code == 'K' || code == 'M' || code == 'J' || code == 0x8a;
}

static int64_t integer(struct cursor *c)
{
	const uint8_t *p = take(c, 1), *n;
	uint64_t u = 0;

	if (!p)
		return 0;
	switch (*p) {
	case 'K':
		p = take(c, 1);
		return p ? p[0] : 0;
	case 'M':
		p = take(c, 2);
		return p ? sf_le16(p) : 0;
	case 'J':
		p = take(c, 4);
		return p ? (int32_t)sf_le32(p) : 0;
	case 0x8a:
		n = take(c, 1);
		p = n && *n && *n <= 8 ? take(c, *n) : NULL;
		if (!p) {
			c->bad = true;
			return 0;
		}
		u = p[*n - 1] >= 0x80 ? UINT64_MAX : 0;
		for (size_t i = *n; i-- > 0;)
			u = u << 8 | p[i];
		return (int64_t)u;
	default:
		c->bad = true;
		return 0;
	}
}

static uint64_t natural(struct cursor *c)
{
	int64_t i = integer(c);

	if (i < 0)
		c->bad = true;
	return (uint64_t)i;
}

/* A tuple of at most SF_DIMS_MAX ints; how many. */
static unsigned ints(struct cursor *c, int64_t *at)
{
	bool mark = peek(c) == '(';
	unsigned n = 0;

	if (mark)
		take(c, 1);
	while (n < SF_DIMS_MAX && is_int(peek(c)))
		at[n++] = integer(c);
	op(c, mark ? 't' : n == 0 ? ')' : n <= 3 ? (uint8_t)(0x84 + n) : 't');
	if (n) /* () is never memoised */
		put(c);
	return n;
}

int sf_torch_match(const uint8_t *pkl, size_t len, struct sf_torch_tensor *ret, char key[64],
                   int *ret_code, struct sf_error *err)
{
	static const char ordered[] = "ccollections\nOrderedDict\n";
	struct cursor c = { pkl, pkl + len, false };
	struct sf_torch_tensor t = { 0 };
	struct text module, name, k, location;
	int64_t size[SF_DIMS_MAX];
	enum sf_dtype storage;
	uint64_t count;
	unsigned ndim;
	bool v3;

	bytes(&c, "\x80\x02", 2);
	bytes(&c, "ctorch._utils\n_rebuild_tensor_v", 31);
	v3 = peek(&c) == '3';
	bytes(&c, v3 ? "3\n" : "2\n", 2);
	put(&c);
	bytes(&c, "((", 2);
	k = str(&c);
	if (c.bad || k.len != 7 || memcmp(k.s, "storage", 7) != 0)
		return 0;
	op(&c, 'c');
	module = line(&c);
	name = line(&c);
	put(&c);
	k = str(&c);
	location = str(&c);
	count = natural(&c);
	op(&c, 't');
	put(&c);
	op(&c, 'Q');
	t.storage_off = natural(&c);
	ndim = ints(&c, size);
	if (ints(&c, t.stride) != ndim || c.bad || k.len >= 64 || !location.len)
		return 0;
	t.ndim = (uint8_t)ndim;
	for (unsigned d = 0; d < ndim; d++) {
		if (size[d] < 0)
			return 0;
		t.shape[d] = (uint64_t)size[d];
	}
	if (peek(&c) != 0x88 && peek(&c) != 0x89) /* requires_grad */
		return 0;
	take(&c, 1);
	bytes(&c, ordered, sizeof(ordered) - 1);
	put(&c);
	bytes(&c, ")R", 2);
	put(&c);
	storage = sf_torch_storage_class(module.s, module.len, name.s, name.len);
	t.dtype = (uint8_t)storage;
	if (v3) {
		bytes(&c, "ctorch\n", 7);
		name = line(&c);
		t.dtype = (uint8_t)sf_dtype_by_torch(name.s, name.len);
		put(&c);
	}
	op(&c, 't'); /* conj and neg have a dict here: the long way */
	put(&c);
	op(&c, 'R');
	put(&c);
	op(&c, '.');
	if (c.bad || !storage || !t.dtype || memchr(k.s, '\0', k.len))
		return 0;
	*ret_code = sf_torch_tensor_check(&t, storage, count, err);
	if (*ret_code == 0) {
		memcpy(key, k.s, k.len);
		key[k.len] = '\0';
		*ret = t;
	}
	return 1;
}
