/* rpc_peer_server.c -- the RPC tests' server as a program, for clients that are not ours.
 *
 * Prints its port on one line and serves until its input ends. */
#include <stdio.h>
#include <unistd.h>

#include "api/base/clock.h"
#include "tests/unit/rpc_fixture.h"

int main(void)
{
    struct rpc_fixture fixture;
    rpc_fixture_start(&fixture);
    rpc_health_set_all(fixture.server, RPC_HEALTH_SERVING);
    (void)printf("%u\n", (unsigned)rpc_server_port(fixture.server, 0));
    (void)fflush(stdout);
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
    rpc_server_drain(fixture.server, BATON_NS_PER_S);
    rpc_fixture_stop(&fixture);
    return 0;
}
