/* A verb that writes is told to stop: nothing half done is left behind. */
#ifndef SF_TOOL_INTERRUPT_H
#define SF_TOOL_INTERRUPT_H

/*
 * For programs, before they start a thread. SIGINT, SIGTERM, SIGHUP and SIGQUIT, where they are not
 * ignored, remove the temporary files and wipe the progress line; then the process ends of the
 * signal. SIGPIPE and SIGXFSZ are ignored: the write that meets them fails, with a message.
 */
void sf_interrupt_init(void);

#endif
