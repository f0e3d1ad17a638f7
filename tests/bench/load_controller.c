/* load_controller.c -- the process; see load_controller.h. */
#include "tests/bench/load_controller.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/load_must.h"
#include "tests/bench/ratio.h"

extern char **environ;

static pid_t pid; /* 0: none runs. */
static char *folder;
static char target[64];
static const char *store_given; /* Null: none. */

void load_must(bool holds, const char *what)
{
    if (!holds) {
        (void)fprintf(stderr, "%s: %s\n", program_invocation_short_name, what);
        if (pid > 0) {
            (void)kill(pid, SIGKILL);
        }
        _exit(LOAD_FAILED); /* Threads still run: nothing is taken down in order. */
    }
}

static unsigned free_port(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    load_must(fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0 &&
                  getsockname(fd, (struct sockaddr *)&address, &size) == 0,
              "no free port");
    (void)close(fd);
    return ntohs(address.sin_port);
}

/* Not fork(): the generator has threads of gRPC. */
static void spawn(void)
{
    char store[1024];
    char log[512];
    posix_spawn_file_actions_t files;
    (void)snprintf(store, sizeof(store), "%s%s%s",
                   store_given != NULL ? store_given : "sqlite:", store_given != NULL ? "" : folder,
                   store_given != NULL ? "" : "/controller.db");
    (void)snprintf(log, sizeof(log), "%s/controller.log", folder);
    char program[] = LOAD_CONTROLLER;
    char listen_word[] = "--listen";
    char store_word[] = "--store";
    char advertise_word[] = "--advertise";
    char *words[] = { program, listen_word, target, store_word, store, NULL, target, NULL };
    if (store_given != NULL) {
        words[5] = advertise_word;
    }
    (void)posix_spawn_file_actions_init(&files);
    (void)posix_spawn_file_actions_addopen(&files, 1, log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    (void)posix_spawn_file_actions_adddup2(&files, 1, 2);
    load_must(posix_spawn(&pid, program, &files, NULL, words, environ) == 0,
              "cannot start " LOAD_CONTROLLER);
    (void)posix_spawn_file_actions_destroy(&files);
}

void load_controller_start(const char *store)
{
    store_given = store;
    folder = ratio_directory_on_disk();
    (void)snprintf(target, sizeof(target), "127.0.0.1:%u", free_port());
    spawn();
}

void load_controller_kill(void)
{
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    pid = 0;
}

void load_controller_restart(void)
{
    spawn();
}

void load_controller_end(void)
{
    load_controller_kill();
    ratio_remove(folder);
    folder = NULL;
}

const char *load_controller_target(void)
{
    return target;
}

const char *load_controller_folder(void)
{
    return folder;
}

/* A file of /proc of the controller. */
static void read_proc(const char *name, char *out, size_t out_bytes)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    FILE *file = fopen(path, "re");
    load_must(file != NULL, "the controller ended by itself");
    size_t size = fread(out, 1, out_bytes - 1, file);
    out[size] = '\0';
    (void)fclose(file);
}

double load_controller_cpu_s(void)
{
    char text[1024];
    unsigned long user = 0;
    unsigned long system = 0;
    read_proc("stat", text, sizeof(text));
    const char *after = strrchr(text, ')');
    load_must(after != NULL &&
                  sscanf(after + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
                         &system) == 2,
              "no times in /proc");
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

double load_controller_rss_mib(void)
{
    char text[4096];
    unsigned long kib = 0;
    read_proc("status", text, sizeof(text));
    const char *line = strstr(text, "VmRSS:");
    load_must(line != NULL && sscanf(line, "VmRSS: %lu", &kib) == 1, "no VmRSS in /proc");
    return (double)kib / 1024;
}
