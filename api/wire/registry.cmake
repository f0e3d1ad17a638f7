# Writes registry.c: the tables of all generated messages and services.
# Run as: cmake -DHEADERS="a.pb-c.h;b.pb-c.h" -DROOT=<folder of the headers> -DOUT=registry.c -P
set(includes "")
set(messages "")
set(services "")
foreach(header IN LISTS HEADERS)
  string(APPEND includes "#include \"${header}\"\n")
  file(STRINGS "${ROOT}/${header}" lines REGEX "^extern const ProtobufC(Message|Service)Descriptor ")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^.* ([a-z0-9_]+);?$" "\\1" symbol "${line}")
    if(line MATCHES "MessageDescriptor")
      string(APPEND messages "    &${symbol},\n")
    else()
      string(APPEND services "    &${symbol},\n")
    endif()
  endforeach()
endforeach()
file(WRITE "${OUT}.new" "/* Made by registry.cmake. */
${includes}#include \"api/wire/registry.h\"

const ProtobufCMessageDescriptor *const wire_registry_messages[] = {
${messages}    NULL,
};

const ProtobufCServiceDescriptor *const wire_registry_services[] = {
${services}    NULL,
};
")
file(RENAME "${OUT}.new" "${OUT}")
