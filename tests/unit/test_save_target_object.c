/* Saves into a bucket: what is there after failures and deaths at any call, and who wins of several. */
#include "config.h"

#include <pthread.h>
#include <string.h>

#include "base/mem.h"
#include "save/save_target_object_priv.h"
#include "tests/lib/put_mem.h"
#include "tests/lib/sf_test.h"

static struct sf_io io;
static struct sf_put_mem bucket;
static struct sf_error err;

static void begin_world(void)
{
	ck_assert_int_eq(sf_io_init(&io, 4, &err), 0);
	memset(&bucket, 0, sizeof(bucket));
	sf_put_mem_init(&bucket);
}

static void end_world(void)
{
	sf_put_mem_release(&bucket);
	sf_io_release(&io);
}

/* What a process has: ranks 0 and 1. */
struct process {
	struct sf_store *store;
	struct sf_uploads up;
	struct sf_save_target *rank[2];
	char token[33];
};

static void begin_process(struct process *p)
{
	struct sf_error e = SF_ERROR_INIT;

	memset(p, 0, sizeof(*p));
	p->store = sf_put_mem_store(&bucket, &io, "run/step1/");
	p->up = (struct sf_uploads){ .store = p->store,
		                     .throttle = 2,
		                     .part_bytes = bucket.part_max };
	ck_assert_int_eq(sf_uploads_init(&p->up, &e), 0);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(sf_save_target_object_in(&p->up, &p->rank[i], &e), 0);
}

static void end_process(struct process *p)
{
	for (int i = 0; i < 2; i++)
		sf_save_target_free(p->rank[i]);
	sf_uploads_release(&p->up);
	sf_store_free(p->store);
}

static int claim(struct process *p, const struct sf_target_files *files, struct sf_error *e)
{
	int r = sf_save_target_claim(p->rank[0], files, false, p->token, e);

	return r < 0 ? r : sf_save_target_join(p->rank[1], p->token, false, false, 0, e);
}

/* @text at [half, end) first, then the rest: as a head that waits for its CRC. */
static int write_file(struct sf_save_target *t, const char *name, const char *text, size_t size,
                      enum sf_target_name when, struct sf_error *e)
{
	struct sf_target_file *f;
	size_t len = strlen(text), half = len / 2;
	int r = sf_save_target_open(t, name, size, when, &f, e);

	if (r < 0)
		return r;
	r = sf_target_file_write(f, half, text + half, len - half, e);
	if (r >= 0)
		r = sf_target_file_write(f, 0, text, half, e);
	if (r < 0) {
		sf_target_file_drop(f);
		return r;
	}
	return sf_target_file_close(f, true, e);
}

static void shard_name(char name[128], const char *dir, uint32_t rank, const char *tag)
{
	char shard[SF_SHARD_NAME_MAX];

	sf_shard_name(shard, rank, 0, tag);
	snprintf(name, 128, "%s%s", dir, shard);
}

/* A format: what a save of it writes. */
struct form {
	struct sf_target_files files;
	bool named; /* files without a tag */
};
static const char given[] = "train/rank0.pt\0train/rank1.pt";
static const struct form forms[] = {
	{ { "", ".metadata", NULL, 0 }, false },
	{ { "", "metadata.json", NULL, 0 }, true }, /* common.pt */
	{ { "model_and_optim/", ".metadata.json", given, sizeof(given) }, true },
};

static int write_shards(struct process *p, const struct form *f, const char *what,
                        struct sf_error *e)
{
	char name[128], text[128];
	int r = 0;

	for (uint32_t i = 0; i < 2 && r >= 0; i++) {
		shard_name(name, f->files.dir, i, p->rank[i]->tag);
		snprintf(text, sizeof(text), "%s of rank %u in %s", what, i, p->rank[i]->tag);
		r = write_file(p->rank[i], name, text, strlen(text), SF_TARGET_AT_ONCE, e);
		snprintf(name, sizeof(name), "train/rank%u.pt", i);
		if (r >= 0 && f->files.names_len)
			r = sf_save_target_put(p->rank[i], name, what, strlen(what), true, e);
	}
	return r;
}

