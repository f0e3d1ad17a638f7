# Conformance of api/rpc: gRPC's own Python client (Debian's python3-grpcio) against the test server.
if(NOT BATON_FUZZ AND NOT BATON_SANITIZE MATCHES "thread")
  add_executable(rpc_peer_server
    ${CMAKE_CURRENT_LIST_DIR}/rpc_peer_server.c ${CMAKE_CURRENT_LIST_DIR}/../unit/rpc_fixture.c)
  target_link_libraries(rpc_peer_server PRIVATE baton_rpc baton_options)
  find_program(BATON_SYSTEM_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)
  if(BATON_SYSTEM_PYTHON)
    add_test(NAME rpc_peer
      COMMAND ${BATON_SYSTEM_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/rpc_peer.py --serve $<TARGET_FILE:rpc_peer_server>)
    set_tests_properties(rpc_peer PROPERTIES LABELS conformance TIMEOUT 120)
  endif()
endif()
