# Calls a second of api/rpc against the bare core.
if(NOT BATON_FUZZ)
  add_executable(rpc_bench ${CMAKE_CURRENT_LIST_DIR}/rpc_bench.c ${CMAKE_CURRENT_LIST_DIR}/rpc_bare.c
    ${CMAKE_CURRENT_LIST_DIR}/ratio.c)
  target_compile_definitions(rpc_bench PRIVATE RPC_CERTS="${CMAKE_CURRENT_LIST_DIR}/../unit/rpc_certs.sh")
  target_link_libraries(rpc_bench PRIVATE baton_rpc baton_options ${BATON_GRPC} ${BATON_GPR})
endif()
