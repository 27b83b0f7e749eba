/* All ranks plan together: each sends what it has, rank 0 answers who writes what. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/path.h"
#include "save/save_priv.h"

/*
 * A rank's record: u32 magic, u32 options, u64 host, u64 hash of what is given alike, u64 which save's plan
 * it has once more (0: none's), u32 length of the target and its text, u32 number of files beside the
 * shards and of each u32 length and name, then the plan: sf_save_plan_encode's, or _again's.
 * The answer: u64 enum answer, token (32 bytes), u64 number of bytes of bits, for each rank u64 where its bits
 * begin and u64 whether it is the lowest of its host, then the bits; none with AS_BEFORE. Little-endian.
 */
#define MAGIC UINT32_C(0x32736673) /* "sfs2": all ranks run the same protocol */
#define RECORD_HEAD 36
#define ANSWER_HEAD 48
enum answer {
	GO,
	AS_BEFORE, /* each rank has its bits */
	SEND_ALL,  /* not all plans are what they were: all send theirs, once more */
};

struct peer { /* a rank's record, taken apart */
	uint32_t options;
	uint64_t host, alike;
	uint64_t again; /* which save's plan it has once more; 0: it sends one */
	const char *target;
	uint32_t target_len;
	const uint8_t *files, *plan, *end;
	uint32_t nfiles;
};

/* What has to be the same on all ranks, besides the target. */
static uint32_t options_word(const struct shardfuse_save *s)
{
	const char *name = s->format->name;
	uint64_t h = sf_fnv1a(0, name, strlen(name));
	uint64_t v[] = { (uint64_t)s->opt.overwrite, (uint64_t)s->opt.dedup, s->opt.files_per_rank,
		         (uint64_t)s->opt.zstd,      s->opt.manifest != 0,   s->comm.size };

	for (size_t i = 0; i < SF_ARRAY_LEN(v); i++) {
		uint8_t b[8];
		sf_put_le64(b, v[i]);
		h = sf_fnv1a(h, b, sizeof(b));
	}
	return (uint32_t)(h ^ h >> 32);
}

static void put32(struct sf_buf *b, uint32_t v)
{
	uint8_t at[4];

	sf_put_le32(at, v);
	sf_buf_add(b, at, sizeof(at));
}

static void put64(struct sf_buf *b, uint64_t v)
{
	uint8_t at[8];

	sf_put_le64(at, v);
	sf_buf_add(b, at, sizeof(at));
}

/* @again: that the plan is what it was may be said. */
static int put_record(struct shardfuse_save *s, bool again, struct sf_buf *b, struct sf_error *err)
{
	const struct sf_save_before *before = &s->keep->before;
	struct sf_buf plan = { 0 };
	int r = sf_save_plan_encode(&s->items, &plan, &s->mine.hash, err);

	again = again && s->holds_keep && before->valid && before->hash == s->mine.hash &&
	        before->options == options_word(s) && before->nitems == s->items.item.n;

	put32(b, MAGIC);
	put32(b, options_word(s));
	put64(b, sf_save_target_host());
	put64(b, s->alike);
	put64(b, again ? before->id : 0);
	put32(b, (uint32_t)strlen(s->target));
	sf_buf_str(b, s->target);
	put32(b, (uint32_t)s->items.file.n);
	for (size_t i = 0; i < s->items.file.n; i++) {
		put32(b, (uint32_t)strlen(s->items.file.at[i].name));
		sf_buf_str(b, s->items.file.at[i].name);
	}
	if (r >= 0 && again)
		r = sf_save_plan_encode_again(&s->items, b, err);
	else if (r >= 0)
		sf_buf_add(b, plan.at, plan.len);
	if (r >= 0 && (r = sf_buf_check(b)) < 0)
		sf_fail(err, r, "no memory for the plan");
	sf_buf_release(&plan);
	return r;
}

