#include "config.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/path.h"
#include "ckpt/builder_priv.h"

#define PATH_ELEMS_MAX 1000  /* nesting of a state dict; views walk it */
#define NAME_MAX_BYTES 65536 /* of a key, and of an element of its path: FQNs have a hundred */
/*
 * A pickle names a text of a megabyte in two bytes as often as it likes. Texts that are honest add
 * up to what the keys are, which stand in the file one by one; others end here. The same for what
 * shards of a subclass are called, each after its key.
 */
#define PATHS_ROOM (UINT64_C(64) << 20)
#define PATHS_PER_NAME 4 /* bytes of path for a byte of name */

int sf_builder_no_memory(struct sf_error *err, const struct sf_ckpt_builder *b)
{
	return sf_fail(err, -ENOMEM,
	               "%s: no memory for the checkpoint's metadata (%zu keys, %llu chunks so far)",
	               b->ckpt->source, b->keys.n, (unsigned long long)b->ckpt->nchunks);
}

int sf_ckpt_builder_new(const char *format, const char *source, struct sf_ckpt_builder **ret,
                        struct sf_error *err)
{
	struct sf_ckpt_builder *b = calloc(1, sizeof(*b));
	struct sf_ckpt *ckpt = b ? calloc(1, sizeof(*ckpt)) : NULL;

	if (ckpt) {
		b->ckpt = ckpt;
		b->nmain = SF_NONE;
		ckpt->step = -1;
		ckpt->format = sf_arena_strdup(&ckpt->arena, format, strlen(format));
		ckpt->source = sf_arena_strdup(&ckpt->arena, source, strlen(source));
	}
	if (!ckpt || !ckpt->format || !ckpt->source) {
		sf_ckpt_builder_free(b);
		return sf_fail(err, -ENOMEM, "%s: no memory to load a checkpoint", source);
	}
	*ret = b;
	return 0;
}

void sf_ckpt_builder_free(struct sf_ckpt_builder *b)
{
	if (!b)
		return;
	sf_ckpt_free(b->ckpt);
	sf_keys_release(&b->keys);
	sf_tensors_release(&b->tensors);
	sf_objects_release(&b->objects);
	sf_places_release(&b->places);
	sf_place_ids_release(&b->next_place);
	sf_containers_release(&b->containers);
	sf_place_whys_release(&b->whys);
	sf_place_ids_release(&b->first_place_in);
	sf_files_release(&b->files);
	sf_place_ids_release(&b->first_place);
	sf_files_release(&b->listing);
	sf_pending_warnings_release(&b->warnings);
	sf_group_choices_release(&b->choices);
	sf_map_release(&b->names);
	sf_map_release(&b->file_names);
	sf_place_ids_release(&b->tied);
	free(b->origin.at);
	free(b->extent.at);
	free(b->part.at);
	free(b->layout.at);
	free(b->place.at);
	free(b->off.at);
	free(b->len.at);
	sf_order_scratch_release(&b->scratch);
	free(b);
}

static int same_file(void *arg, uint32_t value, const char *name, size_t len)
{
	const struct sf_ckpt_builder *b = arg;
	const struct sf_file *f = &b->files.at[value];

	return f->name_len == len && memcmp(f->name, name, len) == 0;
}

static int add_file(struct sf_ckpt_builder *b, const char *name, size_t len, uint32_t *ret,
                    struct sf_error *err)
{
	struct sf_file f = { .name_len = (uint32_t)len };
	uint32_t n = (uint32_t)b->files.n, found;
	int failed, r;

	found = sf_map_get(&b->file_names, name, len, same_file, b);
	if (found != SF_MAP_NONE) {
		*ret = found;
		return 0;
	}
	r = sf_path_check(name, len, err);
	if (r < 0)
		return sf_fail_ctx(err, r, "%s: a stored file's name", b->ckpt->source);
	f.name = sf_arena_strdup(&b->ckpt->arena, name, len);
	if (!f.name || b->files.n >= SF_MEMBER - 1 || sf_files_push(&b->files, f) < 0 ||
	    sf_place_ids_push(&b->first_place, SF_NONE) < 0)
		return sf_builder_no_memory(err, b);
	sf_map_add(&b->file_names, f.name, len, n, same_file, b, &failed);
	if (failed) {
		b->files.n--;
		b->first_place.n--;
		return sf_builder_no_memory(err, b);
	}
	*ret = n;
	return 0;
}

int sf_ckpt_builder_file(struct sf_ckpt_builder *b, const char *file, size_t len,
                         uint32_t *ret_container, struct sf_error *err)
{
	return add_file(b, file, len, ret_container, err);
}

