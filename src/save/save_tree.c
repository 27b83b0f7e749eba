/*
 * A message is its bytes and, last, what it is. Up goes FAILED (save_failure.h), or RECORDS: u32 rank, u64 length
 * and the bytes, of each rank of the subtree. Down goes FAILED (u32 code and the text) or ANSWER. ALIVE goes both
 * ways, before those.
 */
#include "config.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "save/save_failure.h"
#include "save/save_tree.h"

enum { ALIVE = 'a', RECORDS = 'r', FAILED = 'f', ANSWER = 'w' };

#define LOOKS 3 /* in vain, before a rank is missing */

struct neighbour {
	uint32_t rank;
	bool done; /* nothing more is expected of it */
	bool told; /* a child: how it ended */
	void *got; /* a child's records, without what it is */
	size_t len;
	int64_t heard_ms; /* its last word; at first: when it was first waited for */
	unsigned looks;   /* in vain since */
};

struct sf_save_tree_step {
	const struct shardfuse_comm *comm;
	unsigned timeout_ms;
	uint32_t tag;
	const void *record;
	size_t len;
	sf_save_tree_answer *answer;
	void *arg;
	struct neighbour child[SF_SAVE_TREE_CHILDREN], parent;
	unsigned nchild;
	enum { GATHERING, AWAITING, LEAVING, ENDED } state;
	struct sf_save_failure failure; /* of the subtree, while gathering */
	int64_t alive_ms, left_ms;
	int code;
	struct sf_error err;
	struct sf_buf given; /* rank 0's answer */
};

static unsigned children(const struct shardfuse_comm *c, uint32_t *first)
{
	uint64_t at = (uint64_t)c->rank * SF_SAVE_TREE_CHILDREN + 1;

	*first = (uint32_t)at;
	return at < c->size ? (unsigned)SF_MIN(c->size - at, (uint64_t)SF_SAVE_TREE_CHILDREN) : 0;
}

static uint32_t parent_of(uint32_t rank)
{
	return rank ? (rank - 1) / SF_SAVE_TREE_CHILDREN : 0;
}

/* Ranks that @rank speaks for, beside itself. */
static uint32_t behind(uint64_t rank, uint32_t n)
{
	uint64_t count = 0, lo = rank, hi = rank;

	while ((lo = lo * SF_SAVE_TREE_CHILDREN + 1) < n) {
		hi = (hi + 1) * SF_SAVE_TREE_CHILDREN;
		count += SF_MIN(hi, (uint64_t)n - 1) - lo + 1;
	}
	return (uint32_t)count;
}

static int64_t beat_ms(unsigned timeout_ms)
{
	return SF_MAX(timeout_ms / 4, 1u);
}

static int send_to(const struct shardfuse_comm *c, uint32_t to, uint32_t tag, const void *at,
                   size_t len, struct sf_error *err)
{
	struct shardfuse_error e = { { 0 } };
	int r = c->send(c->arg, to, tag, at, len, &e);

	if (r < 0)
		return sf_fail(err, r, "sending to rank %u: %s", to, e.msg);
	return 0;
}

void sf_save_tree_init(struct sf_save_tree *t, const struct shardfuse_comm *comm,
                       unsigned timeout_ms)
{
	*t = (struct sf_save_tree){ .comm = comm, .timeout_ms = timeout_ms };
	if (comm->tag) {
		t->tag = *comm->tag;
		*comm->tag += SF_SAVE_TREE_TAGS;
	}
}

/* Who cannot be told will see for itself: the next message to it fails, or it gives this rank up. */
static void say_alive(const struct shardfuse_comm *c, uint32_t tag, bool up)
{
	static const uint8_t alive = ALIVE;
	uint32_t first;
	unsigned n = children(c, &first);

	if (up && c->rank)
		send_to(c, parent_of(c->rank), tag, &alive, 1, NULL);
	for (unsigned i = 0; i < n; i++)
		send_to(c, first + i, tag, &alive, 1, NULL);
}

