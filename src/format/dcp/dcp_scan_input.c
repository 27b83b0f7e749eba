#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/dcp/dcp_scan_state.h"

/* The window on the file, and the failures that name a place in it. */

int dcp_scan_bad(struct dcp_scan *s, const char *why)
{
	return sf_fail(s->err, -EBADMSG, "dcp '%s': byte %llu: opcode 0x%02x: %s", s->name,
	               (unsigned long long)(s->base + (uint64_t)(s->op - s->buf)),
	               s->op < s->end ? *s->op : 0, why);
}

/* A run of records is one value on the stack that stands for many: who misses some there has to
 * see them all. */
int dcp_scan_short(struct dcp_scan *s)
{
	return s->runs ? DCP_AGAIN : dcp_scan_bad(s, "the stack is too short");
}

int dcp_scan_no_memory(struct dcp_scan *s)
{
	return sf_fail(s->err, -ENOMEM, "dcp '%s': no memory at byte %llu of %llu", s->name,
	               (unsigned long long)(s->base + (uint64_t)(s->p - s->buf)),
	               (unsigned long long)s->size);
}

int dcp_scan_fill(struct dcp_scan *s, size_t need)
{
	size_t left = (size_t)(s->end - s->p), room;
	uint64_t at = s->base + (uint64_t)(s->p - s->buf); /* of p in the file */
	size_t op = (size_t)(s->p - s->op);                /* the opcode stays in the window */
	int r;

	if (left >= need && (s->p < s->soft || s->base + (uint64_t)(s->end - s->buf) == s->size))
		return 0;
	if (need > s->size - at)
		return sf_fail(s->err, -EBADMSG,
		               "dcp '%s': byte %llu: opcode 0x%02x needs %zu bytes more, the file "
		               "ends at %llu",
		               s->name, (unsigned long long)(at - op), s->op < s->end ? *s->op : 0,
		               need, (unsigned long long)s->size);
	if (need + op > s->cap) {
		size_t cap = need + op + DCP_WINDOW;
		uint8_t *buf = malloc(cap);
		if (!buf)
			return dcp_scan_no_memory(s);
		memcpy(buf, s->p - op, left + op);
		free(s->buf);
		s->buf = buf;
		s->cap = cap;
	} else {
		memmove(s->buf, s->p - op, left + op);
	}
	s->base = at - op;
	s->op = s->buf;
	s->p = s->buf + op;
	room = (size_t)SF_MIN((uint64_t)(s->cap - op - left), s->size - at - left);
	r = room ? sf_source_read(s->src, at + left, s->buf + op + left, room, SF_FETCH_METADATA,
	                          s->err)
	         : 0;
	if (r < 0)
		return r;
	s->end = s->buf + op + left + room;
	s->soft = s->base + (uint64_t)(s->end - s->buf) == s->size
	                  ? s->end
	                  : s->end - SF_MIN((size_t)DCP_SOFT, left + room);
	return 0;
}
