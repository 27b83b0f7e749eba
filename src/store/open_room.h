/* Room for files that reads under way hold open beside those that are kept (open_files.h): of all
 * readers of a process. */
#ifndef SF_STORE_OPEN_ROOM_H
#define SF_STORE_OPEN_ROOM_H

#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"

/*
 * Where all files of all readers fit those that are kept, none is ever let go while it is in use,
 * and nothing is counted. Where they do not, whoever holds some takes room for them first, all at
 * once, first come first served, and never while it has some: whose turn it is comes to an end.
 * Threads: all functions, any number of calls at once.
 */
struct sf_open_room;
/* @kept: files that are kept open. @least: room for so many at any rate. */
int sf_open_room_new(unsigned kept, unsigned least, struct sf_open_room **ret,
                     struct sf_error *err);
void sf_open_room_free(struct sf_open_room *room); /* NULL is fine */

void sf_open_room_add(struct sf_open_room *room, uint64_t files); /* a reader's come */
void sf_open_room_remove(struct sf_open_room *room, uint64_t files);
bool sf_open_room_counts(const struct sf_open_room *room); /* they do not all fit */

struct sf_open_wait {
	uint32_t n; /* files, at most @least */
	void (*granted)(
		struct sf_open_wait *w); /* once, any thread, no lock held, not to go on in */
	struct sf_open_wait *next;
};
bool sf_open_room_take(struct sf_open_room *room, uint32_t n);
/* True: taken at once. False: granted is called when it is. */
bool sf_open_room_queue(struct sf_open_room *room, struct sf_open_wait *w);
void sf_open_room_give(struct sf_open_room *room, uint32_t n);

#endif
