/* From the plan to the end of a save: written, told of, made visible. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "save/save_priv.h"

/*
 * The states, in this order; advance() alone sets them:
 *   WRITING      this rank's shards are being written
 *   TELLING      all ranks tell how it went; rank 0 writes what makes the shards a checkpoint, and publishes
 *                where it is the only one with a directory
 *   PUBLISHING   ranks with directories of their own have published; rank 0 does last
 *   ENDED        result is what all ranks share
 */
enum state { WRITING, TELLING, PUBLISHING, ENDED };

struct sf_save_run {
	struct shardfuse_save *s;
	enum state state;
	struct sf_verdict mine;
	struct sf_shard_write *write;
	struct sf_shard_file *file;   /* files_per_rank */
	struct sf_shard_place *place; /* of what this rank wrote */
	struct sf_save_tree_step *step;
	struct sf_buf record;
	_Atomic bool cancel;
	_Atomic uint64_t progress;
	int64_t began_ms;
	int result;
	struct sf_error err;
};

int sf_save_run_new(struct shardfuse_save *s, struct sf_save_run **ret, struct sf_error *err)
{
	struct sf_save_run *run = calloc(1, sizeof(*run));

	if (run) {
		run->file = calloc(s->opt.files_per_rank, sizeof(*run->file));
		run->place = sf_alloc_array(s->items.item.n, sizeof(*run->place));
	}
	if (!run || !run->file || !run->place) {
		sf_save_run_free(run);
		return sf_fail(err, -ENOMEM, "no memory for a save of %zu items", s->items.item.n);
	}
	run->s = s;
	*ret = run;
	return 0;
}

void sf_save_run_free(struct sf_save_run *run)
{
	if (!run)
		return;
	sf_save_tree_step_free(run->step);
	sf_buf_release(&run->record);
	free(run->file);
	free(run->place);
	free(run);
}

void sf_save_run_cancel(struct sf_save_run *run)
{
	atomic_store(&run->cancel, true);
	sf_save_target_cancel(run->s->at);
}

uint64_t sf_save_run_progress(const struct sf_save_run *run, uint64_t *ret_total)
{
	*ret_total = run->s->mine.bytes;
	return atomic_load(&run->progress);
}

void sf_save_run_begin(struct sf_save_run *run, bool snapshot)
{
	struct shardfuse_save *s = run->s;
	struct sf_shard_writer_options o = {
		.rank = s->comm.rank,
		.nfiles = s->opt.files_per_rank,
		.fsync = !s->opt.no_fsync,
		.crc = true,
		.hash = s->opt.manifest != 0,
		.zstd = s->opt.zstd,
		.dir = s->format->shards,
		.pool = s->keep->pool,
		.cancel = &run->cancel,
		.progress = &run->progress,
	};
	struct sf_verdict *v = &run->mine;

	run->mine = s->mine.verdict;
	run->began_ms = sf_now_ms();
	sf_stage_pool_set_budget(o.pool, s->opt.staging ? s->opt.staging
	                                 : snapshot     ? SF_MAX(s->mine.bytes, SF_SAVE_STAGING)
	                                                : SF_SAVE_STAGING);
	if (v->code >= 0 && s->comm.rank != 0)
		v->code = sf_save_target_join(s->at, s->mine.token,
		                              s->opt.overwrite == SHARDFUSE_REPLACE,
		                              s->mine.lowest_of_host, s->opt.timeout_ms, &v->err);
	if (v->code >= 0)
		v->code = sf_shard_write_begin(s->at, &s->items, s->mine.place, s->mine.nplaces, &o,
		                               snapshot, &run->write, &v->err);
	sf_save_log(s, "stage", run->began_ms, s->mine.bytes, v->code, &v->err);
	run->began_ms = sf_now_ms();
}

/* Where the items are, of which nobody knew how small they become. */
static void tell_places(struct sf_save_run *run)
{
	for (uint64_t i = 0; i < run->s->mine.nplaces; i++) {
		uint8_t b[SF_PLACE_BYTES];
		sf_put_le32(b, run->place[i].file);
		sf_put_le64(b + 4, run->place[i].off);
		sf_put_le64(b + 12, run->place[i].len);
		sf_buf_add(&run->record, b, sizeof(b));
	}
}

/* The files that the caller gave, and how all went: the record of TELLING. u8 whether this rank has a
 * directory of its own. */
static void tell(struct sf_save_run *run)
{
	struct shardfuse_save *s = run->s;
	struct sf_verdict *v = &run->mine;

	if (run->write) {
		struct sf_error e = SF_ERROR_INIT;
		int r = sf_shard_write_end(run->write, run->file, run->place, &e);
		run->write = NULL;
		if (v->code >= 0 && r < 0)
			*v = (struct sf_verdict){ .code = r, .err = e };
	}
	for (size_t i = 0; i < s->items.file.n && v->code >= 0; i++)
		v->code =
			sf_save_target_put(s->at, s->items.file.at[i].name, s->items.file.at[i].at,
		                           s->items.file.at[i].len, !s->opt.no_fsync, &v->err);
	if (v->code >= 0 && atomic_load(&run->cancel))
		v->code = sf_fail(&v->err, -ECANCELED, "the save was cancelled");
	sf_buf_byte(&run->record, sf_save_target_owns(s->at));
	if (s->opt.manifest)
		sf_save_manifest_tell(run->file, s->opt.files_per_rank, &run->record);
	if (s->opt.zstd)
		tell_places(run);
	if (v->code >= 0 && sf_buf_check(&run->record) < 0)
		v->code = sf_fail(&v->err, -ENOMEM, "no memory");
	sf_save_log(s, "write", run->began_ms, s->mine.bytes, v->code, &v->err);
	run->began_ms = sf_now_ms();
}

