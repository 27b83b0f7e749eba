#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "cli/verify_manifest.h"
#include "store/source.h"

enum { SLICE = 4 << 20, MANIFEST_MAX = 256 << 20, VALUES_MAX = 16 << 20 };

static void defect(struct sf_manifest_check *m, const char *name, const char *code,
                   const char *text)
{
	SF_FREE char *line = NULL;

	if (asprintf(&line, "%s: %s", name, text) < 0)
		line = NULL;
	m->defect(m->arg, code, line ? line : text);
}

static void hex(const uint8_t digest[SF_SHA256_BYTES], char ret[2 * SF_SHA256_BYTES + 1])
{
	for (unsigned i = 0; i < SF_SHA256_BYTES; i++)
		snprintf(ret + 2 * (size_t)i, 3, "%02x", digest[i]);
}

static int hash_source(struct sf_manifest_check *m, struct sf_source *src, uint64_t size,
                       char ret[2 * SF_SHA256_BYTES + 1], struct sf_error *err)
{
	struct sf_sha256_run *run = sf_sha256_begin();
	SF_FREE uint8_t *buf = malloc(SLICE);
	uint8_t digest[SF_SHA256_BYTES];
	int r = 0;

	if (!run || !buf) {
		sf_sha256_drop(run);
		return sf_fail(err, -ENOMEM, "no memory for a slice of a file");
	}
	for (uint64_t off = 0; off < size && r >= 0; off += SLICE) {
		uint64_t len = SF_MIN(size - off, (uint64_t)SLICE);
		r = sf_source_read(src, off, buf, len, SF_FETCH_TENSOR, err);
		if (r >= 0)
			sf_sha256_feed(run, buf, len);
		sf_progress_add(m->progress, len);
	}
	if (r < 0) {
		sf_sha256_drop(run);
		return r;
	}
	r = sf_sha256_end(run, digest);
	if (r < 0)
		return sf_fail(err, r, "no memory for a SHA-256");
	hex(digest, ret);
	return 0;
}

/* One file, as it is said to be. */
static int check_file(struct sf_manifest_check *m, const char *name, uint64_t size,
                      const char *sha256, struct sf_error *err)
{
	struct sf_error why = SF_ERROR_INIT;
	struct sf_source *src;
	char found[2 * SF_SHA256_BYTES + 1], text[256];
	int r = sf_path_check(name, strlen(name), &why);

	if (r >= 0)
		r = m->s->store->ops->open(m->s->store, name, NULL, &src, &why);
	if (r == -ENOMEM)
		return sf_fail(err, r, "%s", why.msg);
	m->files++;
	if (r < 0) {
		defect(m, name, r == -ENOENT ? "missing-file" : "unreadable", why.msg);
		return 0;
	}
	if (src->size != size) {
		snprintf(text, sizeof(text), "%" PRIu64 " bytes, the manifest says %" PRIu64,
		         src->size, size);
		defect(m, name, "size", text);
	} else if ((r = hash_source(m, src, size, found, &why)) == -ENOMEM) {
		sf_fail(err, r, "%s", why.msg);
	} else if (r < 0) {
		defect(m, name, "unreadable", why.msg);
		r = 0;
	} else if (strcmp(found, sha256) != 0) {
		snprintf(text, sizeof(text), "SHA-256 %s, the manifest says %.64s", found, sha256);
		defect(m, name, "sha256", text);
	}
	sf_source_unref(src);
	return r;
}

static int check_all(struct sf_manifest_check *m, const struct cJSON *files, struct sf_error *err)
{
	uint32_t number = 0;
	int r = 0;

	for (const struct cJSON *f = sf_json_next(files, NULL); f && r >= 0;
	     f = sf_json_next(files, f)) {
		struct sf_error why = SF_ERROR_INIT;
		const char *sha256;
		uint64_t size;
		if (m->parts && number++ % m->parts != m->part)
			continue;
		if (sf_json_get_u64(f, "size", &size, &why) < 0 ||
		    sf_json_get_str(f, "sha256", &sha256, &why) < 0)
			defect(m, SF_MANIFEST_NAME, "manifest", why.msg);
		else
			r = check_file(m, sf_json_name(f), size, sha256, err);
	}
	return r;
}

/* A server need not be asked for what is not there; of one without a listing, names are those that metadata
 * has: there no manifest is looked for. */
static bool is_listed(const struct sf_ckpt *k, const char *name)
{
	size_t len = strlen(name);

	for (uint32_t i = 0; i < k->nlisting; i++)
		if (k->listing[i].name_len == len && memcmp(k->listing[i].name, name, len) == 0)
			return true;
	return false;
}

int sf_verify_manifest(struct sf_manifest_check *m, struct sf_error *err)
{
	struct sf_store *store = m->s->store;
	struct sf_error why = SF_ERROR_INIT;
	const struct cJSON *files;
	struct sf_json *json = NULL;
	struct sf_source *src;
	uint8_t *text = NULL;
	uint64_t len;
	int r = is_listed(m->s->ckpt, SF_MANIFEST_NAME)
	                ? store->ops->open(store, SF_MANIFEST_NAME, NULL, &src, &why)
	                : -ENOENT;

	if (r == -ENOENT)
		return 0;
	if (r >= 0) {
		r = sf_source_read_all(src, MANIFEST_MAX, SF_FETCH_METADATA, &text, &len, &why);
		sf_source_unref(src);
	}
	if (r >= 0)
		r = sf_json_parse_most((const char *)text, len, VALUES_MAX, &json, &why);
	if (r >= 0)
		r = sf_json_get_obj(sf_json_root(json), "files", &files, &why);
	if (r >= 0) {
		r = check_all(m, files, err);
	} else if (r == -ENOMEM) {
		sf_fail(err, r, "%s", why.msg);
	} else {
		if (m->part == 0)
			defect(m, SF_MANIFEST_NAME, "manifest", why.msg);
		r = 0;
	}
	sf_json_free(json);
	free(text);
	return r;
}
