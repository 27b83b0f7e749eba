#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "parse/torch_subclass.h"
#include "parse/torch_tensor.h"

#define LOCAL_LEN 30
#define FLAG_DESCRIPTOR 8
#define HEAD_MORE 4096      /* asked for when the head is too short: torch's own fit into 2 KiB */
#define HEAD_MAX (1u << 20) /* then the directory is the better way */
#define RECORDS_MAX 64      /* in front of the payload: torch has 4 */
#define ARENA_STACK 8192    /* values of an unusual pickle */

static int no_tensor(const struct sf_pv *v, struct sf_error *err)
{
	struct sf_torch_subclass sub;

	if (!sf_torch_subclass_from_pv(v, &sub))
		return sf_fail(err, -ENOTSUP, "torch item: its value is not a dense tensor");
	return sf_fail(
		err, -ENOTSUP,
		"torch item: its value is a %.100s.%.100s: only that class knows its elements",
		sub.cls->global.module->str.at, sub.cls->global.name->str.at);
}

int sf_torch_item_value(const struct sf_pv *v, struct sf_torch_tensor *ret, struct sf_error *err)
{
	int r = sf_torch_tensor_from_pv(v, ret, err);

	return r == 0 ? no_tensor(v, err) : SF_MIN(r, 0);
}

int sf_torch_item_pkl(const uint8_t *pkl, size_t len, struct sf_torch_tensor *ret, char key[64],
                      struct sf_error *err)
{
	static const struct sf_pickle_limits limits = { .memory = 64 << 20,
		                                        .depth = 100,
		                                        .memo = 1 << 20 };
	char first[ARENA_STACK] __attribute__((aligned(16)));
	struct sf_arena arena = { .at = first, .end = first + sizeof(first) };
	struct sf_torch_tensor t;
	struct sf_pv *v = NULL;
	int r = 0;

	if (sf_torch_match(pkl, len, ret, key, &r, err))
		return r;
	r = sf_pickle_parse(pkl, len, &limits, &arena, &v, NULL, err);
	if (r == 0) {
		r = sf_torch_item_value(v, &t, err);
		if (r == 0 && (t.storage_key->str.len >= 64 ||
		               memchr(t.storage_key->str.at, '\0', t.storage_key->str.len)))
			r = sf_fail(err, -EBADMSG, "torch item: a storage key of %zu bytes",
			            t.storage_key->str.len);
	}
	if (r == 0) {
		memcpy(key, t.storage_key->str.at, t.storage_key->str.len + 1);
		t.storage_key = NULL;
		*ret = t;
	}
	sf_arena_release(&arena);
	return r;
}

struct walk {
	const uint8_t *head;
	size_t len;
	uint64_t item_len;
	uint64_t *ret_need;
	struct sf_error *err;
};
struct local {
	uint64_t off, data_off, size;
	bool descriptor; /* size is not known: it stands behind the data */
	const char *name;
	size_t name_len;
};

/* The head must reach @want. */
static int more(const struct walk *w, uint64_t want)
{
	if (want > w->item_len)
		return sf_fail(w->err, -EBADMSG,
		               "torch item: ends at %" PRIu64 ", but a record reaches %" PRIu64,
		               w->item_len, want);
	if (want > HEAD_MAX || w->len >= HEAD_MAX)
		return sf_fail(w->err, -ENOTSUP, "torch item: no payload in its first %u bytes",
		               HEAD_MAX);
	want = SF_MAX(want, SF_MAX((uint64_t)w->len * 2, (uint64_t)HEAD_MORE));
	*w->ret_need = SF_MIN(want, w->item_len);
	return sf_fail(w->err, -EAGAIN, "torch item: needs %" PRIu64 " bytes of head, has %zu",
	               *w->ret_need, w->len);
}