static int publish(struct shardfuse_save *s, struct sf_error *err)
{
	return sf_save_target_publish(s->at, !s->opt.no_fsync, err);
}

/* From byte @at of each record. */
static int take_places(struct shardfuse_save *s, const void *const *record, const size_t *len,
                       uint32_t n, size_t at, struct sf_error *err)
{
	struct sf_save_record *told = sf_alloc_array(n, sizeof(*told));
	int r = 0;

	if (!told)
		return sf_fail(err, -ENOMEM, "no memory for %u ranks' places", n);
	for (uint32_t i = 0; i < n && r >= 0; i++) {
		if (len[i] < at)
			r = sf_fail(err, -EBADMSG, "rank %u told of no places", i);
		else
			told[i] = (struct sf_save_record){ (const uint8_t *)record[i] + at,
				                           len[i] - at };
	}
	if (r >= 0)
		r = sf_global_plan_places(&s->global, told, s->opt.files_per_rank, err);
	free(told);
	return r;
}

/* Rank 0: all shards are there. The answer is one byte: others have directories to publish. */
static int answer_written(void *arg, const void *const *record, const size_t *len, uint32_t n,
                          struct sf_buf *answer, struct sf_error *err)
{
	struct sf_save_run *run = arg;
	struct shardfuse_save *s = run->s;
	bool others = false;
	int r = 0;

	if (s->opt.manifest)
		r = sf_save_manifest_write(s, record, len, n, 1, err);
	if (r >= 0 && s->opt.zstd)
		r = take_places(
			s, record, len, n,
			1 + (s->opt.manifest ? s->opt.files_per_rank * SF_MANIFEST_BYTES : 0), err);
	if (r >= 0)
		r = s->format->finish(s, s->at, &s->global, err);
	for (uint32_t i = 1; i < n && r >= 0; i++) {
		if (len[i] < 1)
			r = sf_fail(err, -EBADMSG, "rank %u told nothing of its shards", i);
		else
			others |= *(const uint8_t *)record[i] != 0;
	}
	if (r >= 0 && !others)
		r = publish(s, err);
	sf_buf_byte(answer, others);
	return r;
}

static int answer_published(void *arg, const void *const *record, const size_t *len, uint32_t n,
                            struct sf_buf *answer, struct sf_error *err)
{
	struct sf_save_run *run = arg;

	(void)record, (void)len, (void)n, (void)answer;
	return publish(run->s, err);
}

static int end(struct sf_save_run *run, int r)
{
	struct shardfuse_save *s = run->s;

	if (r < 0)
		sf_save_target_drop(s->at);
	else
		sf_save_target_settle(s->at);
	sf_save_log(s, "commit", run->began_ms, s->mine.bytes, r, &run->err);
	run->result = r;
	run->state = ENDED;
	return r;
}

static int begin_step(struct sf_save_run *run, enum state state, sf_save_tree_answer *answer)
{
	run->state = state;
	return sf_save_tree_begin(&run->s->tree, &run->mine, run->record.at,
	                          sf_buf_bytes(&run->record), answer, run, &run->step, &run->err);
}

/* The step that is under way: -EAGAIN, or how it ended. @ret_more: another follows. */
static int poll_step(struct sf_save_run *run, unsigned wait_ms, bool *ret_more)
{
	struct sf_buf answer = { 0 };
	int r = sf_save_tree_poll(run->step, wait_ms, &answer, &run->err);

	*ret_more = r >= 0 && answer.len && answer.at[0];
	sf_buf_release(&answer);
	if (r != -EAGAIN) {
		sf_save_tree_step_free(run->step);
		run->step = NULL;
	}
	return r;
}

int sf_save_run_advance(struct sf_save_run *run, unsigned wait_ms, struct sf_error *err)
{
	struct shardfuse_save *s = run->s;
	bool more = false;
	int r = 0;

	if (run->state == WRITING) {
		if (run->write && !wait_ms && !sf_shard_write_ended(run->write))
			return -EAGAIN;
		tell(run);
		s->tree.timeout_ms = s->opt.write_timeout_ms;
		r = begin_step(run, TELLING, answer_written);
		if (r < 0)
			end(run, r);
	}
	if (run->state == TELLING) {
		r = poll_step(run, wait_ms, &more);
		if (r == -EAGAIN)
			return r;
		if (r < 0 || !more) {
			end(run, r);
		} else {
			if (s->comm.rank != 0 && sf_save_target_owns(s->at))
				run->mine.code = publish(s, &run->mine.err);
			r = begin_step(run, PUBLISHING, answer_published);
			if (r < 0)
				end(run, r);
		}
	}
	if (run->state == PUBLISHING) {
		r = poll_step(run, wait_ms, &more);
		if (r == -EAGAIN)
			return r;
		end(run, r);
	}
	if (run->result < 0)
		*err = run->err;
	return run->result;
}