/* .metadata is the tag of its shards. */
static int write_rest(struct process *p, const struct form *f, const char *what, struct sf_error *e)
{
	const bool two = strcmp(f->files.last, ".metadata") != 0;
	char name[128];
	int r = 0;

	if (two && !f->files.names_len)
		r = sf_save_target_put(p->rank[0], "common.pt", what, strlen(what), true, e);
	snprintf(name, sizeof(name), "%s.metadata", f->files.dir);
	if (r >= 0)
		r = write_file(p->rank[0], name, p->rank[0]->tag, 0, SF_TARGET_CLOSED, e);
	if (r >= 0 && two)
		r = sf_save_target_put(p->rank[0], f->files.last, "{}", 2, true, e);
	return r < 0 ? r : sf_save_target_publish(p->rank[0], true, e);
}

static void end_save(struct process *p, int r)
{
	for (int i = 1; i >= 0; i--)
		if (r < 0)
			sf_save_target_drop(p->rank[i]);
		else
			sf_save_target_settle(p->rank[i]);
}

static int save(const struct form *f, const char *what, char ret_tag[SF_SHARD_TAG_MAX],
                struct sf_error *e)
{
	struct process p;
	int r;

	begin_process(&p);
	r = claim(&p, &f->files, e);
	if (r >= 0)
		r = write_shards(&p, f, what, e);
	if (r >= 0)
		r = write_rest(&p, f, what, e);
	end_save(&p, r);
	if (ret_tag)
		memcpy(ret_tag, p.rank[0]->tag, SF_SHARD_TAG_MAX);
	end_process(&p);
	return r;
}

static bool has(const char *name)
{
	char whole[256];

	snprintf(whole, sizeof(whole), "run/step1/%s", name);
	return sf_put_mem_has(&bucket, whole);
}

static bool text_is(const char *name, const char *want)
{
	char whole[256];
	size_t len = 0;

	snprintf(whole, sizeof(whole), "run/step1/%s", name);
	const void *at = sf_put_mem_at(&bucket, whole, &len);
	return at && len == strlen(want) && memcmp(at, want, len) == 0;
}

/* What says that a checkpoint is there tells the truth: 1 it is there, and whole; 0 it is not. *ret_what. */
static int look(const struct form *f, const char *const *whats, size_t n)
{
	char name[128], tag[SF_SHARD_TAG_MAX] = "", want[128];
	size_t len = 0, k = n;

	snprintf(name, sizeof(name), "run/step1/%s.metadata", f->files.dir);
	const void *meta = sf_put_mem_at(&bucket, name, &len);
	if (has(f->files.last))
		ck_assert_msg(meta, "%s without .metadata", f->files.last);
	if (!meta)
		return 0;
	ck_assert_uint_eq(len, SF_SHARD_TAG_MAX - 1);
	memcpy(tag, meta, len);
	for (uint32_t i = 0; i < 2; i++) {
		shard_name(name, f->files.dir, i, tag);
		for (size_t w = 0; w < n; w++) {
			snprintf(want, sizeof(want), "%s of rank %u in %s", whats[w], i, tag);
			if (text_is(name, want)) {
				ck_assert(k == n || k == w);
				k = w;
			}
		}
		ck_assert_msg(k < n, "'%s' is not whole", name);
		snprintf(name, sizeof(name), "train/rank%u.pt", i);
		if (f->files.names_len)
			ck_assert_msg(text_is(name, whats[k]), "'%s' is of another save", name);
	}
	return has(f->files.last);
}

/* Nothing else is there. */
static void check_clean(const struct form *f)
{
	const bool two = strcmp(f->files.last, ".metadata") != 0;

	ck_assert(has(f->files.last));
	ck_assert(!has(SF_OBJECT_MARKER));
	ck_assert_uint_eq(sf_put_mem_count(&bucket), 3u + two + (f->files.names_len ? 2 : two));
	ck_assert_uint_eq(sf_put_mem_unfinished(&bucket), 0);
}

START_TEST(a_save_is_there_and_nothing_else)
{
	const struct form *f = &forms[_i];
	static const char *const whats[] = { "new" };
	char tag[SF_SHARD_TAG_MAX], name[128];

	begin_world();
	ck_assert_msg(save(f, "new", tag, &err) == 0, "%s", err.msg);
	ck_assert_int_eq(look(f, whats, 1), 1);
	check_clean(f);
	shard_name(name, f->files.dir, 1, tag);
	ck_assert(has(name));
	ck_assert_int_eq(save(f, "newer", NULL, &err), -EEXIST);
	ck_assert_msg(strstr(err.msg, "mem://run/step1/"), "%s", err.msg);
	ck_assert_int_eq(look(f, whats, 1), 1);
	check_clean(f);
	end_world();
}
END_TEST

