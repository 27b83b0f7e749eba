/*
 * What device_cuda.c calls of the CUDA runtime (11 to 13), as its reference documents it: names, arguments,
 * numbers. Nobody links it. Where the runtime's own header is installed it is included first, and these
 * declarations have to agree with it to compile.
 */
#ifndef SF_SAVE_DEVICE_CUDA_ABI_H
#define SF_SAVE_DEVICE_CUDA_ABI_H

#include <stddef.h>

#ifndef __CUDA_RUNTIME_API_H__ /* its own guard */
typedef enum cudaError {
	cudaSuccess = 0,
	cudaErrorInvalidValue = 1,
	cudaErrorMemoryAllocation = 2,
	cudaErrorInsufficientDriver = 35,
	cudaErrorNoDevice = 100,
	cudaErrorInvalidResourceHandle = 400,
} cudaError_t;
enum cudaMemcpyKind { cudaMemcpyDefault = 4 }; /* which way is told by the addresses */
enum cudaMemoryType {
	cudaMemoryTypeUnregistered = 0,
	cudaMemoryTypeHost = 1,
	cudaMemoryTypeDevice = 2,
	cudaMemoryTypeManaged = 3,
};
struct cudaPointerAttributes {
	enum cudaMemoryType type;
	int device;
	void *devicePointer, *hostPointer;
	long reserved[8]; /* from CUDA 13 on */
};
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone = 0 };
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal = 0, cudaStreamCaptureModeRelaxed = 2 };
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
#define cudaHostAllocPortable 0x01
#define cudaEventBlockingSync 0x01
#define cudaEventDisableTiming 0x02
#define cudaStreamNonBlocking 0x01
#define cudaStreamPerThread ((cudaStream_t)0x2)
#endif

_Static_assert(cudaSuccess == 0 && cudaErrorInvalidValue == 1 && cudaErrorMemoryAllocation == 2 &&
                       cudaErrorInsufficientDriver == 35 && cudaErrorNoDevice == 100 &&
                       cudaErrorInvalidResourceHandle == 400,
               "errors");
_Static_assert(cudaMemcpyDefault == 4 && cudaStreamCaptureStatusNone == 0 &&
                       cudaStreamCaptureModeRelaxed == 2 && cudaHostAllocPortable == 1 &&
                       cudaEventBlockingSync == 1 && cudaEventDisableTiming == 2 &&
                       cudaStreamNonBlocking == 1,
               "options");
_Static_assert(cudaMemoryTypeUnregistered == 0 && cudaMemoryTypeHost == 1 &&
                       cudaMemoryTypeDevice == 2 && cudaMemoryTypeManaged == 3,
               "kinds of memory");
_Static_assert(offsetof(struct cudaPointerAttributes, type) == 0 &&
                       offsetof(struct cudaPointerAttributes, device) == 4 &&
                       sizeof(cudaError_t) == sizeof(int) &&
                       sizeof(enum cudaMemcpyKind) == sizeof(int),
               "layout");

/* clang-format off: a function a line */
cudaError_t cudaGetLastError(void);
const char *cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode);
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *ptr);
cudaError_t cudaHostAlloc(void **pHost, size_t size, unsigned int flags);
cudaError_t cudaFreeHost(void *ptr);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *pStream, unsigned int flags);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream,
                                  enum cudaStreamCaptureStatus *pCaptureStatus);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind,
                              cudaStream_t stream);
/* clang-format on */

/* All of them, by name: X(cudaGetDevice) and so on. */
#define SF_CUDART_FUNCTIONS(X)                 \
	X(cudaGetLastError)                    \
	X(cudaGetErrorString)                  \
	X(cudaGetDeviceCount)                  \
	X(cudaGetDevice)                       \
	X(cudaSetDevice)                       \
	X(cudaThreadExchangeStreamCaptureMode) \
	X(cudaPointerGetAttributes)            \
	X(cudaHostAlloc)                       \
	X(cudaFreeHost)                        \
	X(cudaStreamCreateWithFlags)           \
	X(cudaStreamWaitEvent)                 \
	X(cudaStreamIsCapturing)               \
	X(cudaStreamSynchronize)               \
	X(cudaEventCreateWithFlags)            \
	X(cudaEventRecord)                     \
	X(cudaEventSynchronize)                \
	X(cudaMemcpyAsync)                     \
	X(cudaMemcpy2DAsync)

#endif
