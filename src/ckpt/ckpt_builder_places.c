#include "config.h"

#include "base/mem.h"
#include "ckpt/builder_priv.h"

#define MEMBER_NAME_MAX 65536 /* bytes, as of a key */

/* "FILE" or "FILE: member 'NAME'": what a message is about. */
static const char *container_file(const struct sf_ckpt_builder *b, uint32_t container)
{
	if (container & SF_MEMBER)
		container = b->containers.at[container & ~SF_MEMBER].file;
	return b->files.at[container].name;
}

static bool is_container(const struct sf_ckpt_builder *b, uint32_t container)
{
	return container & SF_MEMBER ? (container & ~SF_MEMBER) < b->containers.n
	                             : container < b->files.n;
}

static int fail_member(const struct sf_ckpt_builder *b, uint32_t parent, const char *name,
                       size_t name_len, uint64_t off, uint64_t len, struct sf_error *err)
{
	const struct sf_container *p =
		parent & SF_MEMBER ? &b->containers.at[parent & ~SF_MEMBER] : NULL;

	return sf_fail(err, -EBADMSG,
	               "%s: '%s%s%.200s': member '%.*s' of %llu bytes at %llu passes the end at "
	               "%llu",
	               b->ckpt->source, container_file(b, parent), p ? ":" : "", p ? p->name : "",
	               (int)SF_MIN(name_len, (size_t)200), name, (unsigned long long)len,
	               (unsigned long long)off, (unsigned long long)(p ? p->len : UINT64_MAX));
}

int sf_ckpt_builder_member(struct sf_ckpt_builder *b, uint32_t parent, const char *name,
                           size_t name_len, uint64_t off, uint64_t len, uint32_t *ret_container,
                           struct sf_error *err)
{
	struct sf_container c = { .name_len = (uint32_t)name_len, .len = len, .depth = 1 };
	uint64_t end;

	if (!is_container(b, parent))
		return sf_fail(err, -EBADMSG, "%s: member '%.*s' of a container that is none",
		               b->ckpt->source, (int)SF_MIN(name_len, (size_t)200), name);
	if (name_len > MEMBER_NAME_MAX)
		return sf_fail(
			err, -E2BIG, "%s: '%s': a member's name of %zu bytes, the limit is %d",
			b->ckpt->source, container_file(b, parent), name_len, MEMBER_NAME_MAX);
	if (parent & SF_MEMBER) {
		const struct sf_container *p = &b->containers.at[parent & ~SF_MEMBER];
		if (p->depth >= SF_CONTAINER_DEPTH)
			return sf_fail(err, -EBADMSG,
			               "%s: '%s': member '%.*s' lies %u members deep, the limit is "
			               "%d",
			               b->ckpt->source, container_file(b, parent),
			               (int)SF_MIN(name_len, (size_t)200), name, p->depth + 1,
			               SF_CONTAINER_DEPTH);
		if (off > p->len || len > p->len - off)
			return fail_member(b, parent, name, name_len, off, len, err);
		c.file = p->file;
		c.depth = p->depth + 1;
		c.parent = parent & ~SF_MEMBER;
		c.off = p->off + off;
	} else {
		if (!sf_add(off, len, &end))
			return fail_member(b, parent, name, name_len, off, len, err);
		c.file = parent;
		c.parent = SF_NONE;
		c.off = off;
	}
	c.name = sf_arena_strdup(&b->ckpt->arena, name, name_len);
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
	if (streams > SF_CODEC_STREAMS_MAX)
		return sf_fail(err, -E2BIG,
		               "%s: '%s': %u streams one inside the other, the limit is %d",
		               b->ckpt->source, container_file(b, container), streams,
		               SF_CODEC_STREAMS_MAX);
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
