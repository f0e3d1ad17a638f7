/* faulty.c -- preloaded into a daemon: what it writes to regular files fails with the errno that the first byte of the file
 * CHAOS_FAULTY holds; 0: nothing does.  Sockets, pipes and eventfds are left alone, as a broken disk leaves them. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static const volatile unsigned char *fault;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("CHAOS_FAULTY");
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        void *page = mmap(NULL, 1, PROT_READ, MAP_SHARED, fd, 0);
        fault = page != MAP_FAILED ? page : NULL;
        (void)close(fd);
    }
}

static int fails(int fd)
{
    struct stat found;
    int error = fault != NULL ? *fault : 0;
    if (error == 0 || fstat(fd, &found) != 0 || !S_ISREG(found.st_mode)) {
        return 0;
    }
    errno = error;
    return 1;
}

__attribute__((visibility("default"))) ssize_t write(int fd, const void *bytes, size_t size)
{
    return fails(fd) ? -1 : syscall(SYS_write, fd, bytes, size);
}

__attribute__((visibility("default"))) ssize_t pwrite(int fd, const void *bytes, size_t size,
                                                      off_t offset)
{
    return fails(fd) ? -1 : syscall(SYS_pwrite64, fd, bytes, size, offset);
}

__attribute__((visibility("default"))) ssize_t pwrite64(int fd, const void *bytes, size_t size,
                                                        off_t offset)
{
    return fails(fd) ? -1 : syscall(SYS_pwrite64, fd, bytes, size, offset);
}
