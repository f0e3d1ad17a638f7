/* inside.c -- calls of this process to its own server, over pairs of sockets; see server.h.
 *
 * A pair for each call: a channel that was made of a descriptor does not connect again when the server ends it. */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>

#include "api/rpc/server.h"

/* What the core calls the peer of a descriptor that it was given. */
static const char SCHEME[] = "fd:";

bool inside_is_address(const char *address)
{
    return strncmp(address, SCHEME, sizeof(SCHEME) - 1) == 0;
}

grpc_channel *inside_channel(struct rpc_server *server, grpc_channel_credentials *credentials,
                             const grpc_channel_args *args)
{
    int pair[2];
    if (!atomic_load(&server->is_started) || atomic_load(&server->is_draining)) {
        return grpc_lame_client_channel_create("inside", GRPC_STATUS_UNAVAILABLE,
                                               "the server starts or stops");
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0) {
        return grpc_lame_client_channel_create("inside", GRPC_STATUS_RESOURCE_EXHAUSTED,
                                               "the process has no descriptors left");
    }
    grpc_server_credentials *plain = grpc_insecure_server_credentials_create();
    grpc_server_add_channel_from_fd(server->core, pair[0], plain);
    grpc_server_credentials_release(plain);
    return grpc_channel_create_from_fd("inside", pair[1], credentials, args);
}
