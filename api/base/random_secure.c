/* random_secure.c -- random bytes from the kernel; see random.h. */
#include "api/base/random.h"

#include <errno.h>
#include <sys/random.h>

#include "api/base/status.h"

void baton_random_secure(void *out, size_t size)
{
    uint8_t *bytes = out;
    while (size > 0) {
        ssize_t got = getrandom(bytes, size, 0);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        baton_assert(got > 0);
        bytes += got;
        size -= (size_t)got;
    }
}
