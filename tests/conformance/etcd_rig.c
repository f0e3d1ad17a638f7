/* etcd_rig.c -- see etcd_rig.h. */
#include "tests/conformance/etcd_rig.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "api/base/clock.h"
#include "api/base/random.h"

#define MUST(condition_)                                                                           \
    do {                                                                                           \
        if (!(condition_)) {                                                                       \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition_);                       \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

enum { PORT_FIRST = 15000, PORT_COUNT = 17000, PORT_TRIES = 1000 };
enum { ANSWER_BYTES = 64 << 10, WAIT_TRIES = 600, WAIT_MS = 50, ARGV_MAX = 48, TEXT_BYTES = 512 };

static char answer[ANSWER_BYTES];
static size_t answer_size;

bool etcd_rig_there(void)
{
    return system("command -v etcd >/dev/null 2>&1") == 0;
}

static void pause_ms(long ms)
{
    struct timespec time = { ms / 1000, ms % 1000 * 1000000 };
    (void)nanosleep(&time, NULL);
}

/* True: the port is free, and ours until this process ends, by a name that tests/e2e uses as well. */
static bool claim_port(int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int length = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "baton-test-port-%d", port);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    int claim = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    MUST(claim >= 0 && probe >= 0);
    bool ours = bind(claim, (struct sockaddr *)&name, size) == 0 &&
                bind(probe, (struct sockaddr *)&address, sizeof(address)) == 0;
    (void)close(probe);
    if (!ours) {
        (void)close(claim);
    }
    return ours;
}

/* Below the ports that the kernel gives away by itself: a member that is away finds its own free. */
int etcd_rig_free_port(void)
{
    struct baton_random random;
    baton_random_seed(&random, baton_clock_monotonic_ns() ^ (uint64_t)getpid());
    for (int tries = 0; tries < PORT_TRIES; tries++) {
        int port = PORT_FIRST + (int)baton_random_below(&random, PORT_COUNT);
        if (claim_port(port)) {
            return port;
        }
    }
    fprintf(stderr, "no port is free\n");
    exit(1);
}

void etcd_rig_init(struct etcd_rig *rig, int count)
{
    *rig = (struct etcd_rig){ .count = count };
    (void)snprintf(rig->folder, sizeof(rig->folder), "%s/baton-etcd-XXXXXX", P_tmpdir);
    MUST(count <= RIG_MEMBERS_MAX && mkdtemp(rig->folder) != NULL);
    for (int i = 0; i < count; i++) {
        rig->members[i].port = etcd_rig_free_port();
        rig->members[i].peer_port = etcd_rig_free_port();
    }
}

static const char *scheme(const struct etcd_rig *rig)
{
    return rig->tls ? "https" : "http";
}

/* Arguments as text, each kept in 'texts'. */
struct argv {
    char texts[ARGV_MAX][TEXT_BYTES];
    char *list[ARGV_MAX + 1];
    int count;
};

__attribute__((format(printf, 2, 3))) static void add(struct argv *argv, const char *fmt, ...)
{
    va_list arguments;
    MUST(argv->count < ARGV_MAX);
    char *text = argv->texts[argv->count];
    va_start(arguments, fmt);
    (void)vsnprintf(text, TEXT_BYTES, fmt, arguments);
    va_end(arguments);
    argv->list[argv->count++] = text;
}

static void add_cluster(struct argv *argv, const struct etcd_rig *rig)
{
    char cluster[TEXT_BYTES] = "--initial-cluster=";
    for (int i = 0; i < rig->count; i++) {
        size_t at = strlen(cluster);
        (void)snprintf(cluster + at, sizeof(cluster) - at, "%sm%d=http://127.0.0.1:%d",
                       i == 0 ? "" : ",", i, rig->members[i].peer_port);
    }
    add(argv, "%s", cluster);
}

static void add_tls(struct argv *argv, const struct etcd_rig *rig)
{
    add(argv, "--cert-file=%s/server.pem", rig->folder);
    add(argv, "--key-file=%s/server.key.pem", rig->folder);
    add(argv, "--trusted-ca-file=%s/ca.pem", rig->folder);
    add(argv, "--client-cert-auth=true");
}

