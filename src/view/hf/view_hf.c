#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "view/hf/hf_companions.h"
#include "view/hf/hf_names.h"
#include "view/view_size.h"

#define STEM_MAX 200 /* bytes of hf_name */

/* One file being planned: entries and names at the front of the final arrays once all are known. */
struct plan {
	const struct sf_catalog *c;
	struct sf_hf_name *name;
	uint32_t n;
	uint32_t *file; /* which file an entry goes into */
	uint32_t nfiles;
	uint64_t total;
};

void sf_hf_free(struct sf_hf *hf)
{
	if (!hf)
		return;
	sf_arena_release(&hf->arena);
	free(hf);
}

static uint64_t bytes_of(const struct plan *p, uint32_t i)
{
	const struct sf_entry *e = &p->c->entry[p->name[i].entry];

	return sf_tensor_bytes_as(&p->c->ckpt->tensor[e->tensor], (enum sf_dtype)e->dtype);
}

/*
 * Greedy, in order; a tensor larger than a whole file gets one of its own, and the file begun goes
 * on behind it. Source: huggingface/huggingface_hub serialization/_base.py,
 * split_state_dict_into_shards_factory (0.23 to 1.0). Files are numbered as they are finished
 * there; here as they are begun, which keeps the order of the first keys.
 */
static void plan_files(struct plan *p)
{
	uint64_t max = p->c->opt->max_shard_size, room = 0;
	uint32_t current = UINT32_MAX;

	for (uint32_t i = 0; i < p->n; i++) {
		uint64_t bytes = bytes_of(p, i);
		p->total += bytes;
		if (max && bytes > max) {
			p->file[i] = p->nfiles++;
			continue;
		}
		if (current == UINT32_MAX || (max && bytes > room)) {
			current = p->nfiles++;
			room = max;
		}
		p->file[i] = current;
		room -= SF_MIN(room, bytes);
	}
}

static int make_files(struct plan *p, struct sf_hf *hf)
{
	uint32_t *entry = sf_arena_calloc(&hf->arena, (size_t)p->n + 1, sizeof(*entry));
	uint32_t *len = sf_arena_calloc(&hf->arena, (size_t)p->n + 1, sizeof(*len));
	const char **name = sf_arena_calloc(&hf->arena, (size_t)p->n + 1, sizeof(*name));
	struct sf_hf_file *file = sf_arena_calloc(&hf->arena, (size_t)p->nfiles + 1, sizeof(*file));
	const char *stem = p->c->opt->hf_name ? p->c->opt->hf_name : "model";
	char text[512];
	uint32_t at = 0;

	if (!entry || !len || !name || !file)
		return -ENOMEM;
	for (uint32_t i = 0; i < p->n; i++)
		file[p->file[i]].sel.n++;
	for (uint32_t f = 0; f < p->nfiles; f++) {
		file[f].sel = (struct sf_selection){ .entry = entry + at,
			                             .names = name + at,
			                             .name_lens = len + at,
			                             .n = file[f].sel.n,
			                             .cast = true };
		at += file[f].sel.n;
		if (p->nfiles == 1)
			snprintf(text, sizeof(text), "%.200s.safetensors", stem);
		else
			snprintf(text, sizeof(text),
			         "%.200s-%05" PRIu32 "-of-%05" PRIu32 ".safetensors", stem, f + 1,
			         p->nfiles);
		file[f].name = sf_arena_strdup(&hf->arena, text, strlen(text));
		if (!file[f].name)
			return -ENOMEM;
		file[f].sel.n = 0; /* filled again below */
	}
	for (uint32_t i = 0; i < p->n; i++) {
		struct sf_selection *sel = &file[p->file[i]].sel;
		uint32_t to = (uint32_t)(sel->entry - entry) + sel->n++;
		entry[to] = p->name[i].entry;
		name[to] = p->name[i].s;
		len[to] = p->name[i].len;
	}
	snprintf(text, sizeof(text), "%.200s.safetensors.index.json", stem);
	hf->index_name = sf_arena_strdup(&hf->arena, text, strlen(text));
	hf->file = file;
	hf->nfiles = p->nfiles;
	hf->total_size = p->total;
	return hf->index_name ? 0 : -ENOMEM;
}

/* A string as Python's json.dumps spells it by default: everything past ASCII as \u, in pairs where
 * it must. */
static void put_ascii(struct sf_buf *out, const char *s, size_t len)
{
	uint32_t ch;

	sf_buf_byte(out, '"');
	for (size_t n; len; s += n, len -= n) {
		n = sf_utf8_unit(s, len, &ch);
		if (ch == '"' || ch == '\\') {
			sf_buf_printf(out, "\\%c", (char)ch);
		} else if (ch >= 0x20 && ch < 0x7f) {
			sf_buf_byte(out, (uint8_t)ch);
		} else if (ch == 0x7f) {
			sf_buf_byte(out, 0x7f);
		} else if (ch == '\n' || ch == '\r' || ch == '\t' || ch == '\b' || ch == '\f') {
			sf_buf_printf(out, "\\%c",
			              ch == '\n'   ? 'n'
			              : ch == '\r' ? 'r'
			              : ch == '\t' ? 't'
			              : ch == '\b' ? 'b'
			                           : 'f');
		} else if (ch >= 0x10000) {
			sf_buf_printf(out, "\\u%04x\\u%04x", 0xd7c0 + (ch >> 10),
			              0xdc00 + (ch & 0x3ff));
		} else {
			sf_buf_printf(out, "\\u%04x", ch);
		}
	}
	sf_buf_byte(out, '"');
}

