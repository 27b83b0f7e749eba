/* Debug lines for whoever wants them: the library never prints; the program gives a handler. */
#ifndef SF_BASE_LOG_H
#define SF_BASE_LOG_H

enum sf_log_level { SF_LOG_ERROR, SF_LOG_WARN, SF_LOG_INFO, SF_LOG_DEBUG };

/* Threads: write may be called from any thread, never with one of our locks held. One line, no
 * newline. */
struct sf_log {
	void (*write)(void *arg, enum sf_log_level level, const char *line);
	void *arg;
	enum sf_log_level level; /* lines above it are not formatted */
};

/* @log may be NULL (nobody listens). */
void sf_log(const struct sf_log *log, enum sf_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