void sf_save_tree_alive(struct sf_save_tree *t)
{
	int64_t now = sf_now_ms();

	if (t->alive_ms && now - t->alive_ms < beat_ms(t->timeout_ms))
		return;
	t->alive_ms = now;
	say_alive(t->comm, t->tag, true);
}

int sf_save_tree_begin(struct sf_save_tree *t, const struct sf_verdict *mine, const void *record,
                       size_t len, sf_save_tree_answer *answer, void *arg,
                       struct sf_save_tree_step **ret, struct sf_error *err)
{
	struct sf_save_tree_step *step = calloc(1, sizeof(*step));
	int64_t now = sf_now_ms();
	uint32_t first;

	t->tag++;
	if (!step)
		return sf_fail(err, -ENOMEM, "no memory");
	*step = (struct sf_save_tree_step){
		.comm = t->comm,
		.timeout_ms = t->timeout_ms,
		.tag = t->tag - 1,
		.record = record,
		.len = len,
		.answer = answer,
		.arg = arg,
		.alive_ms = now,
		.parent = { .rank = parent_of(t->comm->rank), .heard_ms = now },
	};
	step->nchild = children(t->comm, &first);
	for (unsigned i = 0; i < step->nchild; i++)
		step->child[i] = (struct neighbour){ .rank = first + i, .heard_ms = now };
	if (mine && mine->code < 0)
		sf_save_failure_add(&step->failure, t->comm->rank, mine->code, mine->err.msg);
	*ret = step;
	return 0;
}

void sf_save_tree_step_free(struct sf_save_tree_step *step)
{
	if (!step)
		return;
	for (unsigned i = 0; i < step->nchild; i++)
		free(step->child[i].got);
	sf_buf_release(&step->given);
	free(step);
}

/* The step ended here, with step->code. */
static void pass_down(struct sf_save_tree_step *step)
{
	step->state = LEAVING;
	step->left_ms = sf_now_ms();
}

/*
 * The children are told how it ended; false: not all could be, for want of memory say. It is tried again
 * until the timeout: who is never told would be missing in the next step, for a reason that nobody could see.
 */
static bool told_children(struct sf_save_tree_step *step)
{
	const uint8_t *at = step->given.at; /* ANSWER stands behind it */
	size_t len = step->given.len + 1;
	uint8_t failed[4 + SF_ERROR_MAX];
	bool all = true;

	if (step->code < 0) {
		size_t n = strlen(step->err.msg);

		sf_put_le32(failed, (uint32_t)step->code);
		memcpy(failed + 4, step->err.msg, n);
		failed[4 + n] = FAILED;
		at = failed;
		len = n + 5;
	}
	for (unsigned i = 0; i < step->nchild; i++) {
		struct neighbour *who = &step->child[i];

		if (!who->told) {
			int r = send_to(step->comm, who->rank, step->tag, at, len, NULL);
			/* who is gone needs not be told */
			who->told = r != -ENOMEM && r != -EAGAIN;
		}
		all = all && who->told;
	}
	return all;
}

/* It goes no further here: the parent must not think that this rank is still with it, even if it comes only
 * later and finds the records. */
static void give_up(struct sf_save_tree_step *step, int code, const char *msg)
{
	const struct shardfuse_comm *c = step->comm;
	struct sf_save_failure f = { 0 };
	struct sf_buf b = { 0 };

	sf_save_failure_add(&f, c->rank, code, msg);
	sf_save_failure_put(&b, &f);
	sf_buf_byte(&b, FAILED);
	if (sf_buf_check(&b) >= 0)
		send_to(c, step->parent.rank, step->tag, b.at, b.len, NULL);
	sf_buf_release(&b);
	step->code = sf_fail(&step->err, f.code, "rank %u: %s", c->rank, msg);
	pass_down(step);
}

static void put_record(struct sf_buf *b, uint32_t rank, const void *at, size_t len)
{
	uint8_t head[12];

	sf_put_le32(head, rank);
	sf_put_le64(head + 4, len);
	sf_buf_add(b, head, sizeof(head));
	sf_buf_add(b, at, len);
}

