/* The functions of a CUDA runtime that are called, and what the header says of them. */
#include "config.h"

#include <pthread.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef SF_HAVE_CUDART_H
#include <cuda_runtime_api.h>
#endif
#include "fake_cudart.h"

#define API __attribute__((visibility("default")))
#define GPUS_MAX 8
#define POISON 0xdb

struct memory {
	struct memory *next;
	uint8_t *at, *alias; /* alias: of a GPU's, where its bytes can be reached */
	size_t len;
	int gpu; /* -1: pinned */
	void *base;
	size_t base_len;
};

enum kind { COPY, KERNEL, RECORD, WAIT };
struct op {
	struct op *next;
	enum kind kind;
	uint8_t *to;
	const uint8_t *from;
	uint8_t *own; /* a kernel's bytes: nobody need wait for what nobody reads */
	size_t dpitch, spitch, width, height;
	struct CUevent_st *event;
	uint64_t turn;          /* of the event's records */
	struct CUstream_st *of; /* where that record is */
};
struct CUstream_st {
	struct CUstream_st *next;
	int gpu;
	bool capturing;
	struct op *first, **end;
};
struct CUevent_st {
	struct CUevent_st *next;
	int gpu;
	uint64_t recorded, done; /* turns */
	struct CUstream_st *of;  /* of the last one */
};

static struct {
	pthread_mutex_t m;
	int gpus;
	bool context[GPUS_MAX];
	struct memory *memory;
	struct CUstream_st legacy[GPUS_MAX], *streams;
	struct CUevent_st *events;
	struct fake_counts counts;
	unsigned long fail_at;
	cudaError_t fail_with;
	bool odd, none;
	char wrong[256];
} w = { .m = PTHREAD_MUTEX_INITIALIZER, .gpus = 1 };
static _Thread_local int current;
static _Thread_local cudaError_t last;

static void wrong(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void wrong(const char *fmt, ...)
{
	va_list ap;

	if (w.wrong[0])
		return;
	va_start(ap, fmt);
	vsnprintf(w.wrong, sizeof(w.wrong), fmt, ap);
	va_end(ap);
}

static cudaError_t out(cudaError_t e)
{
	if (e != cudaSuccess)
		last = e;
	pthread_mutex_unlock(&w.m);
	return e;
}

/* Into a call: 0, or the error that it is to fail with. */
static cudaError_t in(void)
{
	pthread_mutex_lock(&w.m);
	w.counts.calls++;
	return w.counts.calls == w.fail_at ? w.fail_with : cudaSuccess;
}

/* Most calls make a context where there is none. */
static cudaError_t in_context(void)
{
	cudaError_t e = in();

	w.context[current] = true;
	return e;
}

static struct memory *find(const void *at, size_t len)
{
	for (struct memory *m = w.memory; m; m = m->next)
		if ((const uint8_t *)at >= m->at && (const uint8_t *)at + len <= m->at + m->len)
			return m;
	return NULL;
}

/* ---- streams ---- */

static void run(struct op *op);

/* What is on @s until @e's @turn is recorded (NULL: all). */
static void drain(struct CUstream_st *s, const struct CUevent_st *e, uint64_t turn)
{
	while (s->first && (!e || e->done < turn)) {
		struct op *op = s->first;
		s->first = op->next;
		if (!s->first)
			s->end = &s->first;
		run(op);
		free(op->own);
		free(op);
	}
}

static void run(struct op *op)
{
	struct memory *m;

	switch (op->kind) {
	case COPY:
		for (size_t i = 0; i < op->height; i++) {
			m = find(op->from + i * op->spitch, op->width);
			if (!m || m->gpu < 0)
				wrong("the memory of a copy went before it ran");
			else
				memcpy(op->to + i * op->dpitch,
				       m->alias + (op->from + i * op->spitch - m->at), op->width);
		}
		break;
	case KERNEL:
		m = find(op->to, op->width);
		if (m)
			memcpy(m->alias + (op->to - m->at), op->from, op->width);
		break;
	case RECORD:
		op->event->done = op->turn;
		break;
	case WAIT:
		if (op->event->done < op->turn)
			drain(op->of, op->event, op->turn);
		break;
	}
}

struct later {
	struct CUstream_st *s;
	const struct CUevent_st *e;
	uint64_t turn;
};

static void *run_later(void *arg)
{
	struct later *l = arg;

	pthread_mutex_lock(&w.m);
	drain(l->s, l->e, l->turn);
	pthread_mutex_unlock(&w.m);
	return NULL;
}

/* In a thread of its own, as a GPU would. */
static void wait_for(struct CUstream_st *s, const struct CUevent_st *e, uint64_t turn)
{
	struct later l = { s, e, turn };
	pthread_t t;

	pthread_mutex_unlock(&w.m);
	if (pthread_create(&t, NULL, run_later, &l) == 0)
		pthread_join(t, NULL);
	else
		run_later(&l);
	pthread_mutex_lock(&w.m);
}

static void push(struct CUstream_st *s, struct op op)
{
	struct op *o = malloc(sizeof(*o));

	*o = op;
	o->next = NULL;
	if (!s->first)
		s->end = &s->first;
	*s->end = o;
	s->end = &o->next;
}

static struct CUstream_st *stream_of(cudaStream_t s)
{
	if (s == cudaStreamPerThread)
		wrong("the stream of a thread");
	return (uintptr_t)s <= 2 ? &w.legacy[current] : s;
}

static bool is_on_its_way(const uint8_t *at, size_t len)
{
	for (struct CUstream_st *s = w.streams; s; s = s->next)
		for (struct op *o = s->first; o; o = o->next)
			if (o->kind == COPY && o->to < at + len &&
			    o->to + o->dpitch * (o->height - 1) + o->width > at)
				return true;
	return false;
}

/* ---- the runtime's ---- */

API cudaError_t cudaGetLastError(void)
{
	cudaError_t e = last;

	last = cudaSuccess;
	return e;
}

API const char *cudaGetErrorString(cudaError_t error)
{
	switch ((int)error) {
	case cudaErrorMemoryAllocation:
		return "out of memory";
	case cudaErrorNoDevice:
		return "no CUDA-capable device is detected";
	case 700:
		return "an illegal memory access was encountered";
	default:
		return "a fake's error";
	}
}

API cudaError_t cudaGetDeviceCount(int *count)
{
	cudaError_t e = in();

	*count = w.gpus;
	return out(e != cudaSuccess || w.gpus ? e : cudaErrorNoDevice);
}

API cudaError_t cudaGetDevice(int *device)
{
	cudaError_t e = in();

	*device = current;
	return out(e);
}

API cudaError_t cudaSetDevice(int device)
{
	cudaError_t e = in();

	if (e == cudaSuccess && (device < 0 || device >= w.gpus))
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess) {
		current = device;
		w.context[device] = true;
	}
	return out(e);
}

