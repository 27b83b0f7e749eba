#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "format/megatron/megatron_names.h"

#define NUMBER_DIGITS 7

/* Digits at @at up to a dot or the end. */
static struct megatron_number number_at(const char *name, size_t len, size_t at)
{
	struct megatron_number ret = { .at = at };

	while (at + ret.len < len && name[at + ret.len] >= '0' && name[at + ret.len] <= '9' &&
	       ret.len < NUMBER_DIGITS)
		ret.n = ret.n * 10 + (uint32_t)(name[at + ret.len++] - '0');
	if (at + ret.len < len && name[at + ret.len] != '.')
		ret.len = 0;
	return ret;
}

/* The number that is the component behind @word, itself a component; the first one. */
static struct megatron_number behind(const char *name, size_t len, const char *word)
{
	const size_t n = strlen(word);
	const char *p = name, *end = name + len;
	struct megatron_number none = { .len = 0 };

	while (p < end && (size_t)(end - p) > n) {
		if (memcmp(p, word, n) == 0 && p[n] == '.') {
			struct megatron_number at =
				number_at(name, len, (size_t)(p - name) + n + 1);
			if (at.len)
				return at;
		}
		p = memchr(p, '.', (size_t)(end - p));
		if (!p)
			break;
		p++;
	}
	return none;
}

/* Transformer Engine's grouped experts: "experts.linear_fc1.weight12". */
static struct megatron_number grouped(const char *name, size_t len)
{
	static const char *const words[] = { "experts.linear_fc1.weight",
		                             "experts.linear_fc2.weight", "experts.linear_fc1.bias",
		                             "experts.linear_fc2.bias" };
	struct megatron_number none = { .len = 0 };
	size_t digits = 0;

	while (digits < len && name[len - 1 - digits] >= '0' && name[len - 1 - digits] <= '9')
		digits++;
	for (size_t i = 0; digits && i < SF_ARRAY_LEN(words); i++) {
		const size_t n = strlen(words[i]);
		if (len - digits >= n && memcmp(name + len - digits - n, words[i], n) == 0 &&
		    (len - digits == n || name[len - digits - n - 1] == '.'))
			return number_at(name, len, len - digits);
	}
	return none;
}

struct megatron_name megatron_name_parse(const char *name, size_t len)
{
	struct megatron_name ret = { .layer = behind(name, len, "layers"),
		                     .expert = behind(name, len, "local_experts") };

	if (!ret.expert.len)
		ret.expert = grouped(name, len);
	return ret;
}

static struct megatron_stack *find(const struct megatron_stacks *s, const char *name, size_t len)
{
	for (unsigned i = 0; i < s->n; i++)
		if (s->at[i].len == len && memcmp(s->at[i].name, name, len) == 0)
			return (struct megatron_stack *)&s->at[i];
	return NULL;
}

int megatron_stacks_add(struct megatron_stacks *s, const char *name, size_t len, uint32_t pipe,
                        uint32_t chunk)
{
	const struct megatron_name parts = megatron_name_parse(name, len);
	struct megatron_stack *stack = find(s, name, parts.layer.at);
	uint32_t *count;

	if (parts.expert.len)
		s->experts = SF_MAX(s->experts, parts.expert.n + 1);
	if (!parts.layer.len)
		return 0;
	if (!stack) {
		if (s->n == MEGATRON_STACKS_MAX)
			return -E2BIG;
		stack = &s->at[s->n];
		stack->len = parts.layer.at;
		stack->name = sf_arena_strdup(&s->arena, name, stack->len);
		stack->first = sf_arena_calloc(&s->arena, (size_t)s->npipe * s->nchunk + 1,
		                               sizeof(*stack->first));
		if (!stack->name || !stack->first)
			return -ENOMEM;
		s->n++;
	}
	/* counts, until they are summed up */
	count = &stack->first[(size_t)chunk * s->npipe + pipe];
	*count = SF_MAX(*count, parts.layer.n + 1);
	return 0;
}

void megatron_stacks_end(struct megatron_stacks *s)
{
	for (unsigned i = 0; i < s->n; i++) {
		uint32_t *first = s->at[i].first, sum = 0;
		for (size_t k = 0; k <= (size_t)s->npipe * s->nchunk; k++) {
			const uint32_t count = first[k];
			first[k] = sum;
			sum += count;
		}
	}
}

uint32_t megatron_stacks_layers(const struct megatron_stacks *s, const char *stack)
{
	const struct megatron_stack *at = find(s, stack, strlen(stack));

	return at ? at->first[(size_t)s->npipe * s->nchunk] : 0;
}

/* @name from *at up to the number, and the number it has in the whole. */
static void put_number(struct sf_buf *out, const char *name, size_t *at,
                       const struct megatron_number *number, uint32_t more)
{
	if (!number->len)
		return;
	sf_buf_add(out, name + *at, number->at - *at);
	sf_buf_printf(out, "%" PRIu32, number->n + more);
	*at = number->at + number->len;
}

void megatron_stacks_name(const struct megatron_stacks *s, const char *name, size_t len,
                          uint32_t pipe, uint32_t chunk, uint32_t expert, struct sf_buf *out)
{
	const struct megatron_name parts = megatron_name_parse(name, len);
	const struct megatron_stack *stack = find(s, name, parts.layer.at);
	size_t at = 0;

	sf_buf_reset(out);
	put_number(out, name, &at, &parts.layer,
	           stack && parts.layer.len ? stack->first[(size_t)chunk * s->npipe + pipe] : 0);
	if (parts.expert.at >= at)
		put_number(out, name, &at, &parts.expert, expert * s->experts);
	sf_buf_add(out, name + at, len - at);
	sf_buf_cstr(out);
}

void megatron_stacks_release(struct megatron_stacks *s)
{
	sf_arena_release(&s->arena);
	*s = (struct megatron_stacks){ .n = 0 };
}
