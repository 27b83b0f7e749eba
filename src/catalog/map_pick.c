#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/vec.h"
#include "catalog/map_pick.h"
#include "ckpt/ckpt_pick.h"

/* ---- the rule ---- */

/* "A:B", "A:B of N", "A:B of N in G", and nothing behind. */
static bool take_rows(const char *text, struct sf_map_rule *rule)
{
	int end = -1;

	if (strspn(text, "0123456789: ofin") != strlen(text) || strlen(text) > 90)
		return false;
	rule->of = rule->groups = 0;
	if (sscanf(text, "%19" SCNu64 ":%19" SCNu64 "%n", &rule->from, &rule->to, &end) == 2 &&
	    end > 0 && !text[end])
		return true;
	end = -1;
	rule->groups = 1;
	if (sscanf(text, "%19" SCNu64 ":%19" SCNu64 " of %19" SCNu64 "%n", &rule->from, &rule->to,
	           &rule->of, &end) == 3 &&
	    end > 0 && !text[end])
		return true;
	end = -1;
	return sscanf(text, "%19" SCNu64 ":%19" SCNu64 " of %19" SCNu64 " in %19" SCNu64 "%n",
	              &rule->from, &rule->to, &rule->of, &rule->groups, &end) == 4 &&
	       end > 0 && !text[end];
}

/* The last [...] of @s, which it ends with; NULL: it ends with none. */
static char *last_brackets(char *s)
{
	const size_t len = strlen(s);

	return len && s[len - 1] == ']' ? strrchr(s, '[') : NULL;
}

static int check_rows(const char *old, const struct sf_map_rule *r, struct sf_error *err)
{
	if (r->from >= r->to || (r->groups && r->to > r->of) || !r->groups != !r->of)
		return sf_fail(err, -EINVAL,
		               "'%.200s': parts %" PRIu64 " to %" PRIu64 " of %" PRIu64, old,
		               r->from, r->to, r->groups ? r->of : UINT64_MAX);
	return 0;
}

int sf_map_pick_parse(const char *old, size_t len, struct sf_map_rule *rule, struct sf_error *err)
{
	char *whole = strndup(old, len), *name = strndup(old, len), *at;
	char rows[100] = "";
	int r = whole && name ? 0 : sf_fail(err, -ENOMEM, "'%.200s'", old);

	at = r >= 0 ? last_brackets(whole) : NULL;
	if (at && strcmp(at, "[*]") != 0 && strlen(at) < sizeof(rows)) {
		memcpy(rows, at, strlen(at) + 1);
		rows[strlen(rows) - 1] = '\0';
		rule->has_rows = take_rows(rows + 1, rule);
		if (rule->has_rows) {
			rows[strlen(rows)] = ']';
			r = check_rows(name, rule, err);
			*at = '\0';
		}
	}
	at = r >= 0 ? last_brackets(whole) : NULL;
	rule->stacked = at && strcmp(at, "[*]") == 0;
	if (rule->stacked)
		*at = '\0';
	if (r >= 0 && rule->stacked && strchr(whole, '*'))
		r = sf_fail(err, -EINVAL, "'%.200s': [*] and another '*'", name);
	if (r >= 0 && (rule->stacked || rule->has_rows)) {
		free(name);
		name = NULL;
		if (asprintf(&name, "%s%s%s%s", whole, rule->stacked ? ".*" : "",
		             rule->has_rows ? "." : "", rule->has_rows ? rows : "") < 0) {
			name = NULL;
			r = sf_fail(err, -ENOMEM, "'%.200s'", whole);
		}
		rule->whole = whole;
	} else {
		free(whole);
		whole = NULL;
	}
	rule->old_name = name;
	if (r < 0) {
		free(name);
		free(whole);
		rule->old_name = rule->whole = NULL;
	}
	return r;
}

/* ---- the parts ---- */

SF_VEC(picks, struct sf_pick);

struct picker {
	struct sf_ckpt *ckpt;
	const struct sf_map_rule **rule; /* those with brackets, by whole */
	size_t n;
	const struct sf_map_rule **wild; /* those of them with a '*' in whole */
	size_t nwild;
	struct picks picks;
	struct sf_arena arena; /* names */
	struct sf_buf name;
	struct sf_error *err;
};

static int by_whole(const void *a, const void *b)
{
	const struct sf_map_rule *x = *(const struct sf_map_rule *const *)a,
				 *y = *(const struct sf_map_rule *const *)b;
	int d = strcmp(x->whole, y->whole);

	return d ? d : strcmp(x->old_name, y->old_name);
}

/* Rules with brackets, each OLD once. */
static int gather(struct picker *p, const struct sf_view_options *o)
{
	size_t n = 0;

	p->rule = sf_alloc_array(o->nmap, sizeof(*p->rule));
	p->wild = sf_alloc_array(o->nmap, sizeof(*p->wild));
	if (!p->rule || !p->wild)
		return sf_fail(p->err, -ENOMEM, "%zu rules", o->nmap);
	for (size_t i = 0; i < o->nmap; i++)
		if (o->map[i].whole)
			p->rule[p->n++] = &o->map[i];
	if (p->n)
		qsort(p->rule, p->n, sizeof(*p->rule), by_whole);
	for (size_t i = 0; i < p->n; i++) {
		if (n && by_whole(&p->rule[n - 1], &p->rule[i]) == 0)
			continue;
		p->rule[n++] = p->rule[i];
		if (strchr(p->rule[i]->whole, '*'))
			p->wild[p->nwild++] = p->rule[i];
	}
	p->n = n;
	return 0;
}

