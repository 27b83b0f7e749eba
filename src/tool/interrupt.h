/* A verb that writes is told to stop: nothing half done is left behind. */
#ifndef SF_TOOL_INTERRUPT_H
#define SF_TOOL_INTERRUPT_H

#include <stdatomic.h>
#include <stdbool.h>

/*
 * For programs, before they start a thread. SIGINT, SIGTERM, SIGHUP and SIGQUIT, where they are not
 * ignored, remove the temporary files and wipe the progress line; then the process ends of the
 * signal. SIGPIPE and SIGXFSZ are ignored: the write that meets them fails, with a message.
 */
void sf_interrupt_init(void);

/*
 * Around work that has to end by itself so that nothing is left of it: between the two a signal sets @stop
 * and waits for the end, a second one does not wait. sf_interrupt_release does not return after a signal:
 * the process ends of it. One at a time, one thread.
 */
void sf_interrupt_hold(_Atomic bool *stop);
void sf_interrupt_release(void);

#endif
