#include "config.h"

#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread_pool.h"
#include "store/http.h"
#include "store/http_world.h"
#include "store/store.h"

/*
 * A few threads, each with a multi handle of its own: connections are not shared between threads. A
 * request waits in its thread's queue until a connection is free for it.
 */

#define THREADS_MOST 4
#define FLYING_MOST 32   /* requests of a thread under way, and its connections */
#define YIELDING_MOST 28 /* of those, what is fetched ahead */
#define IN_A_ROW 8       /* others that go before one of those that wait, too */
#define SPARE_MOST 8     /* handles that a thread keeps for the next requests */
/* What one recv may bring: CPU time falls up to here. libcurl allocates it for each transfer; it stays below what our malloc maps anew
 * (SF_PAGES_MIN), pages that the kernel clears one by one. */
#define BUFFER_BYTES (240L << 10)
#define HEADERS_MAX (64 << 10)
#define CONNECT_MS 5000L
#define IDLE_S 20L /* an object store closes idle connections after a few seconds */
#define REDIRECTS_MOST 5L
#define TICK_MS 1000

struct flight {
	CURL *easy;
	struct sf_http_req *req;
	struct curl_slist *headers;
	struct sf_http_head head;
	bool answered;
	int r;         /* what a callback said */
	int no_socket; /* the errno that there was none with; 0 */
	int64_t heard_ns;
	curl_off_t sent; /* bytes of the request's body */
	char why[CURL_ERROR_SIZE];
	struct flight *prev, *next;
};

struct queue {
	struct sf_http_req *first, **last;
};

struct worker {
	struct sf_http *http;
	CURLM *multi;
	pthread_t thread;
	bool started;
	_Atomic unsigned load; /* requests that have not ended */
	struct {
		pthread_mutex_t m;
		struct sf_http_req *first, **last;
		bool cancels, ending;
	} locked;
	/* the thread's own */
	struct queue ready, yielding;
	struct sf_http_req *later;
	struct flight *flying, *spare;
	unsigned nflying, nyielding, nspare;
	unsigned in_a_row; /* of ready, while others waited */
};

struct sf_http {
	struct sf_io *io;
	const char *ca_bundle; /* of the environment; NULL: the system's */
	_Atomic uint64_t connections;
	unsigned nworkers;
	struct worker worker[];
};

/* ---- what libcurl calls ---- */

static size_t on_header(char *at, size_t size, size_t n, void *arg)
{
	struct flight *f = arg;
	size_t len = size * n;

	f->heard_ns = sf_now_ns();
	if (f->answered)
		return len;                           /* trailers */
	if (len > 5 && memcmp(at, "HTTP/", 5) == 0) { /* another answer: of a proxy, a redirect */
		sf_buf_reset(&f->head.text);
		return len;
	}
	sf_buf_add(&f->head.text, at, len);
	if (!sf_buf_check(&f->head.text))
		return len;
	f->r = sf_fail(&f->req->err, sf_buf_check(&f->head.text) == -E2BIG ? -EPROTO : -ENOMEM,
	               "an answer with more than %d bytes of headers", HEADERS_MAX);
	return 0;
}

static int answer(struct flight *f)
{
	long status = 0;

	f->answered = true;
	curl_easy_getinfo(f->easy, CURLINFO_RESPONSE_CODE, &status);
	f->head.status = (unsigned)status;
	f->r = f->req->answer ? f->req->answer(f->req, &f->head) : 0;
	return f->r;
}

static size_t on_body(char *at, size_t size, size_t n, void *arg)
{
	struct flight *f = arg;
	size_t len = size * n;

	f->heard_ns = sf_now_ns();
	if (atomic_load_explicit(&f->req->cancelled, memory_order_relaxed))
		f->r = -ECANCELED;
	else if (!f->answered)
		answer(f);
	if (f->r >= 0 && f->req->bytes)
		f->r = f->req->bytes(f->req, at, len);
	return f->r < 0 ? 0 : len;
}

/* ---- how a request ends ---- */

