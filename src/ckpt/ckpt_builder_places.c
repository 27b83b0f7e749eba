#include "config.h"

#include <stdio.h>

#include "base/mem.h"
#include "ckpt/builder_priv.h"

#define MEMBER_NAME_MAX 65536 /* bytes, as of a key */

/* A member or a stream; NULL: a file. */
static const struct sf_container *part_of_file(const struct sf_ckpt_builder *b, uint32_t container)
{
	return container & SF_MEMBER ? &b->containers.at[container & ~SF_MEMBER] : NULL;
}

static const char *container_file(const struct sf_ckpt_builder *b, uint32_t container)
{
	const struct sf_container *c = part_of_file(b, container);

	return b->files.at[c ? c->file : container].name;
}

static bool is_container(const struct sf_ckpt_builder *b, uint32_t container)
{
	return container & SF_MEMBER ? (container & ~SF_MEMBER) < b->containers.n
	                             : container < b->files.n;
}

/* "member 'NAME'", "zstd stream" */
#define WHAT_MAX 256
static const char *what(const struct sf_container *c, const char *name, char text[WHAT_MAX])
{
	if (c->codec)
		snprintf(text, WHAT_MAX, "%s stream", sf_codec_info(c->codec)->name);
	else
		snprintf(text, WHAT_MAX, "member '%.*s'", (int)SF_MIN(c->name_len, 200u), name);
	return text;
}

/* It passes the end of @parent, that is @end bytes long. */
static int fail_outside(const struct sf_ckpt_builder *b, uint32_t parent,
                        const struct sf_container *c, const char *name, uint64_t off, uint64_t end,
                        struct sf_error *err)
{
	const struct sf_container *p = part_of_file(b, parent);
	char text[WHAT_MAX];

	return sf_fail(err, -EBADMSG,
	               "%s: '%s%s%.200s': %s of %llu bytes at %llu passes the end at %llu",
	               b->ckpt->source, container_file(b, parent),
	               !p         ? ""
	               : p->codec ? " "
	                          : ":",
	               !p         ? ""
	               : p->codec ? sf_codec_info(p->codec)->name
	                          : p->name,
	               what(c, name, text), (unsigned long long)c->len, (unsigned long long)off,
	               (unsigned long long)end);
}

/* A part of @parent at @off: c->len, codec and size are set, the rest is here. */
static int add_container(struct sf_ckpt_builder *b, uint32_t parent, struct sf_container c,
                         const char *name, uint64_t off, uint32_t *ret_container,
                         struct sf_error *err)
{
	const struct sf_container *p;
	char text[WHAT_MAX];
	uint64_t end;

	if (!is_container(b, parent))
		return sf_fail(err, -EBADMSG, "%s: %s of a container that is none", b->ckpt->source,
		               what(&c, name, text));
	p = part_of_file(b, parent);
	c.file = p ? p->file : parent;
	c.parent = p ? parent & ~SF_MEMBER : SF_NONE;
	c.depth = p ? p->depth + 1 : 1;
	c.stream = !p ? SF_NONE : p->codec ? parent & ~SF_MEMBER : p->stream;
	if (c.depth > SF_CONTAINER_DEPTH)
		return sf_fail(err, -EBADMSG, "%s: '%s': %s lies %u members deep, the limit is %d",
		               b->ckpt->source, container_file(b, parent), what(&c, name, text),
		               c.depth, SF_CONTAINER_DEPTH);
	if (p ? off > p->size || c.len > p->size - off : !sf_add(off, c.len, &end))
		return fail_outside(b, parent, &c, name, off, p ? p->size : UINT64_MAX, err);
	c.off = p && !p->codec ? p->off + off : off;
	if (c.codec && c.stream != SF_NONE)
		return sf_fail(err, -ENOTSUP,
		               "%s: '%s': %s at %llu of what another stream has inside",
		               b->ckpt->source, container_file(b, parent), what(&c, name, text),
		               (unsigned long long)off);
	c.name = sf_arena_strdup(&b->ckpt->arena, name, c.name_len);
	if (!c.name || b->containers.n >= SF_MEMBER - 1 ||
	    sf_place_ids_push(&b->first_place_in, SF_NONE) < 0)
		return sf_builder_no_memory(err, b);
	if (sf_containers_push(&b->containers, c) < 0) {
		b->first_place_in.n--;
		return sf_builder_no_memory(err, b);
	}
	*ret_container = (uint32_t)(b->containers.n - 1) | SF_MEMBER;
	return 0;
}