/* Of the driver. */
API int cuDevicePrimaryCtxGetState(int gpu, unsigned *flags, int *active);
API int cuDevicePrimaryCtxGetState(int gpu, unsigned *flags, int *active)
{
	pthread_mutex_lock(&w.m);
	*flags = 0;
	*active = w.context[gpu];
	pthread_mutex_unlock(&w.m);
	return 0;
}

API cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
	static _Thread_local enum cudaStreamCaptureMode mine = cudaStreamCaptureModeGlobal;
	enum cudaStreamCaptureMode was = mine;

	mine = *mode;
	*mode = was;
	return cudaSuccess;
}

API cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *ptr)
{
	cudaError_t e = in_context();
	const struct memory *m = find(ptr, 1);

	attributes->type = !m           ? cudaMemoryTypeUnregistered
	                   : m->gpu < 0 ? cudaMemoryTypeHost
	                                : cudaMemoryTypeDevice;
	attributes->device = !m ? -2 : m->gpu < 0 ? 0 : m->gpu;
	return out(e);
}

API cudaError_t cudaHostAlloc(void **pHost, size_t size, unsigned int flags)
{
	cudaError_t e = in_context();

	if (e == cudaSuccess && w.none)
		e = cudaErrorMemoryAllocation;
	if (!(flags & cudaHostAllocPortable))
		wrong("a buffer that one GPU alone can use");
	if (e == cudaSuccess) {
		struct memory *m = calloc(1, sizeof(*m));
		m->base_len = size + 4096;
		m->base = mmap(NULL, m->base_len, PROT_READ | PROT_WRITE,
		               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		m->at = (uint8_t *)m->base + (w.odd ? 64 : 0);
		m->len = size;
		m->gpu = -1;
		m->next = w.memory;
		w.memory = m;
		memset(m->at, POISON, size);
		w.counts.pinned++;
		w.counts.pinned_ever++;
		*pHost = m->at;
	}
	return out(e);
}

static void drop(struct memory *m)
{
	struct memory **at = &w.memory;

	while (*at != m)
		at = &(*at)->next;
	*at = m->next;
	munmap(m->base, m->base_len);
	if (m->alias)
		munmap(m->alias, m->base_len);
	free(m);
}

API cudaError_t cudaFreeHost(void *ptr)
{
	pthread_mutex_lock(&w.m);
	w.context[current] = true;
	struct memory *m = find(ptr, 1);
	if (!m || m->gpu >= 0 || m->at != ptr) {
		wrong("freed, and not a pinned buffer: %p", ptr);
		return out(cudaErrorInvalidValue);
	}
	if (is_on_its_way(m->at, m->len))
		wrong("a pinned buffer is freed while a copy is on its way to it");
	drop(m);
	w.counts.pinned--;
	return out(cudaSuccess);
}

API cudaError_t cudaStreamCreateWithFlags(cudaStream_t *pStream, unsigned int flags)
{
	cudaError_t e = in_context();

	if (!(flags & cudaStreamNonBlocking))
		wrong("a stream that waits for the default one");
	if (e == cudaSuccess) {
		struct CUstream_st *s = calloc(1, sizeof(*s));
		s->gpu = current;
		s->end = &s->first;
		s->next = w.streams;
		*pStream = w.streams = s;
	}
	return out(e);
}

API cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
	cudaError_t e = in();

	(void)flags;
	if (e == cudaSuccess && event->recorded)
		push(stream_of(stream), (struct op){ .kind = WAIT,
		                                     .event = event,
		                                     .turn = event->recorded,
		                                     .of = event->of });
	return out(e);
}