/* @len bytes of the record, or NULL where it ends before. */
static const uint8_t *take(const uint8_t **at, const uint8_t *end, size_t len)
{
	const uint8_t *p = *at;

	if ((size_t)(end - p) < len)
		return NULL;
	*at += len;
	return p;
}

static int take_apart(const void *record, size_t len, struct peer *p)
{
	const uint8_t *at = record, *v;

	p->end = at + len;
	v = take(&at, p->end, RECORD_HEAD);
	if (!v || sf_le32(v) != MAGIC)
		return -EBADMSG;
	p->options = sf_le32(v + 4);
	p->host = sf_le64(v + 8);
	p->alike = sf_le64(v + 16);
	p->again = sf_le64(v + 24);
	p->target_len = sf_le32(v + 32);
	p->target = (const char *)take(&at, p->end, p->target_len);
	v = p->target ? take(&at, p->end, 4) : NULL;
	if (!v)
		return -EBADMSG;
	p->nfiles = sf_le32(v);
	p->files = at;
	for (uint32_t i = 0; i < p->nfiles; i++) {
		v = take(&at, p->end, 4);
		if (!v || !take(&at, p->end, sf_le32(v)))
			return -EBADMSG;
	}
	p->plan = at;
	return 0;
}

static int other_target(const struct peer *p, uint32_t rank, const struct peer *first,
                        struct sf_error *err)
{
	struct sf_buf a = { .limit = 300 }, b = { .limit = 300 };
	int r;

	sf_escape_text(&a, p->target, SF_MIN(p->target_len, 250u));
	sf_escape_text(&b, first->target, SF_MIN(first->target_len, 250u));
	r = sf_fail(err, -EINVAL, "rank %u saves to '%s', rank 0 to '%s'", rank, sf_buf_cstr(&a),
	            sf_buf_cstr(&b));
	sf_buf_release(&a);
	sf_buf_release(&b);
	return r;
}

/* Names of files beside the shards, of all ranks: each once. */
struct names {
	struct sf_map map;
	struct name {
		const char *at;
		uint32_t len, rank;
	} * name;
	uint32_t n;
};

static int same_name(void *arg, uint32_t value, const char *key, size_t len)
{
	const struct names *n = arg;

	return n->name[value].len == len && memcmp(n->name[value].at, key, len) == 0;
}

static int add_names(struct names *n, const struct peer *p, uint32_t rank, struct sf_error *err)
{
	const uint8_t *at = p->files;
	int failed;

	for (uint32_t i = 0; i < p->nfiles; i++) {
		uint32_t len = sf_le32(at), was;
		n->name[n->n] = (struct name){ (const char *)at + 4, len, rank };
		was = sf_map_add(&n->map, (const char *)at + 4, len, n->n, same_name, n, &failed);
		if (failed < 0)
			return sf_fail(err, failed, "no memory for the files' names");
		if (was != SF_MAP_NONE) {
			struct sf_buf b = { .limit = 300 };
			int r;
			sf_escape_text(&b, (const char *)at + 4, SF_MIN(len, 250u));
			r = sf_fail(err, -EINVAL, "file '%s' is given by rank %u and by rank %u",
			            sf_buf_cstr(&b), n->name[was].rank, rank);
			sf_buf_release(&b);
			return r;
		}
		n->n++;
		at += 4 + len;
	}
	return 0;
}

static int check_names(const struct peer *p, uint32_t n, struct sf_error *err)
{
	struct names names = { 0 };
	size_t all = 0;
	int r = 0;

	for (uint32_t i = 0; i < n; i++)
		all += p[i].nfiles;
	if (!all)
		return 0;
	names.name = sf_alloc_array(all, sizeof(*names.name));
	if (!names.name || sf_map_reserve(&names.map, all) < 0)
		r = sf_fail(err, -ENOMEM, "no memory for %zu files' names", all);
	for (uint32_t i = 0; i < n && r >= 0; i++)
		r = add_names(&names, &p[i], i, err);
	free(names.name);
	sf_map_release(&names.map);
	return r;
}

