/* .shardfuse-manifest.json: size and SHA-256 of each file that a save wrote, for `verify --deep`. */
#include "config.h"

#include <inttypes.h>

#include "base/mem.h"
#include "base/path.h"
#include "save/save_priv.h"

/* What a rank tells of its shards: u64 size and 32 bytes of SHA-256 each. */
#define FILE_BYTES SF_MANIFEST_BYTES

void sf_save_manifest_tell(const struct sf_shard_file *file, unsigned n, struct sf_buf *record)
{
	for (unsigned i = 0; i < n; i++) {
		uint8_t size[8];
		sf_put_le64(size, file[i].size);
		sf_buf_add(record, size, sizeof(size));
		sf_buf_add(record, file[i].sha256, sizeof(file[i].sha256));
	}
}

static void put_file(struct sf_buf *out, const char *dir, const char *name, const uint8_t *told)
{
	sf_buf_printf(out, "%s\n  \"%s%s\": {\"size\": %" PRIu64 ", \"sha256\": \"",
	              out->at[out->len - 1] == '{' ? "" : ",", dir, name, sf_le64(told));
	for (unsigned i = 0; i < 32; i++)
		sf_buf_printf(out, "%02x", told[8 + i]);
	sf_buf_str(out, "\"}");
}

int sf_save_manifest_write(const struct shardfuse_save *s, const void *const *record,
                           const size_t *len, uint32_t n, size_t at, struct sf_error *err)
{
	unsigned nfiles = s->opt.files_per_rank;
	struct sf_buf out = { 0 };
	int r = 0;

	sf_buf_str(&out, "{\"version\": 1, \"files\": {");
	for (uint32_t i = 0; i < n && r >= 0; i++) {
		if (len[i] < at + (size_t)nfiles * FILE_BYTES) {
			r = sf_fail(err, -EBADMSG, "rank %u told of less than its %u shards", i,
			            nfiles);
			break;
		}
		for (unsigned f = 0; f < nfiles && sf_buf_check(&out) == 0; f++) {
			const uint8_t *told =
				(const uint8_t *)record[i] + at + (size_t)f * FILE_BYTES;
			char name[SF_SHARD_NAME_MAX];
			sf_shard_name(name, i, f, s->at->tag);
			if (sf_le64(told)) /* empty ones are not made */
				put_file(&out, s->format->shards, name, told);
		}
	}
	sf_buf_str(&out, "\n}}\n");
	if (r >= 0 && sf_buf_check(&out) < 0)
		r = sf_fail(err, sf_buf_check(&out), "no memory for the manifest");
	if (r >= 0)
		r = sf_save_target_put(s->at, SF_SAVE_MANIFEST, out.at, out.len, !s->opt.no_fsync,
		                       err);
	sf_buf_release(&out);
	return r;
}