START_TEST(what_no_save_left_is_left_alone)
{
	static const char *const names[] = { "config.json",
		                             "step2/.metadata",
		                             "__0_0.distcp",
		                             "x/__0_0-01234567.distcp",
		                             ".metadata",
		                             "metadata.json",
		                             "__0_0-0123456.distcp",
		                             "__0_0-01234567.distcp",
		                             "common.pt",
		                             ".metadata.part-mine",
		                             "model_and_optim/" SF_OBJECT_MARKER };
	char whole[128];

	for (size_t i = 0; i < SF_ARRAY_LEN(names); i++) {
		begin_world();
		snprintf(whole, sizeof(whole), "run/step1/%s", names[i]);
		sf_put_mem_set(&bucket, whole, "theirs", 6);
		sf_put_mem_set(&bucket, "run/step10/.metadata", "beside it", 9);
		ck_assert_int_eq(save(&forms[0], "new", NULL, &err), -EEXIST);
		ck_assert_msg(strstr(err.msg, names[i]), "%s", err.msg);
		ck_assert_uint_eq(sf_put_mem_count(&bucket), 2);
		ck_assert(text_is(names[i], "theirs"));
		ck_assert(sf_put_mem_remove(&bucket, whole));
		ck_assert_int_eq(save(&forms[0], "new", NULL, &err), 0);
		end_world();
	}
}
END_TEST

START_TEST(a_marker_of_others_is_no_marker)
{
	static const char *const texts[] = {
		"",
		"shardfuse save 2\n",
		"shardfuse save to a bucket 2\n",
		"shardfuse save to a bucket 1\n0123456789abcdef0123456789abcdeg\n\n.metadata\n",
		"shardfuse save to a bucket 1\n0123456789abcdef0123456789abcdef\n\n.metadata",
		"shardfuse save to a bucket 1\n0123456789abcdef0123456789abcdef\n\n.metadata\nx"
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(texts); i++) {
		begin_world();
		sf_put_mem_set(&bucket, "run/step1/.shardfuse-save", texts[i], strlen(texts[i]));
		ck_assert_int_eq(save(&forms[0], "new", NULL, &err), -EEXIST);
		ck_assert_msg(strstr(err.msg, ".shardfuse-save"), "%s", err.msg);
		ck_assert_uint_eq(sf_put_mem_count(&bucket), 1);
		end_world();
	}
}
END_TEST

/* ---- failing, or dying, at any call ---- */

/* The next save there: it succeeds and cleans up, unless a checkpoint is there. */
static void save_again(const struct form *f, int there)
{
	static const char *const whats[] = { "new", "again" };
	int r = save(f, "again", NULL, &err);

	if (there == 1) {
		ck_assert_int_eq(r, -EEXIST);
		ck_assert_int_eq(look(f, whats, 1), 1);
		return;
	}
	ck_assert_msg(r == 0, "%s", err.msg);
	ck_assert_int_eq(look(f, whats + 1, 1), 1);
	check_clean(f);
}

/* Parts of four bytes: all that uploads ask for is asked for. */
static void small_parts(void)
{
	bucket.part_max = 4;
	bucket.part_min = 4;
}

START_TEST(a_call_that_fails_fails_the_save_and_leaves_nothing)
{
	const struct form *f = &forms[_i % 3];
	const bool late = _i / 3 % 2, once = _i / 6;
	static const char *const whats[] = { "new" };
	unsigned n = 0, failures = 0;
	int r = -1;

	for (; r < 0; n++) {
		begin_world();
		small_parts();
		bucket.fail_from = n;
		bucket.fail_to = once ? n + 1 : INT64_MAX;
		bucket.fail_code = -EIO;
		bucket.fail_late = late;
		err.msg[0] = 0;
		r = save(f, "new", NULL, &err);
		const bool counted = (int64_t)bucket.counted > bucket.fail_from;
		int there = look(f, whats, 1);
		if (r < 0) {
			failures++;
			ck_assert(err.msg[0]);
			/* what cannot be taken back is whole; a failure that ends is taken back */
			ck_assert_msg(!there || (late && !once), "call %u of %d", n, _i);
		} else {
			ck_assert_int_eq(there, 1);
			if (counted) /* settling: what stays is cleaned up by nobody, and harms nobody */
				r = -1;
		}
		bucket.fail_from = bucket.fail_to = 0;
		save_again(f, there);
		end_world();
	}
	ck_assert_uint_gt(failures, 5);
}
END_TEST

struct death {
	_Atomic int64_t left;
};