/* "https://host:port", all that is told of a URL. */
static int host_of(const char *url)
{
	const char *at = strstr(url, "://");

	at = at ? at + 3 : url;
	return (int)SF_MIN((size_t)(at - url) + strcspn(at, "/?#"), (size_t)300);
}

static const struct {
	CURLcode code;
	int r;
	bool own_words; /* libcurl's message has no more than the host in it */
} known[] = {
	{ CURLE_COULDNT_RESOLVE_HOST, -EHOSTUNREACH, true },
	{ CURLE_COULDNT_RESOLVE_PROXY, -EHOSTUNREACH, false },
	{ CURLE_COULDNT_CONNECT, -ECONNREFUSED, true },
	{ CURLE_OPERATION_TIMEDOUT, -ETIMEDOUT, true },
	{ CURLE_PARTIAL_FILE, -ECONNRESET, true },
	{ CURLE_GOT_NOTHING, -ECONNRESET, false },
	{ CURLE_SEND_ERROR, -ECONNRESET, true },
	{ CURLE_RECV_ERROR, -ECONNRESET, true },
	{ CURLE_SSL_CONNECT_ERROR, -ECONNABORTED, true },
	{ CURLE_PEER_FAILED_VERIFICATION, -EKEYREJECTED, true },
	{ CURLE_SSL_CACERT_BADFILE, -EKEYREJECTED, true },
	{ CURLE_SSL_ISSUER_ERROR, -EKEYREJECTED, false },
	{ CURLE_TOO_MANY_REDIRECTS, -ELOOP, false },
	{ CURLE_URL_MALFORMAT, -EINVAL, false },
	{ CURLE_OUT_OF_MEMORY, -ENOMEM, false },
};

static curl_socket_t on_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *a)
{
	struct flight *f = arg;
	int fd = socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);

	(void)purpose;
	f->no_socket = fd < 0 ? errno : 0;
	return fd < 0 ? CURL_SOCKET_BAD : fd;
}

static int explain(struct flight *f, CURLcode code)
{
	struct sf_http_req *req = f->req;
	size_t i = 0;

	while (i < SF_ARRAY_LEN(known) && known[i].code != code)
		i++;
	bool own = i < SF_ARRAY_LEN(known) && known[i].own_words && f->why[0];

	/* not the server's fault, and no trying again helps */
	if (f->no_socket == EMFILE || f->no_socket == ENFILE)
		return sf_fail(
			&req->err, -f->no_socket,
			"%.*s: no connection: this process may open no more files (ulimit -n)",
			host_of(req->url), req->url);
	int r = sf_fail(&req->err, i < SF_ARRAY_LEN(known) ? known[i].r : -EPROTO, "%.*s: %s",
	                host_of(req->url), req->url, own ? f->why : curl_easy_strerror(code));
	sf_http_hint(req->url, req->no_proxy, r, &req->err);
	return r;
}

static void end(struct worker *w, struct sf_http_req *req, int r)
{
	if (r == -ECANCELED)
		sf_fail(&req->err, r, "%.*s: canceled", host_of(req->url), req->url);
	atomic_fetch_sub_explicit(&w->load, 1, memory_order_relaxed);
	req->done(req, r);
}

/* A handle whose transfer failed may have kept its buffer, and is not told another's size then. */
static void keep_or_free(struct worker *w, struct flight *f, bool keep)
{
	for (struct curl_slist *l = f->headers; l; l = l->next) /* some say as whom it was asked */
		explicit_bzero(l->data, strlen(l->data));
	curl_slist_free_all(f->headers);
	f->headers = NULL;
	if (keep && w->nspare < SPARE_MOST) {
		curl_easy_reset(f->easy);
		f->next = w->spare;
		w->spare = f;
		w->nspare++;
		return;
	}
	curl_easy_cleanup(f->easy);
	sf_buf_release(&f->head.text);
	free(f);
}

