/* board.c -- boards in sealed memory files, found through /proc, watched by pidfd. */
#include "transport/ipc/board.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "transport/include/baton/transport_plugin.h"

#define BOARD_MAGIC UINT64_C(0x3130647261426f6e)
enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, START_TIME_FIELD = 22, HEAD_FIELDS = 2 };

struct slot {
    _Atomic uint64_t generation; /* 0: nothing to read. */
    struct board_entry entry;
};

struct page {
    uint64_t magic;
    uint64_t nonce[2];
    _Atomic uint64_t is_closed;
    struct slot slots[BOARD_SLOTS];
};

struct board {
    struct page *page;
    struct board_address address;
    uint64_t generation; /* Of the last slot given. */
    uint64_t next;       /* Where to look for a free slot first. */
};

struct board_peer {
    const struct page *page;
    int pid_fd;
    bool is_own;
};

/* When a process began, in ticks; 0: it cannot be read. */
static uint64_t start_time(int32_t pid)
{
    char path[64];
    char text[1024];
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0) {
        close(fd);
    }
    text[got > 0 ? got : 0] = '\0';
    /* The name, in parentheses, may hold anything; the fields after it are numbers. */
    const char *at = strrchr(text, ')');
    for (int field = HEAD_FIELDS; at != NULL && field < START_TIME_FIELD; field++) {
        at = strchr(at + 1, ' ');
    }
    return at == NULL ? 0 : strtoull(at + 1, NULL, 10);
}