static _Noreturn void run_member(const struct etcd_rig *rig, int i, struct argv *argv)
{
    char log[RIG_PATH_BYTES + 16];
    (void)snprintf(log, sizeof(log), "%s/m%d.log", rig->folder, i);
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    (void)dup2(fd, STDOUT_FILENO);
    (void)dup2(fd, STDERR_FILENO);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)setenv("ETCD_UNSUPPORTED_ARCH", "arm64", 0);
    (void)execvp("etcd", argv->list);
    _exit(127);
}

void etcd_rig_start_member(struct etcd_rig *rig, int i, const char *state)
{
    static struct argv argv;
    const struct etcd_rig_member *member = &rig->members[i];
    memset(&argv, 0, sizeof(argv));
    add(&argv, "etcd");
    add(&argv, "--name=m%d", i);
    add(&argv, "--data-dir=%s/m%d", rig->folder, i);
    add(&argv, "--listen-client-urls=%s://127.0.0.1:%d", scheme(rig), member->port);
    add(&argv, "--advertise-client-urls=%s://127.0.0.1:%d", scheme(rig), member->port);
    add(&argv, "--listen-peer-urls=http://127.0.0.1:%d", member->peer_port);
    add(&argv, "--initial-advertise-peer-urls=http://127.0.0.1:%d", member->peer_port);
    add(&argv, "--initial-cluster-state=%s", state);
    add(&argv, "--initial-cluster-token=%s", rig->folder);
    add_cluster(&argv, rig);
    if (rig->tls) {
        add_tls(&argv, rig);
    }
    for (int j = 0; j < RIG_ARGS_MAX && rig->args[j] != NULL; j++) {
        add(&argv, "%s", rig->args[j]);
    }
    pid_t pid = fork();
    MUST(pid >= 0);
    if (pid == 0) {
        run_member(rig, i, &argv);
    }
    rig->members[i].pid = pid;
}

static size_t on_body(char *data, size_t size, size_t count, void *self)
{
    size_t bytes = size * count;
    (void)self;
    if (bytes > sizeof(answer) - 1 - answer_size) {
        return 0;
    }
    memcpy(answer + answer_size, data, bytes);
    answer_size += bytes;
    answer[answer_size] = '\0';
    return bytes;
}

const char *etcd_rig_post(struct etcd_rig *rig, int i, const char *path, const char *body)
{
    char url[RIG_PATH_BYTES];
    char file[3][RIG_PATH_BYTES + 24];
    CURL *easy = curl_easy_init();
    MUST(easy != NULL);
    (void)snprintf(url, sizeof(url), "%s://127.0.0.1:%d/v3/%s", scheme(rig), rig->members[i].port,
                   path);
    (void)snprintf(file[0], sizeof(file[0]), "%s/ca.pem", rig->folder);
    (void)snprintf(file[1], sizeof(file[1]), "%s/client.pem", rig->folder);
    (void)snprintf(file[2], sizeof(file[2]), "%s/client.key.pem", rig->folder);
    answer_size = 0;
    answer[0] = '\0';
    (void)curl_easy_setopt(easy, CURLOPT_URL, url);
    (void)curl_easy_setopt(easy, CURLOPT_PROXY, "");
    (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body);
    (void)curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, 5000L);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    if (rig->tls) {
        (void)curl_easy_setopt(easy, CURLOPT_CAINFO, file[0]);
        (void)curl_easy_setopt(easy, CURLOPT_SSLCERT, file[1]);
        (void)curl_easy_setopt(easy, CURLOPT_SSLKEY, file[2]);
    }
    (void)curl_easy_perform(easy);
    curl_easy_cleanup(easy);
    return answer;
}

/* A linearizable read was answered. */
void etcd_rig_wait_member(struct etcd_rig *rig, int i)
{
    for (int try = 0; try < WAIT_TRIES; try++) {
        const char *text = etcd_rig_post(rig, i, "kv/range", "{\"key\":\"AA==\"}");
        if (strstr(text, "cluster_id") != NULL || strstr(text, "user name is empty") != NULL) {
            return;
        }
        MUST(waitpid(rig->members[i].pid, NULL, WNOHANG) == 0);
        pause_ms(WAIT_MS);
    }
    fprintf(stderr, "member %d does not serve; see %s\n", i, rig->folder);
    exit(1);
}