bool sf_ckpt_builder_has_file(const struct sf_ckpt_builder *b, const char *name, size_t len)
{
	return sf_map_get(&b->file_names, name, len, same_file, (void *)b) != SF_MAP_NONE;
}

int sf_ckpt_builder_listing(struct sf_ckpt_builder *b, const struct sf_objinfo *files, size_t n,
                            struct sf_error *err)
{
	b->has_listing = true;
	if (n >= SF_NONE - b->listing.n || sf_files_reserve(&b->listing, b->listing.n + n) < 0)
		return sf_builder_no_memory(err, b);
	for (size_t i = 0; i < n; i++) {
		struct sf_file f = { .name_len = (uint32_t)strlen(files[i].name),
			             .info = files[i] };
		const char *etag = files[i].version.etag;

		if (files[i].size == UINT64_MAX)
			continue; /* no plain file */
		f.name = sf_arena_strdup(&b->ckpt->arena, files[i].name, f.name_len);
		f.info.name = NULL;
		if (etag)
			f.info.version.etag = sf_arena_strdup(&b->ckpt->arena, etag, strlen(etag));
		if (!f.name || (etag && !f.info.version.etag) || sf_files_push(&b->listing, f) < 0)
			return sf_builder_no_memory(err, b);
	}
	return 0;
}

void sf_ckpt_builder_look(struct sf_ckpt_builder *b, sf_ckpt_look *look, void *arg)
{
	b->look = look;
	b->look_arg = arg;
}

static int same_key(void *arg, uint32_t value, const char *name, size_t len)
{
	const struct sf_key *k = (const struct sf_key *)arg + value;

	return k->len == len && (len == 0 || memcmp(k->name, name, len) == 0);
}

uint32_t sf_builder_key(const struct sf_ckpt_builder *b, const char *name, size_t len)
{
	uint32_t i = sf_map_get(&b->names, name, len, same_key, b->keys.at);

	return i == SF_MAP_NONE ? SF_NONE : i;
}

/* Room is reserved first, so nothing is half added. */
int sf_builder_add_key(struct sf_ckpt_builder *b, const char *name, size_t len, struct sf_key k,
                       struct sf_error *err)
{
	uint32_t n = (uint32_t)b->keys.n, found;
	int failed;

	if (b->keys.n >= SF_NONE - 1)
		return sf_fail(err, -EBADMSG, "%s: over %u keys", b->ckpt->source, SF_NONE - 1);
	if (len > NAME_MAX_BYTES)
		return sf_fail(err, -E2BIG, "%s: key '%.60s...' has %zu bytes, the limit is %d",
		               b->ckpt->source, name, len, NAME_MAX_BYTES);
	if (sf_keys_reserve(&b->keys, b->keys.n + 1) < 0 ||
	    sf_map_reserve(&b->names, b->keys.n + 1) < 0)
		return sf_builder_no_memory(err, b);
	k.len = (uint32_t)len;
	found = sf_builder_key(b, name, len);
	if (found != SF_NONE)
		return sf_fail(err, -EBADMSG, "%s: key '%.*s' occurs twice (keys %u and %u)",
		               b->ckpt->source, (int)SF_MIN(len, 200u), name, found, n);
	k.name = sf_arena_strdup(&b->ckpt->arena, name, len);
	if (!k.name)
		return sf_builder_no_memory(err, b);
	b->keys.at[b->keys.n++] = k;
	b->name_bytes += len;
	sf_map_add(&b->names, k.name, len, n, same_key, b->keys.at, &failed);
	return failed ? sf_builder_no_memory(err, b) : 0;
}

int sf_ckpt_builder_object(struct sf_ckpt_builder *b, const char *name, size_t len,
                           uint32_t *ret_object, struct sf_error *err)
{
	struct sf_object o = { .key = (uint32_t)b->keys.n, .place = SF_NONE };
	int r = sf_builder_close(b, err);

	if (r < 0)
		return r;
	if (sf_objects_reserve(&b->objects, b->objects.n + 1) < 0)
		return sf_builder_no_memory(err, b);
	r = sf_builder_add_key(
		b, name, len,
		(struct sf_key){ .tensor = SF_NONE, .object = (uint32_t)b->objects.n }, err);
	if (r < 0)
		return r;
	*ret_object = (uint32_t)b->objects.n;
	b->objects.at[b->objects.n++] = o;
	return 0;
}

uint32_t sf_ckpt_builder_find(const struct sf_ckpt_builder *b, const char *name, size_t len,
                              bool *ret_is_tensor)
{
	uint32_t i = sf_builder_key(b, name, len);

	if (i == SF_NONE)
		return SF_NONE;
	*ret_is_tensor = b->keys.at[i].tensor != SF_NONE;
	return *ret_is_tensor ? b->keys.at[i].tensor : b->keys.at[i].object;
}