static int check_peers(const struct peer *p, uint32_t n, struct sf_error *err)
{
	for (uint32_t i = 1; i < n; i++) {
		if (p[i].target_len != p[0].target_len ||
		    memcmp(p[i].target, p[0].target, p[0].target_len) != 0)
			return other_target(&p[i], i, &p[0], err);
		if (p[i].options != p[0].options)
			return sf_fail(err, -EINVAL,
			               "rank %u saves with other options than rank 0 (format, "
			               "overwrite, dedup, "
			               "files_per_rank, zstd, manifest, no_fsync, world size)",
			               i);
		if (p[i].alike != p[0].alike)
			return sf_fail(err, -EINVAL,
			               "rank %u's common state is not rank 0's (or only one of "
			               "them has any)",
			               i);
	}
	return check_names(p, n, err);
}

/* Which rank is the first of its host: by a map of hosts. */
struct hosts {
	struct sf_map map;
	const struct peer *p;
};

static int same_host(void *arg, uint32_t value, const char *key, size_t len)
{
	const struct hosts *h = arg;

	(void)len;
	return memcmp(&h->p[value].host, key, sizeof(h->p->host)) == 0;
}

struct plan_arg {
	struct shardfuse_save *s;
	bool claim;
};

/* Rank r's bits begin at bits_at[r]; @g NULL: nobody needs any. */
static int put_answer(enum answer answer, const char *token, const struct sf_global_plan *g,
                      const struct peer *p, uint32_t n, struct sf_buf *b, struct sf_error *err)
{
	struct hosts h = { .p = p };
	int failed = 0;

	if (sf_map_reserve(&h.map, n) < 0)
		return sf_fail(err, -ENOMEM, "no memory for %u ranks' hosts", n);
	put64(b, answer);
	sf_buf_add(b, token, 32);
	put64(b, g ? g->nbits_bytes : 0);
	for (uint32_t i = 0; i < n && failed >= 0; i++) {
		put64(b, g ? g->bits_at[i] : 0);
		put64(b, sf_map_add(&h.map, (const char *)&p[i].host, sizeof(p[i].host), i,
		                    same_host, &h, &failed) == SF_MAP_NONE);
	}
	sf_map_release(&h.map);
	if (g)
		sf_buf_add(b, g->bits, g->nbits_bytes);
	return 0;
}

static int make_plan(struct shardfuse_save *s, const struct sf_save_record *rec, uint32_t n,
                     struct sf_error *err)
{
	int r = sf_save_plan_make(rec, n, s->opt.dedup, &s->global, err);

	if (r >= 0)
		r = sf_global_plan_layout(&s->global, s->opt.files_per_rank, err);
	return r;
}

/* The plan of the save before, with what its objects are now. */
static int plan_again(struct shardfuse_save *s, const struct sf_save_record *rec, uint32_t n,
                      struct sf_error *err)
{
	bool moved;
	int r;

	s->global = s->keep->before.global;
	s->keep->before.global = (struct sf_global_plan){ .nranks = 0 };
	r = sf_save_plan_again(&s->global, rec, n, &moved, err);
	return r >= 0 && moved ? sf_global_plan_layout(&s->global, s->opt.files_per_rank, err) : r;
}

static int plan(struct shardfuse_save *s, const struct peer *p, uint32_t n, enum answer *ret,
                struct sf_error *err)
{
	struct sf_save_record *rec = sf_alloc_array(n, sizeof(*rec));
	bool same = s->keep->before.global.nkeys != 0;
	uint32_t nagain = 0;
	int r;