static int local_header(const struct walk *w, uint64_t off, struct local *ret)
{
	struct local l = { .off = off };
	const uint8_t *p, *x;
	size_t nextra;

	if (off > w->item_len - LOCAL_LEN || w->item_len < LOCAL_LEN)
		return sf_fail(w->err, -EBADMSG,
		               "torch item: no record at %" PRIu64 " of %" PRIu64 " bytes", off,
		               w->item_len);
	if (w->len < off + LOCAL_LEN)
		return more(w, off + LOCAL_LEN);
	p = w->head + off;
	if (sf_le32(p) != 0x04034b50)
		return off ? sf_fail(w->err, -ENOTSUP,
		                     "torch item: offset %" PRIu64 ": no local header", off)
		           : sf_fail(w->err, -EBADMSG, "torch item: not a zip archive");
	l.name_len = sf_le16(p + 26);
	nextra = sf_le16(p + 28);
	l.data_off = off + LOCAL_LEN + l.name_len + nextra;
	if (w->len < l.data_off)
		return more(w, l.data_off);
	l.name = (const char *)p + LOCAL_LEN;
	if (sf_le16(p + 6) & 1 || sf_le16(p + 8) != 0)
		return sf_fail(w->err, -ENOTSUP,
		               "torch item: record at %" PRIu64
		               " is compressed (method %u) or encrypted",
		               off, sf_le16(p + 8));
	l.descriptor = sf_le16(p + 6) & FLAG_DESCRIPTOR;
	l.size = sf_le32(p + 22);
	x = p + LOCAL_LEN + l.name_len;
	if (l.size == UINT32_MAX && nextra >= 20 && sf_le16(x) == 1 && sf_le16(x + 2) >= 16)
		l.size = sf_le64(x + 4);
	else if (!l.descriptor && sf_le32(p + 18) != l.size)
		return sf_fail(w->err, -EBADMSG,
		               "torch item: stored record at %" PRIu64
		               " with sizes %u and %" PRIu64,
		               off, sf_le32(p + 18), l.size);
	*ret = l;
	return 0;
}

/* Is there a descriptor of @size bytes at @p? Its length (16, or 24 with 64-bit sizes), or 0. */
static unsigned descriptor_len(const uint8_t *p, size_t left, uint64_t size)
{
	if (left >= 16 && sf_le32(p) == 0x08074b50 && sf_le32(p + 8) == size &&
	    sf_le32(p + 12) == size)
		return 16;
	if (left >= 24 && sf_le32(p) == 0x08074b50 && sf_le64(p + 8) == size &&
	    sf_le64(p + 16) == size)
		return 24;
	return 0;
}

/* The size of a small record, and where the next header stands. */
static int skip_record(const struct walk *w, struct local *l, uint64_t *ret_next)
{
	const uint8_t *data = w->head + l->data_off, *end = w->head + w->len, *p = data;
	unsigned n;

	if (!l->descriptor) {
		if (!sf_add(l->data_off, l->size, ret_next) || *ret_next > w->item_len)
			return sf_fail(w->err, -EBADMSG,
			               "torch item: record of %" PRIu64 " bytes at %" PRIu64
			               " of %" PRIu64,
			               l->size, l->off, w->item_len);
		return *ret_next > w->len ? more(w, *ret_next) : 0;
	}
	for (; (p = memchr(p, 'P', (size_t)(end - p))) != NULL; p++) {
		n = descriptor_len(p, (size_t)(end - p), (uint64_t)(p - data));
		if (n) {
			l->size = (uint64_t)(p - data);
			*ret_next = l->data_off + l->size + n;
			return 0;
		}
	}
	if (w->len >= w->item_len)
		return sf_fail(w->err, -EBADMSG, "torch item: record at %" PRIu64 " has no end",
		               l->off);
	return more(w, w->len + 1);
}

static bool named(const struct local *l, size_t prefix, const char *name)
{
	size_t n = strlen(name);

	return l->name_len == prefix + n && memcmp(l->name + prefix, name, n) == 0;
}

static bool is_storage(const struct local *l, size_t prefix)
{
	return l->name_len > prefix + 5 && memcmp(l->name + prefix, "data/", 5) == 0;
}

/* A storage where it is not looked for is not read over: it is most of the item. */
static int other_order(const struct walk *w)
{
	return sf_fail(w->err, -ENOTSUP, "torch item: its storages are in another order");
}

/* The payload's record: its length is the storage's, and where its bytes end can be seen, there is
 * nothing else. */