static void land(struct worker *w, struct flight *f, int r)
{
	struct sf_http_req *req = f->req;
	long made = 0;

	curl_easy_getinfo(f->easy, CURLINFO_NUM_CONNECTS, &made);
	if (made > 0)
		atomic_fetch_add_explicit(&w->http->connections, (uint64_t)made,
		                          memory_order_relaxed);
	curl_multi_remove_handle(w->multi, f->easy);
	if (f->prev)
		f->prev->next = f->next;
	else
		w->flying = f->next;
	if (f->next)
		f->next->prev = f->prev;
	w->nflying--;
	w->nyielding -= req->yields;
	keep_or_free(w, f, r >= 0);
	end(w, req, r);
}

static void land_all_done(struct worker *w)
{
	struct CURLMsg *m;
	int left;

	while ((m = curl_multi_info_read(w->multi, &left))) {
		struct flight *f = NULL;
		CURLcode code = m->data.result;
		if (m->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &f);
		if (code == CURLE_OK && !f->answered)
			answer(f);
		land(w, f, f->r < 0 ? f->r : code == CURLE_OK ? 0 : explain(f, code));
	}
}

/* ---- how it begins ---- */

static struct flight *new_flight(struct worker *w)
{
	struct flight *f = w->spare;

	if (f) {
		w->spare = f->next;
		w->nspare--;
	} else {
		f = calloc(1, sizeof(*f));
		if (!f)
			return NULL;
		f->head.text.limit = HEADERS_MAX;
		f->easy = curl_easy_init();
		if (!f->easy) {
			free(f);
			return NULL;
		}
	}
	sf_buf_reset(&f->head.text);
	f->answered = false;
	f->r = f->no_socket = 0;
	f->sent = 0;
	f->why[0] = '\0';
	f->prev = f->next = NULL;
	f->heard_ns = sf_now_ns();
	return f;
}

static bool set_method(CURL *c, const struct sf_http_req *req)
{
	if (strcmp(req->method, "GET") == 0)
		return !curl_easy_setopt(c, CURLOPT_HTTPGET, 1L);
	if (strcmp(req->method, "HEAD") == 0)
		return !curl_easy_setopt(c, CURLOPT_NOBODY, 1L);
	if (req->body || strcmp(req->method, "DELETE") != 0) {
		/* sent from where it is; an empty one has a length too */
		if (curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)req->body_len) ||
		    curl_easy_setopt(c, CURLOPT_POSTFIELDS, req->body ? req->body : ""))
			return false;
	}
	return !curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, req->method);
}

static bool add_header(struct flight *f, const char *line)
{
	struct curl_slist *l = curl_slist_append(f->headers, line);

	if (l)
		f->headers = l;
	return l != NULL;
}

static bool set_headers(struct flight *f, const struct sf_http_req *req)
{
	bool type = false, ok = add_header(f, "Expect:");

	for (const char *const *h = req->headers; h && *h && ok; h++) {
		type = type || strncasecmp(*h, "Content-Type:", 13) == 0;
		ok = add_header(f, *h);
	}
	if (ok && !type)
		ok = add_header(f, "Content-Type:");
	return ok && !curl_easy_setopt(f->easy, CURLOPT_HTTPHEADER, f->headers);
}

/*
 * libcurl asks for a name in a thread of its own and waits for that one, in ours, when the request ends before there is an
 * answer: a name server that does not answer would hold up every request. With this it leaves the thread to end by itself.
 * Older than 7.87 has no such option.
 */
#if LIBCURL_VERSION_NUM >= 0x075700
#define LEAVE_NAMES(c) (!curl_easy_setopt((c), CURLOPT_QUICK_EXIT, 1L))
#else
#define LEAVE_NAMES(c) true
#endif

#define SET(opt, value) (!curl_easy_setopt(c, (opt), (value)))