int sf_ckpt_builder_member(struct sf_ckpt_builder *b, uint32_t parent, const char *name,
                           size_t name_len, uint64_t off, uint64_t len, uint32_t *ret_container,
                           struct sf_error *err)
{
	if (is_container(b, parent) && name_len > MEMBER_NAME_MAX)
		return sf_fail(
			err, -E2BIG, "%s: '%s': a member's name of %zu bytes, the limit is %d",
			b->ckpt->source, container_file(b, parent), name_len, MEMBER_NAME_MAX);
	return add_container(
		b, parent,
		(struct sf_container){ .name_len = (uint32_t)name_len, .len = len, .size = len },
		name, off, ret_container, err);
}

static int check_streams(const struct sf_ckpt_builder *b, uint32_t container, unsigned streams,
                         struct sf_error *err)
{
	return streams <= SF_CODEC_STREAMS_MAX
	               ? 0
	               : sf_fail(err, -E2BIG,
	                         "%s: '%s': %u streams one inside the other, the limit is %d",
	                         b->ckpt->source, container_file(b, container), streams,
	                         SF_CODEC_STREAMS_MAX);
}

int sf_ckpt_builder_stream(struct sf_ckpt_builder *b, uint32_t parent, uint64_t off, uint64_t len,
                           enum sf_codec codec, unsigned streams, uint64_t size,
                           uint32_t *ret_container, struct sf_error *err)
{
	if (codec <= SF_CODEC_NONE || codec >= SF_NCODECS || !streams)
		return sf_fail(err, -ENOTSUP, "%s: codec %d, %u streams of it", b->ckpt->source,
		               (int)codec, streams);
	if (is_container(b, parent) && check_streams(b, parent, streams, err) < 0)
		return -E2BIG;
	return add_container(b, parent,
	                     (struct sf_container){ .len = len,
	                                            .size = size,
	                                            .codec = (uint8_t)codec,
	                                            .streams = (uint8_t)streams },
	                     "", off, ret_container, err);
}

static bool in_stream(const struct sf_ckpt_builder *b, uint32_t container)
{
	const struct sf_container *c = part_of_file(b, container);

	return c && (c->codec || c->stream != SF_NONE);
}

static uint32_t *first_place(struct sf_ckpt_builder *b, uint32_t container)
{
	return container & SF_MEMBER ? &b->first_place_in.at[container & ~SF_MEMBER]
	                             : &b->first_place.at[container];
}

static int add_place(struct sf_ckpt_builder *b, struct sf_place p, uint32_t *ret_place,
                     struct sf_error *err)
{
	uint32_t n = (uint32_t)b->places.n, *first = first_place(b, p.container);

	if (b->places.n >= SF_NONE - 1 || sf_place_ids_push(&b->next_place, *first) < 0)
		return sf_builder_no_memory(err, b);
	if (sf_places_push(&b->places, p) < 0) {
		b->next_place.n--;
		return sf_builder_no_memory(err, b);
	}
	*first = n;
	*ret_place = n;
	return 0;
}

int sf_ckpt_builder_place_in(struct sf_ckpt_builder *b, uint32_t container, enum sf_item_form form,
                             enum sf_codec codec, unsigned streams, uint32_t *ret_place,
                             struct sf_error *err)
{
	const struct sf_place p = { container, (uint8_t)form, (uint8_t)codec, (uint8_t)streams,
		                    false };