static int payload(const struct walk *w, const struct local *l, const struct sf_torch_tensor *t,
                   struct sf_torch_item *ret)
{
	uint64_t bytes = t->storage_numel * sf_dtype_info((enum sf_dtype)t->dtype)->bytes,
		 end; /* checked with the tensor */

	if (!sf_add(l->data_off, bytes, &end) || end > w->item_len)
		return sf_fail(w->err, -EBADMSG,
		               "torch item: payload of %" PRIu64 " bytes at %" PRIu64
		               " of an item of %" PRIu64,
		               bytes, l->data_off, w->item_len);
	if (!l->descriptor && l->size != bytes)
		return sf_fail(w->err, -EBADMSG,
		               "torch item: payload record of %" PRIu64
		               " bytes, its storage has %" PRIu64,
		               l->size, bytes);
	if (l->descriptor && w->len >= 24 && end <= w->len - 24 &&
	    !descriptor_len(w->head + end, w->len - end, bytes))
		return sf_fail(w->err, -ENOTSUP,
		               "torch item: payload of %" PRIu64
		               " bytes is not followed by its descriptor",
		               bytes);
	ret->payload_off = l->data_off;
	ret->payload_len = bytes;
	ret->t = *t;
	return 0;
}

int sf_torch_item_head(const uint8_t *head, size_t len, uint64_t item_len,
                       struct sf_torch_item *ret, uint64_t *ret_need, struct sf_error *err)
{
	const struct walk w = { head, SF_MIN(len, item_len), item_len, ret_need, err };
	struct sf_torch_tensor t;
	struct local l = { 0 };
	char key[64 + 5] = "data/";
	size_t prefix = 0; /* bytes of "archive/" */
	bool have_pkl = false;
	uint64_t next = 0;
	int r;

	for (int i = 0; i < RECORDS_MAX; i++) {
		r = local_header(&w, next, &l);
		if (r < 0)
			return r;
		if (i == 0) {
			const char *slash = memchr(l.name, '/', l.name_len);
			prefix = slash ? (size_t)(slash - l.name) + 1 : 0;
		}
		if (have_pkl && named(&l, prefix, key))
			return payload(&w, &l, &t, ret);
		if (is_storage(&l, prefix))
			return other_order(&w);
		r = skip_record(&w, &l, &next);
		if (r < 0)
			return r;
		if (named(&l, prefix, "data.pkl")) {
			r = sf_torch_item_pkl(head + l.data_off, (size_t)l.size, &t, key + 5, err);
			if (r < 0)
				return r;
			have_pkl = true;
		} else if (named(&l, prefix, "byteorder") && l.size == 3 &&
		           memcmp(head + l.data_off, "big", 3) == 0) {
			return sf_fail(err, -ENOTSUP,
			               "torch item: written on a big-endian machine");
		}
	}
	return sf_fail(err, -ENOTSUP, "torch item: no payload among the first %d records",
	               RECORDS_MAX);
}

int sf_torch_item_pickle(const uint8_t *head, size_t len, uint64_t item_len, uint64_t *ret_off,
                         uint64_t *ret_len, uint64_t *ret_need, struct sf_error *err)
{
	const struct walk w = { head, SF_MIN(len, item_len), item_len, ret_need, err };
	struct local l = { 0 };
	size_t prefix = 0;
	uint64_t next = 0;
	int r;

	for (int i = 0; i < RECORDS_MAX; i++) {
		r = local_header(&w, next, &l);
		if (r < 0)
			return r;
		if (i == 0) {
			const char *slash = memchr(l.name, '/', l.name_len);
			prefix = slash ? (size_t)(slash - l.name) + 1 : 0;
		}
		if (is_storage(&l, prefix))
			return other_order(&w);
		r = skip_record(&w, &l, &next);
		if (r < 0)
			return r;
		if (named(&l, prefix, "data.pkl")) {
			*ret_off = l.data_off;
			*ret_len = l.size;
			return 0;
		}
	}
	return sf_fail(err, -ENOTSUP, "torch item: no data.pkl among the first %d records",
	               RECORDS_MAX);
}
