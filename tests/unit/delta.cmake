# Tests of transport/delta: golden data, codec, directories, crashes; its fuzz target.
pkg_check_modules(JANSSON REQUIRED jansson)
pkg_check_modules(DELTA_ZSTD REQUIRED IMPORTED_TARGET libzstd)
if(NOT BATON_FUZZ)
  add_executable(delta_golden
    ${CMAKE_CURRENT_SOURCE_DIR}/unit/delta_golden.c
    ${CMAKE_CURRENT_SOURCE_DIR}/unit/checkpoint_maker.c)
  target_link_libraries(delta_golden PRIVATE baton_transport_delta baton_options ${JANSSON_LINK_LIBRARIES})
  # Ours, and all that was collected, where it lies beside the checkout.
  add_test(NAME delta_golden
    COMMAND delta_golden ${CMAKE_SOURCE_DIR}/tests/data/delta ${CMAKE_SOURCE_DIR}/../shared/golden/disk-delta)
  set_tests_properties(delta_golden PROPERTIES LABELS unit TIMEOUT 300)
endif()

foreach(module delta_codec delta)
  baton_test(${module}_test
    SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/unit/${module}_test.c
      ${CMAKE_CURRENT_SOURCE_DIR}/unit/checkpoint_maker.c
    LIBS baton_transport_delta PkgConfig::DELTA_ZSTD)
  if(TARGET ${module}_test)
    target_compile_definitions(${module}_test PRIVATE BATON_TEST_DATA="${CMAKE_SOURCE_DIR}/tests/data")
  endif()
endforeach()

# The process dies, or the disk fails, at each call that changes the disk.
baton_plain_test(delta_crash LABEL unit
  SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/unit/delta_crash.c
    ${CMAKE_CURRENT_SOURCE_DIR}/unit/checkpoint_maker.c
  LIBS baton_transport_delta)
if(TARGET delta_crash)
  foreach(call pwrite fsync renameat renameat2 mkdirat openat flock)
    target_link_options(delta_crash PRIVATE -Wl,--wrap=${call})
  endforeach()
endif()

# Code that shares nothing with ours reads what we write, and writes what we read.
if(NOT BATON_FUZZ)
  find_program(BATON_PYTHON NAMES python3 REQUIRED)
  add_test(NAME delta_reader
    COMMAND ${BATON_PYTHON} ${CMAKE_SOURCE_DIR}/tests/unit/delta_reader_test.py $<TARGET_FILE:batonctl>)
  set_tests_properties(delta_reader PROPERTIES LABELS unit TIMEOUT 300)
endif()
baton_plain_test(delta_threads
  SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/unit/delta_threads.c
    ${CMAKE_CURRENT_SOURCE_DIR}/unit/checkpoint_maker.c
  LIBS baton_transport_delta)
if(TARGET delta_threads)
  target_compile_definitions(delta_threads PRIVATE BATON_TEST_DATA="${CMAKE_SOURCE_DIR}/tests/data")
endif()
include(${CMAKE_CURRENT_SOURCE_DIR}/fuzz/delta.cmake)