static bool failed(const struct sf_save_failure *f)
{
	return f->nfailed || f->nmissing;
}

/* What the subtree has for rank 0. The children's records are given up, so that two copies are the most. */
static void put_records(struct sf_save_tree_step *step, struct sf_buf *b)
{
	size_t total = 12 + step->len + 1;

	for (unsigned i = 0; i < step->nchild; i++)
		total += step->child[i].len;
	if (sf_buf_extend(b, total)) /* once, and not by doubling */
		b->len = 0;
	put_record(b, step->comm->rank, step->record, step->len);
	for (unsigned i = 0; i < step->nchild; i++) {
		sf_buf_add(b, step->child[i].got, step->child[i].len);
		free(SF_STEAL(step->child[i].got));
	}
	sf_buf_byte(b, RECORDS);
	if (sf_buf_check(b) < 0) {
		struct sf_error e;

		sf_fail(&e, -ENOMEM, "no memory for %zu bytes of records", total);
		sf_save_failure_add(&step->failure, step->comm->rank, -ENOMEM, e.msg);
	}
}

/* All of the subtree is here: the parent is told. */
static void pass_up(struct sf_save_tree_step *step)
{
	struct sf_buf b = { 0 };
	int r;

	if (!failed(&step->failure))
		put_records(step, &b);
	if (failed(&step->failure)) {
		sf_buf_release(&b);
		sf_save_failure_put(&b, &step->failure);
		sf_buf_byte(&b, FAILED);
	}
	r = sf_buf_check(&b);
	if (r < 0)
		sf_fail(&step->err, r, "no memory");
	else
		r = send_to(step->comm, step->parent.rank, step->tag, b.at, b.len, &step->err);
	sf_buf_release(&b);
	step->state = AWAITING;
	step->parent.heard_ms = sf_now_ms();
	step->parent.looks = 0;
	if (r < 0)
		give_up(step, r, step->err.msg);
}

/* The records of a child's subtree to their places; -EBADMSG: they are not those of that subtree. */
static int spread(const struct neighbour *from, const void **record, size_t *len, uint32_t n)
{
	const uint8_t *at = from->got, *end = at + from->len;
	uint32_t count = 0;

	while (at < end) {
		uint32_t rank;
		uint64_t bytes;

		if (end - at < 12)
			return -EBADMSG;
		rank = sf_le32(at);
		bytes = sf_le64(at + 4);
		at += 12;
		if (rank >= n || record[rank] || bytes > (uint64_t)(end - at))
			return -EBADMSG;
		record[rank] = at;
		len[rank] = (size_t)bytes;
		at += bytes;
		count++;
	}
	return count == behind(from->rank, n) + 1 ? 0 : -EBADMSG;
}

static int make_answer(struct sf_save_tree_step *step, struct sf_error *err)
{
	uint32_t n = step->comm->size;
	SF_FREE const void **record = calloc(n, sizeof(*record));
	SF_FREE size_t *len = calloc(n, sizeof(*len));
	int r = 0;

	if (!record || !len)
		return sf_fail(err, -ENOMEM, "no memory for the records of %u ranks", n);
	record[0] = step->record ? step->record : "";
	len[0] = step->len;
	for (unsigned i = 0; i < step->nchild && r >= 0; i++) {
		r = spread(&step->child[i], record, len, n);
		if (r < 0)
			sf_fail(err, r, "rank %u sent records that are not those of its ranks",
			        step->child[i].rank);
	}
	if (r >= 0 && step->answer) {
		r = step->answer(step->arg, record, len, n, &step->given, err);
	}
	sf_buf_byte(&step->given, ANSWER);
	if (r >= 0 && sf_buf_check(&step->given) < 0)
		r = sf_fail(err, -ENOMEM, "no memory for rank 0's answer");
	if (r >= 0)
		step->given.len--;
	return r == -EAGAIN ? -EBUSY : SF_MIN(r, 0);
}

