# A large fleet around one real controller, over gRPC.
if(NOT BATON_FUZZ)
  add_executable(load_bench ${CMAKE_CURRENT_LIST_DIR}/load_bench.c ${CMAKE_CURRENT_LIST_DIR}/load_agent.c
    ${CMAKE_CURRENT_LIST_DIR}/load_message.c ${CMAKE_CURRENT_LIST_DIR}/load_fleet.c ${CMAKE_CURRENT_LIST_DIR}/load_watches.c
    ${CMAKE_CURRENT_LIST_DIR}/load_controller.c ${CMAKE_CURRENT_LIST_DIR}/load_call.c ${CMAKE_CURRENT_LIST_DIR}/load_store.c
    ${CMAKE_CURRENT_LIST_DIR}/load_samples.c ${CMAKE_CURRENT_LIST_DIR}/ratio.c)
  target_link_libraries(load_bench PRIVATE controller_store baton_transport_model baton_rpc baton_wire baton_base baton_options)
  target_compile_definitions(load_bench PRIVATE LOAD_CONTROLLER="$<TARGET_FILE:baton-controller>")
  add_dependencies(load_bench baton-controller)
endif()
