#include "config.h"

#include "base/mem.h"
#include "base/path.h"
#include "format/dcp/dcp_lower_priv.h"

/* Written through what cannot be undone here: said now, and by every read. */
static int make_unreadable(struct dcp_lowering *l, uint32_t file, uint32_t transform, uint32_t *ret)
{
	const struct dcp_str *codec = &l->m->str.at[transform - DCP_OTHER];
	struct sf_buf name = { 0 }, why = { 0 };
	int r;

	sf_escape_text(&name, codec->at, SF_MIN(codec->len, 200u));
	sf_buf_printf(&why, "items in %s were written through '%s', which cannot be undone here",
	              (const char *)l->file.at, sf_buf_cstr(&name));
	r = sf_ckpt_builder_place_unreadable(l->b, file, SF_ITEM_TORCH, sf_buf_cstr(&why), ret,
	                                     l->err);
	if (r >= 0)
		r = sf_ckpt_builder_warn(l->b, NULL, "transform", "%s", sf_buf_cstr(&why));
	sf_buf_release(&name);
	sf_buf_release(&why);
	return r;
}

int dcp_lower_make_place(struct dcp_lowering *l, uint32_t i, enum sf_item_form form, uint32_t *ret)
{
	/* a blob is written past the transforms */
	uint32_t t = form == SF_ITEM_ST_BLOB ? DCP_PLAIN : l->m->place.at[i].transform;

	enum sf_codec codec = t == DCP_PLAIN ? SF_CODEC_NONE : SF_CODEC_ZSTD;
	uint32_t file;
	int r = sf_ckpt_builder_file(l->b, (const char *)l->file.at, l->file.len, &file, l->err);

	if (r >= 0 && t >= DCP_OTHER)
		return make_unreadable(l, file, t, ret);
	return r < 0 ? r : sf_ckpt_builder_place_in(l->b, file, form, codec, t, ret, l->err);
}

int dcp_lower_file(struct dcp_lowering *l, uint32_t i)
{
	struct dcp_text path;
	int r = dcp_lower_str(l, l->m->place.at[i].path, &path);

	if (r < 0)
		return r;
	sf_buf_reset(&l->file);
	sf_buf_str(&l->file, l->src->dir);
	sf_buf_add(&l->file, path.at, path.len);
	sf_buf_cstr(&l->file);
	return sf_buf_check(&l->file) < 0 ? sf_fail(l->err, sf_buf_check(&l->file),
	                                            "dcp: a file name of %u bytes", path.len)
	                                  : 0;
}

/* Every file that storage_data names, before any key: a name that leads out of the checkpoint is
 * never opened. */
int dcp_lower_places(struct dcp_lowering *l)
{
	struct sf_buf text = { 0 };
	int r = 0;

	for (uint32_t i = 0; i < l->m->place.n && r >= 0; i++) {
		const struct dcp_str *path = &l->m->str.at[l->m->place.at[i].path];
		l->place[i] = (struct dcp_lower_place){ .torch = SF_NONE, .blob = SF_NONE };
		if (sf_path_check(path->at, path->len, NULL) < 0) {
			l->place[i].torch = DCP_PLACE_UNSAFE;
			sf_buf_reset(&text);
			sf_escape_text(&text, path->at, SF_MIN(path->len, 200u));
			r = sf_ckpt_builder_warn(
				l->b, NULL, "unsafe-name",
				"storage_data names '%s': not a file below the checkpoint, refused",
				sf_buf_cstr(&text));
			continue;
		}
		r = dcp_lower_file(l, i);
		if (r >= 0)
			r = dcp_lower_make_place(l, i, SF_ITEM_TORCH, &l->place[i].torch);
	}
	sf_buf_release(&text);
	return r;
}