static int die_after(void *arg, enum sf_put_mem_call call, const char *name, uint32_t part)
{
	struct death *d = arg;

	(void)call, (void)name, (void)part;
	return atomic_fetch_sub(&d->left, 1) > 0 ? 0 : -EIO;
}

START_TEST(a_save_that_dies_is_no_checkpoint)
{
	const struct form *f = &forms[_i];
	static const char *const whats[] = { "new" };
	struct death d;
	unsigned whole = 0, none = 0;
	bool died = true;

	for (int64_t n = 0; died; n++) {
		begin_world();
		small_parts();
		atomic_store(&d.left, n);
		bucket.before = die_after;
		bucket.arg = &d;
		(void)save(f, "new", NULL, &err);
		died = atomic_load(&d.left) < 0;
		bucket.before = NULL;
		int there = look(f, whats, 1);
		whole += there == 1;
		none += there == 0;
		save_again(f, there);
		end_world();
	}
	ck_assert_uint_gt(none, 5);
	ck_assert_uint_ge(whole, 2);
}
END_TEST

/* Killed twice, the second while it cleans up after the first: of other formats, too. */
START_TEST(a_save_that_dies_after_one_that_died)
{
	const struct form *f = &forms[_i / 3], *g = &forms[_i % 3];
	static const char *const whats[] = { "new", "second", "again" };
	struct death d;
	bool died = true;

	for (int64_t n = 0; died; n++) {
		bool died_too = true;
		for (int64_t m = 0; died_too; m++) {
			begin_world();
			small_parts();
			bucket.before = die_after;
			bucket.arg = &d;
			atomic_store(&d.left, n);
			(void)save(f, "new", NULL, &err);
			died = atomic_load(&d.left) < 0;
			int there = look(f, whats, 1);
			atomic_store(&d.left, m);
			(void)save(g, "second", NULL, &err);
			died_too = atomic_load(&d.left) < 0;
			bucket.before = NULL;
			if (there == 1) { /* it was refused */
				ck_assert_int_eq(look(f, whats, 1), 1);
				died_too = false;
			} else if (look(g, whats, 2) == 1) {
				/* one of another format, whole but for that one's last file */
				int r = save(g, "again", NULL, &err);
				ck_assert_msg(r == 0 || r == -EEXIST, "%s", err.msg);
				ck_assert_int_eq(look(g, whats, 3), 1);
				if (r == 0)
					check_clean(g);
			} else {
				save_again(g, 0);
			}
			end_world();
		}
	}
}
END_TEST

/* ---- several at once ---- */

START_TEST(the_newest_wins)
{
	static const char *const whats[] = { "old", "new" };
	const struct form *f = &forms[_i];
	struct process old, now;
	struct sf_error e = SF_ERROR_INIT;

	begin_world();
	begin_process(&old);
	begin_process(&now);
	ck_assert_int_eq(claim(&old, &f->files, &e), 0);
	ck_assert_int_eq(write_shards(&old, f, "old", &e), 0);
	ck_assert_int_eq(claim(&now, &f->files, &e), 0);
	ck_assert_msg(write_shards(&now, f, "new", &e) == 0, "%s", e.msg);
	int r = write_rest(&old, f, "old", &e);
	/* of one that is found out only by .metadata, or that puts before it what is put once */
	ck_assert_int_lt(r, 0);
	ck_assert_msg(r == -EEXIST || strstr(e.msg, "another save of it has begun"), "%s", e.msg);
	end_save(&old, r);
	ck_assert_int_eq(look(f, whats, 2), 0);
	if (f->named && !f->files.names_len) { /* the old one has put common.pt: safe, and said */
		end_save(&now, write_rest(&now, f, "new", &e));
	} else {
		ck_assert_msg(write_rest(&now, f, "new", &e) == 0, "%s", e.msg);
		ck_assert_int_eq(look(f, whats + 1, 1), 1);
		end_save(&now, 0);
		check_clean(f);
	}
	end_process(&old);
	end_process(&now);
	end_world();
}
END_TEST