API cudaError_t cudaStreamIsCapturing(cudaStream_t stream,
                                      enum cudaStreamCaptureStatus *pCaptureStatus)
{
	cudaError_t e = in();

	*pCaptureStatus = stream_of(stream)->capturing ? (enum cudaStreamCaptureStatus)1
	                                               : cudaStreamCaptureStatusNone;
	return out(e);
}

API cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
	cudaError_t e = in();

	wait_for(stream_of(stream), NULL, 0);
	return out(e);
}

API cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
	cudaError_t e = in_context();

	(void)flags;
	if (e == cudaSuccess) {
		struct CUevent_st *v = calloc(1, sizeof(*v));
		v->gpu = current;
		v->next = w.events;
		*event = w.events = v;
	}
	return out(e);
}

API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	cudaError_t e = in();
	struct CUstream_st *s = stream_of(stream);

	if (s == &w.legacy[current])
		w.context[current] = true;
	if (e == cudaSuccess && s->gpu != event->gpu)
		e = cudaErrorInvalidResourceHandle;
	if (e == cudaSuccess && s->capturing)
		wrong("a stream that is being captured was used");
	if (e == cudaSuccess) {
		event->of = s;
		push(s, (struct op){ .kind = RECORD, .event = event, .turn = ++event->recorded });
		w.counts.records++;
	}
	return out(e);
}

/* Injected, it fails after the fact: a real one that fails has no copies under way any more either. */
API cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
	cudaError_t e = in();

	w.counts.waits++;
	if (!event->recorded)
		wrong("an event is waited for that was not recorded");
	else
		wait_for(event->of, event, event->recorded);
	for (struct op *o = event->of ? event->of->first : NULL; o; o = o->next)
		if (o->kind == COPY) {
			w.counts.ahead++;
			break;
		}
	return out(e);
}

static cudaError_t copy(struct op op, enum cudaMemcpyKind kind, cudaStream_t stream)
{
	cudaError_t e = in_context();
	const size_t span = op.spitch * (op.height - 1) + op.width;
	const struct memory *from = find(op.from, span);
	const struct memory *to = find(op.to, op.dpitch * (op.height - 1) + op.width);

	if (e != cudaSuccess)
		return out(e);
	if ((uintptr_t)stream <= 2)
		wrong("a copy on a stream that is not the library's own");
	else if (from && from->gpu >= 0 && stream->gpu != from->gpu)
		wrong("a copy from GPU %d on a stream of GPU %d", from->gpu, stream->gpu);
	if (kind != cudaMemcpyDefault)
		wrong("a copy of kind %d", (int)kind);
	if (!from || from->gpu < 0) {
		wrong("a copy of %zu bytes from %p, outside of a GPU's memory", span,
		      (const void *)op.from);
		return out(cudaErrorInvalidValue);
	}
	if (!to || to->gpu >= 0)
		w.counts.pageable++;
	for (size_t i = 0; i < op.height; i++)
		memset(op.to + i * op.dpitch, POISON, op.width);
	op.kind = COPY;
	push(stream_of(stream), op);
	w.counts.copies++;
	return out(cudaSuccess);
}

API cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind,
                                cudaStream_t stream)
{
	return copy((struct op){ .to = dst, .from = src, .width = count, .height = 1 }, kind,
	            stream);
}

API cudaError_t cudaMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch,
                                  size_t width, size_t height, enum cudaMemcpyKind kind,
                                  cudaStream_t stream)
{
	if (width > spitch || width > dpitch || !height || spitch > INT32_MAX)
		return last = cudaErrorInvalidValue;
	__atomic_fetch_add(&w.counts.copies_2d, 1, __ATOMIC_RELAXED);
	return copy((struct op){ .to = dst,
	                         .from = src,
	                         .dpitch = dpitch,
	                         .spitch = spitch,
	                         .width = width,
	                         .height = height },
	            kind, stream);
}

