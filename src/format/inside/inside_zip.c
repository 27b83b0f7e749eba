#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "format/inside/inside_priv.h"
#include "parse/torch_archive.h"

/* A zip of files: those that are stored, not deflated, are read in place. */

#define DIR_MAX (UINT64_C(1) << 30) /* bytes of a directory */
#define AT_ONCE 4096                /* members whose headers are asked for together */
#define HEADER 30                   /* bytes of a member's own header that say how long it is */

/* torch.save's own records are no files. */
static bool is_torch(const struct sf_zip_dir *dir)
{
	for (size_t i = 0; i < dir->n; i++) {
		const char *slash = memchr(dir->at[i].name, '/', dir->at[i].name_len);
		const size_t len = slash ? (size_t)(slash + 1 - dir->at[i].name) : 0;
		if (slash && dir->at[i].name_len - len == 8 &&
		    memcmp(slash + 1, "data.pkl", 8) == 0)
			return true;
	}
	return false;
}

/* Is it to be listed? 1 yes, 0: a directory. */
static int check_member(struct inside_build *b, const struct sf_zip_record *m, const char *name,
                        const char *zip)
{
	if (!m->name_len || name[m->name_len - 1] == '/')
		return 0;
	if (sf_path_check(m->name, m->name_len, NULL) < 0)
		return sf_fail(b->err, -EBADMSG,
		               "'%s': its member '%.200s' has no name below a directory", zip,
		               name);
	if (m->method != 0 || m->comp_size != m->size)
		return sf_fail(b->err, -ENOTSUP,
		               "'%s': its member '%.200s' is deflated (method %u, %" PRIu64
		               " bytes of %" PRIu64
		               "): only stored ones are read in place; unzip it",
		               zip, name, m->method, m->comp_size, m->size);
	return 1;
}

static int add_member(struct inside_build *b, const struct sf_zip_record *m, const uint8_t *header,
                      uint32_t from)
{
	const char *zip = b->from.at[from].info.name;
	char *name = sf_arena_strdup(&b->arena, m->name, m->name_len);
	uint64_t off;
	int r = name ? check_member(b, m, name, zip) : inside_no_memory(b);

	if (r <= 0)
		return r;
	r = sf_zip_local_data(header, m->header_off, &off, b->err);
	return r < 0 ? sf_fail_ctx(b->err, r, "'%s'", zip)
	             : inside_add(b, name, from, off, m->size);
}

/* Each member's own header says where its bytes begin; of many they are asked for together. */
static int add_some(struct inside_build *b, const struct sf_torch_input *in,
                    const struct sf_zip_record *m, size_t n, uint32_t from)
{
	SF_FREE struct sf_torch_range *range = sf_alloc_array(n, sizeof(*range));
	SF_FREE uint8_t *header = sf_alloc_array(n, HEADER);
	int r = range && header ? 0 : inside_no_memory(b);

	for (size_t i = 0; i < n && r >= 0; i++)
		range[i] = (struct sf_torch_range){ m[i].header_off, HEADER };
	if (r >= 0)
		r = in->read(in->arg, range, n, header, b->err);
	for (size_t i = 0; i < n && r >= 0; i++)
		r = add_member(b, &m[i], header + i * HEADER, from);
	return r;
}

int inside_add_zip(struct inside_build *b, struct sf_source *src, uint32_t from)
{
	SF_CLEANUP(sf_arena_release) struct sf_arena arena = { 0 };
	struct sf_torch_source at = { src, 0, SF_FETCH_METADATA };
	const struct sf_torch_input in = { src->size, NULL, sf_torch_source_read, &at };
	struct sf_zip_dir dir;
	int r = sf_torch_zip_dir(&in, DIR_MAX, &arena, &dir, b->err);

	if (r < 0)
		return sf_fail_ctx(b->err, r, "'%s'", b->from.at[from].info.name);
	if (is_torch(&dir))
		return 1;
	for (size_t i = 0; i < dir.n && r >= 0; i += AT_ONCE)
		r = add_some(b, &in, dir.at + i, SF_MIN(dir.n - i, (size_t)AT_ONCE), from);
	return r < 0 ? r : 0;
}