/* One that lives has created .metadata before the newer one has seen it. */
START_TEST(who_has_created_metadata_wins)
{
	static const char *const whats[] = { "old", "new" };
	const struct form *f = &forms[0];
	struct process old, now;
	struct sf_error e = SF_ERROR_INIT;
	struct sf_target_file *meta;

	begin_world();
	begin_process(&old);
	begin_process(&now);
	ck_assert_int_eq(claim(&old, &f->files, &e), 0);
	ck_assert_int_eq(write_shards(&old, f, "old", &e), 0);
	ck_assert_int_eq(claim(&now, &f->files, &e), 0);
	ck_assert_int_eq(write_shards(&now, f, "new", &e), 0);
	/* as if it had read its marker before the newer one put its own */
	size_t len;
	const void *at = sf_put_mem_at(&bucket, "run/step1/.shardfuse-save", &len);
	SF_FREE char *marker = malloc(len);
	memcpy(marker, at, len);
	struct sf_object_marker *mine = &((struct sf_target_object *)old.rank[0])->mine;
	ck_assert_int_eq(sf_object_marker_put((struct sf_target_object *)old.rank[0], &e), 0);
	ck_assert(mine->ours);
	ck_assert_int_eq(
		sf_save_target_open(old.rank[0], ".metadata", 0, SF_TARGET_CLOSED, &meta, &e), 0);
	ck_assert_int_eq(sf_target_file_write(meta, 0, old.rank[0]->tag, SF_SHARD_TAG_MAX - 1, &e),
	                 0);
	ck_assert_int_eq(sf_target_file_close(meta, true, &e), 0);
	sf_put_mem_set(&bucket, "run/step1/.shardfuse-save", marker, len);

	int r = write_rest(&now, f, "new", &e);
	ck_assert_int_eq(r, -EEXIST);
	end_save(&now, r);
	ck_assert_int_eq(look(f, whats, 1), 1);
	end_save(&old, 0);
	ck_assert_int_eq(look(f, whats, 1), 1);
	end_process(&old);
	end_process(&now);
	end_world();
}
END_TEST

struct racer {
	pthread_t thread;
	const struct form *f;
	char what[16];
	int r;
	struct sf_error err;
};

static void *race(void *arg)
{
	struct racer *r = arg;

	r->r = save(r->f, r->what, NULL, &r->err);
	return NULL;
}

START_TEST(of_several_at_once_one_wins)
{
	enum { N = 3 };
	static const char *const whats[N] = { "one", "two", "three" };
	const struct form *f = &forms[_i % 3];
	struct racer r[N] = { 0 };
	unsigned won = 0, w = 0;

	begin_world();
	bucket.delay_ms = _i % 2;
	for (unsigned i = 0; i < N; i++) {
		r[i].f = f;
		snprintf(r[i].what, sizeof(r[i].what), "%s", whats[i]);
		ck_assert_int_eq(pthread_create(&r[i].thread, NULL, race, &r[i]), 0);
	}
	for (unsigned i = 0; i < N; i++) {
		pthread_join(r[i].thread, NULL);
		won += r[i].r >= 0;
		w = r[i].r >= 0 ? i : w;
	}
	/* what is put under a name without a tag is put once: all may be in each other's way */
	ck_assert_msg(f->named ? won <= 1 : won == 1, "%u won: %s; %s; %s", won, r[0].err.msg,
	              r[1].err.msg, r[2].err.msg);
	ck_assert_int_eq(look(f, whats + w, won ? 1 : 0), won);
	end_world();
}
END_TEST

