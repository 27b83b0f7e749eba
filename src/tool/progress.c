#include "config.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>
#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "tool/progress.h"

enum { TICK_MS = 100, BAR = 20, COLUMNS = 80 };

/* The terminal is the process's, so this is too. */
static struct {
	pthread_mutex_t m;
	pthread_cond_t c; /* the line's thread waits here for the end */
	struct sf_progress *shown;
	bool drawn; /* the cursor stands in our line */
	bool made;  /* c is */
} terminal = { .m = PTHREAD_MUTEX_INITIALIZER };

static void wipe_locked(void)
{
	if (!terminal.drawn)
		return;
	fputs("\r\033[K", stderr);
	fflush(stderr);
	terminal.drawn = false;
}

void sf_terminal_lock(void)
{
	pthread_mutex_lock(&terminal.m);
	wipe_locked();
}

void sf_terminal_unlock(void)
{
	pthread_mutex_unlock(&terminal.m);
}

void sf_terminal_leave(void)
{
	const struct timespec tick = { .tv_nsec = 10000000 };

	/* whoever prints may be held by the terminal: then the line is the least of it */
	for (int i = 0; i < 100; i++) {
		if (pthread_mutex_trylock(&terminal.m) == 0) {
			wipe_locked();
			break;
		}
		nanosleep(&tick, NULL);
	}
}

/* The unit in which @bytes has a digit before the point, and what one of it is. */
static const char *unit_of(uint64_t bytes, double *ret_one)
{
	static const char *const units[] = { "B", "KB", "MB", "GB", "TB", "PB", "EB" };
	size_t i = 0;

	for (*ret_one = 1; (double)bytes >= 1000 * *ret_one && i + 1 < SF_ARRAY_LEN(units); i++)
		*ret_one *= 1000;
	return units[i];
}

static void put_eta(struct sf_buf *line, double seconds)
{
	uint64_t s = seconds < 3600 * 99 ? (uint64_t)(seconds + 0.5) : 3600 * 99;

	if (s < 3600)
		sf_buf_printf(line, ", ETA %u:%02u", (unsigned)(s / 60), (unsigned)(s % 60));
	else
		sf_buf_printf(line, ", ETA %u:%02u:%02u", (unsigned)(s / 3600),
		              (unsigned)(s / 60 % 60), (unsigned)(s % 60));
}

static void put_bar(struct sf_buf *line, double part)
{
	unsigned done = (unsigned)(part * BAR);

	sf_buf_byte(line, '[');
	for (unsigned i = 0; i < BAR; i++)
		sf_buf_byte(line, i < done ? '=' : i == done ? '>' : ' ');
	sf_buf_printf(line, "] %3u %%  ", (unsigned)(part * 100));
}

/* The last part of the name that fits @columns: a character outside ASCII may take two of them. */
static void put_name(struct sf_buf *line, const char *file, size_t columns)
{
	struct sf_buf name = { 0 };

	sf_escape_text(&name, file, strlen(file));
	const char *s = sf_buf_cstr(&name), *from = s + strlen(s);
	while (from > s) {
		const char *c = from - 1;
		while (c > s && ((unsigned char)*c & 0xc0) == 0x80)
			c--;
		size_t wide = (unsigned char)*c < 0x80 ? 1 : 2;
		if (wide > columns)
			break;
		columns -= wide;
		from = c;
	}
	sf_buf_str(line, from);
	sf_buf_release(&name);
}

