/* A server that does not answer, or only that it cannot: what all who ask it know of that. */
#ifndef SF_STORE_OUTAGE_H
#define SF_STORE_OUTAGE_H

#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"

struct sf_io;
struct sf_counters;

/*
 * One server's ("https://host:port"), of all stores of a process. While requests fail now and then
 * each is tried again by itself. Once nothing was answered for two seconds, or a store may spend no
 * more on tries, the server is away: then one request at a time asks it again, at random within five
 * seconds of the last one, whoever has asked least first, and the rest wait for that one. The first
 * answer lets all go on. So a deadline can be waited for without that a server is overrun that is
 * about to come back.
 *
 * When it has been away for the whole deadline of a read, those that come next end soon
 * (sf_outage_dead), for half a minute at most: the kernel asks page by page for what it did not get.
 *
 * The times are for io->retry_ms = 200 and scale with it.
 *
 * Lasts as long as the io. Threads: any; no function waits. A line is logged when it is away and one when it
 * is back, at most a pair in half a minute.
 */
struct sf_outage;
/* Of the server of @url. NULL: no memory. */
struct sf_outage *sf_outage_of(struct sf_io *io, const char *url);

/* What the first wait before a further try is at most, ms; others are multiples. */
unsigned sf_outage_first_ms(const struct sf_io *io);

/* A request that waits until it may try again: in its owner's memory. */
enum sf_turn_state { SF_TURN_NONE, SF_TURN_WAITS, SF_TURN_PROBES, SF_TURN_FOLLOWS, SF_TURN_LEADS };
struct sf_turn {
	/* Once for each wait; it may take no lock that is held when a function here is called. 0: try,
	 * not before @not_before_ns; else the request is over, and @why. */
	void (*go)(struct sf_turn *t, int r, const char *why);
	int64_t end_ns; /* of sf_now_ns(): it is of no use then; 0: none */
	unsigned tries;
	/* the outage's; the owner's to read while go was called and it does not wait */
	enum sf_turn_state state;
	int64_t not_before_ns;
	struct sf_turn *prev, *next;
};

/* A try that was sent at @sent_ns failed, and the server may be asked again in @after_ms (-1: it did
 * not say). @why: with the server's name in it. True: it is away. */
bool sf_outage_failed(struct sf_outage *o, int64_t sent_ns, int64_t after_ms, const char *why);
void sf_outage_spent(struct sf_outage *o); /* it is away: nothing is left for tries */
/* A read's deadline begins a little before that of its request: ns. */
int64_t sf_outage_slack_ns(const struct sf_io *io);
/* It answered as servers do: all go on. */
void sf_outage_answered(struct sf_outage *o);

/* Of a server that is away: go comes when it is @t's turn, or the server is back. */
void sf_outage_wait(struct sf_outage *o, struct sf_turn *t);
/* Has it been away for as long as a read waits, just now? Who comes then has two seconds for what it
 * tries again. */
bool sf_outage_dead(struct sf_outage *o);
/* One of those: true: no other is trying. False: go comes when that one has ended. */
bool sf_outage_lead(struct sf_outage *o, struct sf_turn *t);
/* True: go is not called any more. */
bool sf_outage_leave(struct sf_outage *o, struct sf_turn *t);
/*
 * @t had its turn, and its try has ended, or is none: another has it. Of one that led, negative @r
 * ends those that wait for it: nothing came from the server at all. Nothing, if it had none.
 */
void sf_outage_over(struct sf_outage *o, struct sf_turn *t, int r, const char *why);
/* The transport ends: nobody waits any more. */
void sf_outage_end(struct sf_outage *o);

/* Further tries wait for an answer from @o, or not any more: @n 1 or -1. */
void sf_outage_count(struct sf_outage *o, int n);

/* For who looks: a process's servers. */
struct sf_outage_look {
	const char *server; /* lasts as long as the io */
	bool away;          /* the rest is of that */
	uint64_t for_s,
		waits; /* since its last answer; requests that were tried in vain and wait */
	char why[SF_ERROR_MAX];
};
struct sf_outage *sf_outage_first(const struct sf_counters *c); /* NULL: none failed so far */
struct sf_outage *sf_outage_next(const struct sf_outage *o);
void sf_outage_look(struct sf_outage *o, struct sf_outage_look *ret);
void sf_outages_free(struct sf_io *io);

#endif