static int make_page(struct board *board)
{
    int fd = memfd_create("baton-ipc", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    board->address.fd = fd;
    if (fd < 0 || ftruncate(fd, sizeof(struct page)) != 0 || fcntl(fd, F_ADD_SEALS, SEALS) != 0) {
        return BATON_TP_E_INTERNAL;
    }
    void *at = mmap(NULL, sizeof(struct page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
        return BATON_TP_E_INTERNAL;
    }
    board->page = at;
    return BATON_TP_OK;
}

int board_create(struct board **out)
{
    struct board *board = calloc(1, sizeof(*board));
    if (board == NULL) {
        return BATON_TP_E_INTERNAL;
    }
    board->address = (struct board_address){ .pid = getpid(), .fd = -1 };
    board->address.start_time = start_time(board->address.pid);
    if (board->address.start_time == 0 ||
        getrandom(board->address.nonce, sizeof(board->address.nonce), 0) !=
            (ssize_t)sizeof(board->address.nonce) ||
        make_page(board) != BATON_TP_OK) {
        board_destroy(board);
        return BATON_TP_E_INTERNAL;
    }
    memcpy(board->page->nonce, board->address.nonce, sizeof(board->page->nonce));
    board->page->magic = BOARD_MAGIC;
    *out = board;
    return BATON_TP_OK;
}

/* False in a child that was forked: what it does to its copy of a transport is not said of its parent's. */
static bool is_exporter(const struct board *board)
{
    return board->address.pid == getpid();
}

void board_destroy(struct board *board)
{
    if (board->page != NULL) {
        if (is_exporter(board)) {
            atomic_store(&board->page->is_closed, 1);
        }
        munmap(board->page, sizeof(*board->page));
    }
    if (board->address.fd >= 0) {
        close(board->address.fd);
    }
    free(board);
}

struct board_address board_address(const struct board *board)
{
    return board->address;
}

int board_publish(struct board *board, const struct board_entry *entry, struct board_key *out)
{
    for (uint64_t i = 0; i < BOARD_SLOTS; i++) {
        uint64_t index = (board->next + i) % BOARD_SLOTS;
        struct slot *slot = &board->page->slots[index];
        if (atomic_load(&slot->generation) == 0) {
            /* Who sees a part of the new entry sees that the old one is gone (board_read()). */
            atomic_thread_fence(memory_order_release);
            slot->entry = *entry;
            *out = (struct board_key){ index, ++board->generation };
            atomic_store(&slot->generation, out->generation);
            board->next = index + 1;
            return BATON_TP_OK;
        }
    }
    return BATON_TP_E_INTERNAL;
}

void board_withdraw(struct board *board, struct board_key key)
{
    if (is_exporter(board)) {
        atomic_store(&board->page->slots[key.slot].generation, 0);
    }
}

/* Maps the file behind the exporter's descriptor, if it is a board. */
static int map_page(const struct board_address *address, struct board_peer *peer)
{
    char path[64];
    struct stat info;
    int result = BATON_TP_E_UNREACHABLE;
    (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", address->pid, address->fd);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        return errno == EACCES || errno == EPERM ? BATON_TP_E_DENIED : BATON_TP_E_UNREACHABLE;
    }
    /* Sealed: reading a mapping of it cannot fault. */
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size == sizeof(struct page) &&
        fcntl(fd, F_GET_SEALS) == SEALS) {
        void *at = mmap(NULL, sizeof(struct page), PROT_READ, MAP_SHARED, fd, 0);
        peer->page = at == MAP_FAILED ? NULL : at;
    }
    close(fd);
    if (peer->page != NULL && peer->page->magic == BOARD_MAGIC &&
        memcmp(peer->page->nonce, address->nonce, sizeof(address->nonce)) == 0) {
        result = BATON_TP_OK;
    }
    return result;
}

int board_connect(const struct board_address *address, struct board_peer **out)
{
    struct board_peer *peer = calloc(1, sizeof(*peer));
    if (peer == NULL) {
        return BATON_TP_E_INTERNAL;
    }
    peer->is_own = address->pid == getpid();
    peer->pid_fd = address->pid > 0 ? pidfd_open(address->pid, 0) : -1;
    int result = BATON_TP_E_UNREACHABLE;
    /* The process is held first, so that what is asked of its number is asked of it. */
    if (peer->pid_fd >= 0 && address->start_time == start_time(address->pid)) {
        result = map_page(address, peer);
    }
    if (result == BATON_TP_OK && !board_is_alive(peer)) {
        result = BATON_TP_E_UNREACHABLE;
    }
    if (result != BATON_TP_OK) {
        board_disconnect(peer);
        return result;
    }
    *out = peer;
    return BATON_TP_OK;
}

void board_disconnect(struct board_peer *peer)
{
    if (peer->page != NULL) {
        munmap((void *)(uintptr_t)peer->page, sizeof(*peer->page));
    }
    if (peer->pid_fd >= 0) {
        close(peer->pid_fd);
    }
    free(peer);
}

bool board_is_alive(const struct board_peer *peer)
{
    struct pollfd ended = { .fd = peer->pid_fd, .events = POLLIN };
    return atomic_load(&peer->page->is_closed) == 0 && poll(&ended, 1, 0) == 0;
}

bool board_is_own(const struct board_peer *peer)
{
    return peer->is_own;
}

bool board_has(const struct board_peer *peer, struct board_key key)
{
    return key.slot < BOARD_SLOTS && key.generation != 0 &&
           atomic_load(&peer->page->slots[key.slot].generation) == key.generation;
}

bool board_read(const struct board_peer *peer, struct board_key key, struct board_entry *out)
{
    if (!board_has(peer, key)) {
        return false;
    }
    *out = peer->page->slots[key.slot].entry;
    atomic_thread_fence(memory_order_acquire);
    return board_has(peer, key);
}

bool board_shows(const struct board_peer *peer, const uint8_t memory[BOARD_HANDLE_BYTES])
{
    for (uint64_t i = 0; i < BOARD_SLOTS; i++) {
        const struct slot *slot = &peer->page->slots[i];
        if (atomic_load(&slot->generation) != 0 &&
            memcmp(slot->entry.memory, memory, BOARD_HANDLE_BYTES) == 0) {
            return true;
        }
    }
    return false;
}