static void draw_locked(const struct sf_progress *p)
{
	uint64_t bytes = atomic_load_explicit(&p->bytes, memory_order_relaxed);
	uint64_t total = atomic_load_explicit(&p->total, memory_order_relaxed);
	double seconds = (double)(sf_now_ns() - p->begun_ns) / 1e9 + 1e-9;
	double rate = (double)bytes / seconds, one;
	const char *unit = unit_of(SF_MAX(bytes, total), &one);
	struct sf_buf line = { 0 };
	struct winsize w;
	size_t columns = ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col ? w.ws_col : COLUMNS;

	if (total) {
		/* what is found out on the way may be more than was planned */
		put_bar(&line, (double)SF_MIN(bytes, total) / (double)total);
		sf_buf_printf(&line, "%.2f of %.2f %s, %.2f %s/s", (double)bytes / one,
		              (double)total / one, unit, rate / one, unit);
		if (bytes && bytes < total)
			put_eta(&line, (double)(total - bytes) / rate);
	} else {
		sf_buf_printf(&line, "%.2f %s, %.2f %s/s", (double)bytes / one, unit, rate / one,
		              unit);
	}
	if (p->file && line.len + 3 < columns) {
		sf_buf_str(&line, "  ");
		put_name(&line, p->file, columns - 1 - line.len);
	}
	if (sf_buf_check(&line) == 0)
		fprintf(stderr, "\r%.*s\033[K", (int)SF_MIN(line.len, columns - 1),
		        sf_buf_cstr(&line));
	fflush(stderr);
	terminal.drawn = true;
	sf_buf_release(&line);
}

static void *show(void *arg)
{
	struct sf_progress *p = arg;

	pthread_mutex_lock(&terminal.m);
	while (terminal.shown == p) {
		const struct timespec until = sf_until_ms(CLOCK_MONOTONIC, TICK_MS);
		pthread_cond_timedwait(&terminal.c, &terminal.m, &until);
		if (terminal.shown == p)
			draw_locked(p);
	}
	pthread_mutex_unlock(&terminal.m);
	return NULL;
}

void sf_progress_init(struct sf_progress *p, bool quiet)
{
	const char *term = getenv("TERM");

	*p = (struct sf_progress){ .on = !quiet && isatty(STDERR_FILENO) && term &&
		                         strcmp(term, "dumb") != 0,
		                   .begun_ns = sf_now_ns() };
}

void sf_progress_start(struct sf_progress *p)
{
	if (!p->on || p->running)
		return;
	pthread_mutex_lock(&terminal.m);
	if (!terminal.made)
		sf_cond_init(&terminal.c);
	terminal.made = true;
	if (!terminal.shown) {
		terminal.shown = p;
		p->running = pthread_create(&p->thread, NULL, show, p) == 0;
		if (!p->running)
			terminal.shown = NULL; /* work goes on without it */
	}
	pthread_mutex_unlock(&terminal.m);
}

void sf_progress_add(struct sf_progress *p, uint64_t bytes)
{
	atomic_fetch_add_explicit(&p->bytes, bytes, memory_order_relaxed);
}

void sf_progress_file(struct sf_progress *p, const char *path)
{
	if (!p->running)
		return;
	pthread_mutex_lock(&terminal.m);
	p->file = path;
	pthread_mutex_unlock(&terminal.m);
}

void sf_progress_end(struct sf_progress *p)
{
	if (!p->running)
		return;
	sf_terminal_lock();
	terminal.shown = NULL;
	pthread_cond_signal(&terminal.c);
	sf_terminal_unlock();
	pthread_join(p->thread, NULL);
	p->running = false;
	p->file = NULL;
}

void sf_progress_summary(const struct sf_progress *p, const char *verb)
{
	uint64_t bytes = atomic_load(&p->bytes);
	double seconds = (double)(sf_now_ns() - p->begun_ns) / 1e9, one, rate_one;
	double rate = (double)bytes / (seconds + 1e-9);
	const char *unit = unit_of(bytes, &one), *rate_unit = unit_of((uint64_t)rate, &rate_one);

	if (!p->on)
		return;
	sf_terminal_lock();
	fprintf(stderr, "%s %.2f %s in %.1f s (%.2f %s/s)\n", verb, (double)bytes / one, unit,
	        seconds, rate / rate_one, rate_unit);
	sf_terminal_unlock();
}
