#include "config.h"

#include "base/path.h"
#include "parse/pickle_write.h"
#include "save/dcp_meta_put.h"

enum {
	PIECE = 1 << 20, /* bytes that are sent at once */
	HEAD = 9,        /* of a FRAME */
};

int dcp_put_init(struct dcp_put *o, int (*sink)(void *, const void *, size_t, struct sf_error *),
                 void *arg, struct sf_error *err)
{
	static const uint8_t proto[] = { 0x80, 4 };

	*o = (struct dcp_put){ .sink = sink, .arg = arg, .err = err, .cap = PIECE, .len = HEAD };
	o->at = malloc(o->cap);
	if (!o->at)
		return sf_fail(err, -ENOMEM, "no memory for a piece of .metadata, %zu bytes",
		               o->cap);
	o->failed = sink(arg, proto, sizeof(proto), err);
	return o->failed;
}

void dcp_put_release(struct dcp_put *o)
{
	free(o->at);
	sf_buf_release(&o->odd);
}

static void send(struct dcp_put *o)
{
	if (o->len == HEAD || o->failed < 0)
		return;
	o->at[0] = 0x95;
	sf_put_le64(o->at + 1, o->len - HEAD);
	o->failed = o->sink(o->arg, o->at, o->len, o->err);
	o->len = HEAD;
}

uint8_t *dcp_put_room(struct dcp_put *o, size_t need)
{
	if (need > o->cap - o->len)
		send(o);
	if (need > o->cap - o->len && o->failed == 0) {
		uint8_t *at = realloc(o->at, need + HEAD);
		if (!at) {
			o->failed = sf_fail(o->err, -ENOMEM,
			                    "no memory for a name in .metadata, %zu bytes", need);
			return NULL;
		}
		o->at = at;
		o->cap = need + HEAD;
	}
	return o->failed < 0 ? NULL : o->at + o->len;
}

int dcp_put_end(struct dcp_put *o)
{
	uint8_t *p = dcp_put_room(o, 1);

	if (p)
		dcp_put_done(o, dcp_op(p, '.'));
	send(o);
	return o->failed;
}

void dcp_put_name(struct dcp_put *o, const char *s, size_t len, bool memo)
{
	bool odd = !sf_utf8_valid(s, len);
	uint8_t *p;

	if (odd) { /* rare: in the other writer's spelling, which any protocol reads */
		struct sf_pickle_writer w = { .out = &o->odd };
		sf_buf_reset(&o->odd);
		sf_pw_name(&w, s, len);
		if (sf_buf_check(&o->odd) < 0 && o->failed == 0)
			o->failed = sf_fail(o->err, sf_buf_check(&o->odd),
			                    "no memory for a name of %zu bytes", len);
		len = o->odd.len;
	} else if (len > UINT32_MAX && o->failed == 0) {
		o->failed = sf_fail(o->err, -E2BIG, "a name of %zu bytes", len);
	}
	p = dcp_put_room(o, DCP_TEXT_MAX(len) + 1);
	if (!p)
		return;
	if (odd) {
		memcpy(p, o->odd.at, len);
		p += len;
	} else {
		p = dcp_put_text(p, s, len);
	}
	if (memo) {
		p = dcp_op(p, 0x94);
		o->nmemo++;
	}
	dcp_put_done(o, p);
}
