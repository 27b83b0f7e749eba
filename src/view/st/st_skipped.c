#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "base/path.h"
#include "catalog/entry_name.h"
#include "view/st/st_skipped.h"

static const char *dtype_refused(const struct sf_catalog *c, enum sf_dtype dtype)
{
	static const char *const none[SF_NDTYPES] = {
		[SF_COMPLEX32] = "safetensors has no complex32",
		[SF_COMPLEX128] = "safetensors has no complex128",
		[SF_BCOMPLEX32] = "safetensors has no bcomplex32",
		[SF_QINT8] = "safetensors has no qint8",
		[SF_QUINT8] = "safetensors has no quint8",
		[SF_QINT32] = "safetensors has no qint32",
		[SF_QUINT4X2] = "safetensors has no quint4x2",
		[SF_QUINT2X4] = "safetensors has no quint2x4",
		[SF_BITS8] = "safetensors has no bits8",
		[SF_BITS16] = "safetensors has no bits16",
		[SF_BITS1X8] = "safetensors has no bits1x8",
		[SF_BITS2X4] = "safetensors has no bits2x4",
		[SF_BITS4X2] = "safetensors has no bits4x2",
	};
	static const char *const recent[SF_NDTYPES] = {
		[SF_COMPLEX64] = "only recent readers know complex64: st_dtypes=all",
		[SF_F8_E4M3FNUZ] = "only recent readers know float8_e4m3fnuz: st_dtypes=all",
		[SF_F8_E5M2FNUZ] = "only recent readers know float8_e5m2fnuz: st_dtypes=all",
	};
	const struct sf_dtype_info *info = sf_dtype_info(dtype);

	if (!info->safetensors)
		return none[dtype] ? none[dtype] : "safetensors has no such dtype";
	if (info->st_optional && !c->opt->st_all_dtypes)
		return recent[dtype] ? recent[dtype]
		                     : "only recent readers know its elements: st_dtypes=all";
	return NULL;
}

const char *sf_st_refuses_as(const struct sf_catalog *c, enum sf_dtype dtype, unsigned ndim)
{
	const char *why = dtype_refused(c, dtype);

	if (!why && dtype == SF_F4_E2M1FN_X2 && ndim == 0)
		why = "safetensors counts float4 in pairs of a last dimension";
	return why;
}

static const char *tensor_refused(const struct sf_catalog *c, const struct sf_entry *e, bool cast)
{
	if (e->tensor == SF_NONE)
		return sf_entry_subclass(c, (uint32_t)(e - c->entry))
		               ? "an instance of a tensor subclass: files of many keys have the "
		                 "tensors inside"
		               : "not a tensor";
	const struct sf_tensor *t = &c->ckpt->tensor[e->tensor];

	return sf_st_refuses_as(c, cast ? (enum sf_dtype)e->dtype : (enum sf_dtype)t->dtype,
	                        t->ndim);
}

const char *sf_st_refuses_name(const char *name, size_t len)
{
	if (!sf_utf8_valid(name, len))
		return "its name is not UTF-8";
	return len == strlen("__metadata__") && memcmp(name, "__metadata__", len) == 0
	               ? "its name is the format's own"
	               : NULL;
}

const char *sf_view_safetensors_refuses(const struct sf_catalog *c, uint32_t entry, bool cast)
{
	const char *why = tensor_refused(c, &c->entry[entry], cast);

	return why ? why : sf_st_refuses_name(c->entry[entry].name, c->entry[entry].len);
}

const char *sf_st_name(const struct sf_catalog *c, const struct sf_selection *sel, uint32_t pos,
                       size_t *ret_len)
{
	if (!sel->names)
		return sf_entry_stripped(&c->entry[sel->entry[pos]], sel->strip, ret_len);
	*ret_len = sel->name_lens[pos];
	return sel->names[pos];
}

/*
 * A key whose name does not begin with its group keeps it whole in the group's file, where another
 * one may have that name once the group is taken off. The other one has it.
 */
static bool name_taken(const struct sf_catalog *c, const struct sf_selection *sel,
                       const struct sf_entry *e)
{
	struct sf_buf b = { 0 };
	uint32_t other = SF_NONE;
	size_t len;

	if (sel->names || !sel->strip || e->npath < sel->strip ||
	    sf_entry_stripped(e, sel->strip, &len) != e->name)
		return false;
	const struct sf_path_elem *group = c->ckpt->key[e->key].path;
	for (unsigned d = 0; d < sel->strip; d++) { /* of the stored path: @e may have left it */
		sf_buf_add(&b, group[d].s, group[d].len);
		sf_buf_byte(&b, '.');
	}
	sf_buf_add(&b, e->name, e->len);
	if (sf_buf_check(&b) == 0)
		other = sf_catalog_find(c, (const char *)b.at, b.len);
	sf_buf_release(&b);
	return other != SF_NONE && c->entry[other].group == e->group &&
	       c->entry[other].npath > sel->strip;
}

const char *sf_st_refuses(const struct sf_catalog *c, const struct sf_selection *sel, uint32_t pos)
{
	const struct sf_entry *e = &c->entry[sel->entry[pos]];
	const char *why = tensor_refused(c, e, sel->cast), *name;
	size_t len;

	if (why)
		return why;
	name = sf_st_name(c, sel, pos, &len);
	why = sf_st_refuses_name(name, len);
	return !why && name_taken(c, sel, e) ? "another key has its name in this file" : why;
}

void sf_st_skip(struct sf_st_skipped *s, const char *name, size_t len, const char *why)
{
	size_t before = s->text.len;

	if (s->more) {
		s->more++;
		return;
	}
	sf_buf_str(&s->text, s->n ? ", {\"key\": " : "[{\"key\": ");
	sf_escape_json(&s->text, name, len);
	sf_buf_str(&s->text, ", \"why\": ");
	sf_escape_json(&s->text, why, strlen(why));
	sf_buf_byte(&s->text, '}');
	if (s->text.len > SF_ST_SKIPPED_MAX - 64) { /* room for the last one, below */
		s->text.len = before;
		s->more++;
	} else {
		s->n++;
	}
}

void sf_st_skip_at(struct sf_st_skipped *s, const struct sf_catalog *c,
                   const struct sf_selection *sel, uint32_t pos, const char *why)
{
	size_t len;
	const char *name = sf_st_name(c, sel, pos, &len);

	sf_st_skip(s, name, len, why);
}

void sf_st_skipped_end(struct sf_st_skipped *s)
{
	if (s->more)
		sf_buf_printf(&s->text, "%s{\"key\": \"\", \"why\": \"%" PRIu32 " more\"}",
		              s->n ? ", " : "[", s->more);
	if (s->n || s->more)
		sf_buf_byte(&s->text, ']');
}
