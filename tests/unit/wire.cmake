# Unit tests of api/wire.
foreach(module wire wire_json)
  baton_test(${module}_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/${module}_test.c LIBS baton_wire)
endforeach()
include(${CMAKE_CURRENT_LIST_DIR}/../fuzz/wire.cmake)
