#include "config.h"

#include "base/mem.h"
#include "read/op.h"

/* The diagram of op.h as a table. No other file sets op->state. */
static const struct state {
	int (*run)(struct sf_op *op);
	enum sf_op_state next;
	enum sf_op_state other; /* when run says SF_STEP_OTHER */
} states[] = {
	[SF_OP_BUFFERS] = { sf_op_take_buffers, SF_OP_MADE },
	[SF_OP_MADE] = { sf_op_ask_made, SF_OP_COPY_MADE },
	[SF_OP_COPY_MADE] = { sf_op_copy_made, SF_OP_BATCH },
	[SF_OP_BATCH] = { sf_op_next_batch, SF_OP_FILES, SF_OP_FINISH },
	[SF_OP_FILES] = { sf_op_take_files, SF_OP_OPEN },
	[SF_OP_OPEN] = { sf_op_open, SF_OP_HEADERS },
	[SF_OP_HEADERS] = { sf_op_ask_headers, SF_OP_SLOW, SF_OP_HEADER_IO },
	[SF_OP_HEADER_IO] = { sf_op_io, SF_OP_PARSE },
	[SF_OP_PARSE] = { sf_op_parse_headers, SF_OP_SLOW, SF_OP_HEADERS },
	[SF_OP_SLOW] = { sf_op_ask_slow, SF_OP_CACHE, SF_OP_SLOW_IO },
	[SF_OP_SLOW_IO] = { sf_op_io, SF_OP_SLOW_PARSE },
	[SF_OP_SLOW_PARSE] = { sf_op_parse_slow, SF_OP_SLOW },
	[SF_OP_CACHE] = { sf_op_ask_cache, SF_OP_CACHED },
	[SF_OP_CACHED] = { sf_op_use_cached, SF_OP_PIECES, SF_OP_BATCH },
	[SF_OP_PIECES] = { sf_op_make_pieces, SF_OP_IO },
	[SF_OP_IO] = { sf_op_io, SF_OP_SETTLE },
	[SF_OP_SETTLE] = { sf_op_settle_batch, SF_OP_BATCH, SF_OP_PIECES },
	[SF_OP_FINISH] = { sf_op_finish, SF_OP_DONE },
};

void sf_op_steps_begin(struct sf_op *op)
{
	op->state = SF_OP_BUFFERS;
}

int sf_op_steps(struct sf_op *op)
{
	while (op->state != SF_OP_DONE) {
		const struct state *s = &states[op->state];
		int r;

		if (op->failed)
			return op->failed;
		if (op->may_wait && atomic_load_explicit(&op->claimed, memory_order_acquire))
			return sf_fail(&op->err, -ECANCELED, "canceled");
		/* before it is run: once it has parked, the op is another thread's */
		op->state = s->next;
		r = s->run(op);
		if (r == -EAGAIN) /* it may not wait: this step is the first when it may */
			op->state = (enum sf_op_state)(s - states);
		if (r < 0 || r == SF_STEP_WAITS)
			return r;
		if (r == SF_STEP_OTHER)
			op->state = s->other;
	}
	return 0;
}