	if (!is_container(b, container))
		return sf_fail(err, -EBADMSG, "%s: a place in a container that is none",
		               b->ckpt->source);
	if (check_streams(b, container, streams, err) < 0)
		return -E2BIG;
	if ((codec != SF_CODEC_NONE || form == SF_ITEM_ST_BLOB) && in_stream(b, container))
		return sf_fail(err, -ENOTSUP, "%s: '%s': %s inside a compressed stream",
		               b->ckpt->source, container_file(b, container),
		               codec ? "compressed items" : "safetensors blobs");
	/* few for a container: as many as there are ways to wrap an item */
	for (uint32_t i = *first_place(b, container); i != SF_NONE; i = b->next_place.at[i]) {
		const struct sf_place *have = &b->places.at[i];
		if (have->form == p.form && have->codec == p.codec && have->streams == p.streams &&
		    !have->unreadable) {
			*ret_place = i;
			return 0;
		}
	}
	return add_place(b, p, ret_place, err);
}

int sf_ckpt_builder_place_unreadable(struct sf_ckpt_builder *b, uint32_t container,
                                     enum sf_item_form form, const char *why, uint32_t *ret_place,
                                     struct sf_error *err)
{
	const struct sf_place p = { .container = container,
		                    .form = (uint8_t)form,
		                    .unreadable = true };
	struct sf_place_why w = { .why = sf_arena_strdup(&b->ckpt->arena, why, strlen(why)) };
	int r;

	if (!is_container(b, container))
		return sf_fail(err, -EBADMSG, "%s: a place in a container that is none",
		               b->ckpt->source);
	if (!w.why || sf_place_whys_reserve(&b->whys, b->whys.n + 1) < 0)
		return sf_builder_no_memory(err, b);
	r = add_place(b, p, &w.place, err);
	if (r < 0)
		return r;
	b->whys.at[b->whys.n++] = w;
	*ret_place = w.place;
	return 0;
}

int sf_ckpt_builder_place(struct sf_ckpt_builder *b, const char *file, size_t len,
                          enum sf_item_form form, enum sf_codec codec, uint32_t *ret_place,
                          struct sf_error *err)
{
	uint32_t container;
	int r = sf_ckpt_builder_file(b, file, len, &container, err);

	return r < 0 ? r
	             : sf_ckpt_builder_place_in(b, container, form, codec, codec != SF_CODEC_NONE,
	                                        ret_place, err);
}

int sf_builder_keep_places(struct sf_ckpt_builder *b)
{
	struct sf_ckpt *ckpt = b->ckpt;
	struct sf_place *place = sf_arena_calloc(&ckpt->arena, b->places.n, sizeof(*place));
	struct sf_container *container =
		sf_arena_calloc(&ckpt->arena, b->containers.n, sizeof(*container));
	struct sf_place_why *why = sf_arena_calloc(&ckpt->arena, b->whys.n, sizeof(*why));

	if (!place || !container || !why || b->files.n + b->containers.n >= SF_NONE)
		return -ENOMEM;
	for (size_t i = 0; i < b->places.n; i++) {
		place[i] = b->places.at[i];
		if (place[i].container & SF_MEMBER)
			place[i].container =
				(uint32_t)b->files.n + (place[i].container & ~SF_MEMBER);
	}
	if (b->containers.n)
		memcpy(container, b->containers.at, b->containers.n * sizeof(*container));
	ckpt->place = place;
	ckpt->nplaces = (uint32_t)b->places.n;
	if (b->whys.n)
		memcpy(why, b->whys.at, b->whys.n * sizeof(*why));
	ckpt->why = why;
	ckpt->nwhys = (uint32_t)b->whys.n;
	ckpt->container = container;
	ckpt->ncontainers = (uint32_t)b->containers.n;
	return 0;
}