static bool set_all(struct flight *f, struct sf_http_req *req)
{
	const bool tls = strncasecmp(req->url, "https:", 6) == 0;
	const struct worker *w = req->priv;
	const char *ca = req->ca_bundle ? req->ca_bundle : w->http->ca_bundle;
	CURL *c = f->easy;

	f->req = req;
	return LEAVE_NAMES(c) && SET(CURLOPT_URL, req->url) && SET(CURLOPT_PATH_AS_IS, 1L) &&
	       SET(CURLOPT_PROTOCOLS_STR, "http,https") && SET(CURLOPT_NOSIGNAL, 1L) &&
	       SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) &&
	       SET(CURLOPT_USERAGENT, "shardfuse/" PACKAGE_VERSION) &&
	       SET(CURLOPT_BUFFERSIZE, BUFFER_BYTES) && SET(CURLOPT_TCP_KEEPALIVE, 1L) &&
	       SET(CURLOPT_MAXAGE_CONN, IDLE_S) && SET(CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS) &&
	       SET(CURLOPT_TIMEOUT_MS, (long)req->timeout_ms) && SET(CURLOPT_PRIVATE, (void *)f) &&
	       SET(CURLOPT_OPENSOCKETFUNCTION, on_socket) &&
	       SET(CURLOPT_OPENSOCKETDATA, (void *)f) && SET(CURLOPT_ERRORBUFFER, f->why) &&
	       SET(CURLOPT_HEADERFUNCTION, on_header) && SET(CURLOPT_HEADERDATA, (void *)f) &&
	       SET(CURLOPT_WRITEFUNCTION, on_body) && SET(CURLOPT_WRITEDATA, (void *)f) &&
	       SET(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L) &&
	       SET(CURLOPT_FOLLOWLOCATION, req->follow ? 1L : 0L) &&
	       SET(CURLOPT_MAXREDIRS, REDIRECTS_MOST) &&
	       SET(CURLOPT_REDIR_PROTOCOLS_STR, tls ? "https" : "http,https") &&
	       (!req->fresh || SET(CURLOPT_FRESH_CONNECT, 1L)) &&
	       (!req->no_proxy || SET(CURLOPT_NOPROXY, "*")) && (!ca || SET(CURLOPT_CAINFO, ca)) &&
	       set_method(c, req) && set_headers(f, req);
}

static void take_off(struct worker *w, struct sf_http_req *req)
{
	struct flight *f = new_flight(w);

	if (!f || !set_all(f, req) || curl_multi_add_handle(w->multi, f->easy)) {
		if (f)
			keep_or_free(w, f, false);
		end(w, req,
		    sf_fail(&req->err, -ENOMEM, "%.*s: no memory for a request", host_of(req->url),
		            req->url));
		return;
	}
	f->next = w->flying;
	if (f->next)
		f->next->prev = f;
	w->flying = f;
	w->nflying++;
	w->nyielding += req->yields;
}

/* ---- a thread ---- */

static void enqueue(struct worker *w, struct sf_http_req *req)
{
	struct queue *q = req->yields ? &w->yielding : &w->ready;

	req->next = NULL;
	*q->last = req;
	q->last = &req->next;
}

static bool may_go(const struct worker *w)
{
	return w->nflying < FLYING_MOST &&
	       (w->ready.first || (w->yielding.first && w->nyielding < YIELDING_MOST));
}

/* The next one that may go, out of its queue; NULL: none may. */
static struct sf_http_req *next_ready(struct worker *w)
{
	const bool may_yielding = w->yielding.first && w->nyielding < YIELDING_MOST;
	struct sf_http_req *req;
	struct queue *q;

	if (!may_go(w))
		return NULL;
	q = w->ready.first && (!may_yielding || w->in_a_row < IN_A_ROW) ? &w->ready : &w->yielding;
	w->in_a_row = q == &w->ready && may_yielding ? w->in_a_row + 1 : 0;
	req = q->first;
	q->first = req->next;
	if (!q->first)
		q->last = &q->first;
	return req;
}

