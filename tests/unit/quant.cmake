# Tests of transport/quant.
baton_test(quant_test SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/unit/quant_test.c LIBS baton_quant m)
if(TARGET quant_test)
  target_compile_definitions(quant_test PRIVATE BATON_TEST_DATA="${CMAKE_SOURCE_DIR}/tests/data")
endif()
