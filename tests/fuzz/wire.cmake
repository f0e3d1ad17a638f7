# Fuzzing of api/wire and api/rpc.
baton_fuzz(wire_fuzz SOURCES ${CMAKE_CURRENT_LIST_DIR}/wire_fuzz.c LIBS baton_wire)
find_package(OpenSSL REQUIRED)
baton_fuzz(jwt_fuzz SOURCES ${CMAKE_CURRENT_LIST_DIR}/jwt_fuzz.c LIBS baton_rpc OpenSSL::Crypto)