/* ---- the test's ---- */

static void reset(int gpus)
{
	pthread_mutex_lock(&w.m);
	for (struct CUstream_st *s = w.streams; s; s = s->next)
		drain(s, NULL, 0);
	for (int i = 0; i < GPUS_MAX; i++) {
		drain(&w.legacy[i], NULL, 0);
		w.legacy[i].gpu = i;
	}
	while (w.memory)
		drop(w.memory);
	w.gpus = gpus;
	memset(w.context, 0, sizeof(w.context));
	memset(&w.counts, 0, sizeof(w.counts));
	w.fail_at = 0;
	w.odd = w.none = false;
	w.wrong[0] = 0;
	last = cudaSuccess;
	current = 0;
	pthread_mutex_unlock(&w.m);
}

static void counts(struct fake_counts *ret)
{
	pthread_mutex_lock(&w.m);
	*ret = w.counts;
	for (int i = 0; i < GPUS_MAX; i++)
		ret->contexts |= (unsigned)w.context[i] << i;
	pthread_mutex_unlock(&w.m);
}

static const char *what_is_wrong(void)
{
	static char text[sizeof(w.wrong)];

	pthread_mutex_lock(&w.m);
	memcpy(text, w.wrong, sizeof(text));
	pthread_mutex_unlock(&w.m);
	return text;
}

static void *alloc_device(int gpu, size_t len)
{
	struct memory *m = calloc(1, sizeof(*m));
	int fd = memfd_create("gpu", MFD_CLOEXEC);

	m->base_len = (len + 4096) & ~(size_t)4095;
	if (!m || fd < 0 || ftruncate(fd, (off_t)m->base_len) < 0)
		abort();
	m->base = mmap(NULL, m->base_len, PROT_NONE, MAP_SHARED, fd, 0);
	m->alias = mmap(NULL, m->base_len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	m->at = m->base;
	m->len = len;
	m->gpu = gpu;
	pthread_mutex_lock(&w.m);
	m->next = w.memory;
	w.memory = m;
	w.context[gpu] = true;
	pthread_mutex_unlock(&w.m);
	return m->at;
}

static void free_device(void *at)
{
	pthread_mutex_lock(&w.m);
	struct memory *m = find(at, 0);
	if (m && m->gpu >= 0 && m->at == at)
		drop(m);
	else
		wrong("no memory of a GPU: %p", at);
	pthread_mutex_unlock(&w.m);
}

static uint8_t *bytes(const void *at)
{
	pthread_mutex_lock(&w.m);
	struct memory *m = find(at, 1);
	uint8_t *r = m ? m->alias + ((const uint8_t *)at - m->at) : NULL;
	pthread_mutex_unlock(&w.m);
	return r;
}

static cudaStream_t stream(int gpu)
{
	struct CUstream_st *s = calloc(1, sizeof(*s));

	pthread_mutex_lock(&w.m);
	s->gpu = gpu;
	s->end = &s->first;
	s->next = w.streams;
	w.streams = s;
	pthread_mutex_unlock(&w.m);
	return s;
}

static void capture(cudaStream_t s, bool on)
{
	pthread_mutex_lock(&w.m);
	s->capturing = on;
	pthread_mutex_unlock(&w.m);
}

static void kernel(cudaStream_t s, int gpu, void *to, const void *from, size_t len)
{
	uint8_t *own = malloc(len + 1);

	memcpy(own, from, len);
	pthread_mutex_lock(&w.m);
	push(s ? s : &w.legacy[gpu],
	     (struct op){ .kind = KERNEL, .to = to, .from = own, .own = own, .width = len });
	pthread_mutex_unlock(&w.m);
}

static void fail_at(unsigned long n, cudaError_t e)
{
	pthread_mutex_lock(&w.m);
	w.fail_at = n ? w.counts.calls + n : 0;
	w.fail_with = e;
	pthread_mutex_unlock(&w.m);
}

static void pin_badly(bool odd, bool none)
{
	pthread_mutex_lock(&w.m);
	w.odd = odd;
	w.none = none;
	pthread_mutex_unlock(&w.m);
}

API const struct fake_cudart *fake_cudart_control(void);
API const struct fake_cudart *fake_cudart_control(void)
{
	static const struct fake_cudart control = {
		.reset = reset,
		.counts = counts,
		.wrong = what_is_wrong,
		.alloc = alloc_device,
		.free = free_device,
		.bytes = bytes,
		.stream = stream,
		.capture = capture,
		.kernel = kernel,
		.fail_at = fail_at,
		.pin_badly = pin_badly,
		.set_device = cudaSetDevice,
		.get_device = cudaGetDevice,
		.last_error = cudaGetLastError,
	};

	return &control;
}