static void gathered(struct sf_save_tree_step *step)
{
	const struct shardfuse_comm *c = step->comm;

	if (c->rank) {
		pass_up(step);
		return;
	}
	step->code = sf_save_failure_say(&step->failure, c->size, step->timeout_ms, &step->err);
	if (step->code >= 0)
		step->code = make_answer(step, &step->err);
	pass_down(step);
}

/* A child's word; false: it is none. *at is taken if it is kept. */
static bool child_said(struct sf_save_tree_step *step, struct neighbour *who, uint8_t **at,
                       size_t len)
{
	struct sf_save_failure f;

	switch ((*at)[len - 1]) {
	case RECORDS:
		if (who->got)
			return false;
		who->got = SF_STEAL(*at);
		who->len = len - 1;
		break;
	case FAILED:
		if (sf_save_failure_take(*at, len - 1, &f) < 0)
			return false;
		free(SF_STEAL(who->got));
		sf_save_failure_merge(&step->failure, &f);
		break;
	default:
		return false;
	}
	who->done = true;
	return true;
}

static bool parent_said(struct sf_save_tree_step *step, uint8_t **at, size_t len)
{
	switch ((*at)[len - 1]) {
	case ANSWER:
		if (step->state != AWAITING)
			return false;
		step->given = (struct sf_buf){ .len = len - 1, .cap = len - 1 };
		step->given.at = SF_STEAL(*at);
		break;
	case FAILED:
		if (len < 5 || (int)sf_le32(*at) >= 0)
			return false;
		step->code = sf_fail(&step->err, (int)sf_le32(*at), "%.*s", (int)(len - 5),
		                     (const char *)*at + 4);
		break;
	default:
		return false;
	}
	pass_down(step);
	return true;
}

/* The communicator failed, or somebody else talks on it: this rank fails. */
static void broken(struct sf_save_tree_step *step, struct neighbour *who, int code, const char *msg)
{
	struct sf_error e = SF_ERROR_INIT;

	sf_fail(&e, code, "receiving from rank %u: %s", who->rank, msg);
	who->done = true;
	if (who == &step->parent)
		give_up(step, code, e.msg);
	else
		sf_save_failure_add(&step->failure, step->comm->rank, code, e.msg);
}

/* What @who said, until there is nothing more, or nothing more is expected. */
static void listen(struct sf_save_tree_step *step, struct neighbour *who, unsigned wait_ms)
{
	const struct shardfuse_comm *c = step->comm;

	while (!who->done && step->state < LEAVING) {
		struct shardfuse_error e = { { 0 } };
		void *got = NULL;
		size_t len = 0;
		bool ok;
		int r = c->recv(c->arg, who->rank, step->tag, &got, &len, wait_ms, &e);

		wait_ms = 0;
		if (r == -EAGAIN)
			return;
		if (r < 0) {
			broken(step, who, r, e.msg);
			return;
		}
		who->heard_ms = sf_now_ms();
		who->looks = 0;
		if (len == 1 && *(uint8_t *)got == ALIVE)
			ok = true;
		else if (!len)
			ok = false;
		else if (who == &step->parent)
			ok = parent_said(step, (uint8_t **)&got, len);
		else
			ok = child_said(step, who, (uint8_t **)&got, len);
		free(got);
		if (!ok)
			broken(step, who, -EBADMSG, "a message that is none of a save");
	}
}

static bool late(const struct sf_save_tree_step *step, struct neighbour *who, int64_t now)
{
	return !who->done && now - who->heard_ms >= step->timeout_ms && ++who->looks >= LOOKS;
}