const char *sf_ckpt_builder_key_at(const struct sf_ckpt_builder *b, uint32_t i, size_t *ret_len)
{
	if (i >= b->keys.n)
		return NULL;
	*ret_len = b->keys.at[i].len;
	return b->keys.at[i].name;
}

void sf_ckpt_builder_set_object(struct sf_ckpt_builder *b, uint32_t object, uint32_t place,
                                uint64_t off, uint64_t len)
{
	struct sf_object *o = &b->objects.at[object];

	assert(object < b->objects.n && place < b->places.n);
	if (o->place != SF_NONE)
		return;
	o->place = place;
	o->off = off;
	o->len = len;
}

int sf_ckpt_builder_set_member(struct sf_ckpt_builder *b, uint32_t object, const char *member,
                               size_t len)
{
	struct sf_object *o = &b->objects.at[object];

	assert(object < b->objects.n);
	o->member = sf_arena_strdup(&b->ckpt->arena, member, len);
	o->member_len = (uint32_t)len;
	return o->member ? 0 : -ENOMEM;
}

void sf_ckpt_builder_set_in_list(struct sf_ckpt_builder *b, uint32_t object)
{
	assert(object < b->objects.n);
	b->objects.at[object].in_list = true;
}

int sf_ckpt_builder_set_subclass(struct sf_ckpt_builder *b, uint32_t object, const char *class,
                                 enum sf_dtype dtype, const uint64_t *shape, unsigned ndim)
{
	struct sf_subclass *s = sf_arena_alloc(&b->ckpt->arena, sizeof(*s));
	uint64_t *own = sf_arena_alloc(&b->ckpt->arena, (ndim + 1) * sizeof(*own));

	assert(object < b->objects.n);
	if (!s || !own)
		return -ENOMEM;
	if (ndim)
		memcpy(own, shape, ndim * sizeof(*own));
	/* shards of one tensor, and mostly all tensors, are of one class: one copy */
	if (!b->last_class || strcmp(b->last_class, class) != 0)
		b->last_class = sf_arena_strdup(&b->ckpt->arena, class, strlen(class));
	*s = (struct sf_subclass){
		.name = b->last_class, .dtype = (uint8_t)dtype, .ndim = (uint8_t)ndim, .shape = own
	};
	b->objects.at[object].subclass = s;
	return s->name ? 0 : -ENOMEM;
}

void sf_ckpt_builder_beside(struct sf_ckpt_builder *b)
{
	b->nmain = (uint32_t)b->keys.n;
}

/* Paths mostly spell the key itself: their text then needs no memory of its own. */
static bool path_is_name(const struct sf_key *k, const struct sf_path_elem *path, size_t n)
{
	size_t at = 0;

	for (size_t i = 0; i < n; i++) {
		if (i && (at >= k->len || k->name[at++] != '.'))
			return false;
		if (path[i].len > k->len - at ||
		    (path[i].len && memcmp(k->name + at, path[i].s, path[i].len) != 0))
			return false;
		at += path[i].len;
	}
	return at == k->len;
}

/* Counts what the path's texts are, shared or not. */
static int count_path(struct sf_ckpt_builder *b, const struct sf_key *k,
                      const struct sf_path_elem *path, size_t n, struct sf_error *err)
{
	uint64_t limit = PATHS_ROOM + b->name_bytes * PATHS_PER_NAME;

	for (size_t i = 0; i < n; i++) {
		if (path[i].len > NAME_MAX_BYTES)
			return sf_fail(err, -E2BIG,
			               "%s: element %zu of the path of key '%.200s' has %" PRIu32
			               " bytes, the limit is %d",
			               b->ckpt->source, i, k->name, path[i].len, NAME_MAX_BYTES);
		b->path_bytes += path[i].len;
	}
	if (b->path_bytes > limit)
		return sf_fail(err, -E2BIG,
		               "%s: the paths of keys up to '%.200s' have %" PRIu64
		               " bytes, the limit for %" PRIu64 " bytes of keys is %" PRIu64,
		               b->ckpt->source, k->name, b->path_bytes, b->name_bytes, limit);
	return 0;
}