/* Those whose time has come; how long until that of the next, @most_ms at most. */
static int take_due(struct worker *w, int most_ms)
{
	const int64_t now = sf_now_ns();

	for (struct sf_http_req **p = &w->later, *req; (req = *p);) {
		if (req->not_before_ns <= now) {
			*p = req->next;
			enqueue(w, req);
			continue;
		}
		most_ms = (int)SF_MIN((req->not_before_ns - now) / 1000000 + 1, (int64_t)most_ms);
		p = &req->next;
	}
	return most_ms;
}

static void end_cancelled_of(struct worker *w, struct sf_http_req **list, bool all)
{
	for (struct sf_http_req *req; (req = *list);) {
		if (!all && !req->cancelled) {
			list = &req->next;
			continue;
		}
		*list = req->next;
		end(w, req, -ECANCELED);
	}
}

static void end_cancelled_in(struct worker *w, struct queue *q, bool all)
{
	end_cancelled_of(w, &q->first, all);
	for (q->last = &q->first; *q->last; q->last = &(*q->last)->next)
		;
}

static void end_cancelled(struct worker *w, bool all)
{
	end_cancelled_of(w, &w->later, all);
	end_cancelled_in(w, &w->ready, all);
	end_cancelled_in(w, &w->yielding, all);
	for (struct flight *f = w->flying, *next; f; f = next) {
		next = f->next;
		if (all || f->req->cancelled)
			land(w, f, -ECANCELED);
	}
}

/* Servers that say nothing for too long: libcurl looks at an average speed, which is seconds late. */
static void see_sent(struct flight *f, int64_t now)
{
	curl_off_t sent = 0;

	if (!f->req->body_len || curl_easy_getinfo(f->easy, CURLINFO_SIZE_UPLOAD_T, &sent) ||
	    sent == f->sent)
		return;
	f->sent = sent;
	f->heard_ns = now;
}

static int end_stalled(struct worker *w, int most_ms)
{
	const int64_t now = sf_now_ns();

	for (struct flight *f = w->flying, *next; f; f = next) {
		struct sf_http_req *req = f->req;
		next = f->next;
		if (!req->stall_ms)
			continue;
		see_sent(f, now);
		int64_t left = f->heard_ns / 1000000 + req->stall_ms - now / 1000000;
		if (left <= 0)
			land(w, f,
			     sf_fail(&req->err, -ETIMEDOUT, "%.*s: no byte came for %u ms",
			             host_of(req->url), req->url, req->stall_ms));
		else
			most_ms = (int)SF_MIN(left, (int64_t)most_ms);
	}
	return most_ms;
}

static void *run(void *arg)
{
	struct worker *w = arg;
	bool ending = false;

	pthread_setname_np(pthread_self(), "sf-http");
	while (!ending) {
		struct sf_http_req *in;
		bool cancels;
		int running, wait_ms;

		pthread_mutex_lock(&w->locked.m);
		in = w->locked.first;
		w->locked.first = NULL;
		w->locked.last = &w->locked.first;
		cancels = w->locked.cancels;
		w->locked.cancels = false;
		ending = w->locked.ending;
		pthread_mutex_unlock(&w->locked.m);

		for (struct sf_http_req *next; in; in = next) {
			next = in->next;
			if (in->not_before_ns) {
				in->next = w->later;
				w->later = in;
			} else {
				enqueue(w, in);
			}
		}
		if (cancels || ending)
			end_cancelled(w, ending);
		wait_ms = take_due(w, TICK_MS);
		for (struct sf_http_req *req; (req = next_ready(w));)
			take_off(w, req);
		curl_multi_perform(w->multi, &running);
		land_all_done(w);
		wait_ms = end_stalled(w, wait_ms);
		if (may_go(w))
			wait_ms = 0;
		if (!ending)
			curl_multi_poll(w->multi, NULL, 0, wait_ms, NULL);
	}
	return NULL;
}

/* ---- what others call ---- */