static void await_children(struct sf_save_tree_step *step)
{
	const struct shardfuse_comm *c = step->comm;
	bool all = true;

	for (unsigned i = 0; i < step->nchild; i++) {
		struct neighbour *who = &step->child[i];

		listen(step, who, 0);
		if (late(step, who, sf_now_ms())) {
			who->done = true;
			sf_save_failure_miss(&step->failure, who->rank, behind(who->rank, c->size));
		}
		all = all && who->done;
	}
	if (c->rank) /* it may have given this rank up already */
		listen(step, &step->parent, 0);
	/* last, because who gave up sent its records before */
	for (unsigned i = 0; i < step->nchild && all; i++)
		if (step->child[i].got) {
			step->child[i].done = false;
			listen(step, &step->child[i], 0);
			step->child[i].done = true;
		}
	if (all && step->state == GATHERING)
		gathered(step);
}

static void await_parent(struct sf_save_tree_step *step)
{
	struct sf_error e = SF_ERROR_INIT;

	listen(step, &step->parent, 0);
	if (step->state != AWAITING || !late(step, &step->parent, sf_now_ms()))
		return;
	sf_fail(&e, -ETIMEDOUT, "no word from rank %u for %u ms", step->parent.rank,
	        step->timeout_ms);
	give_up(step, -ETIMEDOUT, e.msg);
}

/* Until what was sent has left, or nobody takes it: who does not is missing in the next step. */
static void leave(struct sf_save_tree_step *step, unsigned wait_ms)
{
	const struct shardfuse_comm *c = step->comm;
	bool told = told_children(step);

	if ((told && (!c->flush || c->flush(c->arg, wait_ms) != -EAGAIN)) ||
	    sf_now_ms() - step->left_ms >= step->timeout_ms)
		step->state = ENDED;
	else if (!told && wait_ms)
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

/* All that can be done without waiting. */
static void advance(struct sf_save_tree_step *step)
{
	int64_t now;

	if (step->state == GATHERING)
		await_children(step);
	if (step->state == AWAITING)
		await_parent(step);
	if (step->state == LEAVING)
		leave(step, 0);
	now = sf_now_ms();
	if (step->state < LEAVING && now - step->alive_ms >= beat_ms(step->timeout_ms)) {
		step->alive_ms = now;
		say_alive(step->comm, step->tag, step->state == GATHERING);
	}
}

/* Until a word comes from one that is waited for, this rank has to say one, or @until. */
static void wait_a_while(struct sf_save_tree_step *step, int64_t now, int64_t until)
{
	struct neighbour *who = &step->parent;
	int64_t then = SF_MIN(until, step->alive_ms + beat_ms(step->timeout_ms));
	unsigned wait_ms;

	if (step->state == GATHERING) /* all are needed, so their order is no matter */
		for (unsigned i = step->nchild; i--;)
			if (!step->child[i].done)
				who = &step->child[i];
	wait_ms = then > now ? (unsigned)SF_MIN(then - now, (int64_t)1000000) : 0;
	if (step->state == LEAVING)
		leave(step, wait_ms);
	else
		listen(step, who, wait_ms);
}

int sf_save_tree_poll(struct sf_save_tree_step *step, unsigned wait_ms, struct sf_buf *ret_answer,
                      struct sf_error *err)
{
	int64_t now = sf_now_ms(), until = now + wait_ms;

	for (;;) {
		advance(step);
		if (step->state == ENDED)
			break;
		now = sf_now_ms();
		if (now >= until)
			return -EAGAIN;
		wait_a_while(step, now, until);
	}
	if (step->code < 0)
		return sf_fail(err, step->code, "%s", step->err.msg);
	if (ret_answer) {
		*ret_answer = step->given;
		step->given = (struct sf_buf){ 0 };
	}
	return 0;
}

int sf_save_tree_step(struct sf_save_tree *t, const struct sf_verdict *mine, const void *record,
                      size_t len, sf_save_tree_answer *answer, void *arg, struct sf_buf *ret_answer,
                      struct sf_error *err)
{
	struct sf_save_tree_step *step;
	int r = sf_save_tree_begin(t, mine, record, len, answer, arg, &step, err);

	if (r < 0)
		return r;
	do
		r = sf_save_tree_poll(step, 3600000, ret_answer, err);
	while (r == -EAGAIN);
	sf_save_tree_step_free(step);
	return r;
}