int sf_ckpt_builder_path(struct sf_ckpt_builder *b, const char *name, size_t len,
                         const struct sf_path_elem *path, size_t n, struct sf_error *err)
{
	uint32_t i = sf_builder_key(b, name, len);
	struct sf_path_elem *kept;
	struct sf_key *k;
	bool shared;
	size_t at = 0;
	int r;

	if (i == SF_NONE)
		return 1; /* planner data of a key that was not saved */
	if (n > PATH_ELEMS_MAX)
		return sf_fail(err, -EBADMSG,
		               "%s: key '%.*s' is nested %zu levels deep, the limit is %d",
		               b->ckpt->source, (int)SF_MIN(len, 200u), name, n, PATH_ELEMS_MAX);
	k = &b->keys.at[i];
	r = count_path(b, k, path, n, err);
	if (r < 0)
		return r;
	kept = sf_arena_alloc(&b->ckpt->arena, n * sizeof(*kept));
	if (!kept)
		return sf_builder_no_memory(err, b);
	shared = path_is_name(k, path, n);
	for (size_t e = 0; e < n; e++) {
		kept[e] = path[e];
		kept[e].s = shared ? k->name + at
		                   : sf_arena_strdup(&b->ckpt->arena, path[e].s, path[e].len);
		if (!kept[e].s)
			return sf_builder_no_memory(err, b);
		at += path[e].len + 1;
	}
	k->path = n ? kept : NULL;
	k->npath = (uint32_t)n;
	return 0;
}

static const char *keep_text(struct sf_ckpt_builder *b, const char *s)
{
	const char *kept = s ? sf_arena_strdup(&b->ckpt->arena, s, strlen(s)) : NULL;

	if (s && !kept)
		b->failed = -ENOMEM;
	return kept;
}

void sf_ckpt_builder_facts(struct sf_ckpt_builder *b, const char *writer,
                           const char *content_metadata, int64_t step, uint32_t ranks,
                           int64_t mtime_ns)
{
	b->ckpt->writer = keep_text(b, writer);
	b->ckpt->content_metadata = keep_text(b, content_metadata);
	b->ckpt->step = step;
	b->ckpt->ranks = ranks;
	b->ckpt->mtime_ns = mtime_ns;
}

void sf_ckpt_builder_writer(struct sf_ckpt_builder *b, const char *writer)
{
	b->ckpt->writer = keep_text(b, writer);
}

static int add_warning(struct sf_ckpt_builder *b, struct sf_pending_warning w)
{
	if (b->warnings.n >= SF_WARNINGS_MAX - 1) { /* the last one says how many more there are */
		b->more_warnings++;
		return 0;
	}
	w.key_name = keep_text(b, w.key_name);
	w.code = keep_text(b, w.code);
	w.text = keep_text(b, w.text);
	if (!w.code || !w.text || sf_pending_warnings_push(&b->warnings, w) < 0)
		return b->failed = -ENOMEM;
	return 0;
}

int sf_builder_warn_key(struct sf_ckpt_builder *b, uint32_t key, const char *code, const char *text)
{
	return add_warning(b, (struct sf_pending_warning){
				      .key = key, .file = SF_NONE, .code = code, .text = text });
}

int sf_builder_warn_file(struct sf_ckpt_builder *b, uint32_t file, const char *code,
                         const char *text)
{
	return add_warning(b, (struct sf_pending_warning){
				      .key = SF_NONE, .file = file, .code = code, .text = text });
}

int sf_ckpt_builder_warn(struct sf_ckpt_builder *b, const char *key_or_null, const char *code,
                         const char *fmt, ...)
{
	struct sf_error text; /* as long as an error's message may be */
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text.msg, sizeof(text.msg), fmt, ap);
	va_end(ap);
	return add_warning(b, (struct sf_pending_warning){ .key = SF_NONE,
	                                                   .key_name = key_or_null,
	                                                   .file = SF_NONE,
	                                                   .code = code,
	                                                   .text = text.msg });
}

int sf_ckpt_builder_group(struct sf_ckpt_builder *b, const char *key, size_t key_len,
                          const char *group, enum sf_role role, unsigned strip,
                          struct sf_error *err)
{
	struct sf_group_choice c = { .key = sf_builder_key(b, key, key_len),
		                     .role = (uint8_t)role,
		                     .strip = (uint8_t)strip };
	const struct sf_group_choice *last = b->choices.n ? &b->choices.at[b->choices.n - 1] : NULL;

	if (c.key == SF_NONE)
		return sf_fail(err, -EBADMSG,
		               "%s: group '%s' is given to key '%.*s', which is not there",
		               b->ckpt->source, group, (int)SF_MIN(key_len, 200u), key);
	c.len = (uint32_t)strlen(group);
	if (last && last->len == c.len && memcmp(last->name, group, c.len) == 0)
		c.name = last->name;
	else
		c.name = sf_arena_strdup(&b->ckpt->arena, group, c.len);
	if (!c.name || sf_group_choices_push(&b->choices, c) < 0)
		return sf_builder_no_memory(err, b);
	return 0;
}