	if (!rec)
		return sf_fail(err, -ENOMEM, "no memory for %u ranks' plans", n);
	for (uint32_t i = 0; i < n; i++) {
		rec[i] = (struct sf_save_record){ p[i].plan, (size_t)(p[i].end - p[i].plan) };
		nagain += p[i].again != 0;
		same = same && p[i].again == s->keep->before.id;
	}
	*ret = nagain == 0 ? GO : same ? AS_BEFORE : SEND_ALL;
	r = *ret == GO          ? make_plan(s, rec, n, err)
	    : *ret == AS_BEFORE ? plan_again(s, rec, n, err)
	                        : 0;
	free(rec);
	if (r >= 0 && *ret != SEND_ALL && s->format->check)
		r = s->format->check(s, &s->global, err);
	return r;
}

/* With the names of all ranks' files. */
static int claim(struct shardfuse_save *s, const struct peer *p, uint32_t n, char token[33],
                 struct sf_error *err)
{
	struct sf_target_files files = { .dir = s->format->shards, .last = s->format->last };
	struct sf_buf names = { 0 };
	int r;

	for (uint32_t i = 0; i < n; i++) {
		const uint8_t *at = p[i].files;
		for (uint32_t k = 0; k < p[i].nfiles; k++) {
			uint32_t len = sf_le32(at);
			sf_buf_add(&names, at + 4, len);
			sf_buf_byte(&names, 0);
			at += 4 + len;
		}
	}
	files.name = (const char *)names.at;
	files.names_len = sf_buf_bytes(&names);
	r = sf_buf_check(&names) < 0
	            ? sf_fail(err, -ENOMEM, "no memory for the files' names")
	            : sf_save_target_claim(s->at, &files, s->opt.overwrite == SHARDFUSE_REPLACE,
	                                   token, err);
	sf_buf_release(&names);
	return r;
}

static int answer_plan(void *arg, const void *const *record, const size_t *len, uint32_t n,
                       struct sf_buf *answer, struct sf_error *err)
{
	struct plan_arg *a = arg;
	struct shardfuse_save *s = a->s;
	struct peer *p = sf_alloc_array(n, sizeof(*p));
	char token[33] = "";
	enum answer what = GO;
	int r = p ? 0 : sf_fail(err, -ENOMEM, "no memory for %u ranks", n);

	for (uint32_t i = 0; i < n && r >= 0; i++) {
		r = take_apart(record[i], len[i], &p[i]);
		if (r < 0)
			sf_fail(err, r,
			        "rank %u: what it sent (%zu bytes) is no plan of this version", i,
			        len[i]);
	}
	if (r >= 0)
		r = check_peers(p, n, err);
	if (r >= 0)
		r = plan(s, p, n, &what, err);
	if (r >= 0 && a->claim && what != SEND_ALL)
		r = claim(s, p, n, token, err);
	if (r >= 0)
		r = put_answer(what, token, what == GO ? &s->global : NULL, p, n, answer, err);
	free(p);
	return r;
}

/* This rank's bits of the answer, or of the save before; NULL: it is malformed. */
static const uint8_t *my_bits(struct shardfuse_save *s, const struct sf_buf *answer)
{
	uint64_t head = ANSWER_HEAD + 16 * (uint64_t)s->comm.size, nbits, at;
	const uint8_t *p = answer->at, *mine = p + ANSWER_HEAD + 16 * (size_t)s->comm.rank;

	if (answer->len < head)
		return NULL;
	memcpy(s->mine.token, p + 8, 32);
	s->mine.lowest_of_host = sf_le64(mine + 8) != 0;
	if (sf_le64(p) == AS_BEFORE)
		return s->keep->before.bits;
	nbits = sf_le64(p + 40);
	at = sf_le64(mine);
	if (nbits != answer->len - head || at > nbits || nbits - at < (s->items.item.n + 7) / 8)
		return NULL;
	return p + head + at;
}

/* For the next save of the same items. Without memory there is none. */
static void remember(struct shardfuse_save *s, const uint8_t *bits)
{
	struct sf_save_before *before = &s->keep->before;
	size_t len = (s->items.item.n + 7) / 8;

	if (bits != before->bits) {
		uint8_t *copy = malloc(len ? len : 1);
		before->valid = false;
		if (!copy)
			return;
		memcpy(copy, bits, len);
		free(before->bits);
		before->bits = copy;
		before->id = sf_fnv1a(SF_FNV1A, s->mine.token, 32) | 1;
	}
	before->hash = s->mine.hash;
	before->nitems = s->items.item.n;
	before->options = options_word(s);
	before->valid = true;
}