void etcd_rig_start(struct etcd_rig *rig)
{
    for (int i = 0; i < rig->count; i++) {
        etcd_rig_start_member(rig, i, "new");
    }
    for (int i = 0; i < rig->count; i++) {
        etcd_rig_wait_member(rig, i);
    }
}

void etcd_rig_signal(struct etcd_rig *rig, int i, int signal_number)
{
    MUST(rig->members[i].pid > 0 && kill(rig->members[i].pid, signal_number) == 0);
}

void etcd_rig_kill(struct etcd_rig *rig, int i)
{
    if (rig->members[i].pid > 0) {
        (void)kill(rig->members[i].pid, SIGKILL);
        (void)waitpid(rig->members[i].pid, NULL, 0);
        rig->members[i].pid = 0;
    }
}

static void shell(const char *command)
{
    if (system(command) != 0) {
        fprintf(stderr, "failed: %s\n", command);
        exit(1);
    }
}

void etcd_rig_wipe(struct etcd_rig *rig, int i)
{
    char command[RIG_PATH_BYTES + 32];
    (void)snprintf(command, sizeof(command), "rm -rf '%s/m%d'", rig->folder, i);
    shell(command);
}

void etcd_rig_stop(struct etcd_rig *rig)
{
    char command[RIG_PATH_BYTES + 32];
    for (int i = 0; i < rig->count; i++) {
        etcd_rig_kill(rig, i);
    }
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", rig->folder);
    shell(command);
}

/* The member whose own id is the leader's. */
int etcd_rig_leader(struct etcd_rig *rig)
{
    for (int try = 0; try < WAIT_TRIES; try++) {
        for (int i = 0; i < rig->count; i++) {
            unsigned long long member = 0;
            unsigned long long leader = 1;
            const char *text =
                rig->members[i].pid == 0 ? "" : etcd_rig_post(rig, i, "maintenance/status", "{}");
            const char *at = strstr(text, "\"member_id\":\"");
            const char *to = strstr(text, "\"leader\":\"");
            if (at != NULL && to != NULL && sscanf(at + 13, "%llu", &member) == 1 &&
                sscanf(to + 10, "%llu", &leader) == 1 && member == leader) {
                return i;
            }
        }
        pause_ms(WAIT_MS);
    }
    fprintf(stderr, "no member leads\n");
    exit(1);
}

void etcd_rig_address(const struct etcd_rig *rig, const char *tail, char out[1024])
{
    size_t at = (size_t)snprintf(out, 1024, "etcd:");
    for (int i = 0; i < rig->count; i++) {
        at += (size_t)snprintf(out + at, 1024 - at, "%s%s://127.0.0.1:%d", i == 0 ? "" : ",",
                               scheme(rig), rig->members[i].port);
    }
    (void)snprintf(out + at, 1024 - at, "%s", tail);
}

void etcd_rig_certificates(struct etcd_rig *rig)
{
    static char command[4096];
    (void)snprintf(
        command, sizeof(command),
        "cd '%s' && exec >openssl.log 2>&1 && K='-newkey ec -pkeyopt ec_paramgen_curve:P-256 "
        "-nodes'"
        " && openssl req -x509 $K -keyout ca.key.pem -out ca.pem -days 2 -subj /CN=ca"
        " && openssl req -x509 $K -keyout other.key.pem -out other.pem -days 2 -subj /CN=other"
        " && printf 'subjectAltName=IP:127.0.0.1\\nextendedKeyUsage=serverAuth,clientAuth\\n' >ext"
        " && for n in server client; do openssl req $K -keyout $n.key.pem -out $n.csr -subj /CN=$n"
        " && openssl x509 -req -in $n.csr -CA ca.pem -CAkey ca.key.pem -CAcreateserial -days 2"
        " -extfile ext -out $n.pem || exit 1; done",
        rig->folder);
    shell(command);
    rig->tls = true;
}