/* The first rule whose whole is not before @name. */
static size_t find(const struct picker *p, const char *name)
{
	size_t lo = 0, hi = p->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (strcmp(p->rule[mid]->whole, name) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Is @name @whole, whose '*' stands for one component? */
static bool matches(const char *whole, const char *name, size_t len)
{
	const char *star = strchr(whole, '*');
	const size_t front = (size_t)(star - whole), back = strlen(star + 1);

	return len > front + back && memcmp(whole, name, front) == 0 &&
	       memcmp(star + 1, name + len - back, back) == 0 &&
	       !memchr(name + front, '.', len - front - back);
}

static int push(struct picker *p, uint32_t key, const struct sf_map_rule *rule, uint64_t index,
                struct sf_tensor_pick of)
{
	const struct sf_key *k = &p->ckpt->key[key];
	const char *rows = strrchr(rule->old_name, '[');
	struct sf_pick pick = { .key = key, .of = of };

	sf_buf_reset(&p->name);
	sf_buf_add(&p->name, k->name, k->len);
	if (rule->stacked)
		sf_buf_printf(&p->name, ".%" PRIu64, index);
	if (rule->has_rows)
		sf_buf_printf(&p->name, ".%s", rows);
	pick.of.index = index;
	pick.len = (uint32_t)p->name.len;
	if (sf_buf_check(&p->name) == 0)
		pick.name = sf_arena_strdup(&p->arena, (const char *)p->name.at, p->name.len);
	if (!pick.name || picks_push(&p->picks, pick) < 0)
		return sf_fail(p->err, -ENOMEM, "no memory for %zu parts of tensors", p->picks.n);
	return 0;
}

static int apply(struct picker *p, uint32_t key, const struct sf_map_rule *rule)
{
	const struct sf_key *k = &p->ckpt->key[key];
	const struct sf_tensor *t = k->tensor == SF_NONE ? NULL : &p->ckpt->tensor[k->tensor];
	const unsigned lead = rule->stacked ? 1 : 0;
	struct sf_tensor_pick of = { .stacked = rule->stacked };
	uint64_t n;
	int r = 0;

	if (!t || t->ndim < lead + (rule->has_rows ? 1u : 0u))
		return sf_fail(p->err, -EINVAL, "--map: '%.200s' is %s: it has no parts '%.200s'",
		               k->name, t ? "a tensor of fewer dimensions" : "not a tensor",
		               rule->old_name);
	if (rule->has_rows) {
		const uint64_t rows = t->shape[lead], groups = rule->groups ? rule->groups : 1,
			       parts = rule->of ? rule->of : rows;
		if (!rows || rule->to > parts || rows % groups || rows / groups % parts)
			return sf_fail(p->err, -EINVAL,
			               "--map: '%.200s' has %" PRIu64
			               " rows: there are no parts '%.200s'",
			               k->name, rows, rule->old_name);
		const uint64_t unit = rows / groups / parts;
		of.first = rule->from * unit;
		of.rows = (rule->to - rule->from) * unit;
		of.period = parts * unit;
	}
	n = rule->stacked ? t->shape[0] : 1;
	if (n > SF_MAP_PICKS_MAX - SF_MIN(p->picks.n, (size_t)SF_MAP_PICKS_MAX))
		return sf_fail(p->err, -E2BIG, "--map: more than %u parts of tensors",
		               SF_MAP_PICKS_MAX);
	for (uint64_t i = 0; i < n && r >= 0; i++)
		r = push(p, key, rule, i, of);
	return r;
}

static int apply_all(struct picker *p, uint32_t key)
{
	const struct sf_key *k = &p->ckpt->key[key];
	int r = 0;

	for (size_t i = find(p, k->name);
	     i < p->n && r >= 0 && strcmp(p->rule[i]->whole, k->name) == 0; i++)
		if (k->len == strlen(k->name))
			r = apply(p, key, p->rule[i]);
	for (size_t i = 0; i < p->nwild && r >= 0; i++)
		if (matches(p->wild[i]->whole, k->name, k->len))
			r = apply(p, key, p->wild[i]);
	return r;
}

int sf_map_picks(struct sf_ckpt *ckpt, const struct sf_view_options *o, struct sf_error *err)
{
	struct picker p = { .ckpt = ckpt, .err = err };
	int r = gather(&p, o);

	for (uint32_t i = 0; i < ckpt->nkeys && r >= 0 && p.n; i++)
		r = apply_all(&p, i);
	if (r >= 0)
		r = sf_ckpt_pick(ckpt, p.picks.at, p.picks.n, err);
	free(p.rule);
	free(p.wild);
	picks_release(&p.picks);
	sf_arena_release(&p.arena);
	sf_buf_release(&p.name);
	return r;
}