void sf_http_submit(struct sf_http *http, struct sf_http_req *req)
{
	struct worker *w = &http->worker[0];

	/* a lone stream stays on one thread, with its connection */
	for (unsigned i = 1; i < http->nworkers; i++)
		if (http->worker[i].load < w->load)
			w = &http->worker[i];
	atomic_fetch_add_explicit(&w->load, 1, memory_order_relaxed);
	req->priv = w;
	req->next = NULL;
	req->cancelled = false;
	req->err.msg[0] = '\0';
	pthread_mutex_lock(&w->locked.m);
	*w->locked.last = req;
	w->locked.last = &req->next;
	/* under the lock: the thread, and its handle, may be gone once it has ended what it had */
	curl_multi_wakeup(w->multi);
	pthread_mutex_unlock(&w->locked.m);
}

void sf_http_cancel(struct sf_http_req *req)
{
	struct worker *w = req->priv;

	req->cancelled = true;
	pthread_mutex_lock(&w->locked.m);
	w->locked.cancels = true;
	curl_multi_wakeup(w->multi);
	pthread_mutex_unlock(&w->locked.m);
}

uint64_t sf_http_connections(const struct sf_http *http)
{
	return http->connections;
}

static void free_spare(struct worker *w)
{
	for (struct flight *f; (f = w->spare);) {
		w->spare = f->next;
		curl_easy_cleanup(f->easy);
		sf_buf_release(&f->head.text);
		free(f);
	}
}

void sf_http_free(struct sf_http *http)
{
	for (unsigned i = 0; http && i < http->nworkers; i++) {
		struct worker *w = &http->worker[i];
		if (w->started) {
			pthread_mutex_lock(&w->locked.m);
			w->locked.ending = true;
			curl_multi_wakeup(w->multi);
			pthread_mutex_unlock(&w->locked.m);
			pthread_join(w->thread, NULL);
		}
		free_spare(w);
		curl_multi_cleanup(w->multi);
		pthread_mutex_destroy(&w->locked.m);
	}
	free(http);
}

static void init_curl(void)
{
	curl_global_init(CURL_GLOBAL_DEFAULT); /* what it needs stays for the process's life */
}

static int start(struct sf_io *io, struct sf_http **ret, struct sf_error *err)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned n = (unsigned)SF_MAX(SF_MIN(cpus, THREADS_MOST), 1L);
	struct sf_http *http = calloc(1, sizeof(*http) + n * sizeof(http->worker[0]));
	int r = 0;

	if (!http)
		return sf_fail(err, -ENOMEM, "no memory for %u threads of HTTP", n);
	pthread_once(&once, init_curl);
	http->io = io;
	http->ca_bundle = sf_http_ca_bundle(NULL);
	for (unsigned i = 0; i < n && r >= 0; i++) {
		struct worker *w = &http->worker[i];
		pthread_mutex_init(&w->locked.m, NULL);
		w->locked.last = &w->locked.first;
		w->ready.last = &w->ready.first;
		w->yielding.last = &w->yielding.first;
		w->http = http;
		w->multi = curl_multi_init();
		http->nworkers++;
		if (!w->multi) {
			r = sf_fail(err, -ENOMEM, "no memory for connections");
			break;
		}
		curl_multi_setopt(w->multi, CURLMOPT_MAXCONNECTS, (long)FLYING_MOST);
		r = sf_thread_start(&w->thread, run, w);
		w->started = r >= 0;
		if (r < 0)
			sf_fail(err, r, "no thread for HTTP: %s", strerror(-r));
	}
	if (r < 0) {
		sf_http_free(http);
		return r;
	}
	*ret = http;
	return 0;
}

int sf_http_get(struct sf_io *io, struct sf_http **ret, struct sf_error *err)
{
	static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER; /* makes them one at a time */
	struct sf_http *http = atomic_load_explicit(&io->http, memory_order_acquire);
	int r = 0;

	if (!http) {
		pthread_mutex_lock(&one);
		http = atomic_load_explicit(&io->http, memory_order_relaxed);
		if (!http)
			r = start(io, &http, err);
		if (r >= 0)
			atomic_store_explicit(&io->http, http, memory_order_release);
		pthread_mutex_unlock(&one);
	}
	if (r >= 0)
		*ret = http;
	return r;
}
