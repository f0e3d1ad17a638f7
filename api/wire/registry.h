/* registry.h -- the tables that the build makes of all protos; see registry.cmake.
 *
 * Depends on: generated code.  Threads: constants.  Ownership: static. */
#ifndef BATON_WIRE_REGISTRY_H
#define BATON_WIRE_REGISTRY_H

#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

/* In the order of the files; the end is a null. */
extern const ProtobufCMessageDescriptor *const wire_registry_messages[];
extern const ProtobufCServiceDescriptor *const wire_registry_services[];

/* The encoded descriptor set, from descriptor_set.S. */
extern const uint8_t wire_descriptor_set_start[];
extern const uint8_t wire_descriptor_set_end[];

#endif /* registry.h */
