# Unit tests of api/rpc; each test starts a server of its own.
foreach(module rpc rpc_stream rpc_health rpc_tls rpc_tokens rpc_alive rpc_leader rpc_connections)
  baton_test(${module}_test
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/${module}_test.c ${CMAKE_CURRENT_LIST_DIR}/rpc_fixture.c
    LIBS baton_rpc)
endforeach()
if(TARGET rpc_tls_test)
  target_compile_definitions(rpc_tls_test PRIVATE RPC_CERTS="${CMAKE_CURRENT_LIST_DIR}/rpc_certs.sh")
endif()
baton_plain_test(rpc_tsan
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/rpc_tsan.c ${CMAKE_CURRENT_LIST_DIR}/rpc_fixture.c LIBS baton_rpc)
include(${CMAKE_CURRENT_LIST_DIR}/../conformance/rpc.cmake)
if(TARGET rpc_alive_test)
  target_compile_definitions(rpc_alive_test PRIVATE RPC_PEER_SERVER="$<TARGET_FILE:rpc_peer_server>")
  add_dependencies(rpc_alive_test rpc_peer_server)
endif()
find_package(OpenSSL REQUIRED)
baton_test(rpc_accounts_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/rpc_accounts_test.c LIBS baton_rpc OpenSSL::Crypto)