/* Where in which file this rank's items go: the same that rank 0 worked out. */
static int place_items(struct shardfuse_save *s, const uint8_t *bits, struct sf_error *err)
{
	size_t n = s->items.item.n;
	uint64_t *len = sf_alloc_array(n, sizeof(*len)), *off = sf_alloc_array(n, sizeof(*off));
	uint32_t *file = sf_alloc_array(n, sizeof(*file));
	uint8_t *object = sf_alloc_array(n, 1);
	int r = -ENOMEM;

	s->mine.place = sf_alloc_array(n, sizeof(*s->mine.place));
	if (!len || !off || !file || !object || !s->mine.place) {
		sf_fail(err, r, "no memory for the places of %zu items", n);
		goto out;
	}
	for (size_t i = 0; i < n; i++) {
		len[i] = s->items.item.at[i].stored;
		object[i] = s->items.item.at[i].kind == SF_SAVE_OBJECT;
	}
	r = sf_save_layout(&(struct sf_layout_in){ len, object }, n, bits, s->opt.files_per_rank,
	                   file, off, err);
	for (size_t i = 0; i < n && r >= 0; i++)
		if (bits[i / 8] >> i % 8 & 1) {
			s->mine.place[s->mine.nplaces++] =
				(struct sf_write_place){ i, file[i], off[i] };
			s->mine.bytes += len[i];
		}
out:
	free(len);
	free(off);
	free(file);
	free(object);
	return r;
}

/* One exchange; *ret_all: rank 0 wants all plans in full. */
static int exchange(struct shardfuse_save *s, const struct sf_verdict *mine, bool again,
                    struct plan_arg *arg, bool *ret_all, struct sf_error *err)
{
	struct sf_verdict v = *mine;
	struct sf_buf record = { 0 }, answer = { 0 };
	const uint8_t *bits;
	int r;

	if (v.code >= 0)
		v.code = put_record(s, again, &record, &v.err);
	r = sf_save_tree_step(&s->tree, &v, record.at, sf_buf_bytes(&record), answer_plan, arg,
	                      &answer, err);
	*ret_all = r >= 0 && answer.len >= 8 && sf_le64(answer.at) == SEND_ALL;
	if (r >= 0 &&
	    !*ret_all) { /* a failure from here on is this rank's: it says so in the next step */
		bits = my_bits(s, &answer);
		v.code = bits ? place_items(s, bits, &v.err)
		              : sf_fail(&v.err, -EBADMSG, "rank 0's answer (%zu bytes) is none",
		                        answer.len);
		if (v.code >= 0 && s->holds_keep)
			remember(s, bits);
		s->mine.verdict = v;
	}
	s->mine.exchanged += record.len + answer.len;
	sf_buf_release(&record);
	sf_buf_release(&answer);
	return r;
}

int sf_save_agree(struct shardfuse_save *s, const struct sf_verdict *mine, bool claim,
                  struct sf_error *err)
{
	struct plan_arg arg = { s, claim };
	int64_t began = sf_now_ms();
	bool all;
	int r = exchange(s, mine, true, &arg, &all, err);

	if (r >= 0 && all)
		r = exchange(s, mine, false, &arg, &all, err);
	if (r < 0) {
		if (claim && s->comm.rank == 0)
			sf_save_target_drop(s->at);
		if (s->holds_keep)
			s->keep->before.valid = false;
	}
	sf_save_log(s, "plan", began, s->mine.exchanged, r, err);
	return r;
}

void sf_save_forget_plan(struct shardfuse_save *s)
{
	sf_global_plan_release(&s->global);
	free(s->mine.place);
	s->mine = (struct sf_save_mine){ 0 };
}