START_TEST(names_are_told_apart)
{
	static const struct {
		const char *name;
		enum sf_object_kind bare, marked;
	} t[] = {
		{ ".shardfuse-save", SF_OBJECT_MARK, SF_OBJECT_MARK },
		{ "__0_0-0123abcd.distcp", SF_OBJECT_SHARD, SF_OBJECT_SHARD },
		{ "__4294967295_1023-0123abcd.distcp", SF_OBJECT_SHARD, SF_OBJECT_SHARD },
		{ "model_and_optim/__0_0-0123abcd.distcp", SF_OBJECT_SHARD, SF_OBJECT_SHARD },
		{ "__0_0-0123abcd.distcp.part-0123456789abcdef-1", SF_OBJECT_SHARD,
		  SF_OBJECT_SHARD },
		{ "model/__0_0-0123abcd.distcp", SF_OBJECT_OTHER, SF_OBJECT_OTHER },
		{ "a/model_and_optim/__0_0-0123abcd.distcp", SF_OBJECT_OTHER, SF_OBJECT_OTHER },
		{ "__0_0.distcp", SF_OBJECT_OTHER, SF_OBJECT_OTHER },
		{ "__0_0-0123ABCD.distcp", SF_OBJECT_OTHER, SF_OBJECT_OTHER },
		{ "__0_-0123abcd.distcp", SF_OBJECT_OTHER, SF_OBJECT_OTHER },
		{ "model_and_optim/.metadata", SF_OBJECT_OTHER, SF_OBJECT_META },
		{ "model_and_optim/.metadata.part-0123456789abcdef-1", SF_OBJECT_OTHER,
		  SF_OBJECT_LEFT },
		{ ".metadata", SF_OBJECT_OTHER, SF_OBJECT_OTHER },
		{ ".metadata.json", SF_OBJECT_OTHER, SF_OBJECT_LAST },
		{ ".metadata.json.part-0123456789abcdef-1", SF_OBJECT_OTHER, SF_OBJECT_LEFT },
		{ "train/rank0.pt", SF_OBJECT_OTHER, SF_OBJECT_LEFT },
		{ "train/rank1.pt", SF_OBJECT_OTHER, SF_OBJECT_LEFT },
		{ "train/rank2.pt", SF_OBJECT_OTHER, SF_OBJECT_OTHER },
		{ "common.pt", SF_OBJECT_OTHER, SF_OBJECT_OTHER },
	};
	struct sf_object_names none = { 0 };
	struct sf_object_marker no = { 0 }, m = { 0 };
	char tag[SF_SHARD_TAG_MAX];

	ck_assert_int_eq(sf_object_marker_make(&m, "0123456789abcdef0123456789abcdef",
	                                       &forms[2].files, &none, &err),
	                 0);
	for (size_t i = 0; i < SF_ARRAY_LEN(t); i++) {
		ck_assert_msg(sf_object_kind(&no, t[i].name, tag) == t[i].bare, "%s", t[i].name);
		ck_assert_msg(sf_object_kind(&m, t[i].name, tag) == t[i].marked, "%s", t[i].name);
		ck_assert_str_eq(tag, t[i].bare == SF_OBJECT_SHARD ? "-0123abcd" : "");
	}
	sf_object_marker_release(&m);
}
END_TEST

START_TEST(urls_are_taken_or_refused)
{
	static const struct {
		const char *url;
		bool replace, manifest;
		int r;
		const char *says;
	} t[] = {
		{ "s3://bucket/run/step1", false, false, 0, NULL },
		{ "gs://bucket", false, false, 0, NULL },
		{ "s3://bucket/a", true, false, -ENOTSUP, "'s3://bucket/a': what is in a bucket" },
		{ "gs://bucket/a", false, true, -ENOTSUP, "manifest" },
		{ "https://me:secret@host/a?sig=secret", false, false, -ENOTSUP,
		  "'https://host/a'" },
		{ "s3://me:secret@bucket/a", false, false, -EINVAL, "" },
		{ "s3://", false, false, -EINVAL, "" },
		{ "ftp://me:secret@host/a", false, false, -ENOTSUP, "" },
	};
	struct sf_save_target *got;

	for (size_t i = 0; i < SF_ARRAY_LEN(t); i++) {
		const struct sf_target_options o = { t[i].replace, t[i].manifest, NULL };
		int r = sf_save_target_new(t[i].url, &o, &got, &err);
		ck_assert_msg(r == t[i].r, "%s: %d %s", t[i].url, r, r < 0 ? err.msg : "");
		if (r < 0) {
			ck_assert_msg(strstr(err.msg, t[i].says), "%s", err.msg);
			ck_assert_ptr_null(strstr(err.msg, "secret"));
		} else {
			sf_save_target_free(got);
		}
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("save_target_object");
	TCase *t = tcase_create("all"), *at_once = tcase_create("at once");

	tcase_set_timeout(t, 60);
	tcase_set_timeout(at_once, 60);
	tcase_add_loop_test(t, a_save_is_there_and_nothing_else, 0, 3);
	tcase_add_test(t, what_no_save_left_is_left_alone);
	tcase_add_test(t, a_marker_of_others_is_no_marker);
	tcase_add_loop_test(t, a_call_that_fails_fails_the_save_and_leaves_nothing, 0, 12);
	tcase_add_loop_test(t, a_save_that_dies_is_no_checkpoint, 0, 3);
	tcase_add_loop_test(t, a_save_that_dies_after_one_that_died, 0, 9);
	tcase_add_loop_test(t, the_newest_wins, 0, 3);
	tcase_add_test(t, who_has_created_metadata_wins);
	tcase_add_loop_test(at_once, of_several_at_once_one_wins, 0, 12);
	tcase_add_test(t, names_are_told_apart);
	tcase_add_test(t, urls_are_taken_or_refused);
	suite_add_tcase(s, t);
	suite_add_tcase(s, at_once);
	return sf_test_main(s);
}
