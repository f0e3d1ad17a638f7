# Unit tests of transport/, with the fault hook where one is needed.
function(baton_transport_test name library)
  baton_test(${name}
    SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/unit/${name}.c
      ${CMAKE_CURRENT_SOURCE_DIR}/unit/checkpoint_maker.c
    LIBS ${library})
  if(TARGET ${name})
    target_compile_definitions(${name} PRIVATE
      BATON_TEST_DATA="${CMAKE_SOURCE_DIR}/tests/data"
      BATON_FAULT_HOOK="$<TARGET_FILE:transport_fault_hook>")
    add_dependencies(${name} transport_fault_hook)
  endif()
endfunction()

foreach(module digest values references safetensors manifest shard_plan checkpoint)
  baton_transport_test(${module}_test baton_transport_model)
endforeach()
foreach(module landing landing_tensors landing_faults transport)
  baton_transport_test(${module}_test baton_transport)
endforeach()
include(${CMAKE_CURRENT_SOURCE_DIR}/fuzz/transport.cmake)
baton_plain_test(landing_threads
  SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/unit/landing_threads.c
    ${CMAKE_CURRENT_SOURCE_DIR}/unit/checkpoint_maker.c
  LIBS baton_transport)
baton_plain_test(landing_kill
  SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/unit/landing_kill.c
    ${CMAKE_CURRENT_SOURCE_DIR}/unit/checkpoint_maker.c
  LIBS baton_transport)
