#include "config.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/path.h"
#include "ckpt/place.h"

/* A member or a stream; NULL: a file's own place. */
static const struct sf_container *member_of(const struct sf_ckpt *ckpt, uint32_t place)
{
	uint32_t c = ckpt->place[place].container;

	return c < ckpt->nfiles ? NULL : &ckpt->container[c - ckpt->nfiles];
}

struct sf_where sf_place_where(const struct sf_ckpt *ckpt, uint32_t place, uint64_t off)
{
	const struct sf_container *m = member_of(ckpt, place);
	uint32_t file = ckpt->place[place].container;

	if (m) { /* its end fits 64 bits: the builder saw to that */
		const bool is_stream = m->codec != SF_CODEC_NONE;
		const uint64_t at = SF_MIN(off, m->size);
		return (struct sf_where){ .file = m->file,
			                  .off = is_stream ? at : m->off + at,
			                  .room = m->size - at,
			                  .stream = is_stream ? m
			                            : m->stream != SF_NONE
			                                    ? &ckpt->container[m->stream]
			                                    : NULL };
	}
	const uint64_t size = ckpt->file[file].info.size;
	if (ckpt->file[file].missing || size == UINT64_MAX)
		return (struct sf_where){ file, off, UINT64_MAX, NULL };
	return (struct sf_where){ file, off, size - SF_MIN(off, size), NULL };
}

int sf_place_find(const struct sf_ckpt *ckpt, uint32_t place, uint64_t off, uint64_t len,
                  struct sf_where *ret, struct sf_error *err)
{
	const struct sf_container *m = member_of(ckpt, place);
	char name[SF_PLACE_NAME];

	if (m && (off > m->size || len > m->size - off))
		return sf_fail(err, -EBADMSG, "%s: %llu bytes at %llu of a %s of %llu",
		               sf_place_name(ckpt, place, name), (unsigned long long)len,
		               (unsigned long long)off, m->codec ? "stream" : "member",
		               (unsigned long long)m->size);
	*ret = sf_place_where(ckpt, place, off);
	return 0;
}

const char *sf_place_why(const struct sf_ckpt *ckpt, uint32_t place)
{
	if (!ckpt->place[place].unreadable)
		return NULL;
	return ckpt->why[SF_LAST_THAT(i, ckpt->nwhys, ckpt->why[i].place <= place)].why;
}

const struct sf_file *sf_place_file(const struct sf_ckpt *ckpt, uint32_t place)
{
	const struct sf_container *m = member_of(ckpt, place);

	return &ckpt->file[m ? m->file : ckpt->place[place].container];
}

unsigned sf_place_members(const struct sf_ckpt *ckpt, uint32_t place,
                          const struct sf_container *ret[SF_CONTAINER_DEPTH])
{
	const struct sf_container *m = member_of(ckpt, place);
	unsigned n = m ? m->depth : 0;

	for (unsigned i = n; i-- > 0;) {
		ret[i] = m;
		m = i ? &ckpt->container[m->parent] : NULL;
	}
	return n;
}

const char *sf_place_name(const struct sf_ckpt *ckpt, uint32_t place, char text[SF_PLACE_NAME])
{
	const struct sf_container *m[SF_CONTAINER_DEPTH];
	unsigned depth = sf_place_members(ckpt, place, m);
	int n = snprintf(text, SF_PLACE_NAME, "%s", sf_place_file(ckpt, place)->name);

	for (unsigned i = 0; i < depth && n > 0 && n < SF_PLACE_NAME; i++)
		n += snprintf(text + n, SF_PLACE_NAME - (size_t)n, m[i]->codec ? " (%s)" : ":%s",
		              m[i]->codec ? sf_codec_info(m[i]->codec)->name : m[i]->name);
	return text;
}

void sf_place_put(struct sf_buf *out, const struct sf_ckpt *ckpt, uint32_t place)
{
	const struct sf_container *m[SF_CONTAINER_DEPTH];
	const struct sf_file *f = sf_place_file(ckpt, place);
	unsigned depth = sf_place_members(ckpt, place, m);

	sf_escape_text(out, f->name, f->name_len);
	for (unsigned i = 0; i < depth; i++) {
		if (m[i]->codec) {
			sf_buf_printf(out, " (%s)", sf_codec_info(m[i]->codec)->name);
			continue;
		}
		sf_buf_byte(out, ':');
		sf_escape_text(out, m[i]->name, m[i]->name_len);
	}
}

int sf_file_open(struct sf_store *store, const struct sf_file *file, struct sf_source **ret,
                 struct sf_error *err)
{
	struct sf_objinfo want = file->info;
	bool known = want.size != UINT64_MAX;
	int r;

	want.name = file->name;
	r = store->ops->open(store, file->name, known ? &want : NULL, ret, err);
	if (r == -ENOENT && known)
		return sf_fail(err, -ESTALE,
		               "'%s' was there when the checkpoint was loaded, now it is not",
		               file->name);
	return r;
}
