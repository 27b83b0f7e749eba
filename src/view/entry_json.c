#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "ckpt/place.h"
#include "view/entry_json_part.h"

static void put_str(struct sf_buf *out, const char *name, const char *s, size_t len)
{
	sf_buf_printf(out, "\"%s\": ", name);
	sf_escape_json(out, s, len);
}

static void put_numbers(struct sf_buf *out, const char *name, const uint64_t *at, unsigned n)
{
	sf_buf_printf(out, "\"%s\": [", name);
	for (unsigned i = 0; i < n; i++)
		sf_buf_printf(out, i ? ", %" PRIu64 : "%" PRIu64, at[i]);
	sf_buf_byte(out, ']');
}

static void put_item(struct sf_buf *out, const struct sf_ckpt *ckpt, uint32_t place, uint64_t off,
                     uint64_t len)
{
	if (place == SF_NONE) {
		sf_buf_str(out, "{\"file\": null, \"offset\": 0, \"length\": 0");
		return;
	}
	const struct sf_file *file = sf_place_file(ckpt, place);
	const struct sf_container *in[SF_CONTAINER_DEPTH];
	unsigned depth = sf_place_members(ckpt, place, in);
	sf_buf_byte(out, '{');
	put_str(out, "file", file->name, file->name_len);
	unsigned members = 0;
	for (unsigned i = 0; i < depth; i++) {
		if (in[i]->codec)
			continue;
		sf_buf_str(out, members++ ? ", " : ", \"inside\": [");
		sf_escape_json(out, in[i]->name, in[i]->name_len);
	}
	sf_buf_str(out, members ? "]" : "");
	for (unsigned i = 0; i < depth; i++)
		if (in[i]->codec) /* one of them at most */
			sf_buf_printf(out,
			              ", \"stream\": {\"codec\": \"%s\", \"offset\": %" PRIu64
			              ", \"length\": %" PRIu64 "}",
			              sf_codec_info(in[i]->codec)->name, in[i]->off, in[i]->len);
	sf_buf_printf(out, ", \"offset\": %" PRIu64 ", \"length\": %" PRIu64, off, len);
}

static void put_layout(struct sf_buf *out, const struct sf_chunk_layout *l, unsigned ndim)
{
	if (l->stride)
		sf_buf_str(out, ", \"stride\": [");
	for (unsigned d = 0; l->stride && d < ndim; d++)
		sf_buf_printf(out, d ? ", %" PRId64 : "%" PRId64, l->stride[d]);
	sf_buf_str(out, l->stride ? "]" : "");
	sf_buf_str(out, l->conj ? ", \"conj\": true" : "");
	sf_buf_str(out, l->neg ? ", \"neg\": true" : "");
}

static void put_shard(struct sf_buf *out, const struct sf_ckpt *ckpt, const struct sf_tensor *t,
                      uint32_t i)
{
	struct sf_chunk chunk;

	sf_tensor_chunk(t, i, &chunk);
	put_item(out, ckpt, chunk.place, chunk.off, chunk.len);
	if (chunk.place == SF_NONE && t->more && t->more->has_fill)
		sf_buf_str(out, ", \"fill\": true");
	sf_buf_str(out, ", ");
	put_numbers(out, "origin", chunk.origin, t->ndim);
	sf_buf_str(out, ", ");
	put_numbers(out, "extent", chunk.extent, t->ndim);
	if (t->part)
		sf_buf_printf(out, ", \"part\": [%" PRIu64 ", %" PRIu64 "]", chunk.part_off,
		              chunk.part_len);
	if (t->more && t->more->layout)
		put_layout(out, &t->more->layout[i], t->ndim);
	sf_buf_byte(out, '}');
}

/* Everything before the first shard. */
static void put_head(struct sf_buf *out, const struct sf_catalog *c, const struct sf_entry *e)
{
	const struct sf_key *k = &c->ckpt->key[e->key];
	const struct sf_group *g = c->group[e->group].of;

	sf_buf_byte(out, '{');
	put_str(out, "key", e->name, e->len);
	sf_buf_str(out, ", ");
	put_str(out, "stored_name", k->name, k->len);
	sf_buf_str(out, ", ");
	if (e->tensor == SF_NONE) {
		sf_buf_printf(out, "\"object\": true, \"bytes\": %" PRIu64 ", ",
		              sf_object_bytes(&c->ckpt->object[e->object]));
	} else {
		const struct sf_tensor *t = &c->ckpt->tensor[e->tensor];
		sf_buf_printf(out, "\"dtype\": \"%s\", ", sf_dtype_info(t->dtype)->torch);
		if (e->dtype != t->dtype)
			sf_buf_printf(out, "\"shown_dtype\": \"%s\", ",
			              sf_dtype_info(e->dtype)->torch);
		put_numbers(out, "shape", t->shape, t->ndim);
		sf_buf_printf(out, ", \"bytes\": %" PRIu64 ", ", t->bytes);
		const uint32_t first = sf_tensor_storage(c->ckpt, e->tensor);
		if (first != e->tensor) {
			const struct sf_key *of = &c->ckpt->key[c->ckpt->tensor[first].key];
			put_str(out, "tied_to", of->name, of->len);
			sf_buf_str(out, ", ");
		}
	}
	put_str(out, "group", g->name, g->len);
	sf_buf_str(out, ", \"shards\": [");
}

uint32_t sf_entry_json_parts(const struct sf_catalog *c, uint32_t entry)
{
	const struct sf_entry *e = &c->entry[entry];
	uint32_t n = e->tensor == SF_NONE ? 1 : c->ckpt->tensor[e->tensor].nchunks;

	return n ? (n - 1) / SF_JSON_SHARDS + 1 : 1;
}

void sf_entry_json_part(struct sf_buf *out, const struct sf_catalog *c, uint32_t entry,
                        uint32_t part)
{
	const struct sf_entry *e = &c->entry[entry];

	if (part == 0)
		put_head(out, c, e);
	if (e->tensor == SF_NONE) {
		const struct sf_object *o = &c->ckpt->object[e->object];
		put_item(out, c->ckpt, o->place, o->off, o->len);
		if (o->member) {
			sf_buf_str(out, ", \"member\": ");
			sf_escape_json(out, o->member, o->member_len);
		}
		sf_buf_byte(out, '}');
	} else {
		const struct sf_tensor *t = &c->ckpt->tensor[e->tensor];
		uint32_t from = part * SF_JSON_SHARDS,
			 to = SF_MIN(t->nchunks, from + SF_JSON_SHARDS);
		for (uint32_t i = from; i < to; i++) {
			sf_buf_str(out, i ? ", " : "");
			put_shard(out, c->ckpt, t, i);
		}
	}
	if (part + 1 == sf_entry_json_parts(c, entry))
		sf_buf_str(out, "]}");
}

void sf_entry_json(struct sf_buf *out, const struct sf_catalog *c, uint32_t entry)
{
	uint32_t n = sf_entry_json_parts(c, entry);

	for (uint32_t part = 0; part < n; part++)
		sf_entry_json_part(out, c, entry, part);
}
