#include "config.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "view/facts.h"

static void add(uint64_t *sum, uint64_t n)
{
	if (!sf_add(*sum, n, sum))
		*sum = UINT64_MAX;
}

static void count(struct sf_group_facts *g, const struct sf_tensor *t)
{
	g->ntensors++;
	add(&g->bytes, t->bytes);
	add(&g->elements, t->bytes / sf_dtype_info(t->dtype)->bytes);
	add(&g->dtype_bytes[t->dtype], t->bytes);
}

static const struct sf_tensor *tensor_of(const struct sf_catalog *c, uint32_t entry)
{
	return &c->ckpt->tensor[c->entry[entry].tensor];
}

static void keep_largest(struct sf_facts *f, const struct sf_catalog *c, uint32_t entry)
{
	uint32_t i = f->nlargest;

	if (i == SF_FACTS_LARGEST &&
	    tensor_of(c, f->largest[i - 1])->bytes >= tensor_of(c, entry)->bytes)
		return;
	i = SF_MIN(i, SF_FACTS_LARGEST - 1u);
	for (; i > 0 && tensor_of(c, f->largest[i - 1])->bytes < tensor_of(c, entry)->bytes; i--)
		f->largest[i] = f->largest[i - 1];
	f->largest[i] = entry;
	f->nlargest = SF_MIN(f->nlargest + 1, (uint32_t)SF_FACTS_LARGEST);
}

/* Where the first component that is a number begins, SIZE_MAX: none does. *ret_end is its end. */
static size_t first_number(const char *name, size_t len, size_t *ret_end)
{
	for (size_t from = 0, i = 0; i <= len; i++) {
		if (i < len && name[i] != '.')
			continue;
		size_t k = from;
		while (k < i && name[k] >= '0' && name[k] <= '9')
			k++;
		if (k == i && k > from) {
			*ret_end = i;
			return from;
		}
		from = i + 1;
	}
	return SIZE_MAX;
}

static void keep_layers(struct sf_facts *f, struct sf_layers l)
{
	uint32_t i;

	if (l.n < 2)
		return;
	if (f->nlayers == SF_FACTS_LAYERS && f->layers[f->nlayers - 1].n >= l.n)
		return;
	i = SF_MIN(f->nlayers, SF_FACTS_LAYERS - 1u);
	for (; i > 0 && f->layers[i - 1].n < l.n; i--)
		f->layers[i] = f->layers[i - 1];
	f->layers[i] = l;
	f->nlayers = SF_MIN(f->nlayers + 1, (uint32_t)SF_FACTS_LAYERS);
}

static bool counts(const struct sf_catalog *c, uint32_t entry)
{
	const struct sf_entry *e = &c->entry[entry];

	return e->tensor != SF_NONE && (c->model_group < 0 || (int32_t)e->group == c->model_group);
}

/* by_path has all names of a container beside each other, and all of one number. */
static void count_layers(struct sf_facts *f, const struct sf_catalog *c)
{
	struct sf_layers at = { .entry = SF_NONE };
	const char *last = NULL; /* the number counted last */
	size_t last_len = 0;

	for (uint32_t i = 0; i < c->n; i++) {
		const struct sf_entry *e = &c->entry[c->by_path[i]];
		size_t end, from = counts(c, c->by_path[i]) ? first_number(e->name, e->len, &end)
		                                            : SIZE_MAX;
		if (from == SIZE_MAX || from == 0)
			continue;
		if (at.entry == SF_NONE || at.len != from - 1 ||
		    memcmp(c->entry[at.entry].name, e->name, from) != 0) {
			keep_layers(f, at);
			at = (struct sf_layers){ c->by_path[i], (uint32_t)from - 1, 0 };
			last = NULL;
		}
		if (!last || last_len != end - from || memcmp(last, e->name + from, last_len) != 0)
			at.n++;
		last = e->name + from;
		last_len = end - from;
	}
	keep_layers(f, at);
}

int sf_facts_init(struct sf_facts *f, const struct sf_catalog *c)
{
	*f = (struct sf_facts){ .group = calloc((size_t)c->ngroups + 1, sizeof(*f->group)) };
	if (!f->group)
		return -ENOMEM;
	for (uint32_t i = 0; i < c->n; i++) {
		const struct sf_entry *e = &c->entry[i];
		if (e->tensor == SF_NONE) {
			f->group[e->group].nobjects++;
			f->all.nobjects++;
			continue;
		}
		count(&f->group[e->group], tensor_of(c, i));
		count(&f->all, tensor_of(c, i));
		if (counts(c, i))
			keep_largest(f, c, i);
	}
	const struct sf_group_facts *model =
		c->model_group < 0 ? &f->all : &f->group[c->model_group];
	f->parameters = model->elements;
	add(&f->parameters, model->dtype_bytes[SF_F4_E2M1FN_X2]);
	count_layers(f, c);
	return 0;
}

void sf_facts_release(struct sf_facts *f)
{
	free(f->group);
	f->group = NULL;
}

unsigned sf_facts_dtypes(const struct sf_group_facts *g, enum sf_dtype ret[SF_NDTYPES])
{
	unsigned n = 0;

	for (unsigned d = 0; d < SF_NDTYPES; d++) {
		unsigned i = n;
		if (!g->dtype_bytes[d])
			continue;
		for (; i > 0 && g->dtype_bytes[ret[i - 1]] < g->dtype_bytes[d]; i--)
			ret[i] = ret[i - 1];
		ret[i] = (enum sf_dtype)d;
		n++;
	}
	return n;
}