static int compare_names(const void *a, const void *b, void *arg)
{
	const struct sf_hf_name *name = arg, *x = &name[*(const uint32_t *)a],
				*y = &name[*(const uint32_t *)b];
	size_t n = SF_MIN(x->len, y->len);
	int d = n ? memcmp(x->s, y->s, n) : 0;

	return d ? d : (x->len > y->len) - (x->len < y->len);
}

/* json.dumps(index, indent=2, sort_keys=True) + "\n", as transformers' save_pretrained writes it. */
static int make_index(const struct plan *p, struct sf_hf *hf)
{
	SF_FREE uint32_t *order = sf_alloc_array(p->n, sizeof(*order));
	struct sf_buf text = { 0 };
	int r;

	if (!order)
		return -ENOMEM;
	for (uint32_t i = 0; i < p->n; i++)
		order[i] = i;
	qsort_r(order, p->n, sizeof(*order), compare_names, p->name);
	sf_buf_printf(&text,
	              "{\n  \"metadata\": {\n    \"total_size\": %" PRIu64
	              "\n  },\n  \"weight_map\": {",
	              p->total);
	for (uint32_t i = 0; i < p->n; i++) {
		sf_buf_str(&text, i ? ",\n    " : "\n    ");
		const struct sf_hf_name *name = &p->name[order[i]];
		const char *file = hf->file[p->file[order[i]]].name;
		put_ascii(&text, name->s, name->len);
		sf_buf_str(&text, ": ");
		put_ascii(&text, file, strlen(file));
	}
	sf_buf_str(&text, "\n  }\n}\n");
	r = sf_buf_check(&text);
	if (r >= 0) {
		hf->index_json = sf_arena_strdup(&hf->arena, (const char *)text.at, text.len);
		hf->index_len = text.len;
		r = hf->index_json ? 0 : -ENOMEM;
	}
	sf_buf_release(&text);
	return r;
}

static int find_group(const struct sf_catalog *c, uint32_t *ret, struct sf_error *err)
{
	const char *want = c->opt->hf_group;

	if (!want && c->model_group >= 0) {
		*ret = (uint32_t)c->model_group;
		return 0;
	}
	for (uint32_t g = 0; want && g < c->ngroups; g++) {
		const struct sf_group *of = c->group[g].of;
		if (of->len == strlen(want) && memcmp(of->name, want, of->len) == 0) {
			*ret = g;
			return 0;
		}
	}
	if (want)
		return sf_fail(err, -ENOENT, "hf_group: there is no group '%s'", want);
	return sf_fail(err, -ENOENT,
	               "hf/: no group has the role of the model (hf_group=NAME picks one)");
}

static int make(struct plan *p, struct sf_hf *hf)
{
	SF_FREE uint32_t *file = sf_alloc_array(p->n, sizeof(*file));
	int r;

	if (!file)
		return -ENOMEM;
	p->file = file;
	plan_files(p);
	r = make_files(p, hf);
	if (r >= 0 && hf->nfiles > 1)
		r = make_index(p, hf);
	p->file = NULL;
	return r;
}

/* A companion must not stand where one of ours does. */
static void drop_clashes(struct sf_hf *hf)
{
	struct sf_objinfo *at = (struct sf_objinfo *)(uintptr_t)hf->companion;
	uint32_t n = 0;

	for (uint32_t i = 0; i < hf->ncompanions; i++) {
		bool ours = strcmp(at[i].name, hf->index_name) == 0;
		for (uint32_t f = 0; f < hf->nfiles && !ours; f++)
			ours = strcmp(at[i].name, hf->file[f].name) == 0;
		if (!ours)
			at[n++] = at[i];
	}
	hf->ncompanions = n;
}

int sf_hf_new(const struct sf_catalog *c, struct sf_hf **ret, struct sf_error *err)
{
	struct plan p = { .c = c };
	struct sf_hf *hf;
	uint32_t group = 0;
	int r = find_group(c, &group, err);

	if (r < 0)
		return r;
	if (c->opt->hf_name && (strchr(c->opt->hf_name, '/') || strlen(c->opt->hf_name) > STEM_MAX))
		return sf_fail(err, -EINVAL,
		               "hf_name '%.200s': a file name without '/', at most %d bytes",
		               c->opt->hf_name, STEM_MAX);
	hf = calloc(1, sizeof(*hf));
	if (!hf)
		return sf_fail(err, -ENOMEM, "hf/");
	hf->catalog = c;
	r = sf_hf_choose(c, group, &hf->arena, &p.name, &p.n, err);
	if (r >= 0 && p.n == 0)
		r = sf_fail(err, -ENOENT, "hf/: the group has no tensor that safetensors can hold");
	if (r >= 0) {
		r = make(&p, hf);
		if (r < 0)
			sf_fail(err, r, "no memory for hf/ of %" PRIu32 " tensors", p.n);
	}
	if (r >= 0 && c->opt->hf_store)
		r = sf_hf_list_companions(c->opt->hf_store, &hf->arena, &hf->companion,
		                          &hf->ncompanions, err);
	else if (r >= 0 && c->opt->hf_why)
		r = sf_fail(err, -ENOENT, "hf_files %s", c->opt->hf_why);
	if (r < 0) {
		sf_hf_free(hf);
		return r;
	}
	if (hf->ncompanions)
		drop_clashes(hf);
	*ret = hf;
	return 0;
}
