/* methods.h -- what the protos say of each RPC; private to api/rpc.
 *
 * protobuf-c keeps neither the streaming flags nor the options of methods, so they are read once from
 * the embedded descriptor set.
 *
 * Depends on: api/wire.  Threads: any.  Ownership: static. */
#ifndef BATON_RPC_METHODS_H
#define BATON_RPC_METHODS_H

#include <stdbool.h>
#include <stddef.h>

#include "api/wire/wire.h"

struct rpc_method_option;

struct rpc_method {
    char *path; /* "/baton.v1.Models/Apply". */
    char *name; /* The same without the slash in front. */
    const ProtobufCMessageDescriptor *input;
    const ProtobufCMessageDescriptor *output;
    bool client_streams;
    bool server_streams;
    struct rpc_method_option *options; /* Own string options; null at the end. */
};

/* By name, with or without a slash in front; null if no proto has it. */
const struct rpc_method *rpc_method_find(const char *name, size_t length);
/* A string option of the method, "" if it has none. */
const char *rpc_method_option_text(const struct rpc_method *method, uint32_t number);

#endif /* methods.h */
